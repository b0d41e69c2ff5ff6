"""Compare a module's functions on a backend with the reference, on random states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.backends import TARGETS, BackendName
from gridgen.dynamics.computation import FusedComputation, array_shape
from gridgen.dynamics.constraints import (
    MIN_MEAN,
    Constraints,
    moving_rows,
    own_inertias,
    turning_rows,
)
from gridgen.dynamics.functions import computation_of
from gridgen.dynamics.inverse_kinematics import SearchIteration, closed_constraints
from gridgen.dynamics.reference import evaluate_reference, evaluate_rollout_back, rounding_bounds
from gridgen.dynamics.state import State
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import ARRAYS, STANDARD_GRAVITY, TERRAIN_HEAD
from gridgen.functions.record import STEPS
from gridgen.functions.worlds import world
from gridgen.kernel import Kernel, KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.robot import Robot
from gridgen.runtime.parameters import inertia
from gridgen.schedules.interface import is_search
from gridgen.symbolic.scalars import FloatScalars

#: Tolerance of the relative error of a well-conditioned function: a few hundred roundings.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}
#: Tolerance of the residual of M qdd + h = tau for a computed acceleration, relative to the largest
#: term [units of rounding]. It is independent of conditioning; robots of 1 to 107 joints reached 6.
BACKWARD = 64.0
#: Tolerance of an acceleration per unit of its conditioning [units of rounding]; robots reached 6.
FORWARD = 32.0

#: Steps of Newton's method that close loops.
_NEWTON_STEPS = 20
#: Factor of the tolerance for sums whose terms nearly cancel: products of velocities, Hessians.
CANCELLATION = 25.0

#: Tolerance of a result whose terms cancel, in units of its rounding bound (``rounding_bounds``):
#: the reference has rounding errors too, and another order of the terms has different ones.
ROUNDINGS = 2.0

#: Tolerance of an identity between functions of the reference: an error of a formula is larger.
IDENTITY = 1e-6

#: Derivatives, by the function and the arrays that their first results differentiate.
_DERIVATIVES = {
    "inverse_dynamics_gradient": ("inverse_dynamics", ("q", "qd")),
    "forward_dynamics_gradient": ("forward_dynamics_crba", ("q", "qd", "tau")),
    "joint_torque_regressor_gradient": ("joint_torque_regressor", ("q", "qd", "qdd")),
    "center_of_mass_jacobian": ("center_of_mass", ("q",)),
    "gravity_forces": ("potential_energy", ("q",)),
}
#: Functions that are a sum of products of others.
_SUMS = ("inverse_dynamics", "kinetic_energy", "centroidal_momentum")
#: Functions whose reference must satisfy an identity with other functions.
IDENTITIES = (*_DERIVATIVES, *_SUMS)

# Steps of a rollout that are compared, and states of an identity.
_STEPS, _STATES = 4, 4

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """The comparison of one function on one backend with the reference."""

    function: str  #: its name in C++.
    dtype: str  #: ``float32`` or ``float64``.
    #: difference from the reference, relative to the state's largest entry, in the state with the
    #: largest ratio of error and tolerance.
    error: float
    tolerance: float  #: tolerance in that state.
    #: conditioning of that state, see ``conditioning``; only for functions that solve with M.
    condition: float | None = None
    #: largest backward error, see ``backward_errors``; only for forward dynamics.
    residual: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the errors are within their tolerances; a NaN is not."""
        limit = BACKWARD * float(np.finfo(self.dtype).eps)
        solved = self.residual is None or self.residual <= limit
        return solved and self.error <= self.tolerance


