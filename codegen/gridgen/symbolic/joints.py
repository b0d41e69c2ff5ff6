"""Types of joints: one class for each.

A joint of one degree of freedom is the screw motion T(q) = exp([S] q) of its unit twist S (Yang,
Wu, Pan (prefix sums) eq. 1). SymPy derives the transform and verifies the motion subspace,
[S] = T^-1 dT/dq. All axes are +z: the tree stage rotates the frames of the bodies accordingly. A
free joint is a translation and a unit quaternion; its velocity is the body's own twist, so its
motion subspace is the identity. Its position is a point of SE(3), x y z qx qy qz qw. A ball joint
is the rotation alone: a unit quaternion, and the body's angular velocity in its own frame.

A cache folder of the user stores the derived transforms, because SymPy takes longer to start than
the robot's functions to trace.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

from gridgen.errors import InternalError
from gridgen.symbolic.rotations import (
    Angle,
    Quaternion,
    Rows,
    conjugate,
    displacement,
    inverse_of_step,
    logarithm_gradient,
    multiply,
    right_jacobian,
    rotate,
    rotation_vector,
    turn_of,
    turned,
    velocity,
)
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    Matrix,
    Motion,
    Vector,
    Wrench,
    add,
    carried,
    cross,
    dot,
    scale,
    split,
    sub,
)
from gridgen.user_cache import cache_folder, private_folder

#: Terms (factor, power of each symbol).
Polynomial = tuple[tuple[float, tuple[int, ...]], ...]

Entries = Sequence[Scalar]
Numbers = tuple[Scalar, ...]
Rates = tuple[Vector, Vector, Vector]


class JointType:
    """A type of joint: motion subspace, transform, and steps between positions.

    Two types are equal if they have the same class and numbers. The default methods are those of a
    joint with one velocity; other types override them. Derivatives are between tangent spaces.
    """

    kind: ClassVar[str]  #: name of the type.
    #: names of the transform's variables: coordinates, ``s``, ``c`` (sine and cosine of an angle),
    #: ``p`` (pitch).
    symbols: ClassVar[tuple[str, ...]]
    #: components of a spatial vector (linear part first) that span the motion subspace, one for
    #: each velocity.
    axes: ClassVar[tuple[int, ...]]
    nq: ClassVar[int] = 1  #: number of coordinates.
    #: index of the first of four coordinates that form a unit quaternion.
    quaternion: ClassVar[int | None] = None
    pitch: float = 0.0  #: translation along the axis per radian of rotation [m].

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self)})"

    @property
    def nv(self) -> int:
        """Number of velocities."""
        return len(self.axes)

    def component(self, k: int) -> int | None:
        """Return the index of the component along velocity ``k``, if there is only one."""
        return self.axes[k]

    @property
    def is_free(self) -> bool:
        """Whether the motion subspace is the identity."""
        return self.nv == 6

    @property
    def slides(self) -> bool:
        """Whether its velocities move the origin."""
        return min(self.axes) < 3

    @property
    def turns(self) -> bool:
        """Whether its velocities rotate the body."""
        return max(self.axes) >= 3

    @property
    def travel(self) -> float:
        """Translation of the body along the axis per unit of the joint's coordinate."""
        return float(self.slides)

    @property
    def neutral(self) -> tuple[float, ...]:
        """Coordinates without displacement."""
        return (0.0,) * self.nq

    @property
    def in_mujoco(self) -> JointType:
        """The joint with MuJoCo's coordinates."""
        return self

    def subspace(self, scalars: Scalars) -> list[Motion]:
        """Return the columns of the motion subspace S."""
        return [split([scalars.constant(float(k == a)) for k in range(6)]) for a in self.axes]

    def twist(self, pitch: Any) -> tuple[Any, ...]:
        """Return the unit twist of a joint with one velocity."""
        return tuple(int(axis in self.axes) for axis in range(6))

    def derive(self) -> JointForm:
        """Exponentiate the unit twist; verify the motion subspace of the result.

        ``s`` and ``c`` represent the sine and cosine of ``q``, ``p`` the pitch.
        """
        import sympy as sp

        q, s, c, p = sp.symbols("q s c p", real=True)
        twist = self.twist(p)
        v, w = sp.Matrix(twist[:3]), sp.Matrix(twist[3:])
        turn = _hat(w)
        # [w]^3 = -[w] for a unit axis closes the series (Rodrigues); without rotation, v q remains.
        rotation = sp.eye(3) + s * turn + (1 - c) * turn**2
        series = q * sp.eye(3) + (1 - c) * turn + (q - s) * turn**2
        translation = (series * v).applyfunc(sp.expand)

        def derivative(matrix: Any) -> Any:
            return matrix.diff(q) + c * matrix.diff(s) - s * matrix.diff(c)

        def reduce(entry: Any) -> Any:
            return sp.expand(sp.expand(entry).subs(s**2, 1 - c**2))

        angular = (rotation.T * derivative(rotation)).applyfunc(reduce)
        linear = (rotation.T * derivative(translation)).applyfunc(reduce)
        found = (*linear, angular[2, 1], angular[0, 2], angular[1, 0])
        if found != twist:
            raise InternalError(f"{self.kind}: motion subspace {found} is not the twist {twist}")
        symbols = tuple(symbol for symbol in (q, s, c, p) if symbol.name in self.symbols)
        return _form(rotation, translation, symbols)

    def transform(self, index: int, q: Entries, scalars: Scalars) -> tuple[Matrix, Vector]:
        """Return rotation and translation of a body's joint for its coordinates."""
        return joint_form(self.kind).evaluate(q, scalars)

    def combined(self, column: Callable[[int], Numbers], k: int) -> Numbers:
        """Return column ``k`` of A S.

        Args:
            column: function that returns a column of the matrix A.
            k:      velocity of the joint.
        """
        return column(self.axes[k])

    def components(self, motion: Motion) -> Numbers:
        """Return a motion in coordinates where ``axes`` are along S."""
        return (*motion[0], *motion[1])

    def wrench(self, components: Entries) -> Wrench:
        """Return a wrench from coordinates where those along ``axes`` are the joint torques."""
        return split(components)

    def projected(self, wrench: Wrench) -> Numbers:
        """Return S^T F: the joint torques of a wrench."""
        entries = (*wrench[0], *wrench[1])
        return tuple(entries[axis] for axis in self.axes)

    def motion(self, rate: Entries, scalars: Scalars) -> Motion:
        """Return S qd: the velocity, or acceleration, of the body relative to its carrier."""
        given = dict(zip(self.axes, rate, strict=True))
        zero = scalars.constant(0.0)
        return split([given.get(axis, zero) for axis in range(6)])

    def added(self, motion: Motion, rate: Entries, first: int = 0) -> Motion:
        """Return a motion with S qd added, for the velocities from ``first`` on."""
        entries = [*motion[0], *motion[1]]
        for axis, entry in zip(self.axes[first:], rate, strict=False):
            entries[axis] = entries[axis] + entry
        return split(entries)

    def propagated(self, motion: Rates, rate: Entries, change: Entries, scalars: Scalars) -> Rates:
        """Add the joint's velocity and acceleration to the motion of its carrier.

        Args:
            motion:  angular velocity, angular acceleration and acceleration of the origin, in the
                     body's frame.
            rate:    velocity of the joint.
            change:  acceleration of the joint.
            scalars: the type of number.
        """
        w, wd, a = motion
        v_joint, w_joint = self.motion(rate, scalars)
        a_joint, wd_joint = self.motion(change, scalars)
        wd = add(add(wd, cross(w, w_joint)), wd_joint)
        total = add(w, w_joint)
        return total, wd, add(add(a, cross(add(w, total), v_joint)), a_joint)

    def integrated(self, q: Entries, v: Entries, scalars: Scalars) -> Numbers:
        """Return the position after unit time with a constant velocity (exponential map)."""
        return (q[0] + v[0],)

    def difference(self, q0: Entries, q1: Entries, scalars: Scalars) -> Numbers:
        """Return the velocity that leads from one position to another in unit time."""
        return (q1[0] - q0[0],)

    def integrated_gradient(self, v: Entries, scalars: Scalars) -> tuple[Rows, Rows]:
        """Return the derivatives of ``integrated`` with respect to q and v, nv x nv."""
        one = scalars.constant(1.0)
        return [[one]], [[one]]

    def difference_gradient(self, q0: Entries, q1: Entries, scalars: Scalars) -> tuple[Rows, Rows]:
        """Return the derivatives of ``difference`` with respect to q0 and q1, nv x nv."""
        return [[scalars.constant(-1.0)]], [[scalars.constant(1.0)]]

    def commutator(self, a: Entries, b: Entries) -> Numbers:
        """Return the commutator of two velocities; empty for a joint with one velocity."""
        return ()

    def rates(self, q: Entries, v: Entries) -> Numbers:
        """Return the rates of the coordinates at a velocity."""
        return tuple(v)

    def velocity(self, q: Entries, rates: Entries) -> Numbers:
        """Return the velocity at rates of the coordinates."""
        return tuple(rates)


