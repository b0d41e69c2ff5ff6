"""A robot's state, the common input of the algorithms, and the placements of its bodies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gridgen.errors import InternalError
from gridgen.functions.arrays import PARAMETERS
from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    ZERO,
    DenseRotation,
    Factor,
    Matrix,
    Placement,
    PlaneRotation,
    Vector,
    add,
    constants,
    fixed_rotation,
    matmul,
)

Numbers = Sequence[Scalar]

_VECTORS = ("gravity", "base_velocity", "base_acceleration")
_ARRAYS = ("q", "qd", "f_ext", "offset")
_INPUTS = (*_ARRAYS, *_VECTORS, *PARAMETERS)


@dataclass(frozen=True)
class Undeclared:
    """An input that the declaration of a function does not name: reading it raises."""

    function: str
    name: str

    def _raise(self, *_: object) -> Any:
        raise InternalError(
            f"{self.function}: its algorithm reads {self.name}, which its declaration does not "
            "name: add the array to the declaration, or compute without it (State.without)"
        )

    __bool__ = __len__ = __iter__ = __getitem__ = _raise


@dataclass(frozen=True)
class State:
    """A robot's state and the motion of its base, over any scalar.

    Attributes:
        tree:              the robot.
        scalars:           the type of number.
        q:                 joint positions, nq scalars [rad or m].
        qd:                joint velocities, nv scalars [rad/s or m/s].
        gravity:           gravitational acceleration in the base frame [m/s^2]; zero by default.
        base_velocity:     V0 of prefix sums eq. 3, (v, w) in the base frame [m/s, rad/s].
        base_acceleration: derivative of V0 (prefix sums eq. 3), (a, wd) [m/s^2, rad/s^2].
        f_ext:             external wrench (f, n) on every body in its link's frame, 6 scalars each
                           [N, N m].
        offset:            pose of a tool in its frame, 16 scalars, which replaces the frame.
        world_axes:        whether free and ball joints have MuJoCo's coordinates in q and qd.
        given:             parameters of the robot that are inputs (``gridgen.load(parameters=)``)
                           and replace the tree's values, by name.

    The state of a function has an ``Undeclared`` in place of an input that it does not declare.
    """

    tree: KinematicTree
    scalars: Scalars
    q: Numbers = ()
    qd: Numbers = ()
    gravity: Vector | None = None
    base_velocity: tuple[Scalar, ...] | None = None
    base_acceleration: tuple[Scalar, ...] | None = None
    f_ext: Numbers | None = None
    offset: Numbers | None = None
    world_axes: bool = False
    given: Mapping[str, Numbers] = field(default_factory=dict)
    _same: State | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        tree: KinematicTree,
        scalars: Scalars,
        x: Mapping[str, Numbers],
        parameters: Iterable[str] = (),
        *,
        function: str = "",
        declared: Collection[str] = _INPUTS,
    ) -> State:
        """Return the state that arrays describe, by their names in the registry.

        Args:
            x:          inputs of a kernel, by name; others than a state's are ignored.
            parameters: names of the parameters among them.
            function:   name of the function that reads the state, for errors.
            declared:   names of the inputs that it may read. Those that ``x`` lacks are absent.
        """
        known: Any = {name: x[name] for name in _ARRAYS if name in x}
        known |= {name: tuple(x[name]) for name in _VECTORS if name in x}
        given: Any = {name: x[name] for name in parameters}
        missing = {name: Undeclared(function, name) for name in _INPUTS if name not in declared}
        given |= {name: missing[name] for name in PARAMETERS if name in missing}
        known |= {n: missing[n] for n in (*_ARRAYS, *_VECTORS) if n in missing and n not in known}
        return cls(tree, scalars, **known, given=given)

    @property
    def parameters(self) -> dict[str, Numbers]:
        """The parameters that are inputs, by name."""
        return {n: v for n, v in self.given.items() if not isinstance(v, Undeclared)}

    @property
    def is_base_at_rest(self) -> bool:
        """Whether the base has no velocity and no acceleration."""
        return self.base_velocity is None and self.base_acceleration is None

    @property
    def on_fixed_base(self) -> State:
        """The same state on a base at rest."""
        return self.without("base_velocity", "base_acceleration")

    @property
    def at_rest(self) -> State:
        """The same state on a base at rest, without gravity."""
        return self.without(*_VECTORS)

    def without(self, *names: str) -> State:
        """Return the state without some of its inputs, declared or not."""
        values = [getattr(self, name) for name in names]
        if all(value is None for value in values):
            return self
        absent: Any = dict.fromkeys(names)
        found = replace(self, **absent)
        if all(value is None or isinstance(value, Undeclared) for value in values):
            object.__setattr__(found, "_same", self)
        return found

    @property
    def g(self) -> Vector:
        """The gravitational acceleration, zero by default."""
        return self.gravity or constants(ZERO, self.scalars)

    def at(self, q: Numbers, qd: Numbers) -> State:
        """Return another state of the robot, with the same base motion and external wrenches."""
        return replace(self, q=q, qd=qd)

    def matrix(self, symbol: str) -> list[list[Scalar]]:
        """Return an nv x nv matrix of zeros, for entries between joints of one branch."""
        nv = self.tree.nv
        return self.scalars.matrix(symbol, nv, nv, zeros=not self.tree.couples_all)

    def has(self, name: str, velocity: int) -> bool:
        """Whether a velocity may have ``armature``, ``damping`` or ``joint_friction``."""
        return name in self.given or bool(getattr(self.tree, name)[velocity])

    def own(self, name: str, velocity: int) -> Scalar:
        """Return the ``armature``, ``damping`` or ``joint_friction`` of a velocity."""
        if name in self.given:
            return self.given[name][velocity]
        return self.scalars.constant(getattr(self.tree, name)[velocity])

    @cached_property
    def placed(self) -> list[Placement]:
        """The placement of every body in its parent."""
        if self._same is not None:
            return self._same.placed
        placed = self.scalars.table("placed", len(self.tree.bodies))
        for index in self.tree.outward():
            placed[index] = placement(index, self.tree.bodies[index], self.q, self.scalars)
        return placed


def followed(body: Body, position: Scalar, scalars: Scalars) -> Scalar:
    """Return the position of a joint that mimics one with a position."""
    return scalars.constant(body.multiplier) * position + scalars.constant(body.offset)


def placement(index: int, body: Body, q: Numbers, scalars: Scalars) -> Placement:
    """Return the placement of a body in its parent."""
    scalars.begin("placement", index)
    joint = body.joint_type
    position = q[body.q_index : body.q_index + joint.nq]
    if body.mimics:
        position = [followed(body, position[0], scalars)]
    turn, slide = joint.transform(index, position, scalars)
    origin = constants(body.translation, scalars)
    if joint.nv == 1 and not joint.slides:
        vectors, matrices = _revolute_factors(index, body, turn, scalars)
        return Placement(vectors, matrices, origin)
    factors = fixed_rotation(body.rotation, scalars)
    if joint.slides:
        for factor in reversed(factors):
            slide = factor.turn(slide)
        origin = scalars.keep("r", index, add(origin, slide))
    if joint.turns:
        factors = (*factors, DenseRotation(scalars.keep("E", index, turn)))
    return Placement(factors, factors, origin)


def _revolute_factors(
    index: int, body: Body, turn: Matrix, scalars: Scalars
) -> tuple[tuple[Factor, ...], tuple[Factor, ...]]:
    """Return the factors of (constant rotation)(rotation by the joint angle)."""
    plane = PlaneRotation(2, turn[1][0], turn[0][0])
    fixed = fixed_rotation(body.rotation, scalars)
    if scalars.specialize and body.is_axis_aligned:
        return (*fixed, plane), (*fixed, plane)

    rows = [constants(row, scalars) for row in body.rotation]
    dense = DenseRotation(scalars.keep("E", index, matmul((rows[0], rows[1], rows[2]), turn)))
    if not scalars.specialize:
        return (dense,), (dense,)
    # Two planar factors and an angle offset rotate a matrix with half the products of a dense one.
    about_z, about_x, (sine, cosine) = (
        tuple(map(scalars.constant, angle)) for angle in body.euler_sin_cos
    )
    s, c = plane.sine, plane.cosine
    offset = PlaneRotation(2, s * cosine + c * sine, c * cosine - s * sine)
    return (dense,), (PlaneRotation(2, *about_z), PlaneRotation(0, *about_x), offset)