def random_states(tree: KinematicTree, count: int, rng: np.random.Generator) -> dict[str, Array]:
    """Return random arguments for all functions.

    Positions are uniform within the limits (at most [-pi, pi]), quaternions are uniform;
    velocities, accelerations and joint torques are standard normal. Parameters are near the robot's
    own.
    """
    lower = np.maximum(tree.lower_limits, -np.pi)
    upper = np.minimum(tree.upper_limits, np.pi)
    q = rng.uniform(lower, np.maximum(lower, upper), (count, tree.nq))
    for start in tree.quaternions:
        turn = rng.normal(size=(count, 4))
        q[:, start : start + 4] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    names = [
        *("qd", "qdd", "tau", "v", "f_ext", "base_velocity", "base_acceleration"),
        *("multipliers", "costate"),
    ]
    states = {name: rng.normal(size=(count, *array_shape(name, tree))) for name in names}
    states |= {"q": q, "q0": q, "q1": np.roll(q, 1, axis=0), "u": rng.uniform(size=count)}
    states |= {"gravity": np.tile(STANDARD_GRAVITY, (count, 1))}
    states["offset"] = _random_poses(rng, count)
    states["dt"] = rng.uniform(1e-3, 1e-2, count)
    # Bounds that no state reaches in some steps.
    states["q_range"] = q[..., None] + rng.uniform(0.5, 1.0, (count, 1, 1)) * (-1.0, 1.0)
    states["base_range"] = np.tile((-np.inf, np.inf, -2.0), (count, 1))
    states |= {"world": random_world(count, rng), "margin": rng.uniform(-0.05, 0.05, count)}
    states |= {"temperature": rng.uniform(0.005, 0.05, count)}
    states |= random_parameters(tree, count, rng)
    return states


def _random_poses(rng: np.random.Generator, *shape: int) -> Array:
    """Return poses near the origin, (..., 4, 4)."""
    poses = np.tile(np.eye(4), (*shape, 1, 1))
    turn = np.linalg.qr(rng.normal(size=(*shape, 3, 3)))[0]
    turn[..., 0, :] *= np.linalg.det(turn)[..., None]
    poses[..., :3, :] = np.concatenate([turn, 0.1 * rng.normal(size=(*shape, 3, 1))], axis=-1)
    return poses


def random_world(count: int, rng: np.random.Generator) -> Array:
    """Return obstacles of every kind around each state."""

    def near(*shape: int) -> Array:
        return rng.normal(size=(count, *shape))

    def sizes(*shape: int) -> Array:
        return rng.uniform(0.02, 0.2, (count, *shape))

    turns, normals = near(2, 4), near(1, 3)
    turns /= np.linalg.norm(turns, axis=-1, keepdims=True)
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    joined = partial(np.concatenate, axis=-1)
    made: Array = world(
        spheres=joined([near(3, 3), sizes(3, 1)]),
        capsules=joined([near(2, 6), sizes(2, 1)]),
        boxes=joined([near(2, 3), turns, sizes(2, 3)]),
        half_spaces=joined([normals, np.full((count, 1, 1), -1.0)]),
        grid={"origin": (-1.0, -1.0, -1.0), "spacing": 0.7, "values": near(3, 4, 3) + 2.0},
    )
    return made


