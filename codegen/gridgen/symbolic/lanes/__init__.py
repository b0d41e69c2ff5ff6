"""Programs of a team of lanes: one lane for each item of a tree, the same code in all.

An algorithm that runs on ``LaneScalars`` computes one item: a body, or the base. Constants of the
items are tables, and so are indices. Values of a lane are variables. Lanes exchange values through
shared memory, between synchronizations: sums and products along the paths from the root
(``outward``), sums over subtrees (``inward``), records of other items, and matrices.

A team synchronizes between two *phases*. Areas of shared memory that no phase needs at once share
their place.
"""

from __future__ import annotations

from gridgen.symbolic.lanes.areas import Area, Tile
from gridgen.symbolic.lanes.operations import LaneOperations, Published, Sums
from gridgen.symbolic.lanes.program import LaneLayout, LaneProgram, LaneScalars

__all__ = [
    "Area",
    "LaneLayout",
    "LaneOperations",
    "LaneProgram",
    "LaneScalars",
    "Published",
    "Sums",
    "Tile",
]
