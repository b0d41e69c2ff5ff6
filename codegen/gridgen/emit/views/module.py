"""Data of the template of a module's Python file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from gridgen.dynamics.computation import array_shape
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import ARRAYS, CONSTANT_IN_TIME, DEFAULTED
from gridgen.kernel import Kernel
from gridgen.model.tree import KinematicTree


@dataclass(frozen=True)
class SignatureView:
    """One function of a module."""

    name: str  #: ``inverse_dynamics``.
    shapes: tuple[str, ...]  #: ``q (B, 7), qd (B, 7), qdd (B, 7) -> tau (B, 7)``, in lines.


@dataclass(frozen=True)
class FusedView:
    """Fused functions of a module."""

    name: str  #: ``control``.
    shapes: tuple[str, ...]  #: ``q (B, 7) -> M (B, 7, 7), J (B, 6, 7)``, in lines.
    parts: tuple[str, ...]  #: ``'mass_matrix'``, ``'jacobian:hand'``.


@dataclass(frozen=True)
class MethodView:
    """One method of a module for calls of any function."""

    name: str  #: ``bind``.
    text: str  #: an example, and its purpose.


_METHODS = {
    "bind": '("inverse_dynamics", q, qd, qdd): validates a call once, for repeated use.',
    "compile": '("inverse_dynamics", dtype="float32"): compiles before the first call.',
    "compute": '(("mass_matrix", "bias_forces"), q, qd): computes fused functions in one kernel.',
    "vjp": '("inverse_dynamics", tau_bar, q, qd, qdd): the vector-Jacobian product.',
    "jvp": '("inverse_dynamics", (u, v, w), q, qd, qdd): results and Jacobian-vector products.',
    "rollout_vjp": "(q0, qd0, tau, dt, (q_path_bar, qd_path_bar)): the backward pass of a rollout.",
}
# Functions that call others.
_MADE_OF = {
    "rollout_gradient": {"step", "step_gradient"},
    "inverse_kinematics": {"inverse_kinematics"},
    "project": {"project"},  # of no module
}


def method_views(kernels: Iterable[Kernel]) -> list[MethodView]:
    """Describe the methods that call the functions of a module."""
    keys = [kernel.key for kernel in kernels]
    there = {"bind", "compile", *(kind for key in keys for kind, _ in key.products)}
    there |= {"compute" for key in keys if key.is_fused}
    there |= {"rollout_vjp" for key in keys if key.function == "rollout" and key.products}
    return [MethodView(name, name + text) for name, text in _METHODS.items() if name in there]


def signature_views(tree: KinematicTree, kernels: Iterable[Kernel]) -> list[SignatureView]:
    """Describe the functions of a module: its kernels, and functions without generated code."""
    has = {kernel.key.function for kernel in kernels}
    views = []
    for name, row in FUNCTIONS.items():
        if name in has or (not row.is_generated and _MADE_OF.get(name, set()) <= has):
            over_time = row.in_time or any(ARRAYS[name].path for name in row.results)
            arguments = ", ".join(
                _shaped(tree, name, ("T",) * (over_time and name not in CONSTANT_IN_TIME))
                for name in (*row.arguments, *row.words)
            )
            results = ", ".join(
                _shaped(tree, name, ("T",) * row.in_time + ("T + 1",) * ARRAYS[name].path)
                for name in row.results
            )
            shapes = f"{arguments} -> {results}" if results else arguments
            views.append(SignatureView(name, tuple(wrap(shapes, 95))))
    return views


def fused_view(kernel: Kernel, names: Sequence[str]) -> FusedView:
    """Describe fused functions."""
    read = {name: shape for name, shape in kernel.inputs.items() if name not in DEFAULTED}
    arguments, results = (
        ", ".join(_of_batch(name, shape) for name, shape in arrays.items())
        for arrays in (read, kernel.outputs)
    )
    shapes = tuple(wrap(f"{arguments} -> {results}", 95))
    return FusedView(kernel.name, shapes, tuple(map(ascii, names)))


def _of_batch(name: str, shape: tuple[str | int, ...]) -> str:
    """Return an array with its shape for a batch."""
    extents = ("B", *shape)
    return f"{name} ({', '.join(map(str, extents))}{',' if len(extents) == 1 else ''})"


def _shaped(tree: KinematicTree, name: str, times: tuple[str, ...]) -> str:
    """Return an array with its shape for a batch; the name alone for any other argument."""
    if name not in ARRAYS:
        return name
    return _of_batch(name, (*times, *array_shape(name, tree)))