def random_parameters(
    tree: KinematicTree, count: int, rng: np.random.Generator
) -> dict[str, Array]:
    """Return random parameters of a robot whose inertias are physically valid."""
    drawn: dict[str, Array] = {}
    for name, own in tree.parameters.items():
        numbers = np.asarray(own)
        factors = rng.uniform(0.5, 1.5, (count, len(numbers)))
        drawn[name] = numbers * factors.reshape(*factors.shape, *(1,) * (numbers.ndim - 1))
    if "params" in drawn:
        size = (count, len(tree.parameter_names))
        heavy = (tree.total_mass or 1.0) / len(tree.bodies)
        mass = heavy * rng.uniform(0.0, 0.2, size)
        moments = 1e-3 * mass[..., None, None] * np.eye(3)
        drawn["params"] += inertia(mass, 0.05 * rng.normal(size=(*size, 3)), moments)
    for name in ("armature", "damping", "joint_friction"):
        if name in drawn:
            drawn[name] += rng.uniform(0.0, 0.1, (count, tree.nv))
    if "terrain" in drawn:
        drawn["terrain"][:, :TERRAIN_HEAD] = tree.parameters["terrain"][:TERRAIN_HEAD]
        heights = drawn["terrain"][:, TERRAIN_HEAD:]
        heights += rng.uniform(0.0, 0.1, heights.shape)
    if "ctrl" in drawn:
        drawn["ctrl"] = rng.normal(size=(count, len(tree.actuators)))
    if "active" in drawn:
        size = (count, len(tree.constraints))
        drawn["active"] = rng.integers(0, 2, size).astype(float)
        drawn["stabilization"] += rng.uniform(0.0, 1.0, (*size, 2))
        drawn["compliance"] += rng.uniform(0.0, 1e-3, size)
        drawn["restitution"] += rng.uniform(0.0, 1.0, size)
        drawn["weights"] *= rng.uniform(0.5, 2.0, size)
        drawn["proximal"] = rng.uniform(1e-4, 1e-3, size)
    if "offsets" in drawn:
        drawn["offsets"] = _random_poses(rng, *size)
    return drawn


def random_changes(
    kernels: Iterable[Kernel], count: int, rng: np.random.Generator
) -> dict[str, Array]:
    """Return random cotangents and tangents for kernels that compute VJPs and JVPs."""
    shapes = {
        name: shape
        for kernel in kernels
        for name, shape in kernel.inputs.items()
        if ARRAYS[name].is_change
    }
    return {name: rng.normal(size=(count, *shape)) for name, shape in shapes.items()}


def compare(
    tree: KinematicTree,
    robot: Robot,
    dtypes: Sequence[str],
    backend: BackendName = "cpu",
    *,
    count: int = 64,
    seed: int = 0,
    functions: Collection[str] = (),
    progress: Callable[[str], None] = lambda step: None,
) -> list[Comparison]:
    """Evaluate every function of ``robot`` and compare it with the reference of ``tree``.

    Args:
        tree:   the robot for the reference.
        robot:  the robot with the functions to compare.
        dtypes: ``float32``, ``float64`` or both.
        backend: the robot's backend; schedules with teams are compared on backends that run them.
        count:  number of states.
        seed:   seed of the random states.
        functions: names in C++ of the functions to compare; empty for all.
        progress: called with a description of each comparison before it begins.
    """
    rng = np.random.default_rng(seed)
    states = random_states(tree, count, rng)
    states |= random_changes(robot.kernels.values(), count, rng)
    comparisons = []
    for dtype in dtypes:
        # The reference reads the rounded inputs, so that only the computation is compared.
        rounded = {name: value.astype(dtype) for name, value in states.items()}
        exact = {name: value.astype(np.float64) for name, value in rounded.items()}
        for function, computes in robot.functions.items():
            if function != computes and not TARGETS[backend].teams:
                continue
            if functions and function not in functions:
                continue
            progress(f"checking {function} in {dtype} on {backend}")
            kernel = robot.kernels[function]
            if is_search(kernel.key):
                comparisons.append(_compare_search(tree, robot, kernel, dtype, exact["q"]))
                continue
            if kernel.calls:
                of = _compare_backward if kernel.key.wrt else _compare_rollout
                comparisons.append(of(tree, robot, function, dtype, rounded, backend))
                continue
            if kernel.key.function == "inverse_kinematics":
                for name, value in _random_targets(kernel, states["offset"], rng).items():
                    rounded[name] = value.astype(dtype)
                    exact[name] = rounded[name].astype(np.float64)
            results = _evaluate(robot, function, rounded, backend)
            compared = compare_function(tree, kernel.same, dtype, exact, results, kernel.key.method)
            comparisons.append(replace(compared, function=function))
    there = {robot.kernels[name].key.function for name in functions or robot.functions}
    for function in (name for name in IDENTITIES if name in there):
        progress(f"checking the identity of {function}")
        found = compare_identity(tree, function, states)
        comparisons += [] if found.passed else [found]
    return comparisons


