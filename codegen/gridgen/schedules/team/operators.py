"""The functions of ``gridgen.dynamics`` that kernels of teams call for a body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gridgen.dynamics.aba import ArticulatedInertia, rigid_inertia
from gridgen.dynamics.frames import Pose
from gridgen.dynamics.kinematics import twist_motion
from gridgen.dynamics.mass import Mass, second_moments
from gridgen.dynamics.mobility import Mobility, mobility
from gridgen.dynamics.motion_derivatives import (
    EffortRow,
    MotionChange,
    MovingMass,
    add_wrenches,
    along,
    change_by_position,
    change_by_velocity,
    moving_mass,
    origin_drift,
    rotated_wrench,
)
from gridgen.dynamics.second_derivatives import (
    FromAbove,
    FromBelow,
    TurnedMass,
    quadratic_row,
    turned_mass,
    turned_row,
)
from gridgen.symbolic.joints import joint_form
from gridgen.symbolic.scalars import FloatScalars, Scalar
from gridgen.symbolic.spatial import (
    DenseRotation,
    Matrix,
    Motion,
    Placement,
    Vector,
    Wrench,
    add,
    apply,
    carried,
    dot,
    scale,
    skew_times,
    split,
    transpose,
)

# Constants of the operators are numbers, for any operands.
_NUMBERS = FloatScalars()


@dataclass(frozen=True)
class Record:
    """A struct of numbers."""

    comment: str  #: what it holds, one line.
    fields: Mapping[str, str]  #: type of every field by name: ``T`` for a number, or a record.
    #: makes the corresponding value of ``gridgen.dynamics`` from the fields.
    make: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Operator:
    """A function of records."""

    name: str  #: in C++; functions of one name are overloads.
    comment: str  #: what it computes, one line.
    operands: Mapping[str, str]  #: their types by name: ``T`` for a number, or a record.
    result: str  #: its type.
    function: Callable[..., Any]  #: of ``gridgen.dynamics``, applied to the values of the operands.


def build(kind: str, path: str, number: Callable[[str], Any]) -> Any:
    """Return the value of a record, or a number, built from ``number`` of each path."""
    if kind == "T":
        return number(path)
    record = RECORDS[kind]
    return record.make(
        *(build(inner, f"{path}.{field}", number) for field, inner in record.fields.items())
    )


def flat(kind: str, value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the numbers of a record with their paths: ``.linear.x``; of a number, an empty path."""
    if kind == "T":
        yield path, value
        return
    fields = RECORDS[kind].fields
    values = value if isinstance(value, tuple) else [getattr(value, field) for field in fields]
    for (field, inner), part in zip(fields.items(), values, strict=True):
        yield from flat(inner, part, f"{path}.{field}")


# -- records ----------------------------------------------------------------------------------


def _tuple(*values: Any) -> tuple[Any, ...]:
    return values


def _dense(E: Matrix, r: Vector) -> Placement:
    return Placement((DenseRotation(E),), (DenseRotation(E),), r)