def _sine_and_cosine(index: int, angle: Scalar, scalars: Scalars) -> Numbers:
    s, c = scalars.sincos(angle)
    return scalars.keep("s", index, s), scalars.keep("c", index, c)


class Revolute(JointType):
    """Rotates about z."""

    kind, symbols, axes = "revolute", ("s", "c"), (5,)

    def transform(self, index: int, q: Entries, scalars: Scalars) -> tuple[Matrix, Vector]:
        """Return rotation and translation of a body's joint from its angle."""
        return super().transform(index, _sine_and_cosine(index, q[0], scalars), scalars)

    def propagated(self, motion: Rates, rate: Entries, change: Entries, scalars: Scalars) -> Rates:
        """Add the joint's velocity and acceleration, without products with zero."""
        w, wd, a = motion
        wd = (wd[0] + w[1] * rate[0], wd[1] - w[0] * rate[0], wd[2] + change[0])
        return (w[0], w[1], w[2] + rate[0]), wd, a


class Prismatic(JointType):
    """Slides along z."""

    kind, symbols, axes = "prismatic", ("q",), (2,)

    def propagated(self, motion: Rates, rate: Entries, change: Entries, scalars: Scalars) -> Rates:
        """Add the joint's velocity and acceleration, without products with zero."""
        w, wd, a = motion
        twice = 2.0 * rate[0]  # Coriolis
        return w, wd, (a[0] + w[1] * twice, a[1] - w[0] * twice, a[2] + change[0])