def compare_identity(tree: KinematicTree, function: str, states: Mapping[str, Array]) -> Comparison:
    """Compare a function with other functions, all of the reference.

    A derivative times a random direction is the complex step along it.

    Args:
        tree:     the robot.
        function: one of ``IDENTITIES``.
        states:   see ``random_states``.
    """
    x = {name: array[:_STATES] for name, array in states.items()}

    def value(name: str, given: Mapping[str, Any] = x) -> Array:
        return evaluate_reference(tree, name, given)[0]

    results = evaluate_reference(tree, function, x)
    if function in _DERIVATIVES:
        base, arrays = _DERIVATIVES[function]
        rng, step = np.random.default_rng(0), 1e-30
        changes = {name: rng.normal(size=(len(x["q"]), tree.nv)) for name in arrays}
        moved: dict[str, Any] = {n: x[n] + 1j * step * changes[n] for n in arrays if n != "q"}
        moved["q"] = value("integrate", {"q": x["q"], "v": 1j * step * changes["q"]})
        expected = value(base, {**x, **moved}).imag / step
        pairs = zip(results, arrays, strict=False)
        found = sum(np.einsum("b...j,bj->b...", one, changes[name]) for one, name in pairs)
    elif function == "inverse_dynamics":
        inertial = np.einsum("bij,bj->bi", value("mass_matrix"), x["qdd"])
        expected, found = inertial + value("bias_forces"), results[0]
    elif function == "kinetic_energy":
        M = value("mass_matrix")
        expected, found = 0.5 * np.einsum("bi,bij,bj->b", x["qd"], M, x["qd"]), results[0]
    else:
        A = value("centroidal_momentum_matrix")
        expected, found = np.einsum("bij,bj->bi", A, x["qd"]), results[0]
    tolerance = IDENTITY
    if FUNCTIONS[function].solves:
        conditions = amplification(value("mass_matrix")).max()
        tolerance = max(tolerance, FORWARD * float(np.finfo(float).eps) * float(conditions) ** 2)
    error = float(relative_errors(found, expected).max())
    return Comparison(f"{function} (identity)", "float64", error, tolerance)


def _evaluate(
    robot: Robot, function: str, arrays: Mapping[str, Array], backend: BackendName
) -> Any:
    """Return the results of a function as NumPy arrays, also from a GPU."""
    if TARGETS[backend].arrays == "host":
        return robot.evaluate(function, arrays)
    import cupy

    moved = {name: cupy.asarray(array) for name, array in arrays.items()}
    results = robot.evaluate(function, moved)
    if isinstance(results, tuple):
        return tuple(cupy.asnumpy(result) for result in results)
    return cupy.asnumpy(results)


def _random_targets(kernel: Kernel, poses: Array, rng: np.random.Generator) -> dict[str, Array]:
    """Return arguments for the derivative of inverse kinematics, with damping, and its products."""
    made = {
        name: np.full((len(poses), *shape), 0.1)
        for name, shape in kernel.inputs.items()
        if name in ("settings", "pose_weights")
    }
    targets = np.repeat(poses[:, None], len(kernel.key.parts), axis=1)
    return {**made, "targets": targets, **random_changes([kernel], len(poses), rng)}


def _closed(tree: KinematicTree, q: Array) -> Array:
    """Return configurations near to some that fulfill the constraints, by Newton's method."""
    rows = np.repeat(
        [index in closed_constraints(tree) for index in range(len(tree.constraints))],
        [one.rows for one in tree.constraints],
    )
    for _ in range(_NEWTON_STEPS * bool(rows.any())):
        (c,), (J,) = (
            evaluate_reference(tree, f"constraint_{name}", {"q": q})
            for name in ("residual", "jacobian")
        )
        v = -np.einsum("bij,bj->bi", np.linalg.pinv(J[:, rows], rcond=1e-6), c[:, rows])
        (q,) = evaluate_reference(tree, "integrate", {"q": q, "v": v})
    return q


