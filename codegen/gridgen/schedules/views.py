"""Data of the templates of every schedule: the robot, and the arrays of a function."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from gridgen.functions.arrays import ARRAYS
from gridgen.kernel import Shape
from gridgen.model.tree import KinematicTree
from gridgen.naming import comment


@dataclass(frozen=True)
class RobotView:
    """The robot, as generated comments describe it."""

    ident: str  #: namespace and stem of the file names.
    name: str  #: the name in the URDF.
    origin: str  #: name of the file, without its folder.
    digest: str  #: SHA-256 of the file.
    version: str  #: of the generator.
    version_number: int  #: the same for a preprocessor: 10203 for 1.2.3.
    base: str  #: ``fixed`` or ``floating``.
    nq: int  #: number of positions.
    nv: int  #: number of velocities.
    bodies: int  #: number of bodies.
    joints: tuple[str, ...]  #: the joint table, one line each.
    quaternions: str  #: initializer of the list of elements of q where one begins, ended by -1.
    has_quaternions: bool  #: whether there are any.


def _version_number(version: str) -> int:
    major, minor, patch = (int(number) for number in re.findall(r"\d+", version)[:3])
    return 10_000 * major + 100 * minor + patch


def robot_view(tree: KinematicTree, ident: str, version: str) -> RobotView:
    """Describe the robot."""
    return RobotView(
        ident=ident,
        name=comment(tree.name),
        origin=comment(PurePath(tree.source).name),
        digest=tree.digest,
        version=version,
        version_number=_version_number(version),
        base="floating" if tree.floating_base else "fixed",
        nq=tree.nq,
        nv=tree.nv,
        bodies=len(tree.bodies),
        joints=tuple(_joint_rows(tree)),
        quaternions=f"{{{', '.join(map(str, [*tree.quaternions, -1]))}}}",
        has_quaternions=bool(tree.quaternions),
    )


def _joint_rows(tree: KinematicTree) -> list[str]:
    rows = [("body", "q", "v", "joint", "kind", "parent", "link")]
    for index, body in enumerate(tree.bodies):
        parent = "base" if body.parent < 0 else str(body.parent)
        kind = f"{body.kind}, mimic" if body.mimics else body.kind
        position = (str(index), str(body.q_index), str(body.v_index))
        rows.append((*position, comment(body.joint), kind, parent, comment(body.name)))
    return _aligned(rows)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows of cells as lines with aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


@dataclass(frozen=True)
class ArrayView:
    """One argument of a function."""

    name: str  #: ``qd``.
    size: int  #: elements of one state: ``7``.
    text: str  #: ``joint velocities``.
    unit: str  #: ``rad/s or m/s``.

    @property
    def length(self) -> str:
        """The elements of one state for a comment."""
        return "any" if self.size < 0 else str(self.size)


@dataclass(frozen=True)
class FunctionView:
    """One device function."""

    name: str  #: ``inverse_dynamics``.
    source: str  #: where the algorithm is described.
    inputs: tuple[ArrayView, ...]  #: arrays read.
    outputs: tuple[ArrayView, ...]  #: arrays written.

    @property
    def arrays(self) -> tuple[ArrayView, ...]:
        """All arrays, in the order of the arguments."""
        return self.inputs + self.outputs


def array_view(name: str, shape: Shape, kind: str = "") -> ArrayView:
    """Describe one argument."""
    known = ARRAYS[kind or name]
    return ArrayView(name, math.prod(shape), known.text, known.unit)
