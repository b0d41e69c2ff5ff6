"""What tells the kernels of a robot apart, and how each is called. No name is ever taken apart."""

from __future__ import annotations

from dataclasses import dataclass

#: Inputs that a kernel takes only in its variant with external loads.
LOADS = ("f_ext", "base_velocity", "base_acceleration")


@dataclass(frozen=True)
class KernelKey:
    """One kernel of a robot, whatever the element type.

    Attributes:
        function:  what it computes, as users name it: ``forward_dynamics``.
        method:    the algorithm, where a function has several: ``aba``.
        schedule:  how a state is laid over threads: ``thread``, ``scan`` or ``hybrid``.
        variant:   how it differs from the kernel that serves unasked: ``unmerged``.
        step:      what it computes on the way to the function: ``articulated_inertias``.
        frame:     identifier of the frame that it is about.
        reference: the axes that this frame is seen in: ``local``.
        loaded:    whether it takes external loads, ``LOADS``.
    """

    function: str
    method: str = ""
    schedule: str = "thread"
    variant: str = ""
    step: str = ""
    frame: str = ""
    reference: str = ""
    loaded: bool = False

    @property
    def name(self) -> str:
        """Its name in C++."""
        words = (
            self.step or self.function,
            "" if self.step else self.method,
            self.frame,
            self.reference,
            "" if self.schedule == "thread" else self.schedule,
            self.variant,
            "ext" if self.loaded else "",
        )
        return "_".join(word for word in words if word)