def _compare_search(
    tree: KinematicTree, robot: Robot, kernel: Kernel, dtype: str, q: Array
) -> Comparison:
    """Compare the poses at solutions with their targets, in units of the tolerances."""
    iteration = computation_of(tree, kernel.calls[0])
    assert isinstance(iteration, SearchIteration)
    places = [tree.frame_names.index(name) for name in iteration.frames]

    def poses(q: Array) -> Array:
        (found,) = evaluate_reference(tree, "forward_kinematics", {"q": q})
        return found[:, places, :3]

    targets = np.tile(np.eye(4, dtype=dtype), (len(q), len(places), 1, 1))
    targets[:, :, :3] = poses(_closed(tree, q))
    found = robot.inverse_kinematics(targets, iteration.frames)
    off = np.abs(poses(found.q.astype(float)) - targets[:, :, :3])[found.success]
    errors = (off / (1e-3, 1e-3, 1e-3, 1e-4)).max(axis=(1, 2, 3))
    return Comparison(kernel.name, dtype, errors.max(initial=0.0 if len(errors) else np.inf), 1.05)


def _over_time(states: Mapping[str, Array]) -> tuple[dict[str, Array], Array]:
    """Return arguments of a rollout from states, and the torques, which change with time."""
    tau = np.stack([np.roll(states["tau"], t, axis=0) for t in range(_STEPS)], axis=1)
    given = {**states, "q0": states["q"], "qd0": states["qd"], "tau": tau}
    if "ctrl" in given:
        given["ctrl"] = np.repeat(states["ctrl"][:, None], _STEPS, axis=1)
    return given, tau


def _compare_rollout(
    tree: KinematicTree,
    robot: Robot,
    function: str,
    dtype: str,
    states: Mapping[str, Array],
    backend: BackendName,
) -> Comparison:
    """Compare each step of a rollout with the reference step from the same state."""
    kernel = robot.kernels[function]
    given, tau = _over_time(states)
    paths = _evaluate(robot, function, given, backend)[:2]
    ends = tuple(path[:, 1:].reshape(-1, path.shape[-1]) for path in paths)
    inputs = {
        name: np.repeat(states[name], _STEPS, axis=0)
        for name in (*kernel.inputs, "q")
        if name in states
    }
    starts = {name: path[:, :-1] for name, path in zip(("q", "qd"), paths, strict=True)}
    inputs |= {n: array.reshape(-1, array.shape[-1]) for n, array in {**starts, "tau": tau}.items()}
    exact = {name: value.astype(np.float64) for name, value in inputs.items()}
    return replace(
        compare_function(tree, kernel.calls[0].name, dtype, exact, ends), function=function
    )


def _compare_backward(
    tree: KinematicTree,
    robot: Robot,
    function: str,
    dtype: str,
    states: Mapping[str, Array],
    backend: BackendName,
) -> Comparison:
    """Compare the backward pass of a rollout with the reference pullbacks of its steps."""
    kernel = robot.kernels[function]
    rng = np.random.default_rng(0)
    given, tau = _over_time(states)
    for name, size in (("q_path_bar", tree.nq), ("qd_path_bar", tree.nv)):
        bar = rng.normal(size=(len(tau), _STEPS + 1, size))
        given[name] = bar.astype(dtype)
    results = _evaluate(robot, function, given, backend)
    constant = {name: states[name] for name in ("ctrl",) if name in states}
    exact = {name: value.astype(np.float64) for name, value in (given | constant).items()}
    references = evaluate_rollout_back(tree, kernel.calls[2], exact)
    pairs = zip(results, references, strict=True)
    errors = np.max([relative_errors(result, expected) for result, expected in pairs], axis=0)
    (M,) = evaluate_reference(tree, "mass_matrix", exact)
    return _worst(function, dtype, lambda tolerances: errors, _STEPS * amplification(M))


