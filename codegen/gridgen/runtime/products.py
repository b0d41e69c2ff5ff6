"""Calls of products with the derivatives of whatever a robot's functions compute."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gridgen.errors import OptionError, ShapeError
from gridgen.functions import FUNCTIONS, GENERATED
from gridgen.functions.arrays import cotangent, tangent
from gridgen.functions.calls import Course
from gridgen.functions.types import Array
from gridgen.kernel import Kernel, Shape
from gridgen.naming import show_value
from gridgen.runtime.arguments import leading_axes, results_given
from gridgen.runtime.defaults import default
from gridgen.runtime.derivable import Derivable, checked_wrt
from gridgen.runtime.description import Module
from gridgen.runtime.dispatch import Dispatched
from gridgen.runtime.evaluation import Evaluator, check_choice
from gridgen.runtime.libraries import adopt, is_traced
from gridgen.runtime.rollout_pullback import Asked, RolloutPullbacks
from gridgen.runtime.room import Room, one_by_one

#: Kinds of products, with what each is given in place of the function's results or arguments.
_GIVEN = {"vjp": "cotangents", "jvp": "tangents"}


def _asked_rollout(
    kernel: Kernel,
    inputs: dict[str, Array | None],
    course: Course,
    backend: str | None,
    out: Any,
) -> Asked:
    return Asked(kernel, inputs, backend, out, course)


class AskedFunctions(Dispatched):
    """A robot's functions, each of which returns what it would be answered from.

    Args:
        module:    the robot's.
        evaluator: the robot's.
    """

    def __init__(self, module: Module, evaluator: Evaluator) -> None:
        super().__init__(module, evaluator, Asked, Asked, Asked, _asked_rollout)

    def _frame_indices(self, frames: Iterable[str]) -> list[int]:
        raise OptionError(
            f"frames is {show_value(frames)}: the derivative is that of all frames; leave it out, "
            "and give zeros as cotangents of the others (frame_names)"
        )


class Products:
    """Products with the derivatives of a robot's functions.

    Args:
        module:    the robot's.
        evaluator: the robot's.
    """

    def __init__(self, module: Module, evaluator: Evaluator) -> None:
        self._module, self._evaluator = module, evaluator
        self._asked = AskedFunctions(module, evaluator)
        self._rollouts = RolloutPullbacks(module, evaluator)

    def vjp(
        self,
        function: str,
        cotangents: Any,
        arguments: Sequence[Any],
        wrt: Sequence[str] | None,
        results: Any,
        options: dict[str, Any],
    ) -> Any:
        """Return the cotangents of the arguments; see ``Robot.vjp``."""
        asked, of, known = self._of(function, arguments, options)
        by = checked_wrt(wrt, of)
        if asked.course is not None:
            if asked.course.return_efforts:
                raise OptionError(
                    "return_efforts is True, and the way back begins with states: leave it out"
                )
            kernel = self._module.kernels.find(of.key.product("vjp", by))
            return self._rollouts.evaluate(kernel, asked, asked.course, cotangents, results)
        given = of.given("vjp", by)
        bars = _listed("cotangents", function, cotangents, given)
        known |= _fitted(asked, bars, given)
        kernel = self._serving(of, "vjp", by)
        wanted = [[*kernel.outputs].index(cotangent(name)) for name in by]
        if len(wanted) == len(kernel.outputs):
            return self._evaluated(kernel, asked, known, results, asked.out)
        shapes = {cotangent(name): of.inputs[name] for name in by}
        room = None
        if asked.out is not None:
            lead = self._lead(kernel.inputs, known)
            room = _room(asked, results_given(asked.out), shapes, lead)
        found = self._evaluated(kernel, asked, known, results)
        chosen = [found[place] for place in wanted]
        if room is None:
            return _alone(chosen)
        room.fill(chosen)
        return asked.out

    def jvp(
        self,
        function: str,
        tangents: Any,
        arguments: Sequence[Any],
        wrt: Sequence[str] | None,
        results: Any,
        options: dict[str, Any],
    ) -> Any:
        """Return the results and their tangents; see ``Robot.jvp``."""
        if any(kind == "jvp" for kind, _ in _read(function)[1]):
            raise OptionError(f"no jvp of {function}: take that of a vjp, or the vjp of this")
        asked, of, known = self._of(function, arguments, options)
        if asked.course is not None:
            raise OptionError("no jvp of rollout: take those of step, one after the other")
        by = checked_wrt(wrt, of)
        changes = _listed("tangents", function, tangents, of.given("jvp", by))
        moving = tuple(name for name in by if changes[tangent(name)] is not None) or by[:1]
        kernel = self._serving(of, "jvp", moving)
        given = of.given("jvp", kernel.key.products[-1].wrt)
        known |= _fitted(asked, {name: changes.get(name) for name in given}, given)
        out = _flat_pair(asked.out)
        if set(of.outputs) <= set(kernel.outputs):
            found = self._evaluated(kernel, asked, known, None, out)
            count = len(of.outputs)
            return asked.out or (_alone(found[:count]), _alone(found[count:]))
        return self._after_results(kernel, asked, of, known, results, out)

    def _after_results(
        self,
        kernel: Kernel,
        asked: Asked,
        of: Derivable,
        known: dict[str, Any],
        results: Any,
        out: tuple[Any, ...] | None,
    ) -> Any:
        """Return results, and tangents that a kernel computes from them; ``out`` is for both."""
        ends, room = (None, None), None
        if out is not None:
            changes = {tangent(name): shape for name, shape in of.outputs.items()}
            lead = self._lead(kernel.inputs, known)
            room = _room(asked, out, {**of.outputs, **changes}, lead)
            given = () if results is None else results_given(results)
            # The second kernel reads again what the first has read.
            if not room.meets({**known, **dict(zip(of.outputs, given, strict=False))}):
                ends = asked.out
        if results is None:
            inputs = dict(asked.inputs)
            results = self._evaluator.evaluate(asked.kernel, inputs, asked.backend, ends[0])
        tangents = self._evaluated(kernel, asked, known, results, ends[1])
        if room is None:
            return results, tangents
        room.fill(one_by_one(results, tangents))
        return asked.out

    def rollout(
        self, kernel: Kernel, arrays: Mapping[str, Any], course: Course, backend: str | None
    ) -> Any:
        """Return the derivatives that a way back computes, from arrays by name.

        Args:
            kernel:  goes back.
            arrays:  the inputs of the rollout, and the derivatives by its results.
            course:  how far it goes.
            backend: overrides the robot's.
        """
        there = self._module.kernels.find(kernel.key.primal)
        inputs = {name: arrays.get(name) for name in there.inputs}
        cotangents = tuple(arrays.get(cotangent(name)) for name in there.outputs)
        asked = Asked(there, inputs, backend, None, course)
        return self._rollouts.evaluate(kernel, asked, course, cotangents, None)

    def _of(
        self, function: str, arguments: Sequence[Any], options: dict[str, Any]
    ) -> tuple[Asked, Derivable, dict[str, Any]]:
        """Return what a call of a function is answered from, what is derived, its inputs."""
        name, inner = _read(function)
        row = FUNCTIONS[name]
        changes, arguments = arguments[: len(inner)], arguments[len(inner) :]
        if len(changes) < len(inner):
            raise OptionError(f"{function} lacks its {_GIVEN[inner[0][0]]}: they come first")
        if "method" in options:
            traced = (name for name, one in row.methods.items() if one.algorithm)
            check_choice("method", options["method"], ("auto", *traced))
        if row.has_teams:
            check_choice("schedule", options.get("schedule", "auto"), ("auto", "thread"))
            options["schedule"] = "thread"
        asked: Asked = getattr(self._asked, name)(*arguments, **options)
        kernel = asked.kernel
        if kernel.key.parts:
            raise OptionError(f"{name} of several links has no vjp: ask for one link at a time")
        of = Derivable(kernel.key, row.arguments, kernel.inputs, kernel.outputs)
        known = dict(asked.inputs)
        if asked.course is not None and inner:
            raise OptionError(f"no products with the derivative of {function}")
        for (kind, wrt), change in zip(inner, changes, strict=True):
            by = checked_wrt(wrt, of)
            given = of.given(kind, by)
            known |= _fitted(asked, _listed(_GIVEN[kind], function, change, given), given)
            of = of.product(kind, by)
        return asked, of, known

    def _serving(self, of: Derivable, kind: str, by: tuple[str, ...]) -> Kernel:
        """Return the kernel of a product, or where a module lacks it, of that by all arguments."""
        kernels = self._module.kernels
        key = of.key.product(kind, by)
        whole = of.key.product(kind, of.arguments)
        if not kernels.has(key) and kernels.has(whole) and set(by) <= set(of.arguments):
            key = whole
        return kernels.find(key)

    def _evaluated(
        self, kernel: Kernel, asked: Asked, known: dict[str, Any], results: Any, out: Any = None
    ) -> Any:
        """Return what the kernel of a product computes."""
        inputs = self._inputs(kernel, asked, known, results)
        if any(map(is_traced, (*known.values(), *inputs.values()))):
            evaluate = pkgutil.resolve_name("gridgen.frameworks.jax.calls:evaluate")
            return evaluate(self._module, kernel, {**known, **inputs}, asked.backend, out)
        return self._evaluator.evaluate(kernel, inputs, asked.backend, out)

    def _inputs(
        self, kernel: Kernel, asked: Asked, known: dict[str, Any], results: Any
    ) -> dict[str, Any]:
        """Return the inputs of a product's kernel; results among them are computed if need be."""
        if wanted := [name for name in asked.kernel.outputs if name in kernel.inputs]:
            if results is None:
                results = self._evaluator.evaluate(asked.kernel, dict(asked.inputs), asked.backend)
            listed = _listed("results", asked.kernel.key.function, results, asked.kernel.outputs)
            known = {**known, **{name: listed[name] for name in wanted}}
        return {name: known[name] for name in kernel.inputs}

    def _lead(self, shapes: Mapping[str, Shape], known: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the leading axes that arrays have in common, of those that are given."""
        arrays = {n: adopt(known[n], n) for n in shapes if known.get(n) is not None}
        given = {name: shapes[name] for name in arrays}
        return leading_axes(self._module.description.name, given, arrays)


def _read(function: Any) -> tuple[str, list[tuple[str, list[str] | None]]]:
    """Return the name of a function, and of which products with it a product is asked for.

    ``inverse_dynamics:vjp:q,qd`` is the vector-Jacobian product by ``q`` and ``qd``.
    """
    name, *words = function.split(":") if isinstance(function, str) else [function]
    check_choice("function", name, GENERATED)
    inner: list[tuple[str, list[str] | None]] = []
    while words:
        check_choice(f"what follows {name}:", kind := words.pop(0), tuple(_GIVEN))
        is_named = bool(words) and words[0] not in _GIVEN
        inner.append((kind, words.pop(0).split(",") if is_named else None))
    if len(inner) > 1:
        raise OptionError(f"{function} are products of the second order; there are none of those")
    return name, inner


def _listed(what: str, function: str, values: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return arrays by the names that they have, in the order that they were given in."""
    names = [*names]
    several = list(values) if isinstance(values, (tuple, list)) and len(names) > 1 else [values]
    if len(several) != len(names):
        raise ShapeError(
            f"{what} are {len(several)} arrays; {function} takes {len(names)} here: "
            f"{', '.join(names)}"
        )
    return dict(zip(names, several, strict=True))


def _alone(arrays: Sequence[Any]) -> Any:
    """Return several arrays as a tuple, one as itself."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def _fitted(
    asked: Asked, changes: Mapping[str, Any], shapes: Mapping[str, Shape]
) -> dict[str, Any]:
    """Return cotangents or tangents; ``None`` is zero."""
    return {
        name: _zero(asked, name, shapes[name]) if value is None else value
        for name, value in changes.items()
    }


def _zero(asked: Asked, name: str, shape: Shape) -> Any:
    q: Any = asked.inputs[asked.kernel.first]
    if is_traced(q):
        jax: Any = sys.modules["jax"]
        return jax.numpy.zeros(shape, q.dtype)
    return default(name, shape, adopt(q, asked.kernel.first))


def _room(
    asked: Asked, out: Sequence[Any], shapes: Mapping[str, Shape], lead: tuple[int, ...]
) -> Room:
    """Return the caller's arrays for results of these shapes, checked."""
    first = asked.kernel.first
    return Room(out, shapes, lead, asked.inputs[first], first)


def _flat_pair(out: Any) -> tuple[Any, ...] | None:
    """Return the arrays for results and tangents one by one."""
    if out is None:
        return None
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise OptionError("out: give two, for the results and for their tangents")
    return one_by_one(*out)
