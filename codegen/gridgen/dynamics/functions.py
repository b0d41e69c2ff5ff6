"""Computations of a robot: the registry's functions, bound to their algorithms.

A computation has the name of its kernel with one thread per state. Kernels of other schedules
compute the same results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import TypeVar

from gridgen.dynamics import frames
from gridgen.dynamics.computation import Computation, FunctionComputation, FusedComputation
from gridgen.dynamics.inverse_kinematics import SearchIteration
from gridgen.dynamics.products import ProductComputation, Pushforward
from gridgen.dynamics.pullbacks import Pullback
from gridgen.dynamics.trajectory_costs import TRAJECTORY_COST, CostComputation
from gridgen.functions import FUNCTIONS, GENERATED, Function
from gridgen.functions.arrays import OPTIONAL_INPUTS
from gridgen.functions.parts import key_of, read_parts, search_key
from gridgen.functions.record import POSE, STEPS
from gridgen.functions.types import REFERENCES
from gridgen.kernel import KernelKey, Product
from gridgen.model.tree import KinematicTree
from gridgen.naming import ident, unique

Computed = TypeVar("Computed", FunctionComputation, FusedComputation)


def _plain() -> Iterator[FunctionComputation]:
    for name in GENERATED:
        row = FUNCTIONS[name]
        for method, algorithm in row.methods.items():
            if algorithm.algorithm and not row.of_frame:
                yield FunctionComputation(KernelKey(name, method), row, algorithm)
    for name, step in STEPS.items():
        key = KernelKey(step.function, step.method, step=name)
        yield FunctionComputation(key, step, step.algorithm)


#: Steps outside the registry, by name: packages that are imported on request add theirs.
FURTHER_STEPS: dict[str, Callable[[KinematicTree, KernelKey], Computation]] = {}

_PRODUCTS: dict[str, type[ProductComputation]] = {"vjp": Pullback, "jvp": Pushforward}


def input_sets(
    optional: Sequence[str], choices: Sequence[str] | None = None
) -> Iterator[tuple[str, ...]]:
    """Yield the sets of optional inputs of the variants: the empty set and all chosen inputs.

    Args:
        optional: optional inputs of the function.
        choices:  subset of ``OPTIONAL_INPUTS``; all by default.
    """
    yield ()
    chosen = tuple(name for name in optional if choices is None or name in choices)
    if chosen:
        yield chosen


def with_inputs(computation: Computed, inputs: Sequence[str]) -> Computed:
    """Return the variant of a computation with the given optional inputs."""
    return replace(computation, key=replace(computation.key, inputs=tuple(inputs)))


#: Computations of any robot by name: without optional inputs, and with all of them.
COMPUTATIONS = {
    variant.name: variant
    for plain in _plain()
    for inputs in input_sets(plain.optional_inputs)
    for variant in [with_inputs(plain, inputs)]
}
_EVERY = {
    variant.name: variant
    for plain in _plain()
    for count in range(len(plain.optional_inputs) + 1)
    for inputs in combinations(plain.optional_inputs, count)
    for variant in [with_inputs(plain, inputs)]
}


def computation_of(tree: KinematicTree, which: str | KernelKey) -> Computation:
    """Return a computation of a robot.

    Args:
        which: key of the kernel with one thread per state, or its name. Functions of some frames,
               fused functions and products require the key.
    """
    if not isinstance(which, str):
        if which.step in FURTHER_STEPS:
            return FURTHER_STEPS[which.step](tree, which)
        if which.products:
            return product_of(computation_of(tree, replace(which, products=())), which.products)
        if which.function == "inverse_kinematics":
            return _search(tree, which)
        if which.function == TRAJECTORY_COST:
            return CostComputation(which, {i: name for name, i in frame_idents(tree).items()})
        return _of_several(tree, which) if which.parts else _of_key(tree, which)
    if which in _EVERY:
        return _of_robot(tree, _EVERY[which])
    variants = (
        with_inputs(plain, inputs)
        for plain in frame_computations(tree).values()
        for inputs in input_sets(plain.optional_inputs)
    )
    return {variant.name: variant for variant in variants}[which]


def product_of(computation: Computation, products: Sequence[Product]) -> Computation:
    """Return the computation of a VJP or JVP, possibly nested."""
    for last, (kind, wrt) in enumerate(products, start=1):
        made = _PRODUCTS[kind]
        key = computation.key.product(kind, wrt)
        computation = made(key, computation, is_inner=last < len(products))
    return computation


def _of_robot(tree: KinematicTree, found: FunctionComputation) -> FunctionComputation:
    """Return a computation with the robot's parameters among its inputs."""
    parameters = tuple(name for name in found.row.parameters if name in tree.parameters)
    return replace(found, parameters=parameters) if parameters else found