_THREE = ("x", "y", "z")
#: Records of the operators, each after the records of its fields.
RECORDS: dict[str, Record] = {
    "Vector": Record("Three components.", dict.fromkeys(_THREE, "T"), _tuple),
    "Matrix": Record("A 3x3 matrix by rows.", dict.fromkeys(_THREE, "Vector"), _tuple),
    "Symmetric": Record(
        "The symmetric matrix of a triangle.",
        dict.fromkeys(("xx", "xy", "xz", "yy", "yz", "zz"), "T"),
        _tuple,
    ),
    "Spatial": Record(
        "A motion (v, w) or a wrench (f, n).", {"linear": "Vector", "angular": "Vector"}, _tuple
    ),
    "Placement": Record(
        "Placement of a body in one of its ancestors: x_ancestor = E x_body + r.",
        {"E": "Matrix", "r": "Vector"},
        _dense,
    ),
    "Mass": Record(
        "Mass, first moment and rotational inertia of a rigid body about its frame's origin.",
        {"m": "T", "h": "Vector", "I": "Symmetric"},
        Mass,
    ),
    "Mobility": Record(
        "The inverse of a link's inertia: 1 / m, center, inverse of the rotational one about it.",
        {"inverse_mass": "T", "center": "Vector", "inverse_inertia": "Symmetric"},
        Mobility,
    ),
    "Articulated": Record(
        "The symmetric map from motions to wrenches by blocks: f = M v + H w, n = H^T v + I w.",
        {"M": "Symmetric", "H": "Matrix", "I": "Symmetric"},
        ArticulatedInertia,
    ),
    "MotionChange": Record(
        "A change of motion: point x has the additional acceleration a + alpha x x + 2 w x xdot.",
        {"a": "Vector", "alpha": "Vector", "w": "Vector"},
        MotionChange,
    ),
    "EffortRow": Record(
        "The change of a joint torque: a . da + alpha . dalpha + w . dw.",
        {"a": "Vector", "alpha": "Vector", "w": "Vector"},
        EffortRow,
    ),
    "MovingMass": Record(
        "A subtree's mass, and twice its momentum: the integrals of xdot and of xdot x^T.",
        {"rest": "Mass", "p": "Vector", "K": "Matrix"},
        MovingMass,
    ),
    "TurnedMass": Record(
        "Its derivative by the position of its joint.",
        {"f": "Vector", "Q": "Matrix", "p": "Vector", "K": "Matrix"},
        TurnedMass,
    ),
    "FromAbove": Record(
        "Effect of an ancestor joint on a body, in that body's frame.",
        {"axis": "Spatial", "position": "MotionChange", "velocity": "MotionChange"},
        FromAbove,
    ),
    "FromBelow": Record(
        "Effect of a joint on an ancestor body, in that body's frame.",
        {
            "row": "EffortRow",
            "mass": "TurnedMass",
            "position": "Spatial",
            "velocity": "Spatial",
        },
        FromBelow,
    ),
}

# -- operators --------------------------------------------------------------------------------


def _pose(X: Placement) -> Pose:
    (rotation,) = X.vector_factors
    assert isinstance(rotation, DenseRotation)
    return Pose(rotation.matrix, X.r)


def _compose(outer: Placement, inner: Placement) -> tuple[Matrix, Vector]:
    pose = _pose(outer).child(inner)
    return pose.R, pose.p


def _joined(kind: str, X: Placement, *values: Scalar) -> tuple[Matrix, Vector]:
    """Return the placement of a body after its joint has moved, from its name and the symbols."""
    return _compose(X, _dense(*joint_form(kind).evaluate(values, _NUMBERS)))


def _motion_wrench(J: Mass, V: Motion, A: Motion) -> Wrench:
    # The acceleration field would take one sixteenth fewer operations, but the kernels would
    # need more registers.
    return add_wrenches(J.wrench(*A), rotated_wrench(V, J.wrench(*V)))


def _let_go(A: ArticulatedInertia, armature: Motion) -> ArticulatedInertia:
    own = (*armature[0], *armature[1])
    return A.let_go(own, A.inverse(own, _NUMBERS))


def _solve(A: ArticulatedInertia, armature: Motion, b: Wrench) -> Motion:
    return split(A.solve((*armature[0], *armature[1]), (*b[0], *b[1])))


def _from_below(own: FromAbove, mass: MovingMass, F: Wrench, w: Vector) -> FromBelow:
    return FromBelow(
        mass.row(own.axis),
        turned_mass(own.axis, mass, w),
        add_wrenches(mass.wrench(own.position), rotated_wrench(own.axis, F)),
        mass.wrench(own.velocity),
    )


def _operator(signature: str, comment: str, function: Callable[..., Any]) -> Operator:
    """Return the operator of a signature of C++: ``Vector turn_add(Matrix E, Vector a)``."""
    head, _, operands = signature.removesuffix(")").partition("(")
    result, name = head.split()
    kinds = (operand.split() for operand in operands.split(", "))
    return Operator(name, comment, {word: kind for kind, word in kinds}, result, function)