def compare_function(
    tree: KinematicTree,
    function: str | KernelKey,
    dtype: str,
    inputs: Mapping[str, Array],
    results: Any,
    method: str | None = None,
) -> Comparison:
    """Compare the results of one function with the reference.

    Args:
        tree:     the robot.
        function: a name in ``gridgen.dynamics.functions.COMPUTATIONS``, or a key.
        dtype:    element type of the computation.
        inputs:   arguments of the function, in float64.
        results:  an array, or a tuple of arrays for a function with several results.
        method:   the algorithm of the results, if it differs from the reference's.
    """
    spec = computation_of(tree, function)
    results = results if isinstance(results, tuple) else (results,)
    if isinstance(spec, FusedComputation):
        return _compare_parts(tree, spec, dtype, inputs, results)
    references = evaluate_reference(tree, function, inputs)
    function = spec.name
    results = [result.astype(np.float64) for result in results]
    pairs = list(zip(results, references, strict=True))
    key, row = spec.key, FUNCTIONS[spec.key.function]
    measured = _Measured(tree, spec.key, dtype, inputs, pairs)
    factor = CANCELLATION if row.cancels else 1.0
    if not STEPS.get(key.step, row).solves:
        tolerance = TOLERANCE[dtype] * factor
        error = measured.errors(np.full(len(references[0]), tolerance)).max()
        return Comparison(function, dtype, float(error), tolerance)
    if "proximal" in spec.inputs:
        return _worst(function, dtype, measured.errors, _constrained(tree, inputs, key))
    if row.of_frame:
        conditions = amplification_at_frame(tree, inputs, key)
        return _worst(function, dtype, measured.errors, conditions)
    (M,) = evaluate_reference(tree, "mass_matrix", inputs)
    if key.function != "forward_dynamics" or key.step or key.products:
        conditions = amplification(M)
        if key.function == "step" and key.method == "variational":
            # The sine of a joint that turns by many radians has their rounding error.
            turns = np.abs(references[1]).max(axis=1) * np.ravel(inputs["dt"])
            conditions = conditions * np.maximum(1.0, turns)
        return _worst(function, dtype, measured.errors, conditions, factor=factor)
    ((result, reference),) = pairs
    (bias,) = evaluate_reference(tree, KernelKey("bias_forces", inputs=key.inputs).name, inputs)
    conditions = conditioning(M, bias, inputs["tau"], reference)
    if not row.methods[method or key.method].is_backward_stable:
        return _worst(function, dtype, measured.errors, conditions)
    residual = backward_errors(M, bias, inputs["tau"], result).max()
    return _worst(function, dtype, measured.errors, conditions, float(residual))


def _compare_parts(
    tree: KinematicTree,
    spec: FusedComputation,
    dtype: str,
    inputs: Mapping[str, Array],
    results: tuple[Any, ...],
) -> Comparison:
    """Compare the parts of a fused function; return the one closest to its tolerance."""
    compared = []
    if spec.is_stacked:
        results = tuple(np.moveaxis(results[0], 1, 0))
    for part in spec.variants:
        own, results = results[: len(part.outputs)], results[len(part.outputs) :]
        compared.append(compare_function(tree, part.key, dtype, inputs, own))
    worst = max(compared, key=lambda one: (not one.passed, one.error / one.tolerance))
    return replace(worst, function=spec.name)


def _worst(
    function: str,
    dtype: str,
    measured: Callable[[Array], Array],
    conditions: Array,
    residual: float | None = None,
    factor: float = 1.0,
) -> Comparison:
    """Return the comparison of the state with the largest ratio of error and tolerance."""
    tolerances = factor * np.maximum(TOLERANCE[dtype], FORWARD * np.finfo(dtype).eps * conditions)
    errors = measured(tolerances)
    worst = int(np.nan_to_num(errors / tolerances, nan=np.inf).argmax())
    return Comparison(
        function,
        dtype,
        float(errors[worst]),
        float(tolerances[worst]),
        float(conditions[worst]),
        residual,
    )


