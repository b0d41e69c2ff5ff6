"""Calls of vector-Jacobian and Jacobian-vector products of a robot's functions."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gridgen.errors import OptionError
from gridgen.functions import FUNCTIONS, GENERATED
from gridgen.functions.arrays import ARRAYS, FEEDBACK, cotangent, tangent
from gridgen.functions.calls import RolloutSettings
from gridgen.kernel import Kernel, KernelKey, Shape, answer_of, result_type
from gridgen.naming import check_choice, show, show_value, similar
from gridgen.runtime.arrays.arguments import leading_axes, results_given
from gridgen.runtime.arrays.defaults import default
from gridgen.runtime.arrays.libraries import adopt, is_traced
from gridgen.runtime.calls.evaluation import Evaluator
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.calls.resolver import Resolver
from gridgen.runtime.calls.rollout_vjp import Outputs, RolloutPullbacks, by_name, one_by_one
from gridgen.runtime.module.description import Module


@dataclass(frozen=True)
class Derivable:
    """A function or a product that can be differentiated."""

    key: KernelKey  #: key of its kernel.
    arguments: tuple[str, ...]  #: the inputs to differentiate by, by default.
    inputs: Mapping[str, Shape]  #: shapes, for one state, of all differentiable inputs.
    outputs: Mapping[str, Shape]  #: shapes of its results.

    def given(self, kind: str, wrt: Iterable[str]) -> dict[str, Shape]:
        """Return the arrays that a product reads in addition to the inputs."""
        if kind == "vjp":
            return {cotangent(name): shape for name, shape in self.outputs.items()}
        return {tangent(name): self.inputs[name] for name in wrt}

    def product(self, kind: str, wrt: tuple[str, ...]) -> Derivable:
        """Return a derivative product."""
        given = self.given(kind, wrt)
        outputs = {cotangent(name): self.inputs[name] for name in wrt}
        if kind == "jvp":
            changes = {tangent(name): shape for name, shape in self.outputs.items()}
            outputs = {**self.outputs, **changes}
        inputs = {**self.inputs, **given}
        return Derivable(self.key.product(kind, wrt), (*self.arguments, *given), inputs, outputs)


def checked_wrt(wrt: Sequence[str] | None, of: Derivable) -> tuple[str, ...]:
    """Return the names of the inputs to differentiate by, in their order."""
    if wrt is None:
        return of.arguments
    names = [wrt] if isinstance(wrt, str) else wrt
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise OptionError(f"wrt is {show_value(wrt)}; give names of {', '.join(of.inputs)}")
    names = [*names]
    inputs = [name for name in of.inputs if name not in FEEDBACK and not ARRAYS[name].is_fixed]
    for name in names:
        if name in FEEDBACK:
            raise OptionError(
                f"wrt names {name}, of a controller: its derivatives follow from those by tau, to "
                "which K x is added: by K they are their products with x"
            )
        if name not in inputs:
            near = similar(name, inputs) or inputs
            raise OptionError(
                f"wrt names {show_value(name)}, which {of.key.function} does not read "
                f"here; the nearest are {', '.join(map(show, near))}"
            )
    if len(set(names)) < len(names) or names != [name for name in inputs if name in names]:
        order = ", ".join(name for name in inputs if name in names)
        raise OptionError(f"wrt is {show_value(wrt)}; give each name once, in this order: {order}")
    if not names:
        raise OptionError(f"wrt is empty; name some of {', '.join(inputs)}")
    return tuple(names)


#: Kinds of products, with the name of their first argument.
_GIVEN = {"vjp": "cotangents", "jvp": "tangents"}
_PAIR = result_type(("results", "tangents"))


class Products:
    """Derivative products of a robot's functions."""

    def __init__(self, module: Module, evaluator: Evaluator, resolver: Resolver) -> None:
        self._module, self._evaluator, self._resolver = module, evaluator, resolver
        self._rollouts = RolloutPullbacks(module.description, evaluator)

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
        resolved, of, known = self._of(function, arguments, options)
        by = checked_wrt(wrt, of)
        if resolved.settings is not None:
            for word in ("return_efforts", "record"):
                if getattr(resolved.settings, word):
                    raise OptionError(f"the backward pass begins with states: omit {word}")
            kernel = self._module.kernels.find(of.key.product("vjp", by))
            return self._rollouts.evaluate(kernel, resolved, cotangents, results)
        given = of.given("vjp", by)
        bars = by_name("cotangents", function, cotangents, given)
        known |= _fitted(resolved, bars, given)
        kernel = self._serving(of, "vjp", by)
        places = [[*kernel.outputs].index(cotangent(name)) for name in by]
        if len(places) == len(kernel.outputs):
            return self._evaluated(kernel, resolved, known, results, resolved.out)
        shapes = {cotangent(name): of.inputs[name] for name in by}
        outputs = None
        if resolved.out is not None:
            lead = self._lead(kernel.inputs, known)
            outputs = _outputs(resolved, results_given(resolved.out), shapes, lead)
        found = self._evaluated(kernel, resolved, known, results)
        chosen = [found[place] for place in places]
        if outputs is None:
            return answer_of(result_type(tuple(shapes)), chosen)
        outputs.fill(chosen)
        return resolved.out

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
        resolved, of, known = self._of(function, arguments, options)
        if resolved.settings is not None:
            raise OptionError("no jvp of rollout: take those of step, one after the other")
        by = checked_wrt(wrt, of)
        changes = by_name("tangents", function, tangents, of.given("jvp", by))
        moving = tuple(name for name in by if changes[tangent(name)] is not None) or by[:1]
        kernel = self._serving(of, "jvp", moving)
        given = of.given("jvp", kernel.key.products[-1].wrt)
        known |= _fitted(resolved, {name: changes.get(name) for name in given}, given)
        out = _flat_pair(resolved.out)
        if set(of.outputs) <= set(kernel.outputs):
            found = self._evaluated(kernel, resolved, known, None, out)
            count = len(of.outputs)
            names = tuple(kernel.outputs)
            results = answer_of(result_type(names[:count]), found[:count])
            tangents = answer_of(result_type(names[count:]), found[count:])
            return resolved.out or _PAIR(results, tangents)
        return self._after_results(kernel, resolved, of, known, results, out)

    def _after_results(
        self,
        kernel: Kernel,
        resolved: Resolved,
        of: Derivable,
        known: dict[str, Any],
        results: Any,
        out: tuple[Any, ...] | None,
    ) -> Any:
        """Return results, and tangents that a kernel computes from them; ``out`` has both."""
        ends, outputs = (None, None), None
        if out is not None:
            changes = {tangent(name): shape for name, shape in of.outputs.items()}
            lead = self._lead(kernel.inputs, known)
            outputs = _outputs(resolved, out, {**of.outputs, **changes}, lead)
            given = () if results is None else results_given(results)
            # The second kernel reads the inputs of the first again.
            if not outputs.meets({**known, **dict(zip(of.outputs, given, strict=False))}):
                ends = resolved.out
        if results is None:
            plain = replace(resolved, inputs=dict(resolved.inputs), out=ends[0])
            results = self._evaluator.evaluate(plain)
        tangents = self._evaluated(kernel, resolved, known, results, ends[1])
        if outputs is None:
            return _PAIR(results, tangents)
        outputs.fill(one_by_one(results, tangents))
        return resolved.out

    def rollout(self, kernel: Kernel, arrays: Mapping[str, Any], backend: str | None) -> Any:
        """Return the derivatives of a backward pass, from arrays by name."""
        there = self._module.kernels.find(kernel.key.primal)
        inputs = {name: arrays.get(name) for name in there.inputs}
        cotangents = tuple(arrays.get(cotangent(name)) for name in there.outputs)
        resolved = Resolved(there, inputs, backend, None, RolloutSettings())
        return self._rollouts.evaluate(kernel, resolved, cotangents, None)

    def _of(
        self, function: str, arguments: Sequence[Any], options: dict[str, Any]
    ) -> tuple[Resolved, Derivable, dict[str, Any]]:
        """Return the resolved call of a function, its derivable, and its inputs by name."""
        name, inner = _read(function)
        row = FUNCTIONS[name]
        changes, arguments = arguments[: len(inner)], arguments[len(inner) :]
        if len(changes) < len(inner):
            raise OptionError(f"{function} lacks its {_GIVEN[inner[0][0]]}: they come first")
        if "method" in options:
            traced = (name for name, one in row.methods.items() if one.algorithm)
            check_choice("method", options["method"], ("auto", *traced))
        if row.has_team_kernels:
            check_choice("schedule", options.get("schedule", "auto"), ("auto", "thread"))
            options["schedule"] = "thread"
        resolved = self._resolver.resolve_named(name, *arguments, **options)
        kernel = resolved.kernel
        if resolved.evaluation == "frames":
            raise OptionError(
                f"{name} of some links has no product in this module, whose only kernel is for all "
                "links: omit frames, and give zeros as cotangents of the others (frame_names)"
            )
        if kernel.key.is_fused:
            raise OptionError(f"{name} of several links has no vjp: give one link at a time")
        of = Derivable(kernel.key, row.differentiable, kernel.inputs, kernel.outputs)
        known = dict(resolved.inputs)
        if resolved.settings is not None and inner:
            raise OptionError(f"{function} has no derivative products")
        for (kind, wrt), change in zip(inner, changes, strict=True):
            by = checked_wrt(wrt, of)
            given = of.given(kind, by)
            known |= _fitted(resolved, by_name(_GIVEN[kind], function, change, given), given)
            of = of.product(kind, by)
        return resolved, of, known

    def _serving(self, of: Derivable, kind: str, by: tuple[str, ...]) -> Kernel:
        """Return the kernel of a product, or in a module without it, that by all arguments."""
        kernels = self._module.kernels
        key = of.key.product(kind, by)
        whole = of.key.product(kind, of.arguments)
        if not kernels.has(key) and kernels.has(whole) and set(by) <= set(of.arguments):
            key = whole
        return kernels.find(key)

    def _evaluated(
        self,
        kernel: Kernel,
        resolved: Resolved,
        known: dict[str, Any],
        results: Any,
        out: Any = None,
    ) -> Any:
        """Return the results of a product's kernel."""
        inputs = self._inputs(kernel, resolved, known, results)
        if any(map(is_traced, (*known.values(), *inputs.values()))):
            every = Resolved(kernel, {**known, **inputs}, resolved.backend, out)
            return self._evaluator.traced(self._module, every)
        return self._evaluator.evaluate(Resolved(kernel, inputs, resolved.backend, out))

    def _inputs(
        self, kernel: Kernel, resolved: Resolved, known: dict[str, Any], results: Any
    ) -> dict[str, Any]:
        """Return the inputs of a product's kernel; compute results among them when necessary."""
        if shared := [name for name in resolved.kernel.outputs if name in kernel.inputs]:
            if results is None:
                plain = replace(resolved, inputs=dict(resolved.inputs), out=None)
                results = self._evaluator.evaluate(plain)
            listed = by_name(
                "results", resolved.kernel.key.function, results, resolved.kernel.outputs
            )
            known = {**known, **{name: listed[name] for name in shared}}
        return {name: known[name] for name in kernel.inputs}

    def _lead(self, shapes: Mapping[str, Shape], known: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the common leading axes of the given arrays."""
        arrays = {n: adopt(known[n], n) for n in shapes if known.get(n) is not None}
        given = {name: shapes[name] for name in arrays}
        return leading_axes(self._module.description.name, given, arrays)


def _read(function: Any) -> tuple[str, list[tuple[str, list[str] | None]]]:
    """Return a function's name and the products that follow it, with their inputs.

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
        raise OptionError(f"{function} are products of the second order; these have no products")
    return name, inner


def _fitted(
    resolved: Resolved, changes: Mapping[str, Any], shapes: Mapping[str, Shape]
) -> dict[str, Any]:
    """Return cotangents or tangents; ``None`` is zero."""
    return {
        name: _zero(resolved, name, shapes[name]) if value is None else value
        for name, value in changes.items()
    }


def _zero(resolved: Resolved, name: str, shape: Shape) -> Any:
    q: Any = resolved.inputs[resolved.kernel.first]
    if is_traced(q):
        jax: Any = sys.modules["jax"]
        return jax.numpy.zeros(shape, q.dtype)
    return default(name, shape, adopt(q, resolved.kernel.first))


def _outputs(
    resolved: Resolved, out: Sequence[Any], shapes: Mapping[str, Shape], lead: tuple[int, ...]
) -> Outputs:
    """Return the caller's arrays for results of these shapes, validated."""
    first = resolved.kernel.first
    return Outputs(out, shapes, lead, resolved.inputs[first], first)


def _flat_pair(out: Any) -> tuple[Any, ...] | None:
    """Return the arrays for results and tangents as one tuple."""
    if out is None:
        return None
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise OptionError("out: give two, for the results and for their tangents")
    return one_by_one(*out)
