"""What a schedule is: one way to lay the states of a robot over threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gridgen.kernel import Kernel, KernelKey, Work


def is_rollout(key: KernelKey) -> bool:
    """Tell whether a kernel takes states from step to step."""
    return key.function == "rollout"


@dataclass(frozen=True)
class KernelSelection:
    """Which kernels are asked for.

    Attributes:
        functions: names of functions, of ``gridgen.functions.GENERATED``.
        frames:    the frames that have kernels of their own; ``None`` for all.
        inputs:    the optional inputs that variants shall read; ``None`` for all.
        variants:  whether those kernels too that nothing calls unasked.
        fused:     kernels that compute several functions in one.
        products:  whether the products with the derivatives of the functions too, by all their
                   arguments, and which: ``vjp``, ``jvp``.
        jacobians: whether the ``jvp`` by all their inputs but gravity, too.
    """

    functions: Sequence[str]
    frames: Sequence[str] | None = None
    inputs: Sequence[str] | None = None
    variants: bool = True
    fused: Sequence[KernelKey] = ()
    products: Sequence[str] = ()
    jacobians: bool = False


class Schedule(Protocol):
    """The kernels of one robot under one schedule; what they have in common is planned once.

    Its folder has what it is made of: ``schedule`` its class, ``kernels`` the kernels of any robot,
    ``plan`` what is laid out for one robot, ``view`` what its templates see (those in the folder of
    its name), ``work`` what its kernels cost.
    """

    @property
    def name(self) -> str:
        """What its view, its templates and its file are called."""

    def keys(self, wanted: KernelSelection) -> Iterable[KernelKey]:
        """Return the kernels asked for, whether or not the robot can have them."""

    def has(self, key: KernelKey) -> bool:
        """Tell whether a kernel is one of this schedule, whatever optional inputs it reads."""

    def refusal(self, key: KernelKey) -> str | None:
        """Return why the robot cannot have a kernel, with the remedy, or ``None``."""

    def kernel(self, key: KernelKey) -> Kernel:
        """Return the record of a kernel that the robot can have."""

    def work(self, key: KernelKey) -> Work:
        """Return what a state costs a kernel that the robot can have: counted, not traced."""
