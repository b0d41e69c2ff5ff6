"""Which kernels a module has, and why it lacks others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gridgen.errors import ModelError
from gridgen.kernel import Kernel, KernelKey


class Kernels:
    """The kernels of a robot's module.

    Args:
        robot:    its name.
        kernels:  those that there are.
        refusals: why there are not others, by name.
    """

    def __init__(self, robot: str, kernels: Iterable[Kernel], refusals: Mapping[str, str]) -> None:
        self.by_name = {kernel.name: kernel for kernel in kernels}
        self.refusals = refusals
        self._robot = robot

    def named(self, name: str) -> Kernel:
        """Return the kernel of a name.

        Raises:
            ModelError: there is none.
        """
        if name in self.by_name:
            return self.by_name[name]
        why = self.refusals.get(
            name,
            "this module was generated without it: run grid-gen again, and see --functions, "
            "--inputs and --variants",
        )
        raise ModelError(f"{self._robot}: no {name}: {why}")

    def find(self, key: KernelKey) -> Kernel:
        """Return the kernel that serves a key: itself, or one that reads more optional inputs.

        Raises:
            ModelError: there is none.
        """
        if key.name in self.by_name:
            return self.by_name[key.name]
        wider = [
            kernel
            for kernel in self.by_name.values()
            if kernel.key.plain == key.plain and set(key.inputs) <= set(kernel.key.inputs)
        ]
        if wider:
            return min(wider, key=lambda kernel: len(kernel.key.inputs))
        if key.plain.name in self.by_name:
            raise ModelError(
                f"{self._robot}: the module was generated without {' and '.join(key.inputs)}: run "
                f"grid-gen again with --inputs {','.join(key.inputs)}, or use gridgen.load()"
            )
        if key.frame and key.plain.name not in self.refusals:
            raise ModelError(
                f"{self._robot}: the module was generated without {key.function} of this frame: "
                "run grid-gen again with --frame, or use gridgen.load()"
            )
        return self.named(key.plain.name)