def _of_several(tree: KinematicTree, key: KernelKey) -> FusedComputation:
    return FusedComputation(key, tuple(_of_key(tree, part) for part in key.parts))


def _search(tree: KinematicTree, key: KernelKey) -> SearchIteration:
    """Return an iteration of inverse kinematics."""
    names = {ident: name for name, ident in frame_idents(tree).items()}
    return SearchIteration(key, tuple(names[part.frame] for part in key.parts))


def _of_key(tree: KinematicTree, key: KernelKey) -> FunctionComputation:
    """Return the computation of one function, for one frame if the key names one."""
    if not key.frame:
        return _of_robot(tree, _EVERY[key.name])
    names = {ident: name for name, ident in frame_idents(tree).items()}
    row = FUNCTIONS[key.function]
    if not row.of_frame:
        return FunctionComputation(key, POSE, POSE.algorithm, names[key.frame])
    return _of_robot(tree, FunctionComputation(key, row, row.methods[""], names[key.frame]))


def frame_computations(
    tree: KinematicTree, chosen: Sequence[str] | None = None
) -> dict[str, FunctionComputation]:
    """Return the computations of functions of a frame, by name.

    Args:
        chosen: names of frames; all by default.
    """
    found: dict[str, FunctionComputation] = {}
    idents = frame_idents(tree)
    for frame in tree.frame_names if chosen is None else chosen:
        frames.find_frame(tree, frame)
        for reference in REFERENCES:
            for row in (FUNCTIONS[name] for name in GENERATED if FUNCTIONS[name].of_frame):
                key = KernelKey(row.name, frame=idents[frame], reference=reference)
                found[key.name] = _of_robot(
                    tree, FunctionComputation(key, row, row.methods[""], frame)
                )
    return found


def fused_keys(tree: KinematicTree, fuse: Mapping[str, Sequence[str]]) -> list[KernelKey]:
    """Return the keys of kernels with fused functions.

    Args:
        fuse: names of functions, as in ``Robot.compute``, by the name of their kernel.

    Raises:
        OptionError: a name is not the name of a function.
    """

    def method_of(row: Function) -> str:
        keys = (KernelKey(row.name, name) for name, one in row.methods.items() if one.algorithm)
        methods = [key.method for key in keys]
        fit = (name for name in methods if not refusal(tree, KernelKey(row.name, name)))
        return next(fit, methods[0])

    idents = frame_idents(tree)
    return [
        key_of(read_parts(names, idents, method_of), label=label) for label, names in fuse.items()
    ]


def search_keys(tree: KinematicTree, lists: Sequence[Sequence[str]]) -> list[KernelKey]:
    """Return the keys of inverse kinematics for lists of frames.

    Raises:
        OptionError: a frame is unknown.
    """
    idents = frame_idents(tree)
    named = ([frames.find_frame(tree, name).name for name in listed] for listed in lists)
    return [search_key([idents[name] for name in listed]) for listed in named]


@lru_cache(maxsize=8)
def frame_idents(tree: KinematicTree) -> Mapping[str, str]:
    """Return the identifier of every frame, by frame name."""
    return dict(
        zip(tree.frame_names, unique(list(map(_unambiguous, tree.frame_names))), strict=True)
    )


def _unambiguous(name: str) -> str:
    """Return a frame's name, changed where it would make a kernel's name ambiguous.

    For example, the Jacobian of a frame "dot_qd_x" must not have the name of the drift of a frame
    "x". Names of fused kernels join their functions with words; names of products begin with one.
    """
    plain = ident(name)
    joined = re.sub(r"(?<![A-Za-z0-9])(and|of|with|vjp|jvp)(?![A-Za-z0-9])", _capitalized, plain)
    if joined != plain:
        return joined
    is_taken = plain.startswith("dot_qd") or plain in OPTIONAL_INPUTS
    return f"n {name}" if is_taken else name


def _capitalized(word: re.Match[str]) -> str:
    return word[0].capitalize()


def refusal(tree: KinematicTree, which: str | KernelKey) -> str | None:
    """Return why the robot does not support a computation, and the remedy; otherwise ``None``."""
    return computation_of(tree, which).refusal(tree)
