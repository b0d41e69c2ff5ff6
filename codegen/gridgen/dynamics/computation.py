"""Computations of kernels: a function bound to its algorithm, or fused functions."""

from __future__ import annotations

import inspect
import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gridgen.dynamics import conventions, refusals
from gridgen.dynamics.state import State, Undeclared
from gridgen.functions import FUNCTIONS, Function
from gridgen.functions.arrays import ARRAYS, BODY_PARAMETERS, OPTIONAL_INPUTS, shape_of
from gridgen.functions.record import Algorithm, MethodStep
from gridgen.functions.types import REFERENCES
from gridgen.kernel import SEVERAL, Kernel, KernelKey, Shape, TeamLaunch
from gridgen.model.tree import KinematicTree
from gridgen.naming import comment
from gridgen.symbolic.scalars import Scalar, Scalars, entries


def array_shape(name: str, tree: KinematicTree) -> tuple[int, ...]:
    """Return the shape of an array of a robot for one state."""
    extents = {
        "nq": tree.nq,
        "nv": tree.nv,
        "bodies": len(tree.bodies),
        "frames": len(tree.frames),
        "parameters": BODY_PARAMETERS * len(tree.bodies),
        "rows": len(tree.parameter_names),
        "constraints": len(tree.constraints),
        "constraint_rows": sum(one.rows for one in tree.constraints),
        "contacts": len(tree.contact_model.contacts),
        "actuators": len(tree.actuators),
        "springs": len(tree.springs),
        "sensor_numbers": sum(one.size for one in tree.sensors),
        "contact_points": sum(one.count for one in tree.contact_model.contacts),
    }
    return shape_of(name, extents)


def array_size(name: str, tree: KinematicTree) -> int:
    """Return the number of elements of an array of a robot for one state."""
    return math.prod(array_shape(name, tree))


Inputs = Mapping[str, Sequence[Scalar]]


