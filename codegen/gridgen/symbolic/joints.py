"""The joints' transforms and motion subspaces, derived by SymPy from their twists.

A joint of one degree of freedom is the screw motion T(q) = exp([S] q) of its unit twist S (S0
eq. 1); its motion subspace is read back from the transform, [S] = T^-1 dT/dq. All axes are +z: the
tree stage turns every body's frame so. A free joint is a translation and a unit quaternion; its
velocity is the body's own twist, so its motion subspace is the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from gridgen.errors import InternalError
from gridgen.symbolic.scalars import Scalar, Scalars

#: Coordinates and velocities of each kind of joint.
COORDINATES = {"revolute": 1, "prismatic": 1, "free": 7}
VELOCITIES = {"revolute": 1, "prismatic": 1, "free": 6}

Rows = tuple[
    tuple[Scalar, Scalar, Scalar], tuple[Scalar, Scalar, Scalar], tuple[Scalar, Scalar, Scalar]
]

# Unit twists, linear part first.
_TWISTS = {"revolute": (0, 0, 0, 0, 0, 1), "prismatic": (0, 0, 1, 0, 0, 0)}


@dataclass(frozen=True)
class JointForm:
    """One kind of joint in closed form.

    Attributes:
        symbols:     names of what the entries depend on: ``s``, ``c`` (sine and cosine of an
                     angle), ``q``, or the seven coordinates of a free joint.
        rotation:    3x3 SymPy expressions, successor frame to predecessor frame.
        translation: 3 SymPy expressions, origin of the successor in the predecessor frame.
        subspace:    columns of the motion subspace in the successor frame, each (v, w).
    """

    symbols: tuple[str, ...]
    rotation: tuple[tuple[Any, ...], ...]
    translation: tuple[Any, ...]
    subspace: tuple[tuple[int, ...], ...]

    def evaluate(
        self, values: Mapping[str, Scalar], scalars: Scalars
    ) -> tuple[Rows, tuple[Scalar, Scalar, Scalar]]:
        """Return rotation and translation with ``values`` put in for the symbols."""

        def number(expression: Any) -> Scalar:
            return _evaluate(expression, values, scalars)

        first, second, third = (tuple(map(number, row)) for row in self.rotation)
        x, y, z = map(number, self.translation)
        return (first, second, third), (x, y, z)


@cache
def joint_form(kind: str) -> JointForm:
    """Derive the closed form of ``revolute``, ``prismatic`` or ``free``."""
    derive: dict[str, Callable[[], JointForm]] = {
        "revolute": lambda: _screw("revolute"),
        "prismatic": lambda: _screw("prismatic"),
        "free": _free,
    }
    if kind not in derive:
        raise InternalError(f"no joint of kind {kind!r}")
    return derive[kind]()


def _hat(w: Any) -> Any:
    import sympy as sp

    return sp.Matrix([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


def _screw(kind: str) -> JointForm:
    """Exponentiate a unit twist; read the motion subspace back from the result.

    ``s`` and ``c`` stand for the sine and cosine of ``q``. A screw with both parts is not a joint
    of a URDF, so the pitch term of the translation is left out.
    """
    import sympy as sp

    q, s, c = sp.symbols("q s c", real=True)
    v, w = sp.Matrix(_TWISTS[kind][:3]), sp.Matrix(_TWISTS[kind][3:])
    turn = _hat(w)
    # [w]^3 = -[w] for a unit axis closes the series (Rodrigues); without rotation, v q is left.
    rotation = sp.eye(3) + s * turn + (1 - c) * turn**2
    translation = v * q if w.is_zero_matrix else (s * turn**0 + (1 - c) * turn) * v

    def derivative(matrix: Any) -> Any:
        return matrix.diff(q) + c * matrix.diff(s) - s * matrix.diff(c)

    def reduce(entry: Any) -> Any:
        return sp.expand(sp.expand(entry).subs(s**2, 1 - c**2))

    spin = (rotation.T * derivative(rotation)).applyfunc(reduce)
    slide = (rotation.T * derivative(translation)).applyfunc(reduce)
    subspace = (*slide, spin[2, 1], spin[0, 2], spin[1, 0])
    if subspace != _TWISTS[kind]:
        raise InternalError(f"{kind}: motion subspace {subspace} is not the twist {_TWISTS[kind]}")
    return JointForm(
        symbols=("s", "c") if kind == "revolute" else ("q",),
        rotation=_rows(rotation.applyfunc(sp.expand)),
        translation=tuple(translation),
        subspace=(tuple(int(entry) for entry in subspace),),
    )


def _free() -> JointForm:
    """Translate by (x, y, z), turn by the unit quaternion (qx, qy, qz, qw)."""
    import sympy as sp

    names = ("x", "y", "z", "qx", "qy", "qz", "qw")
    x, y, z, qx, qy, qz, qw = sp.symbols(names, real=True)
    turn = _hat((qx, qy, qz))
    # R = 1 + 2 qw [u] + 2 [u]^2 with [u]^2 = u u^T - (u.u) 1
    rotation = (sp.eye(3) + 2 * qw * turn + 2 * turn**2).applyfunc(sp.expand)
    identity = tuple(tuple(int(row == column) for column in range(6)) for row in range(6))
    return JointForm(names, _rows(rotation), (x, y, z), identity)


def _rows(matrix: Any) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(matrix.row(i)) for i in range(matrix.rows))


def _evaluate(expression: Any, values: Mapping[str, Scalar], scalars: Scalars) -> Scalar:
    """Walk a polynomial SymPy expression with scalars for its symbols."""
    if expression.is_Number:
        return scalars.constant(float(expression))
    if expression.is_Symbol:
        return values[expression.name]
    terms = [_evaluate(arg, values, scalars) for arg in expression.args if not expression.is_Pow]
    if expression.is_Add:
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total
    if expression.is_Mul:
        product = terms[0]
        for term in terms[1:]:
            product = product * term
        return product
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
        base = _evaluate(expression.base, values, scalars)
        power = base
        for _ in range(int(expression.exp) - 1):
            power = power * base
        return power
    raise InternalError(f"no rule for the SymPy expression {expression}")
