"""The interface of schedules: each one maps the states of a robot to threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gridgen.functions import FUNCTIONS
from gridgen.kernel import Kernel, KernelKey, Work


def is_rollout(key: KernelKey) -> bool:
    """Return whether a kernel integrates states over many time steps."""
    return key.function == "rollout"


def is_search(key: KernelKey) -> bool:
    """Return whether a kernel iterates from several starts."""
    return key.function == "inverse_kinematics" and not key.variant


@dataclass(frozen=True)
class KernelSelection:
    """The requested kernels."""

    functions: Sequence[str]  #: names of functions, of ``gridgen.functions.GENERATED``.
    frames: Sequence[str] | None = None  #: frames with kernels of their own; ``None`` for all.
    #: optional inputs that variants may read; ``None`` for all.
    inputs: Sequence[str] | None = None
    variants: bool = True  #: whether to include kernels that no call uses by default.
    fused: Sequence[KernelKey] = ()  #: kernels that compute several functions.
    #: products with the derivatives of the functions by all their arguments: ``vjp``, ``jvp``.
    products: Sequence[str] = ()
    jacobians: bool = False  #: whether to include the ``jvp`` by all inputs except gravity.
    integrators: Sequence[str] | None = None  #: of steps and rollouts; ``None`` for all.
    searches: Sequence[KernelKey] = ()  #: kernels of inverse kinematics.

    def has(self, key: KernelKey) -> bool:
        """Return whether the function of a kernel is requested, and its integrator."""
        return key.function in self.functions and (
            bool(key.step)
            or self.integrators is None
            or FUNCTIONS[key.function].method_word != "integrator"
            or key.method in self.integrators
        )


class Schedule(Protocol):
    """The kernels of one robot under one schedule. Data that they share is planned once.

    Modules of a schedule's package: ``schedule``, its class; ``kernels``, the kernels of any robot;
    ``plan``, the layout for one robot; ``view``, the data of its templates (in the template folder
    of the same name); ``work``, the cost of its kernels.
    """

    @property
    def name(self) -> str:
        """The name of its view, its templates and its file."""

    def keys(self, selection: KernelSelection) -> Iterable[KernelKey]:
        """Return the requested kernels, including those that the robot does not support."""

    def has(self, key: KernelKey) -> bool:
        """Return whether a kernel, with any optional inputs, belongs to this schedule."""

    def refusal(self, key: KernelKey) -> str | None:
        """Return why the robot does not support a kernel, with the remedy, or ``None``."""

    def kernel(self, key: KernelKey) -> Kernel:
        """Return the record of a kernel that the robot supports."""

    def work(self, key: KernelKey) -> Work:
        """Return the work of a supported kernel per state, counted without tracing."""