class Helical(JointType):
    """Rotates about z and translates along it by its pitch per radian: a screw in its nut.

    The coordinates of a wrench are its own components, except that the joint torque replaces the
    moment about z. The coordinates of a motion are dual to them.
    """

    kind, symbols, axes = "helical", ("q", "s", "c", "p"), (5,)
    slides = True

    def __init__(self, pitch: float = 0.1) -> None:
        self.pitch = pitch

    @property
    def travel(self) -> float:
        """Translation of the body along the axis per radian."""
        return self.pitch

    def component(self, k: int) -> int | None:
        """Return ``None``: the axis has a linear and an angular component."""
        return None

    def twist(self, pitch: Any) -> tuple[Any, ...]:
        """Return the unit twist."""
        return 0, 0, pitch, 0, 0, 1

    def transform(self, index: int, q: Entries, scalars: Scalars) -> tuple[Matrix, Vector]:
        """Return rotation and translation of a body's joint from its angle."""
        turn = _sine_and_cosine(index, q[0], scalars)
        return super().transform(index, (q[0], *turn, scalars.constant(self.pitch)), scalars)

    def subspace(self, scalars: Scalars) -> list[Motion]:
        """Return the column of the motion subspace S."""
        return [split([scalars.constant(float(entry)) for entry in self.twist(self.pitch)])]

    def combined(self, column: Callable[[int], Numbers], k: int) -> Numbers:
        """Return A S from the columns of A."""
        return tuple(a + self.pitch * b for a, b in zip(column(5), column(2), strict=True))

    def components(self, motion: Motion) -> Numbers:
        """Return a motion in coordinates where the last one is along S."""
        (x, y, z), w = motion
        return x, y, z - self.pitch * w[2], *w

    def wrench(self, components: Entries) -> Wrench:
        """Return a wrench from coordinates where the last one is the joint torque."""
        f, (x, y, effort) = split(components)
        return f, (x, y, effort - self.pitch * f[2])

    def projected(self, wrench: Wrench) -> Numbers:
        """Return S^T F."""
        return (wrench[1][2] + self.pitch * wrench[0][2],)

    def motion(self, rate: Entries, scalars: Scalars) -> Motion:
        """Return S qd."""
        zero = scalars.constant(0.0)
        return (zero, zero, self.pitch * rate[0]), (zero, zero, rate[0])

    def added(self, motion: Motion, rate: Entries, first: int = 0) -> Motion:
        """Return a motion with S qd added."""
        (x, y, z), (wx, wy, wz) = motion
        return (x, y, z + self.pitch * rate[0]), (wx, wy, wz + rate[0])