class Computation(ABC):
    """The computation of one kernel, and of kernels of other schedules with the same arrays."""

    #: Key of the kernel with one thread per state.
    key: KernelKey

    @property
    def name(self) -> str:
        """C++ name of the computation."""
        return self.key.name

    @property
    @abstractmethod
    def title(self) -> str:
        """Title, in lines of at most 90 columns."""

    @property
    @abstractmethod
    def source(self) -> str:
        """Reference for the algorithm."""

    @property
    @abstractmethod
    def plain_inputs(self) -> tuple[str, ...]:
        """Names of the arrays that all variants read, in order."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the input arrays, in order."""
        optional = (array for name in self.key.inputs for array in OPTIONAL_INPUTS[name].arrays)
        return (*self.plain_inputs, *optional)

    @property
    @abstractmethod
    def optional_inputs(self) -> tuple[str, ...]:
        """Optional inputs of the variants."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[str, ...]:
        """Names of the output arrays, in order."""

    @property
    def kinds(self) -> dict[str, str]:
        """Arrays of the registry that have another name here."""
        return {}

    @property
    def is_called(self) -> bool:
        """Whether a call of the public API can run the program."""
        return True

    @abstractmethod
    def refusal(self, tree: KinematicTree) -> str | None:
        """Return why a robot does not support the computation, and the remedy, or ``None``."""

    @abstractmethod
    def results(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> Sequence[Any]:
        """Compute the outputs from the inputs over any scalar, as the algorithm returns them."""

    def algorithm(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
        """Compute the outputs from the inputs over any scalar; entries of arrays by rows."""
        return [list(entries(result)) for result in self.results(tree, x, scalars)]

    def shape(self, name: str, tree: KinematicTree) -> Shape:
        """Return the shape of one of its arrays for one state."""
        return array_shape(self.kinds.get(name, name), tree)

    def kernel(
        self,
        tree: KinematicTree,
        key: KernelKey | None = None,
        source: str | None = None,
        team: TeamLaunch | None = None,
    ) -> Kernel:
        """Return the record of a robot's kernel for this computation.

        Args:
            key:    key of the kernel; with one thread per state by default.
            source: reference for the algorithm, if it differs.
            team:   launch parameters of a kernel with one team of threads per state.
        """
        return Kernel(
            key=key or self.key,
            same=self.key,
            title=self.title,
            source=source or self.source,
            inputs={name: self.shape(name, tree) for name in self.inputs},
            outputs={name: self.shape(name, tree) for name in self.outputs},
            team=team,
            kinds=self.kinds,
        )


def _with_inputs_listed(title: str, key: KernelKey) -> str:
    """Return a title that lists the optional inputs."""
    if not key.inputs:
        return title
    return title + ",\nwith " + " and ".join(OPTIONAL_INPUTS[name].text for name in key.inputs)


@dataclass(frozen=True)
class FunctionComputation(Computation):
    """Computation of one function, or of a step of a method.

    Attributes:
        key:    key of the kernel with one thread per state.
        row:    the function, or the step of a method.
        method: the algorithm.
        frame:  name of the frame, for functions of a frame.
        parameters: parameters of the robot that are inputs.
    """

    key: KernelKey
    row: Function | MethodStep
    method: Algorithm
    frame: str = ""
    parameters: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """See ``Computation``."""
        title = self.method.titled(self.row.title)
        if self.frame:
            seen = f" ({self.key.reference})" if self.key.reference else ""
            title += f" of {comment(self.frame)}{seen}"
        return _with_inputs_listed(title, self.key)

    @property
    def source(self) -> str:
        """See ``Computation``."""
        return self.method.source

    @property
    def plain_inputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return (*self.row.inputs, *self.parameters)

    @property
    def optional_inputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return self.row.optional_inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return self.row.results

    @property
    def is_called(self) -> bool:
        """See ``Computation``."""
        return not isinstance(self.row, MethodStep) or self.row.is_called

    def refusal(self, tree: KinematicTree) -> str | None:
        """See ``Computation``."""
        name = self.key.step or self.key.function
        if (reason := conventions.refusal(tree, name, self.key.inputs)) is not None:
            return reason
        reasons = (
            refuse(tree, self.frame) if "frame" in refuse.__annotations__ else refuse(tree)
            for refuse in (getattr(refusals, name) for name in self.method.refusals)
        )
        return next(filter(None, reasons), None)

    def results(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> Sequence[Any]:
        """See ``Computation``."""
        if not tree.has_mujoco_quaternions or self.key.function in conventions.NATIVE:
            return self._results(tree, x, scalars, world_axes=tree.has_mujoco_quaternions)

        def evaluate(function: str, inputs: Inputs) -> Sequence[Any]:
            if function == self.key.function:
                return self._results(tree, inputs, scalars)
            row = FUNCTIONS[function]
            method = row.methods.get("crba") or row.methods[""]
            other = replace(self, row=row, method=method, key=self.key)
            return other._results(tree, inputs, scalars)

        outputs = [self.kinds.get(name, name) for name in self.outputs]
        given = {name: x[name] for name in self.inputs}
        return conventions.convert(tree, self.key.function, outputs, given, scalars, evaluate)

    def _results(
        self, tree: KinematicTree, x: Inputs, scalars: Scalars, *, world_axes: bool = False
    ) -> Sequence[Any]:
        """Pass the state, and the inputs that the parameters name."""
        name, declared = self.name, self._declared
        x = {array: x[array] for array in x if array in declared}
        state = State.of(tree, scalars, x, self.parameters, function=name, declared=declared)
        known: dict[str, Any] = {
            array: Undeclared(name, array) for array in ARRAYS if array not in declared
        }
        known |= {**x, "frame": self.frame, "reference": self.key.reference}
        given = {n: known[n] for n in self._parameters if n in known}
        results = self._algorithm(replace(state, world_axes=world_axes), **given)
        return results if len(self.outputs) > 1 else (results,)

    @cached_property
    def _declared(self) -> frozenset[str]:
        """The arrays that the declaration names."""
        optional = (array for n in self.optional_inputs for array in OPTIONAL_INPUTS[n].arrays)
        return frozenset((*self.row.inputs, *optional, *self.row.parameters))

    @cached_property
    def _algorithm(self) -> Any:
        return pkgutil.resolve_name(f"gridgen.dynamics.{self.method.algorithm}")

    @cached_property
    def _parameters(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self._algorithm).parameters)


@dataclass(frozen=True)
class FusedComputation(Computation):
    """Fused functions: one computation that shares common terms.

    The algorithms run in sequence on the same inputs, and the trace merges equal terms.

    Attributes:
        key:   key of the kernel with one thread per state.
        parts: the fused functions.
    """

    key: KernelKey
    parts: tuple[FunctionComputation, ...]

    @property
    def is_stacked(self) -> bool:
        """Whether the results form one array, with an axis for the functions."""
        return self.key.function != SEVERAL

    @cached_property
    def variants(self) -> tuple[FunctionComputation, ...]:
        """The functions, each with its share of the optional inputs."""
        return tuple(
            replace(part, key=replace(part.key, inputs=inputs))
            for part in self.parts
            for inputs in [tuple(i for i in self.key.inputs if i in part.optional_inputs)]
        )

    @property
    def title(self) -> str:
        """See ``Computation``."""
        listed = [part.title for part in self.parts]
        return _with_inputs_listed(",\n".join(listed), self.key)

    @property
    def source(self) -> str:
        """See ``Computation``."""
        several = dict.fromkeys(part.source for part in self.parts)
        return next(iter(several)) if len(several) == 1 else "as of each of these alone"

    @property
    def plain_inputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        read = {name for part in self.parts for name in part.plain_inputs}
        return tuple(name for name in ARRAYS if name in read)

    @property
    def optional_inputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        read = {name for part in self.parts for name in part.optional_inputs}
        return tuple(name for name in OPTIONAL_INPUTS if name in read)

    @property
    def outputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return self.parts[0].outputs if self.is_stacked else tuple(self._names)

    @property
    def kinds(self) -> dict[str, str]:
        """See ``Computation``."""
        if self.is_stacked:
            return {}
        return {name: kind for name, kind in self._names.items() if name != kind}

    @cached_property
    def _names(self) -> dict[str, str]:
        """Registry array of each result; ambiguous names include their function."""
        every = [*self.inputs, *(kind for part in self.parts for kind in part.outputs)]
        names = {}
        for part in self.parts:
            key = part.key
            seen = "" if key.reference == REFERENCES[0] else key.reference
            words = (key.frame, seen) if key.frame else (key.function, key.method)
            for kind in part.outputs:
                longer = "_".join(filter(None, (kind, *words)))
                names[kind if every.count(kind) == 1 else longer] = kind
        return names

    def shape(self, name: str, tree: KinematicTree) -> Shape:
        """See ``Computation``."""
        shape = super().shape(name, tree)
        is_result = self.is_stacked and name in self.outputs
        return (len(self.parts), *shape) if is_result else shape

    def refusal(self, tree: KinematicTree) -> str | None:
        """See ``Computation``."""
        for part in self.parts:
            if (reason := part.refusal(tree)) is not None:
                return f"{part.name}: {reason}"
        return None

    def results(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> Sequence[Any]:
        """See ``Computation``."""
        found: list[Any] = []
        for part in self.variants:
            given = {name: x[name] for name in part.inputs}
            found += part.results(tree, given, scalars)
        if not self.is_stacked:
            return found
        shape = self.parts[0].shape(self.outputs[0], tree)
        return [[_nested(result, shape) for result in found]]


def _nested(array: Any, shape: Shape) -> Any:
    """Return an array as nested lists; arrays of programs with loops may be in memory."""
    if not shape:
        return array
    return [_nested(array[index], shape[1:]) for index in range(shape[0])]