#: All of them.
OPERATORS = (
    _operator("T dot(Vector a, Vector b)", "a . b", dot),
    _operator(
        "T dot(Spatial a, Spatial b)",
        "The torque of a wrench along an axis, or its power in a motion.",
        along,
    ),
    _operator(
        "Vector turn_add(Matrix E, Vector a, Vector b)",
        "E a + b",
        lambda E, a, b: add(apply(E, a), b),
    ),
    _operator(
        "Spatial rotated_back(Matrix E, Spatial F)",
        "A wrench in the axes of a frame rotated by E.",
        lambda E, F: (apply(transpose(E), F[0]), apply(transpose(E), F[1])),
    ),
    _operator(
        "Spatial ad_add(Spatial a, Spatial b, Spatial c)",
        "ad_a b + c: the rate of change of the motion b under the motion a, plus c.",
        lambda a, b, c: add_wrenches(carried(a, b), c),
    ),
    _operator(
        "Placement compose(Placement outer, Placement inner)",
        "The placement of `inner` in the reference frame of `outer`.",
        _compose,
    ),
    _operator(
        "Placement spun(Placement X, T s, T c)",
        "The placement X of a body after a rotation of its joint about the body's z axis.",
        lambda X, s, c: _joined("revolute", X, s, c),
    ),
    _operator(
        "Placement slid(Placement X, T distance)",
        "The same for a translation along it.",
        lambda X, distance: _joined("prismatic", X, distance),
    ),
    _operator(
        "Placement freed(Placement X, Vector position, Vector u, T w)",
        "The same for a free joint with a position [x y z] and a unit quaternion [u w].",
        lambda X, position, u, w: _joined("free", X, *position, *u, w),
    ),
    _operator(
        "Spatial to_body(Placement X, Spatial V)",
        "A motion of the ancestor in the body's frame (Ad of the inverse).",
        lambda X, V: X.motion_to_body(*V),
    ),
    _operator(
        "Spatial to_ancestor(Placement X, Spatial F)",
        "A wrench on the body in the ancestor's frame (the transpose of to_body).",
        lambda X, F: X.force_to_parent(*F),
    ),
    _operator(
        "Spatial wrench(Mass J, Spatial V)",
        "J V: the momentum of a motion, or the wrench that produces an acceleration from rest.",
        lambda J, V: J.wrench(*V),
    ),
    _operator(
        "Spatial motion_wrench(Mass J, Spatial V, Spatial A)",
        "J A - ad_V^T (J V): the wrench of a motion (Yang, Wu, Pan, prefix sums, eq. 2).",
        _motion_wrench,
    ),
    _operator(
        "Mass to_ancestor(Placement X, Mass J)",
        "The mass of a body about the ancestor's origin.",
        lambda X, J: J.to_parent(X),
    ),
    _operator(
        "Spatial accelerate(Mobility link, Spatial F)",
        "J^-1 F",
        lambda link, F: link.acceleration(F),
    ),
    _operator(
        "Mobility mobility(Mass J)",
        "The inverse of a body's inertia.",
        lambda J: mobility(J, _NUMBERS.constant(1.0)),
    ),
    _operator(
        "Articulated articulated(Mass J)",
        "The articulated-body inertia of a body without children.",
        lambda J: rigid_inertia(J, _NUMBERS),
    ),
    _operator(
        "Articulated to_ancestor(Placement X, Articulated A)",
        "The inertia of a body in the frame of an ancestor.",
        lambda X, A: A.to_parent(X),
    ),
    _operator(
        "Articulated across_joint(Articulated A, Spatial U, Spatial gain)",
        "The inertia propagated across a joint: A - U gain^T (prefix sums eq. 7).",
        lambda A, U, gain: A.across_joint((*U[0], *U[1]), (*gain[0], *gain[1]), 0.0),
    ),
    _operator(
        "Articulated let_go(Articulated A, Spatial armature)",
        "The same across a free joint with armature.",
        _let_go,
    ),
    _operator(
        "Spatial solve(Articulated A, Spatial armature, Spatial b)",
        "The acceleration x of a free body: (A + diag(armature)) x = b.",
        _solve,
    ),
    _operator(
        "Matrix lever(Placement X)",
        "[r] E: the moments about the ancestor's origin that forces along the body's axes have.",
        lambda X: skew_times(X.r, _pose(X).R),
    ),
    _operator(
        "Vector origin_drift(Placement X, Vector w, Vector slide_rate)",
        "Twice the velocity of the body's origin relative to a parent of angular velocity w.",
        origin_drift,
    ),
    _operator(
        "MotionChange change_by_velocity(Spatial axis, Spatial V)",
        "Derivative of the body's motion by the velocity of its joint.",
        lambda axis, V: change_by_velocity(axis, scale(2.0, V[1])),
    ),
    _operator(
        "MotionChange change_by_position(Spatial axis, Spatial V, Spatial A)",
        "Derivative of the body's motion, in its own frame, by the position of its joint.",
        lambda axis, V, A: change_by_position(axis, twist_motion(V, A)),
    ),
    _operator(
        "T answer(EffortRow row, MotionChange change)",
        "The change of the joint torque.",
        lambda row, change: row.answer(change),
    ),
    _operator(
        "Spatial rotated_wrench(Spatial axis, Spatial F)",
        "The change of a wrench that moves along with a joint's axis, in the parent's frame.",
        rotated_wrench,
    ),
    _operator(
        "MovingMass moving(Mass J, Vector w)",
        "A body whose points move with w x x.",
        lambda J, w: moving_mass(J, w, second_moments(J.I, 2.0)),
    ),
    _operator(
        "MovingMass to_ancestor(Placement X, Vector drift, MovingMass mass)",
        "A subtree about the ancestor's origin, in the ancestor's frame.",
        lambda X, drift, mass: mass.to_parent(X, drift),
    ),
    _operator(
        "Spatial wrench(MovingMass mass, MotionChange change)",
        "The change of the wrench that accelerates a subtree.",
        lambda mass, change: mass.wrench(change),
    ),
    _operator(
        "EffortRow effort_row(MovingMass mass, Spatial axis)",
        "The change of the joint torque along an axis.",
        lambda mass, axis: mass.row(axis),
    ),
    _operator(
        "MovingMass by_position(TurnedMass mass)",
        "The derivative by a position as that of a subtree with constant mass.",
        lambda mass: mass.by_position(0.0),
    ),
    _operator(
        "Spatial wrench_by_velocity(TurnedMass mass, Vector w)",
        "Derivative by the joint's velocity of the response to the change w of motion.",
        lambda mass, w: mass.wrench_by_velocity(w),
    ),
    _operator(
        "FromAbove to_body(Placement X, Vector drift, FromAbove above)",
        "Effect of a joint on a body farther from the base.",
        lambda X, drift, above: above.to_body(X, drift),
    ),
    _operator(
        "FromBelow from_below(FromAbove own, MovingMass mass, Spatial F, Vector w)",
        "Effect of a joint that transmits F on its own body, of angular velocity w.",
        _from_below,
    ),
    _operator(
        "FromBelow to_ancestor(Placement X, Vector drift, FromBelow below)",
        "Effect of a joint on a body nearer to the base.",
        lambda X, drift, below: below.to_parent(below.row.to_parent(X, drift), X, drift),
    ),
    _operator(
        "EffortRow turned_row(Spatial axis, Vector w, FromBelow below)",
        "Response of the tip's torque to changes at the middle, by the middle joint's position.",
        lambda axis, w, below: turned_row(axis, w, below.row, below.mass.Q),
    ),
    _operator(
        "Vector quadratic_row(Spatial axis, FromBelow below)",
        "Response to a change w of the tip's torque by the middle's velocity; or minus the revers",
        lambda axis, below: quadratic_row(axis, below.row.a, below.mass.Q),
    ),
)
