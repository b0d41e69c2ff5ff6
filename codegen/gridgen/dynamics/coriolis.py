"""The Coriolis matrix."""

from __future__ import annotations

from gridgen.dynamics.motion_derivatives import MotionChange, Source
from gridgen.dynamics.state import State
from gridgen.dynamics.sweep import Square, Sweep
from gridgen.symbolic.spatial import cross, scale


def coriolis_matrix(state: State) -> Square:
    """Return the Coriolis matrix C: C qd are the Coriolis and centrifugal forces.

    Among these matrices, it is the one for which dM/dt - 2 C is skew-symmetric, as in Pinocchio.
    With S an axis and v the velocity of its body, its column is the response to the acceleration
    v x S and to half the change of velocity along S (Echeandia and Wensing 2021). If every joint
    has one velocity, C is half the velocity gradient of the joint torques.

    Returns:
        nv x nv; zero between branches.
    """
    tree, scalars = state.tree, state.scalars
    sweep, source, half = Sweep(state.at_rest), Source(state, "C"), scalars.constant(0.5)
    for index in tree.outward():
        w = sweep.motions[index].w
        scalars.begin("outward", index)
        changes = [
            MotionChange(cross(w, slide), cross(w, spin), scale(half, spin))
            for slide, spin in sweep.axes(index)
        ]
        sweep.enter(source, index, changes)
    (C,) = sweep.gradients(source)
    return C
