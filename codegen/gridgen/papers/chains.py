"""The two Newton-Euler chains, split into stages over consecutive bodies.

Bodies are sorted parents first, and a stage is a range of them. The forward chain passes on the
motions of bodies that have later children, 9 numbers each (Iannello, Siciliano: 72 bytes). It
stores the wrenches of its bodies for the backward chain, which passes on the wrenches propagated to
earlier bodies. Both run the algorithms of ``rnea`` on some of the bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gridgen.dynamics.computation import FunctionComputation, Inputs
from gridgen.dynamics.functions import FURTHER_STEPS
from gridgen.dynamics.kinematics import (
    BodyMotion,
    acceleration_field,
    body_motions,
)
from gridgen.dynamics.rnea import (
    add_joint_dynamics,
    body_forces,
    joint_efforts,
    transmitted_forces,
)
from gridgen.dynamics.state import State
from gridgen.functions.arrays import MOTION_NUMBERS
from gridgen.functions.record import Algorithm, MethodStep
from gridgen.kernel import KernelKey, Shape
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import add, split

WRENCH_NUMBERS = 6

#: The two passes of inverse dynamics: from the base to the tips, and back.
FORWARD, BACKWARD = "forward_chain", "backward_chain"
_CHAIN = Algorithm("", "recursive Newton-Euler in two chains, Iannello, Siciliano")
_ROWS: dict[str, MethodStep] = {
    FORWARD: MethodStep(
        "inverse_dynamics",
        "",
        "Motions of bodies and the wrenches that produce them",
        ("q", "qd", "qdd", "gravity", "motions"),
        ("motions_on", "wrenches"),
        _CHAIN,
    ),
    BACKWARD: MethodStep(
        "inverse_dynamics",
        "",
        "Joint torques from the wrenches on bodies",
        ("q", "qd", "qdd", "wrenches", "carried"),
        ("carried_on", "efforts"),
        _CHAIN,
    ),
}


class Subset:
    """Iterators over some items of a tree, in the order of the tree."""

    def __init__(self, items: Sequence[int]) -> None:
        self._items = items

    def outward(self) -> Iterator[int]:
        """Iterate over the items, parents first."""
        return iter(self._items)

    def inward(self) -> Iterator[int]:
        """Iterate over the items, children first."""
        return iter(self._items[::-1])


class SubsetTree(Subset):
    """A robot whose iterators visit some bodies only."""

    def __init__(self, tree: KinematicTree, bodies: range) -> None:
        super().__init__(bodies)
        self._tree = tree
        own = (tree.bodies[index] for index in bodies if not tree.bodies[index].mimics)
        self.velocities = Subset([body.v_index + k for body in own for k in range(body.nv)])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)


def frontier(tree: KinematicTree, begin: int) -> tuple[int, ...]:
    """Return the bodies before ``begin`` with children at or after it."""
    parents = {tree.parents[index] for index in range(begin, len(tree.bodies))}
    return tuple(sorted(parent for parent in parents if 0 <= parent < begin))


def velocities_of(tree: KinematicTree, bodies: range) -> tuple[int, ...]:
    """Return the velocities whose joint torques depend on some bodies."""
    found = {tree.bodies[i].v_index + k for i in bodies for k in range(tree.bodies[i].nv)}
    return tuple(sorted(found))


@dataclass(frozen=True)
class ChainStage(FunctionComputation):
    """A stage of one of the chains.

    Attributes:
        bodies: bodies of the stage.
        shapes: shapes of the arrays that depend on the stage; a stage has no empty arrays.
    """

    bodies: range = range(0)
    shapes: tuple[tuple[str, Shape], ...] = ()

    @property
    def title(self) -> str:
        """Title of the computation; see ``Computation``."""
        return f"{super().title}: bodies {self.bodies.start} to {self.bodies.stop - 1}"

    @property
    def plain_inputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return self._nonempty(self.row.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return self._nonempty(self.row.results)

    @property
    def kinds(self) -> dict[str, str]:
        """See ``Computation``."""
        return {"motions_on": "motions", "carried_on": "carried", "efforts": "tau"}

    def shape(self, name: str, tree: KinematicTree) -> Shape:
        """See ``Computation``."""
        return dict(self.shapes).get(name) or super().shape(name, tree)

    def results(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> Sequence[Any]:
        """See ``Computation``."""
        given = {name: x.get(name, ()) for name in self.row.inputs}
        run = _forward if self.row is _ROWS[FORWARD] else _backward
        found = run(tree, self.bodies, given, scalars)
        return [array for array in found if array]

    def _nonempty(self, names: Sequence[str]) -> tuple[str, ...]:
        empty = {name for name, shape in self.shapes if not shape[0]}
        return tuple(name for name in names if name not in empty)


def stage(chain: str, bodies: range) -> KernelKey:
    """Return the key of a stage's kernel: ``FORWARD`` or ``BACKWARD``, and its bodies."""
    step = f"{chain}_bodies_{bodies.start}_{bodies.stop}"
    FURTHER_STEPS[step] = partial(_computation, chain, bodies)
    return KernelKey(_ROWS[chain].function, step=step)