class Ball(JointType):
    """Rotates about a point. Its velocity is the angular velocity in the body's frame."""

    kind, symbols, axes = "ball", ("qx", "qy", "qz", "qw"), (3, 4, 5)
    nq, quaternion = 4, 0

    @property
    def neutral(self) -> tuple[float, ...]:
        """Coordinates without displacement."""
        return 0.0, 0.0, 0.0, 1.0

    @property
    def in_mujoco(self) -> JointType:
        """The joint with MuJoCo's coordinates."""
        return BALL_IN_WORLD

    def derive(self) -> JointForm:
        """Rotate by the unit quaternion (qx, qy, qz, qw)."""
        return _by_quaternion(self.symbols)

    def integrated(self, q: Entries, v: Entries, scalars: Scalars) -> Numbers:
        """Return the position after unit time with a constant angular velocity."""
        return turned(_quaternion(q), _vector(v), turn_of(_vector(v), scalars), scalars)

    def difference(self, q0: Entries, q1: Entries, scalars: Scalars) -> Numbers:
        """Return the rotation vector from one position to another, at most pi long."""
        return _spin_between(q0, q1, scalars)[0]

    def integrated_gradient(self, v: Entries, scalars: Scalars) -> tuple[Rows, Rows]:
        """Return the derivatives of ``integrated`` with respect to q and v, 3 x 3."""
        twist = _twist(v, scalars)
        return _turns(inverse_of_step(twist, scalars)), _turns(right_jacobian(twist, scalars))

    def difference_gradient(self, q0: Entries, q1: Entries, scalars: Scalars) -> tuple[Rows, Rows]:
        """Return the derivatives of ``difference`` with respect to q0 and q1, 3 x 3."""
        spin, angle = _spin_between(q0, q1, scalars)
        start, end = logarithm_gradient(_twist(spin, scalars), angle, scalars)
        return _turns(start), _turns(end)

    def commutator(self, a: Entries, b: Entries) -> Numbers:
        """Return the commutator of two angular velocities."""
        return cross(_vector(a), _vector(b))

    def rates(self, q: Entries, v: Entries) -> Numbers:
        """Return the rates of the quaternion at an angular velocity."""
        x, y, z, w = q
        spin = scale(0.5, _vector(v))
        return *add(scale(w, spin), cross((x, y, z), spin)), -dot((x, y, z), spin)

    def velocity(self, q: Entries, rates: Entries) -> Numbers:
        """Return the angular velocity at rates of the quaternion."""
        x, y, z, w = q
        *change, along = rates
        spin = _vector(change)
        parts = sub(sub(scale(w, spin), scale(along, (x, y, z))), cross((x, y, z), spin))
        return scale(2.0, parts)


class BallInWorld(Ball):
    """A ball joint with MuJoCo's coordinates: w x y z."""

    def integrated(self, q: Entries, v: Entries, scalars: Scalars) -> Numbers:
        """See ``Ball``."""
        *turn, w = super().integrated((*q[1:], q[0]), v, scalars)
        return w, *turn

    def difference(self, q0: Entries, q1: Entries, scalars: Scalars) -> Numbers:
        """See ``Ball``."""
        return super().difference((*q0[1:], q0[0]), (*q1[1:], q1[0]), scalars)

    def difference_gradient(self, q0: Entries, q1: Entries, scalars: Scalars) -> tuple[Rows, Rows]:
        """See ``Ball``."""
        return super().difference_gradient((*q0[1:], q0[0]), (*q1[1:], q1[0]), scalars)