@dataclass(frozen=True)
class _Measured:
    """Results of a function, and those of the reference."""

    tree: KinematicTree  #: the robot.
    function: KernelKey  #: the function's key.
    dtype: str  #: element type of the computation.
    inputs: Mapping[str, Array]  #: arguments of the function.
    pairs: Sequence[tuple[Array, Array]]  #: pairs of a result and the reference's.

    def errors(self, tolerances: Array) -> Array:
        """Return the error of every state, as ``relative_errors``.

        An error above the state's tolerance is measured relative to the terms of the result, which
        may have canceled. Bounds for solutions of linear systems are far from sharp: they apply
        only if the whole result may be rounding error.
        """
        errors: Array = np.max([relative_errors(*pair) for pair in self.pairs], axis=0)
        beyond = np.flatnonzero(~(errors <= tolerances))
        # There are no bounds for second-order products.
        if not beyond.size or len(self.function.products) > 1:
            return errors
        batch = len(errors)
        spec = computation_of(self.tree, self.function)
        own = {
            name: array[beyond]
            if len(array) == batch and array.ndim > len(spec.shape(name, self.tree))
            else array
            for name, array in self.inputs.items()
            if name in spec.inputs
        }
        bounds = rounding_bounds(self.tree, self.function, own)
        unit = ROUNDINGS * np.finfo(self.dtype).eps
        solves = FUNCTIONS[self.function.function].solves
        measured = []
        for (result, reference), bound in zip(self.pairs, bounds, strict=True):
            axes = tuple(range(1, reference.ndim))
            size = unit * np.where(np.isfinite(bound), bound, 0.0).max(axis=axes)
            scale = _scales(reference)[beyond]
            may_replace = (scale <= size) | (not solves)
            scale = np.where(may_replace, np.maximum(scale, size / tolerances[beyond]), scale)
            change = np.abs(result - reference).max(axis=axes)[beyond]
            measured.append(change / np.where(scale == 0.0, 1.0, scale))
        errors[beyond] = np.max(measured, axis=0)
        return errors


def relative_errors(result: Array, reference: Array) -> Array:
    """Return the error of every state, relative to its largest entry.

    A single number per state, such as an energy, is compared with the batch's largest: its zero is
    a convention, near which the terms cancel.
    """
    axes = tuple(range(1, reference.ndim))
    scale = _scales(reference)
    errors: Array = np.abs(result - reference).max(axis=axes) / np.where(scale == 0.0, 1.0, scale)
    return errors


def _scales(reference: Array) -> Array:
    """Return the scale of the errors of every state."""
    axes = tuple(range(1, reference.ndim))
    scale: Array = np.abs(reference).max(axis=axes)
    # The scale of a state with only tiny entries depends on the other states.
    smallest: Array = np.maximum(scale, (1e-3 if axes else 1.0) * scale.max())
    return smallest


def conditioning(M: Array, bias: Array, tau: Array, qdd: Array) -> Array:
    """Return Skeel's condition number of M qdd = tau - bias for every state.

    It is the largest change of ``qdd``, relative to its largest entry, per relative change of each
    entry of M, bias and tau. Unlike the condition number of M, it does not grow with the ratio of
    heavy and light links: it is 2 for a mobile robot whose M has condition number 1e6.

    Args:
        M:    (B, nv, nv)
        bias: (B, nv)
        tau:  (B, nv)
        qdd:  (B, nv), the solution.
    """
    terms = np.einsum("bij,bj->bi", np.abs(M), np.abs(qdd)) + np.abs(bias) + np.abs(tau)
    change = np.einsum("bij,bj->bi", np.abs(np.linalg.inv(M)), terms).max(axis=1)
    amplification: Array = change / np.abs(qdd).max(axis=1)
    return amplification