def _computation(chain: str, bodies: range, tree: KinematicTree, key: KernelKey) -> ChainStage:
    row = _ROWS[chain]
    before, after = len(frontier(tree, bodies.start)), len(frontier(tree, bodies.stop))
    shapes: dict[str, Shape]
    if chain == FORWARD:
        shapes = {
            "motions": (before, MOTION_NUMBERS),
            "motions_on": (after, MOTION_NUMBERS),
            "wrenches": (len(bodies), WRENCH_NUMBERS),
        }
    else:
        shapes = {
            "wrenches": (len(bodies), WRENCH_NUMBERS),
            "carried": (after, WRENCH_NUMBERS),
            "carried_on": (before, WRENCH_NUMBERS),
            "efforts": (len(velocities_of(tree, bodies)),),
        }
    return ChainStage(key, row, row.algorithm, bodies=bodies, shapes=tuple(shapes.items()))


def _forward(
    whole: KinematicTree, bodies: range, x: Inputs, scalars: Scalars
) -> tuple[list[Any], list[Any]]:
    """Return the motions for later stages, and the inertial wrenches of the bodies."""
    tree: Any = SubsetTree(whole, bodies)
    motions = scalars.table("motion", len(whole.bodies))
    for place, index in enumerate(frontier(whole, bodies.start)):
        first = MOTION_NUMBERS * place
        w, wd = split(x["motions"][first : first + 6])
        ax, ay, az = x["motions"][first + 6 : first + MOTION_NUMBERS]
        motions[index] = BodyMotion(w, wd, (ax, ay, az), acceleration_field(w, wd))
    state = State.of(tree, scalars, x)
    forces = body_forces(state, body_motions(state, x["qdd"], motions))
    handed_on = [motions[index] for index in frontier(whole, bodies.stop)]
    return [(m.w, m.wd, m.a) for m in handed_on], [forces[index] for index in bodies]


def _backward(
    whole: KinematicTree, bodies: range, x: Inputs, scalars: Scalars
) -> tuple[list[Any], list[Scalar]]:
    """Return the wrenches propagated to earlier bodies, and the joint torques."""
    tree: Any = SubsetTree(whole, bodies)
    zero = scalars.constant(0.0)
    nothing = (zero, zero, zero)
    total = scalars.table("force", len(whole.bodies), (nothing, nothing))
    for place, index in enumerate(bodies):
        total[index] = split(x["wrenches"][WRENCH_NUMBERS * place : WRENCH_NUMBERS * (place + 1)])
    for place, index in enumerate(frontier(whole, bodies.stop)):
        f, n = split(x["carried"][WRENCH_NUMBERS * place : WRENCH_NUMBERS * (place + 1)])
        total[index] = (add(total[index][0], f), add(total[index][1], n))
    state = State.of(tree, scalars, x)
    forces = transmitted_forces(state, total)
    tau = add_joint_dynamics(state, joint_efforts(state, forces), x["qdd"])
    carried = [forces[index] for index in frontier(whole, bodies.start)]
    return carried, [tau[j] for j in velocities_of(whole, bodies)]
