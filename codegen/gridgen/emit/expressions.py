"""A robot's functions as expressions of CasADi and SymPy, from their traced programs."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gridgen.dynamics.functions import computation_of, fused_keys
from gridgen.emit.views.casadi import extents
from gridgen.errors import ModelError, OptionError
from gridgen.functions.arrays import ARRAYS
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.naming import one_line
from gridgen.schedules.thread.plan import plan_lines
from gridgen.symbolic.program import Program, stored

#: Operations of the longest program for SymPy, whose expressions repeat shared terms.
MAX_FOR_SYMPY = 5000
#: Functions of q, qd and one more array with analytical Jacobians, and the functions of these.
_ANALYTICAL = {
    "inverse_dynamics": ("inverse_dynamics_gradient", "mass_matrix"),
    "forward_dynamics": ("forward_dynamics_gradient",),
}
#: Operations that both libraries call like this.
_NAMES = ("sin", "cos", "sign", "sqrt", "exp", "log", "atan2")

Arrays = Mapping[str, Sequence[Any]]


def evaluate(
    program: Program, inputs: Arrays, functions: Mapping[str, Callable[..., Any]]
) -> dict[str, list[Any]]:
    """Evaluate a program without loops on the numbers or symbols of a library.

    Args:
        program:   the program.
        inputs:    elements of each input.
        functions: ``const``, which makes a number, ``sin``, ``cos``, ``sign``, ``sqrt``, ``exp``,
                   ``log``, ``atan2`` and ``select``, by the names of operations.
    """
    rules: dict[str, Callable[..., Any]] = {
        "neg": lambda a: -a,
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b,
        "fma": lambda a, b, c: a * b + c,
        **functions,
    }
    if program.has_queries:
        raise ModelError("searches of distances have no expressions")
    found: dict[int, Any] = {}
    for node in program.nodes:
        if isinstance(node.value, tuple):
            array, index = node.value
            found[node.index] = inputs[array][index]
        elif node.op == "const":
            found[node.index] = rules["const"](node.value)
        else:
            found[node.index] = rules[node.op](*(found[operand.index] for operand in node.args))
    return {
        array.name: [found[node.index] for node in stored(program, array.name) or ()]
        for array in program.outputs
    }


class Expressions:
    """Expressions of one robot's functions; see ``gridgen.runtime.exports``.

    Args:
        tree: the robot.
    """

    def __init__(self, tree: KinematicTree) -> None:
        self._tree = tree

    def casadi(self, key: KernelKey, constants: Arrays) -> Any:
        """Return a function; see ``Robot.casadi``."""
        ca = _library("casadi")
        words = {name: getattr(ca, name) for name in _NAMES}
        words |= {"const": ca.SX, "select": lambda test, a, b: ca.if_else(test < 0, a, b)}

        def matrix(elements: Sequence[Any], shape: Sequence[int]) -> Any:
            rows, columns = extents(tuple(shape))
            return ca.sparsify(ca.reshape(ca.vertcat(*elements), columns, rows).T)

        def values(called: KernelKey) -> dict[str, Any]:
            spec, program = computation_of(self._tree, called), plan_lines(self._tree, called)
            found = evaluate(program, {**constants, **elements}, words)
            return {name: matrix(found[name], spec.shape(name, self._tree)) for name in found}

        spec = computation_of(self._tree, key)
        given: dict[str, Any] = {}
        elements: dict[str, list[Any]] = {}
        for name in spec.inputs:
            if name not in constants:
                rows, columns = extents(spec.shape(name, self._tree))
                given[name] = ca.SX.sym(name, rows, columns)
                listed = ca.vertsplit(ca.vec(given[name].T))
                elements[name] = self._normalized(ca, name, listed)
        results = values(key)
        options: dict[str, Any] = {}
        names = [*given], [*results]
        if key.function in _ANALYTICAL and list(given)[:2] == ["q", "qd"] and len(given) == 3:
            (fused,) = fused_keys(self._tree, {"jacobian": _ANALYTICAL[key.function]})
            by_q, by_qd, by_last = values(fused).values()
            ((name, result),) = results.items()
            unused = ca.SX(*result.shape)
            blocks = [by_q @ self._tangents(ca, given["q"]), by_qd, by_last]
            jacobian = ca.Function(
                f"jac_{key.name}",
                [*given.values(), unused],
                blocks,
                [*given, f"out_{name}"],
                [f"jac_{name}_{array}" for array in given],
            )
            options = {"custom_jacobian": jacobian, "jac_penalty": 0}
        return ca.Function(key.name, [*given.values()], [*results.values()], *names, options)

    def _normalized(self, ca: Any, name: str, elements: list[Any]) -> list[Any]:
        """Return the elements of an array with normalized quaternions."""
        for start in self._tree.quaternions if ARRAYS[name].shape == ("nq",) else ():
            norm = ca.norm_2(ca.vertcat(*elements[start : start + 4]))
            elements[start : start + 4] = [one / norm for one in elements[start : start + 4]]
        return elements

    def _tangents(self, ca: Any, q: Any) -> Any:
        """Return the derivative of the tangent vector of a change by q, (nv, nq)."""
        found = ca.SX(self._tree.nv, self._tree.nq)
        for body in self._tree.bodies:
            i, k = body.q_index, body.v_index
            start = body.joint_type.quaternion
            if start is None:
                found[k, i] = 1.0
                continue
            x, y, z, w = ca.vertsplit(q[i + start : i + start + 4])
            square = x * x + y * y + z * z + w * w
            turn = ca.vertcat(
                ca.horzcat(w, z, -y, -x), ca.horzcat(-z, w, x, -y), ca.horzcat(y, -x, w, -z)
            )
            found[k + start : k + start + 3, i + start : i + start + 4] = 2.0 * turn / square
            if not start:
                continue
            # R^T = E E'^T, the product of the rates in the axes of the body and of the base.
            base = ca.vertcat(
                ca.horzcat(w, -z, y, -x), ca.horzcat(z, w, -x, -y), ca.horzcat(-y, x, w, -z)
            )
            found[k : k + 3, i : i + 3] = turn @ base.T / square
        return found

    def sympy(self, key: KernelKey, constants: Arrays) -> dict[str, Any]:
        """Return arrays of expressions; see ``Robot.sympy``."""
        sp = _library("sympy")
        spec, program = computation_of(self._tree, key), plan_lines(self._tree, key)
        if program.operations > MAX_FOR_SYMPY:
            raise ModelError(
                f"{key.name} has {program.operations} operations, more than {MAX_FOR_SYMPY}; "
                "use casadi"
            )
        symbols = {
            array.name: [sp.Symbol(f"{array.name}_{k}", real=True) for k in range(array.size)]
            for array in program.inputs
            if array.name not in constants
        }
        words = {name: getattr(sp, name) for name in _NAMES}
        words |= {"const": _number(sp)}
        words |= {"select": lambda test, a, b: sp.Piecewise((a, test < 0), (b, True))}
        numbers = {name: [*map(words["const"], entries)] for name, entries in constants.items()}
        found = evaluate(program, {**numbers, **symbols}, words)
        return {
            name: sp.ImmutableDenseNDimArray(entries, spec.shape(name, self._tree))
            for name, entries in (symbols | found).items()
        }


def _number(sp: Any) -> Callable[[float], Any]:
    return lambda value: sp.Integer(int(value)) if value == math.floor(value) else sp.Float(value)


def _library(name: str) -> Any:
    """Return CasADi or SymPy, which robots do not need otherwise."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise OptionError(
            f"this requires {name}: pip install {name} ({one_line(error)})"
        ) from error
