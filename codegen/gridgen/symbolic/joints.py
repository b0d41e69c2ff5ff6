"""The joints' transforms and motion subspaces, derived by SymPy from their twists.

A joint of one degree of freedom is the screw motion T(q) = exp([S] q) of its unit twist S (Yang,
Wu, Pan (prefix sums) eq. 1); its motion subspace is read back from the transform,
[S] = T^-1 dT/dq. All axes are +z: the tree stage turns every body's frame so. A free joint is a
translation and a unit quaternion; its velocity is the body's own twist, so its motion subspace is
the identity.

What was derived is remembered in the user's cache folder: SymPy takes longer to start than the
robot's functions to trace.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from gridgen.errors import InternalError
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.user_cache import cache_folder, private_folder

#: Coordinates and velocities of each kind of joint.
COORDINATES = {"revolute": 1, "prismatic": 1, "free": 7}
VELOCITIES = {"revolute": 1, "prismatic": 1, "free": 6}

#: Terms (factor, power of each symbol).
Polynomial = tuple[tuple[float, tuple[int, ...]], ...]

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
        rotation:    3x3 polynomials, successor frame to predecessor frame.
        translation: 3 polynomials, origin of the successor in the predecessor frame.
        subspace:    columns of the motion subspace in the successor frame, each (v, w).
    """

    symbols: tuple[str, ...]
    rotation: tuple[tuple[Polynomial, ...], ...]
    translation: tuple[Polynomial, ...]
    subspace: tuple[tuple[int, ...], ...]

    def evaluate(
        self, values: Mapping[str, Scalar], scalars: Scalars
    ) -> tuple[Rows, tuple[Scalar, Scalar, Scalar]]:
        """Return rotation and translation with ``values`` put in for the symbols."""

        def number(polynomial: Polynomial) -> Scalar:
            return _evaluate(polynomial, [values[name] for name in self.symbols], scalars)

        first, second, third = (tuple(map(number, row)) for row in self.rotation)
        x, y, z = map(number, self.translation)
        return (first, second, third), (x, y, z)


@cache
def joint_form(kind: str) -> JointForm:
    """Return the closed form of ``revolute``, ``prismatic`` or ``free``."""
    if kind not in VELOCITIES:
        raise InternalError(f"no joint of kind {kind!r}")
    path = _memory(kind)
    form = _recall(path)
    if form is None:
        form = derive_joint(kind)
        _remember(path, form)
    return form


def derive_joint(kind: str) -> JointForm:
    """Derive the closed form of a joint with SymPy."""
    return _free() if kind == "free" else _screw(kind)


def _memory(kind: str) -> Path:
    """Return the file that remembers a joint as this very code and this SymPy derive it."""
    code = hashlib.sha256(Path(__file__).read_bytes() + metadata.version("sympy").encode())
    return cache_folder("joints") / f"{kind}-{code.hexdigest()[:32]}.json"


def _recall(path: Path) -> JointForm | None:
    try:
        fields = json.loads(path.read_bytes())
        return JointForm(**{name: _as_tuples(value) for name, value in fields.items()})
    except (OSError, ValueError, TypeError):  # not there, or damaged: derive it anew
        return None


def _remember(path: Path, form: JointForm) -> None:
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
    except OSError:  # a folder that cannot be written costs time, nothing else
        return


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


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
    symbols = (s, c) if kind == "revolute" else (q,)
    return JointForm(
        symbols=tuple(symbol.name for symbol in symbols),
        rotation=_rows(rotation, symbols),
        translation=tuple(_polynomial(entry, symbols) for entry in translation),
        subspace=(tuple(int(entry) for entry in subspace),),
    )


def _free() -> JointForm:
    """Translate by (x, y, z), turn by the unit quaternion (qx, qy, qz, qw)."""
    import sympy as sp

    names = ("x", "y", "z", "qx", "qy", "qz", "qw")
    symbols = sp.symbols(names, real=True)
    x, y, z, qx, qy, qz, qw = symbols
    turn = _hat((qx, qy, qz))
    # R = 1 + 2 qw [u] + 2 [u]^2 with [u]^2 = u u^T - (u.u) 1
    rotation = sp.eye(3) + 2 * qw * turn + 2 * turn**2
    identity = tuple(tuple(int(row == column) for column in range(6)) for row in range(6))
    translation = tuple(_polynomial(entry, symbols) for entry in (x, y, z))
    return JointForm(names, _rows(rotation, symbols), translation, identity)


def _rows(matrix: Any, symbols: tuple[Any, ...]) -> tuple[tuple[Polynomial, ...], ...]:
    return tuple(
        tuple(_polynomial(entry, symbols) for entry in matrix.row(i)) for i in range(matrix.rows)
    )


def _polynomial(expression: Any, symbols: tuple[Any, ...]) -> Polynomial:
    import sympy as sp

    terms = sp.Poly(expression, *symbols).terms()
    return tuple((float(factor), tuple(map(int, powers))) for powers, factor in terms)


def _evaluate(polynomial: Polynomial, values: Sequence[Scalar], scalars: Scalars) -> Scalar:
    """Return the sum of the terms with scalars for the symbols."""
    total: Scalar | None = None
    for factor, powers in polynomial:
        # The factor first: terms that have it and a symbol in common share their product.
        term: Scalar | None = None if factor == 1.0 and any(powers) else scalars.constant(factor)
        for value, power in zip(values, powers, strict=True):
            for _ in range(power):
                term = value if term is None else term * value
        total = term if total is None else total + term
    return scalars.constant(0.0) if total is None else total
