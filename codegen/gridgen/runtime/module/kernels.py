"""The kernels of a module, and the reasons for missing ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from gridgen.errors import ModelError
from gridgen.functions.arrays import OPTIONAL_INPUTS
from gridgen.kernel import Kernel, KernelKey

_SEARCH_REMEDIES = {
    "": "run grid-gen again with --inverse-kinematics LINK,... of these links, or ",
    "correction": "run grid-gen again with --vjp and --jvp, or ",
}


class Kernels:
    """The kernels of a robot's module.

    Args:
        robot:    the robot's name.
        kernels:  the existing kernels.
        refusals: reasons why the robot does not support others, by name.
    """

    def __init__(
        self,
        robot: str,
        kernels: Iterable[Kernel],
        refusals: Mapping[str, str],
    ) -> None:
        self.by_name: Mapping[str, Kernel] = {kernel.name: kernel for kernel in kernels}
        self.refusals = refusals
        self._robot = robot

    @property
    def identity(self) -> str:
        """Text that distinguishes modules of one robot: the names of its kernels."""
        return "\n".join(sorted(self.by_name))

    def named(self, name: str) -> Kernel:
        """Return the kernel with a name.

        Raises:
            ModelError: it does not exist.
        """
        if name in self.by_name:
            return self.by_name[name]
        raise self._missing(name)

    def _missing(self, name: str) -> ModelError:
        return ModelError(f"{self._robot}: no {name}: {self._reason(name)}")

    def _reason(self, name: str) -> str:
        return self.refusals.get(
            name,
            "this module was generated without it: run grid-gen again, and see --functions, "
            "--integrators, --inputs, --variants, --vjp and --jvp",
        )

    def has(self, key: KernelKey) -> bool:
        """Return whether a kernel serves a key."""
        return any(self._serving(key))

    def _serving(self, key: KernelKey) -> Iterable[Kernel]:
        """Return the kernels that serve a key, the one with the fewest inputs first."""
        if key.parts:  # with any label
            plain = replace(key.plain, label="")
            same = (k for k in self.by_name.values() if replace(k.key.plain, label="") == plain)
            found = [kernel for kernel in same if set(key.inputs) <= set(kernel.key.inputs)]
            return sorted(found, key=lambda kernel: len(kernel.key.inputs))
        # Fused functions may have any name, including the name of another key.
        pairs = ((wider, self.by_name.get(wider.name)) for wider in _wider(key))
        return (kernel for wider, kernel in pairs if kernel is not None and kernel.key == wider)

    def find(self, key: KernelKey) -> Kernel:
        """Return the kernel that serves a key: itself, or one that reads more optional inputs.

        Raises:
            ModelError: it does not exist.
        """
        for found in self._serving(key):
            return found
        if key.products and key.name not in self.refusals:
            kind = key.products[-1].kind
            remedy = f"run grid-gen again with --{kind} (by all arguments), or "
            raise ModelError(
                f"{self._robot}: the module was generated without {key.name}: "
                f"{'' if len(key.products) > 1 else remedy}use gridgen.load()"
            )
        if self.has(key.plain):
            raise ModelError(f"{self._robot}: {self._without_inputs(key)}")
        if key.function == "inverse_kinematics" and not key.parts:
            raise ModelError(f"{self._robot}: no module has project: use gridgen.load()")
        if key.parts and not key.is_fused:
            remedy = "" if key.function == "rollout" else _SEARCH_REMEDIES[key.variant]
            raise ModelError(
                f"{self._robot}: the module was generated without {key.name}: {remedy}use "
                "gridgen.load()"
            )
        if key.parts:
            listed = ", ".join(part.name for part in key.parts)
            raise ModelError(
                f"{self._robot}: the module was generated without {listed} in one: run grid-gen "
                "again with --fuse, or use gridgen.load()"
            )
        if key.frame and key.plain.name not in self.refusals:
            raise ModelError(
                f"{self._robot}: the module was generated without {key.function} of this frame: "
                "run grid-gen again with --frame, or use gridgen.load()"
            )
        raise self._missing(key.plain.name)

    def _without_inputs(self, key: KernelKey) -> str:
        """Return the reason why a kernel has no form with these optional inputs."""
        for name in (wider.name for wider in _wider(key)):
            if name in self.refusals:
                return f"no {name}: {self.refusals[name]}"
        there = {
            name
            for kernel in self.by_name.values()
            if kernel.key.plain == key.plain
            for name in kernel.key.inputs
        }
        missing = [name for name in key.inputs if name not in there] or key.inputs
        arrays = " and ".join(array for name in missing for array in OPTIONAL_INPUTS[name].arrays)
        inputs = ",".join(name for name in OPTIONAL_INPUTS if name in {*there, *key.inputs})
        return (
            f"the module was generated without {arrays}: run grid-gen again with --inputs "
            f"{inputs}, or use gridgen.load()"
        )


def subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield all subsets of some names, in their order: the empty one first, all last."""
    for count in range(len(names) + 1):
        yield from combinations(names, count)


def _wider(key: KernelKey) -> Iterator[KernelKey]:
    """Yield a key, then those that read more optional inputs, the fewest first."""
    for inputs in subsets(tuple(OPTIONAL_INPUTS)):
        if set(key.inputs) <= set(inputs):
            yield replace(key, inputs=inputs)