class Free(JointType):
    """Moves in all directions."""

    kind, symbols = "free", ("x", "y", "z", *Ball.symbols)
    axes = (0, 1, 2, 3, 4, 5)
    nq, quaternion = 7, 3

    @property
    def neutral(self) -> tuple[float, ...]:
        """Coordinates without displacement."""
        return 0.0, 0.0, 0.0, *BALL.neutral

    @property
    def in_mujoco(self) -> JointType:
        """The joint with MuJoCo's coordinates."""
        return FREE_IN_WORLD

    def derive(self) -> JointForm:
        """Translate by (x, y, z), rotate by the unit quaternion (qx, qy, qz, qw)."""
        return _by_quaternion(self.symbols)

    def integrated(self, q: Entries, v: Entries, scalars: Scalars) -> Numbers:
        """Return the position after unit time with a constant twist in the body's own frame."""
        slide, spin = split(v)
        start = _quaternion(q[3:])
        turn = turn_of(spin, scalars)
        end = turned(start, spin, turn, scalars)
        return *add(_vector(q), rotate(start, displacement(spin, slide, turn))), *end

    def difference(self, q0: Entries, q1: Entries, scalars: Scalars) -> Numbers:
        """Return the twist that leads from one position to another, by a rotation of at most pi."""
        (slide, spin), _ = self._twist_between(q0, q1, scalars)
        return *slide, *spin

    def integrated_gradient(self, v: Entries, scalars: Scalars) -> tuple[Rows, Rows]:
        """Return the derivatives of ``integrated`` with respect to q and v, 6 x 6."""
        twist = split(v)
        return inverse_of_step(twist, scalars), right_jacobian(twist, scalars)

    def difference_gradient(self, q0: Entries, q1: Entries, scalars: Scalars) -> tuple[Rows, Rows]:
        """Return the derivatives of ``difference`` with respect to q0 and q1, 6 x 6."""
        return logarithm_gradient(*self._twist_between(q0, q1, scalars), scalars)

    def commutator(self, a: Entries, b: Entries) -> Numbers:
        """Return the commutator of two twists."""
        slide, spin = carried(split(a), split(b))
        return *slide, *spin

    def rates(self, q: Entries, v: Entries) -> Numbers:
        """Return the rates of the coordinates at a twist."""
        return *rotate(_quaternion(q[3:]), _vector(v)), *BALL.rates(q[3:], v[3:])

    def velocity(self, q: Entries, rates: Entries) -> Numbers:
        """Return the twist at rates of the coordinates."""
        slide = rotate(conjugate(_quaternion(q[3:])), _vector(rates))
        return *slide, *BALL.velocity(q[3:], rates[3:])

    def _twist_between(self, q0: Entries, q1: Entries, scalars: Scalars) -> tuple[Motion, Angle]:
        spin, angle = _spin_between(q0[3:], q1[3:], scalars)
        back = conjugate(_quaternion(q0[3:]))
        return (velocity(spin, rotate(back, sub(_vector(q1), _vector(q0))), angle), spin), angle


class FreeInWorld(Free):
    """A free joint with MuJoCo's coordinates: w x y z, and the origin's velocity in world axes."""

    def integrated(self, q: Entries, v: Entries, scalars: Scalars) -> Numbers:
        """See ``Free``; the origin moves along a straight line."""
        turn = BALL_IN_WORLD.integrated(q[3:], v[3:], scalars)
        return *add(_vector(q), _vector(v)), *turn

    def difference(self, q0: Entries, q1: Entries, scalars: Scalars) -> Numbers:
        """See ``Free``."""
        return *sub(_vector(q1), _vector(q0)), *BALL_IN_WORLD.difference(q0[3:], q1[3:], scalars)

    def integrated_gradient(self, v: Entries, scalars: Scalars) -> tuple[Rows, Rows]:
        """See ``Free``."""
        one = scalars.constant(1.0)
        start, end = BALL.integrated_gradient(v[3:], scalars)
        return _apart(one, start, scalars), _apart(one, end, scalars)

    def difference_gradient(self, q0: Entries, q1: Entries, scalars: Scalars) -> tuple[Rows, Rows]:
        """See ``Free``."""
        one = scalars.constant(1.0)
        start, end = BALL_IN_WORLD.difference_gradient(q0[3:], q1[3:], scalars)
        return _apart(-one, start, scalars), _apart(one, end, scalars)

    def commutator(self, a: Entries, b: Entries) -> Numbers:
        """See ``Free``."""
        none = a[0] * 0.0
        return none, none, none, *BALL.commutator(a[3:], b[3:])


def _vector(entries: Entries) -> Vector:
    """Return the first three entries."""
    return entries[0], entries[1], entries[2]


def _quaternion(entries: Entries) -> Quaternion:
    return entries[0], entries[1], entries[2], entries[3]


def _spin_between(q0: Entries, q1: Entries, scalars: Scalars) -> tuple[Vector, Angle]:
    """Return the rotation vector between two quaternions, and its functions."""
    return rotation_vector(multiply(conjugate(_quaternion(q0)), _quaternion(q1)), scalars)


def _twist(spin: Entries, scalars: Scalars) -> Motion:
    """Return the twist of a rotation about the origin."""
    return (scalars.constant(0.0),) * 3, _vector(spin)


def _turns(rows: Rows) -> Rows:
    """Return the derivative of a rotation from that of a twist."""
    return [row[3:] for row in rows[3:]]


