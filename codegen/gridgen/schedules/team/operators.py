"""Which functions of ``gridgen.dynamics`` the kernels of teams call for a body, and on what."""

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
    turned_wrench,
)
from gridgen.dynamics.second_derivatives import (
    FromAbove,
    FromBelow,
    TurnedMass,
    own_second_wrench,
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

# Constants of the operators are numbers, whatever their operands.
_NUMBERS = FloatScalars()


@dataclass(frozen=True)
class Record:
    """A struct of numbers.

    Attributes:
        comment: what it holds, one line.
        fields:  type of every field by name: ``T`` for a number, or a record.
        make:    what ``gridgen.dynamics`` has in its place, of the fields.
    """

    comment: str
    fields: Mapping[str, str]
    make: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Operator:
    """A function of records.

    Attributes:
        name:     in C++, where operands tell functions of one name apart.
        comment:  what it computes, one line.
        operands: their types by name: ``T`` for a number, or a record.
        result:   its type.
        function: of ``gridgen.dynamics``, on what the operands stand for.
    """

    name: str
    comment: str
    operands: Mapping[str, str]
    result: str
    function: Callable[..., Any]


def build(kind: str, path: str, number: Callable[[str], Any]) -> Any:
    """Return what stands for a record, or a number, made of what ``number`` says of each path."""
    if kind == "T":
        return number(path)
    record = RECORDS[kind]
    return record.make(
        *(build(inner, f"{path}.{field}", number) for field, inner in record.fields.items())
    )


def flat(kind: str, value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the numbers of a record with their paths: ``.linear.x``; of a number, an empty one."""
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
#: Those of the operators, each after those that it is made of.
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
        "A change of motion: the point x accelerates by a + alpha x x + 2 w x xdot more.",
        {"a": "Vector", "alpha": "Vector", "w": "Vector"},
        MotionChange,
    ),
    "EffortRow": Record(
        "How an effort answers: a . da + alpha . dalpha + w . dw.",
        {"a": "Vector", "alpha": "Vector", "w": "Vector"},
        EffortRow,
    ),
    "MovingMass": Record(
        "A subtree's mass, and twice its momentum: the integrals of xdot and of xdot x^T.",
        {"rest": "Mass", "p": "Vector", "K": "Matrix"},
        MovingMass,
    ),
    "TurnedMass": Record(
        "Its derivative by the position of the joint that carries it.",
        {"f": "Vector", "Q": "Matrix", "p": "Vector", "K": "Matrix"},
        TurnedMass,
    ),
    "FromAbove": Record(
        "What a joint does to a body on whose way to the base it lies, in that body's frame.",
        {"axis": "Spatial", "position": "MotionChange", "velocity": "MotionChange"},
        FromAbove,
    ),
    "FromBelow": Record(
        "What a joint does to a body on its own way to the base, in that body's frame.",
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
    """Return the placement of a body whose joint has moved, by its place and the symbols."""
    return _compose(X, _dense(*joint_form(kind).evaluate(values, _NUMBERS)))


def _motion_wrench(J: Mass, V: Motion, A: Motion) -> Wrench:
    # Not by the acceleration field, which is less work by a sixteenth: the kernels would need more
    # registers.
    return add_wrenches(J.wrench(*A), turned_wrench(V, J.wrench(*V)))


def _let_go(A: ArticulatedInertia, armature: Motion) -> ArticulatedInertia:
    own = (*armature[0], *armature[1])
    return A.let_go(own, A.inverse(own, _NUMBERS))


def _solve(A: ArticulatedInertia, armature: Motion, b: Wrench) -> Motion:
    return split(A.solve((*armature[0], *armature[1]), (*b[0], *b[1])))


def _from_below(own: FromAbove, mass: MovingMass, F: Wrench, w: Vector) -> FromBelow:
    return FromBelow(
        mass.row(own.axis),
        turned_mass(own.axis, mass, w),
        add_wrenches(mass.wrench(own.position), turned_wrench(own.axis, F)),
        mass.wrench(own.velocity),
    )


#: All of them.
OPERATORS = (
    Operator("dot", "a . b", {"a": "Vector", "b": "Vector"}, "T", dot),
    Operator(
        "dot",
        "The effort of a wrench along an axis, or the power of one in a motion.",
        {"a": "Spatial", "b": "Spatial"},
        "T",
        along,
    ),
    Operator(
        "turn_add",
        "E a + b",
        {"E": "Matrix", "a": "Vector", "b": "Vector"},
        "Vector",
        lambda E, a, b: add(apply(E, a), b),
    ),
    Operator(
        "turned_back",
        "A wrench in the axes of a frame that E turns.",
        {"E": "Matrix", "F": "Spatial"},
        "Spatial",
        lambda E, F: (apply(transpose(E), F[0]), apply(transpose(E), F[1])),
    ),
    Operator(
        "carried_add",
        "ad_a b + c: how the motion b changes when carried along by the motion a.",
        {"a": "Spatial", "b": "Spatial", "c": "Spatial"},
        "Spatial",
        lambda a, b, c: add_wrenches(carried(a, b), c),
    ),
    Operator(
        "compose",
        "The placement of `inner` when `outer` places the frame it is given in.",
        {"outer": "Placement", "inner": "Placement"},
        "Placement",
        _compose,
    ),
    Operator(
        "spun",
        "The placement X of a body whose joint has turned about the body's z axis.",
        {"X": "Placement", "s": "T", "c": "T"},
        "Placement",
        lambda X, s, c: _joined("revolute", X, s, c),
    ),
    Operator(
        "slid",
        "The same for a joint that has slid along it.",
        {"X": "Placement", "distance": "T"},
        "Placement",
        lambda X, distance: _joined("prismatic", X, distance),
    ),
    Operator(
        "freed",
        "The same for a free joint with a position [x y z] and a unit quaternion [u w].",
        {"X": "Placement", "position": "Vector", "u": "Vector", "w": "T"},
        "Placement",
        lambda X, position, u, w: _joined("free", X, *position, *u, w),
    ),
    Operator(
        "to_body",
        "A motion of the ancestor, seen from the body (Ad of the inverse).",
        {"X": "Placement", "V": "Spatial"},
        "Spatial",
        lambda X, V: X.motion_to_body(*V),
    ),
    Operator(
        "to_ancestor",
        "A wrench on the body, seen from the ancestor (the transpose of to_body).",
        {"X": "Placement", "F": "Spatial"},
        "Spatial",
        lambda X, F: X.force_to_parent(*F),
    ),
    Operator(
        "wrench",
        "J V: the momentum of a motion, or the wrench that an acceleration from rest takes.",
        {"J": "Mass", "V": "Spatial"},
        "Spatial",
        lambda J, V: J.wrench(*V),
    ),
    Operator(
        "motion_wrench",
        "J A - ad_V^T (J V): the wrench that the motion takes (Yang, Wu, Pan, prefix sums, eq. 2).",
        {"J": "Mass", "V": "Spatial", "A": "Spatial"},
        "Spatial",
        _motion_wrench,
    ),
    Operator(
        "to_ancestor",
        "The mass of a body about the ancestor's origin.",
        {"X": "Placement", "J": "Mass"},
        "Mass",
        lambda X, J: J.to_parent(X),
    ),
    Operator(
        "accelerate",
        "J^-1 F",
        {"link": "Mobility", "F": "Spatial"},
        "Spatial",
        lambda link, F: link.acceleration(F),
    ),
    Operator(
        "mobility",
        "The inverse of a body's inertia.",
        {"J": "Mass"},
        "Mobility",
        lambda J: mobility(J, _NUMBERS.constant(1.0)),
    ),
    Operator(
        "articulated",
        "The inertia of a body none of whose joints gives way.",
        {"J": "Mass"},
        "Articulated",
        lambda J: rigid_inertia(J, _NUMBERS),
    ),
    Operator(
        "to_ancestor",
        "The inertia of a body, as one that moves with the ancestor feels it.",
        {"X": "Placement", "A": "Articulated"},
        "Articulated",
        lambda X, A: A.to_parent(X),
    ),
    Operator(
        "given_way",
        "What remains of an inertia when its joint gives way: A - U gain^T (prefix sums eq. 7).",
        {"A": "Articulated", "U": "Spatial", "gain": "Spatial"},
        "Articulated",
        lambda A, U, gain: A.given_way((*U[0], *U[1]), (*gain[0], *gain[1]), 0.0),
    ),
    Operator(
        "let_go",
        "The same of a free joint with an armature, which alone holds the body.",
        {"A": "Articulated", "armature": "Spatial"},
        "Articulated",
        _let_go,
    ),
    Operator(
        "solve",
        "The acceleration x of a free body: (A + diag(armature)) x = b.",
        {"A": "Articulated", "armature": "Spatial", "b": "Spatial"},
        "Spatial",
        _solve,
    ),
    Operator(
        "lever",
        "[r] E: the moments about the ancestor's origin that forces along the body's axes have.",
        {"X": "Placement"},
        "Matrix",
        lambda X: skew_times(X.r, _pose(X).R),
    ),
    Operator(
        "origin_drift",
        "Twice the velocity of the body's origin, seen by a carrier that turns with w.",
        {"X": "Placement", "w": "Vector", "slide_rate": "Vector"},
        "Vector",
        origin_drift,
    ),
    Operator(
        "change_by_velocity",
        "How the body's motion changes with the velocity of its joint.",
        {"axis": "Spatial", "V": "Spatial"},
        "MotionChange",
        lambda axis, V: change_by_velocity(axis, scale(2.0, V[1])),
    ),
    Operator(
        "change_by_velocity",
        "The same for an axis of a free joint; the body sees its carrier move with V_carrier.",
        {"axis": "Spatial", "V": "Spatial", "V_carrier": "Spatial", "slide_rate": "Vector"},
        "MotionChange",
        lambda axis, V, carrier, rate: change_by_velocity(axis, add(carrier[1], V[1]), rate),
    ),
    Operator(
        "change_by_position",
        "How the body's motion, as it sees it, changes with the position of its joint.",
        {"axis": "Spatial", "V": "Spatial", "A": "Spatial"},
        "MotionChange",
        lambda axis, V, A: change_by_position(axis, twist_motion(V, A)),
    ),
    Operator(
        "change_by_position",
        "The same for an axis of a free joint, of the carrier's motion as the body sees it.",
        {"axis": "Spatial", "V_carrier": "Spatial", "A_carrier": "Spatial", "slide_rate": "Vector"},
        "MotionChange",
        lambda axis, V, A, rate: change_by_position(axis, twist_motion(V, A), rate),
    ),
    Operator(
        "to_body",
        "A change of the ancestor's motion about the origin of the body, in the body's axes.",
        {"X": "Placement", "drift": "Vector", "change": "MotionChange"},
        "MotionChange",
        lambda X, drift, change: change.to_body(X, drift),
    ),
    Operator(
        "answer",
        "The change of the effort.",
        {"row": "EffortRow", "change": "MotionChange"},
        "T",
        lambda row, change: row.answer(change),
    ),
    Operator(
        "to_ancestor",
        "The answer to changes of the ancestor's motion.",
        {"X": "Placement", "drift": "Vector", "row": "EffortRow"},
        "EffortRow",
        lambda X, drift, row: row.to_parent(X, drift),
    ),
    Operator(
        "turned_wrench",
        "The change of a wrench that moves along with a joint's axis, as its carrier sees it.",
        {"axis": "Spatial", "F": "Spatial"},
        "Spatial",
        turned_wrench,
    ),
    Operator(
        "moving",
        "A body whose points move with w x x.",
        {"J": "Mass", "w": "Vector"},
        "MovingMass",
        lambda J, w: moving_mass(J, w, second_moments(J.I, 2.0)),
    ),
    Operator(
        "to_ancestor",
        "A subtree about the ancestor's origin, as the ancestor sees it.",
        {"X": "Placement", "drift": "Vector", "mass": "MovingMass"},
        "MovingMass",
        lambda X, drift, mass: mass.to_parent(X, drift),
    ),
    Operator(
        "wrench",
        "The change of the wrench that moves a subtree.",
        {"mass": "MovingMass", "change": "MotionChange"},
        "Spatial",
        lambda mass, change: mass.wrench(change),
    ),
    Operator(
        "effort_row",
        "How the effort along an axis answers.",
        {"mass": "MovingMass", "axis": "Spatial"},
        "EffortRow",
        lambda mass, axis: mass.row(axis),
    ),
    Operator(
        "by_position",
        "The derivative by a position as that of a subtree, whose mass stays.",
        {"mass": "TurnedMass"},
        "MovingMass",
        lambda mass: mass.by_position(0.0),
    ),
    Operator(
        "wrench_by_velocity",
        "How the joint's velocity changes the answer to the change w of motion.",
        {"mass": "TurnedMass", "w": "Vector"},
        "Spatial",
        lambda mass, w: mass.wrench_by_velocity(w),
    ),
    Operator(
        "to_body",
        "What a joint does to a body farther from the base.",
        {"X": "Placement", "drift": "Vector", "above": "FromAbove"},
        "FromAbove",
        lambda X, drift, above: above.to_body(X, drift),
    ),
    Operator(
        "from_below",
        "What a joint that transmits F does to its own body, which turns with w.",
        {"own": "FromAbove", "mass": "MovingMass", "F": "Spatial", "w": "Vector"},
        "FromBelow",
        _from_below,
    ),
    Operator(
        "to_ancestor",
        "What a joint does to a body nearer to the base.",
        {"X": "Placement", "drift": "Vector", "below": "FromBelow"},
        "FromBelow",
        lambda X, drift, below: below.to_parent(below.row.to_parent(X, drift), X, drift),
    ),
    Operator(
        "turned_row",
        "How the tip's effort answers changes at the middle when the middle joint turns.",
        {"axis": "Spatial", "w": "Vector", "below": "FromBelow"},
        "EffortRow",
        lambda axis, w, below: turned_row(axis, w, below.row, below.mass),
    ),
    Operator(
        "quadratic_row",
        "How the tip's effort by the middle's velocity answers a change w; or minus the reverse.",
        {"axis": "Spatial", "below": "FromBelow"},
        "Vector",
        lambda axis, below: quadratic_row(axis, below.row, below.mass),
    ),
    Operator(
        "own_second_wrench",
        "The second derivative of the transmitted wrench F by its own joint's position.",
        {"own": "FromAbove", "mass": "MovingMass", "F": "Spatial"},
        "Spatial",
        lambda own, mass, F: own_second_wrench(own.axis, own.position, mass, F),
    ),
)