def amplification(M: Array) -> Array:
    """Return Skeel's condition number of M for every state.

    It is the largest row sum of |M^-1| |M|, which is invariant to scaling of the rows.
    """
    inverse: Array = np.abs(np.linalg.inv(M))
    sums: Array = np.einsum("bij,bjk->bik", inverse, np.abs(M)).sum(axis=2).max(axis=1)
    return sums


def amplification_at_frame(
    tree: KinematicTree, inputs: Mapping[str, Array], key: KernelKey
) -> Array:
    """Return the amplification by M times that by the operational-space inertia of a frame."""
    seen = key.function if key.function == "point_inertia" else "operational_space_inertia"
    (M,) = evaluate_reference(tree, "mass_matrix", inputs)
    (inertia,) = evaluate_reference(
        tree, replace(key, function=seen, products=(), inputs=()), inputs
    )
    return amplification(M) * amplification(inertia)


def _constrained(tree: KinematicTree, inputs: Mapping[str, Array], key: KernelKey) -> Array:
    """Return by how much solving for forces of constraints can amplify rounding errors."""
    rows = np.repeat(np.arange(len(tree.constraints)), [one.rows for one in tree.constraints])
    holds, mu = (np.asarray(inputs[name])[:, rows] for name in ("active", "proximal"))
    if key.function == "constrained_inverse_dynamics":
        B = _columns_of_free_joints(tree, inputs["q"])
        if not B.shape[2]:
            return np.ones(len(B))
        share = 1.0 / np.asarray(inputs["weights"])[:, rows]
        unmasked = np.einsum("bri,br,brj->bij", B, share, B)
        H = np.einsum("bri,br,brj->bij", B, share * holds, B)
        mu = mu.mean(axis=1, keepdims=True) * np.ones(H.shape[1])
        turns, least = np.zeros(H.shape[1], bool), np.zeros(2)
        conditions = np.ones(len(B))
    else:
        (M,) = evaluate_reference(tree, "mass_matrix", inputs)
        (unmasked,) = evaluate_reference(tree, "delassus", inputs)
        holds = holds * moving_rows(tree)
        H = unmasked * holds[:, :, None] * holds[:, None, :]
        turns, least = np.array(turning_rows(tree)), MIN_MEAN * np.array(own_inertias(tree))
        conditions = amplification(M)
    same = turns[:, None] == turns
    mu = mu * (np.einsum("bii,ij->bj", unmasked, same / same.sum(axis=0)) + least[1 * turns])
    product: Array = conditions * amplification(H + mu[:, :, None] * np.eye(H.shape[1]))
    return product


def _columns_of_free_joints(tree: KinematicTree, q: Array) -> Array:
    """Return the columns of the constraints' Jacobian that belong to free joints (B, m, n)."""
    scalars, columns = FloatScalars(), list(np.asarray(q).T)
    rows = Constraints(State(tree, scalars, columns)).rows
    free = [b.v_index + k for b in tree.bodies if b.joint_type.is_free for k in range(b.nv)]
    numbers = [[np.broadcast_to(row[j], len(q)) for j in free] for row in rows]
    return np.array(numbers).reshape(len(rows), len(free), len(q)).transpose(2, 0, 1)


def backward_errors(M: Array, bias: Array, tau: Array, qdd: Array) -> Array:
    """Return the residual of M qdd + bias = tau for every state, relative to the largest term.

    Arguments as in ``conditioning``. The residual is independent of conditioning: it detects a
    solver that loses accuracy even if the whole result is rounding error.
    """
    residual = np.einsum("bij,bj->bi", M, qdd) + bias - tau
    inertial = np.einsum("bij,bj->bi", np.abs(M), np.abs(qdd))
    scale = np.stack([inertial, np.abs(bias), np.abs(tau)]).max(axis=(0, 2))
    errors: Array = np.abs(residual).max(axis=1) / scale
    return errors