def _apart(slide: Scalar, turns: Rows, scalars: Scalars) -> Rows:
    """Return the derivative of a translation and a rotation from that of the rotation."""
    zero = scalars.constant(0.0)
    above = [[slide if k == r else zero for k in range(6)] for r in range(3)]
    return [*above, *([zero, zero, zero, *row] for row in turns)]


REVOLUTE, PRISMATIC, BALL, FREE = Revolute(), Prismatic(), Ball(), Free()
BALL_IN_WORLD, FREE_IN_WORLD = BallInWorld(), FreeInWorld()
JOINT_TYPES: dict[str, JointType] = {
    each.kind: each for each in (REVOLUTE, PRISMATIC, FREE, Helical(), BALL)
}
"""The types of joints by kind; a single entry represents the types with a pitch."""


# -- transforms -------------------------------------------------------------------------------


@dataclass(frozen=True)
class JointForm:
    """Closed form of the transform of one type of joint."""

    #: 3x3 polynomials, successor frame to predecessor frame.
    rotation: tuple[tuple[Polynomial, ...], ...]
    #: 3 polynomials, origin of the successor in the predecessor frame.
    translation: tuple[Polynomial, ...]

    def evaluate(self, values: Entries, scalars: Scalars) -> tuple[Matrix, Vector]:
        """Return rotation and translation with ``values`` for the type's ``symbols``."""

        def number(polynomial: Polynomial) -> Scalar:
            return _evaluate(polynomial, values, scalars)

        first, second, third = (tuple(map(number, row)) for row in self.rotation)
        x, y, z = map(number, self.translation)
        return (first, second, third), (x, y, z)


@cache
def joint_form(kind: str) -> JointForm:
    """Return the closed form of a type of joint."""
    if kind not in JOINT_TYPES:
        raise InternalError(f"no joint of kind {kind!r}")
    path = _cache_file(kind)
    form = _load(path)
    if form is None:
        form = JOINT_TYPES[kind].derive()
        _save(path, form)
    return form


def _cache_file(kind: str) -> Path:
    """Return the cache file of a joint, for the current code and SymPy version."""
    code = hashlib.sha256(Path(__file__).read_bytes() + metadata.version("sympy").encode())
    return cache_folder("joints") / f"{kind}-{code.hexdigest()[:32]}.json"


def _load(path: Path) -> JointForm | None:
    try:
        fields = json.loads(path.read_bytes())
        return JointForm(**{name: _as_tuples(value) for name, value in fields.items()})
    except (OSError, ValueError, TypeError):  # missing or damaged: derive it again
        return None


def _save(path: Path, form: JointForm) -> None:
    try:
        folder = private_folder(path.parent)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            try:
                json.dump(asdict(form), file)
                file.close()
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError:  # a read-only folder costs time only
        return


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _hat(w: Any) -> Any:
    import sympy as sp

    return sp.Matrix([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


def _by_quaternion(names: Sequence[str]) -> JointForm:
    """Return the form of a translation, if named, and a rotation by a unit quaternion."""
    import sympy as sp

    *slide, qx, qy, qz, qw = sp.symbols(names, real=True)
    turn = _hat((qx, qy, qz))
    # R = 1 + 2 qw [u] + 2 [u]^2 with [u]^2 = u u^T - (u.u) 1
    rotation = sp.eye(3) + 2 * qw * turn + 2 * turn**2
    return _form(rotation, slide or (0, 0, 0), (*slide, qx, qy, qz, qw))


def _form(rotation: Any, translation: Iterable[Any], symbols: tuple[Any, ...]) -> JointForm:
    rows = (*map(rotation.row, range(3)), translation)
    *turn, slide = (tuple(_polynomial(entry, symbols) for entry in row) for row in rows)
    return JointForm(tuple(turn), slide)


def _polynomial(expression: Any, symbols: tuple[Any, ...]) -> Polynomial:
    import sympy as sp

    terms = sp.Poly(expression, *symbols).terms()
    return tuple((float(factor), tuple(map(int, powers))) for powers, factor in terms)


def _evaluate(polynomial: Polynomial, values: Sequence[Scalar], scalars: Scalars) -> Scalar:
    """Return the sum of the terms with scalars for the symbols."""
    total: Scalar | None = None
    for factor, powers in polynomial:
        # The factor first: terms with the same factor and symbol share their product.
        term: Scalar | None = None if factor == 1.0 and any(powers) else scalars.constant(factor)
        for value, power in zip(values, powers, strict=True):
            for _ in range(power):
                term = value if term is None else term * value
        total = term if total is None else total + term
    return scalars.constant(0.0) if total is None else total
