"""Where the robot is: poses of frames, their Jacobians, centre of mass, energies.

A *link frame* is the URDF's; a body's canonical frame, in which dynamics computes, differs by
``Body.link_rotation``. All is seen from the base, which does not move.
"""

from __future__ import annotations

#: What a Jacobian's rows are seen from (Pinocchio's names, in lower case).
REFERENCES = ("local", "world", "local_world_aligned")
