"""Inverse kinematics: one Levenberg-Marquardt iteration on poses of frames, with joint limits.

The error e of frames in the axes of the base has the Jacobian -J. The step is

    dq = z + J^T (J J^T + mu 1)^-1 (e - J z),   mu = DAMPING |e|^2 / 2 + floor

where z leads towards a rest posture. Constraints with a target, of a loop or of a link, have rows
of their own. The projection onto the constraints has no others; its
rest posture is where it begins. As e vanishes, so does mu (Sugihara 2011): convergence is
superlinear, and z acts in the null space of J alone. Columns of joints at a limit that the
gradient J^T e would exceed are zero. If J has more rows than columns, the normal equations of the
columns replace those of the rows.

The rotational error has the axis of the rotation that is left and the length 2 sin(angle / 2).

Source: Sugihara 2011.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gridgen.dynamics import conventions
from gridgen.dynamics.computation import Computation, Inputs
from gridgen.dynamics.configurations import difference, integrate
from gridgen.dynamics.constraints import Constraints
from gridgen.dynamics.frames import find_frame, jacobian, pose
from gridgen.dynamics.linear import ldlt, ldlt_solve
from gridgen.dynamics.state import Numbers, State
from gridgen.kernel import KernelKey, Shape
from gridgen.model.tree import KinematicTree
from gridgen.naming import comment, show
from gridgen.symbolic.branches import Branches
from gridgen.symbolic.rotations import rotation_error
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import dot, matmul, transpose

#: Damping per unit of the cost |e|^2 / 2.
DAMPING = 0.03
#: A start is abandoned when the cost falls by less than this factor in two iterations.
STALLED = 0.7
#: Length of the last step towards a rest posture [rad or m].
SETTLED = 1e-2
#: Repetitions of a projection's step, without the joints that it would move beyond their limits.
ACTIVE_SETS = 2
#: Square of the length of the last step of a projection, per squared unit of the floor of damping.
NEAREST = 100.0
#: Part of the iterations in which the way to the rest posture shrinks to zero: the last ones find
#: the poses.
FADING = 0.6
#: Cost below which a start with a rest posture is not abandoned, per unit of its gain.
PATIENCE = 0.1
#: Entries of the array ``settings``.
SETTINGS = ("position", "orientation", "iterations", "starts", "first", "rest", "floor")

Rows = list[list[Scalar]]


@dataclass(frozen=True)
class Progress:
    """The progress of a search: costs of the last two iterations, number of iterations."""

    cost: Scalar
    before: Scalar
    count: Scalar


def closed_constraints(tree: KinematicTree) -> list[int]:
    """Return the indices of constraints that positions must fulfill: active ones with a target."""
    return [k for k, one in enumerate(tree.constraints) if one.active and one.has_target]


def moving_velocities(tree: KinematicTree, frames: Sequence[str]) -> list[int]:
    """Return the velocities that move at least one of some frames, or change a constraint."""

    def line(tip: int) -> set[int]:
        return {tip, *tree.ancestors(tip)} if tip >= 0 else set()

    bodies = set[int]().union(*(line(find_frame(tree, name).body) for name in frames))
    for one in (tree.constraints[k] for k in closed_constraints(tree)):
        bodies |= {index for index in one.joints if index >= 0}
        if one.link is not None and one.to is not None:
            bodies |= line(one.link.body) ^ line(one.to.body)
    found = set()
    for body in map(tree.bodies.__getitem__, bodies):
        found |= set(range(body.v_index, body.v_index + body.joint_type.nv))
    return sorted(found)


def iteration(
    state: State,
    rest: Numbers,
    targets: Numbers,
    pose_weights: Numbers,
    settings: Numbers,
    progress: Numbers,
    frames: Sequence[str],
) -> tuple[list[Scalar], list[Scalar], list[Scalar], Scalar]:
    """Return the next configuration, the progress, the errors and the outcome of an iteration.

    Args:
        rest:         rest posture, nq scalars.
        targets:      poses of the frames, 16 scalars each.
        pose_weights: factors of the position and orientation errors of each frame; 0 omits one.
        settings:     see ``SETTINGS``.
        progress:     see ``Progress``.
        frames:       names of frames; none for the projection onto the constraints, whose rest
                      posture is the configuration to be near to, free joints included.

    Returns:
        the configuration; the progress; the largest position [m] and orientation error [rad] of
        the state; 1 if it is a solution, -1 if the search is to be abandoned, otherwise 0.
    """
    given, before = dict(zip(SETTINGS, settings, strict=True)), Progress(*progress)
    tree, scalars = state.tree, state.scalars
    zero, one = scalars.constant(0.0), scalars.constant(1.0)
    moving = moving_velocities(tree, frames)
    error, rows, largest = _errors(state, targets, pose_weights, frames, moving)
    scalars.begin("solve", -1)
    cost = scalars.constant(0.5) * _product(error, error, zero)
    damping = scalars.constant(DAMPING) * cost + given["floor"]
    gain, ways = given["rest"], difference(state, state.q, rest)
    ways = [ways[j] for j in moving]
    if frames:
        share = one - before.count / (scalars.constant(FADING) * given["iterations"])
        gain = gain * scalars.select(share, zero, share)
        places = _limits(tree, moving)
        ways = [zero if at[0] < 0 else way for way, at in zip(ways, places, strict=True)]
        slopes = [_product(column, error, zero) for column in zip(*rows, strict=True)]
        free = _free_columns(state, slopes, moving)
        change = _change(rows, error, [gain * way for way in ways], damping, free, scalars)
    else:
        wish, free = [gain * way for way in ways], [one] * len(moving)
        change = _change(rows, error, wish, damping, free, scalars, is_exact=True)
        for _ in range(ACTIVE_SETS):
            masks = _free_columns(state, change, moving)
            free = [a * b for a, b in zip(free, masks, strict=True)]
            change = _change(rows, error, wish, damping, free, scalars, is_exact=True)
    scalars.begin("step", -1)
    v = [zero] * tree.nv
    for j, entry in zip(moving, change, strict=True):
        v[j] = entry
    after = _within_limits(state, integrate(state, v), moving)

    count = before.count + one
    relative = [
        square / (given[name] * given[name])
        for square, name in zip(largest, ("position", "orientation"), strict=True)
    ]
    unsolved = _larger(relative[0], relative[1], scalars) - one
    longest = scalars.constant(SETTLED * SETTLED)
    if not frames:
        longest = scalars.constant(NEAREST) * given["floor"] * given["floor"]
    unsettled = scalars.select(-given["rest"], _product(change, change, zero) - longest, -one)
    more = given["iterations"] - count - scalars.constant(0.5)  # negative in the last iteration
    patience = given["rest"] * scalars.constant(PATIENCE)
    stalled = scalars.constant(STALLED) * before.before + patience - cost
    solved = scalars.select(unsettled, one, scalars.select(more, one, zero))
    is_left = scalars.select(stalled, -one, zero) if frames else zero
    failed = scalars.select(more, -one, is_left)
    # No cost that is NaN is that of a solution.
    outcome = scalars.select(-one - cost, scalars.select(unsolved, solved, failed), failed)
    return after, [cost, before.cost, count], [scalars.sqrt(e) for e in largest], outcome


def _change(
    rows: Rows,
    error: Numbers,
    wish: Numbers,
    damping: Scalar,
    free: Numbers,
    scalars: Scalars,
    *,
    is_exact: bool = False,
) -> list[Scalar]:
    """Return the step dq towards z = ``wish`` of joints that are free.

    Args:
        is_exact: whether to correct for what damping leaves of z, which opens constraints.
    """
    zero = scalars.constant(0.0)
    rows = [[entry * mask for entry, mask in zip(row, free, strict=True)] for row in rows]
    change = [mask * entry for mask, entry in zip(free, wish, strict=True)]
    for _ in range(1 + is_exact):
        left = [e - _product(row, change, zero) for row, e in zip(rows, error, strict=True)]
        found = damped_solution(rows, left, damping, scalars)
        change = [a + b for a, b in zip(change, found, strict=True)]
    return change


def correction(
    state: State,
    targets: Numbers,
    pose_weights: Numbers,
    settings: Numbers,
    frames: Sequence[str],
) -> list[Scalar]:
    """Return a solution for targets near those of the state, to the first order.

    Its derivative by the targets is that of the solution of least change. Joints at a limit stay.
    Arguments as of ``iteration``.
    """
    tree, scalars = state.tree, state.scalars
    moving = moving_velocities(tree, frames)
    error, rows, _ = _errors(state, targets, pose_weights, frames, moving)
    scalars.begin("solve", -1)
    free = _free_columns(state, None, moving)
    rows = [[entry * mask for entry, mask in zip(row, free, strict=True)] for row in rows]
    floor = settings[SETTINGS.index("floor")]
    v = [scalars.constant(0.0)] * tree.nv
    for j, entry in zip(moving, damped_solution(rows, error, floor, scalars), strict=True):
        v[j] = entry
    scalars.begin("step", -1)
    return integrate(state, v)


def _errors(
    state: State,
    targets: Numbers,
    pose_weights: Numbers,
    frames: Sequence[str],
    moving: Sequence[int],
) -> tuple[list[Scalar], Rows, list[Scalar]]:
    """Return weighted errors, their Jacobian with the opposite sign, and the largest squares.

    The constraints that close loops, or hold a link, follow the frames.
    """
    state = state.without("offset")
    scalars = state.scalars
    error: list[Scalar] = []
    rows: Rows = []
    zero = scalars.constant(0.0)
    largest = [zero, zero]
    for k, name in enumerate(frames):
        here = pose(state, name)
        J = jacobian(state, name, "local_world_aligned")
        scalars.begin("frame", find_frame(state.tree, name).body)
        goal = [targets[16 * k + 4 * i : 16 * k + 4 * i + 4] for i in range(3)]
        R: Any = tuple(tuple(row[:3]) for row in here[:3])
        turned_to: Any = tuple(tuple(row[:3]) for row in goal)
        turned, angle = rotation_error(matmul(turned_to, transpose(R)), scalars)
        moved = tuple(row[3] - own[3] for row, own in zip(goal, here, strict=False))
        squares = dot(moved, moved), angle
        for part, (vector, square) in enumerate(zip((moved, turned), squares, strict=True)):
            weight = pose_weights[2 * k + part]
            error += [weight * entry for entry in vector]
            rows += [[weight * row[j] for j in moving] for row in J[3 * part : 3 * part + 3]]
            counted = scalars.select(-weight, square, zero)
            largest[part] = counted if k == 0 else _larger(largest[part], counted, scalars)
    constraints = Constraints(state)
    for held in (constraints.held[k] for k in closed_constraints(state.tree)):
        scalars.begin("constraint", -1)
        left, lengths = constraints.distance(held)
        error += [-entry for entry in left]
        rows += [[row[j] for j in moving] for row in held.rows]
        for part, square in lengths:
            largest[part] = _larger(largest[part], square, scalars)
    return error, rows, largest


def _free_columns(state: State, slopes: Numbers | None, moving: Sequence[int]) -> list[Scalar]:
    """Return 0 for each joint at a limit that a motion along slopes would exceed, otherwise 1.

    Without slopes, 0 for each joint at a limit.
    """
    scalars, q = state.scalars, state.q
    zero, one = scalars.constant(0.0), scalars.constant(1.0)
    free = []
    for column, (place, lower, upper) in enumerate(_limits(state.tree, moving)):
        mask = one
        for limit, sign in ((lower, 1.0), (upper, -1.0)):
            if math.isfinite(limit):
                way = scalars.constant(sign)
                at = way * (q[place] - scalars.constant(limit + sign * _margin(limit)))
                beyond = -one if slopes is None else way * slopes[column]
                mask = scalars.select(at, scalars.select(beyond, zero, mask), mask)
        free.append(mask)
    return free


def _margin(limit: float) -> float:
    """Return the distance at which a joint counts as at a limit: rounding of float32."""
    return 1e-6 * max(1.0, abs(limit))


def _limits(tree: KinematicTree, moving: Sequence[int]) -> list[tuple[int, float, float]]:
    """Return the index in q and the limits of velocities; none of free joints."""
    found = {j: (-1, -math.inf, math.inf) for j in moving}
    for body in tree.bodies:
        if body.v_index in found and body.joint_type.nq == 1 and not body.mimics:
            place = body.q_index
            found[body.v_index] = place, tree.lower_limits[place], tree.upper_limits[place]
    return [found[j] for j in moving]


def _within_limits(state: State, q: list[Scalar], moving: Sequence[int]) -> list[Scalar]:
    """Clamp the moving joints to their limits."""
    scalars = state.scalars
    for place, lower, upper in _limits(state.tree, moving):
        for limit, sign in ((lower, 1.0), (upper, -1.0)):
            if math.isfinite(limit):
                bound = scalars.constant(limit)
                beyond = scalars.constant(sign) * (q[place] - bound)
                q[place] = scalars.select(beyond, bound, q[place])
    return q


def damped_solution(rows: Rows, right: Numbers, damping: Scalar, scalars: Scalars) -> list[Scalar]:
    """Return the x that minimizes |rows x - right|^2 + damping |x|^2."""
    zero, one = scalars.constant(0.0), scalars.constant(1.0)
    columns = list(map(list, zip(*rows, strict=True)))
    is_wide = len(rows) <= len(columns)
    vectors = rows if is_wide else columns
    count = len(vectors)
    matrix = [[zero] * count for _ in range(count)]
    for i, a in enumerate(vectors):
        for j, b in enumerate(vectors[: i + 1]):
            entry = _product(a, b, zero)
            matrix[i][j] = entry + damping if i == j else entry
    if not is_wide:
        right = [_product(column, right, zero) for column in columns]
    solved = ldlt_solve(ldlt(matrix, Branches(range(-1, count - 1)), one), right)
    if not is_wide:
        return solved
    return [_product(column, solved, zero) for column in columns]


def _product(a: Numbers, b: Numbers, zero: Scalar) -> Scalar:
    total = zero
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total


def _larger(a: Scalar, b: Scalar, scalars: Scalars) -> Scalar:
    return scalars.select(a - b, b, a)


#: Variants of the key: the algorithm, its title, its inputs and outputs.
_VARIANTS: dict[str, tuple[Any, str, tuple[str, ...], tuple[str, ...]]] = {
    "iteration": (
        iteration,
        "One iteration",
        ("q", "rest", "targets", "pose_weights", "settings", "progress"),
        ("q_next", "progress_next", "residual", "outcome"),
    ),
    "correction": (
        correction,
        "Correction for other targets",
        ("q", "targets", "pose_weights", "settings"),
        ("q_next",),
    ),
}


#: Beginnings of the names of arrays with a row for each frame: these, and their changes.
_OF_FRAMES = ("targets", "pose_weights")


@dataclass(frozen=True)
class SearchIteration(Computation):
    """One iteration of inverse kinematics for some frames, or the correction of a solution.

    Attributes:
        key:    key of its kernel.
        frames: names of the frames.
    """

    key: KernelKey
    frames: tuple[str, ...]

    @property
    def targets(self) -> int:
        """Number of target poses; one, which is not read, for a projection."""
        return max(1, len(self.frames))

    @property
    def search_title(self) -> str:
        """Title of the search."""
        if not self.frames:
            return "Projection onto the constraints"
        return "Inverse kinematics of " + ",\n".join(map(comment, self.frames))

    @property
    def title(self) -> str:
        """See ``Computation``."""
        return f"{_VARIANTS[self.key.variant][1]}. {self.search_title}"

    @property
    def source(self) -> str:
        """See ``Computation``."""
        return "Levenberg-Marquardt method with a damping that vanishes, Sugihara 2011"

    @property
    def plain_inputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return _VARIANTS[self.key.variant][2]

    @property
    def optional_inputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return _VARIANTS[self.key.variant][3]

    def shape(self, name: str, tree: KinematicTree) -> Shape:
        """See ``Computation``."""
        shape = super().shape(name, tree)
        return (self.targets, *shape) if name.startswith(_OF_FRAMES) else shape

    def refusal(self, tree: KinematicTree) -> str | None:
        """See ``Computation``."""
        name = "inverse_kinematics" if self.frames else "project"
        if (reason := conventions.refusal(tree, name)) is not None:
            return reason
        if not (self.frames or closed_constraints(tree)):
            return (
                "project: the robot has no active constraint with a target: load it with "
                "constraints= (grid-gen: --constraint)"
            )
        if not (moving := moving_velocities(tree, self.frames)):
            return f"{name}: no joint moves {' or '.join(self.frames) or 'what constraints hold'}"
        for body in tree.bodies:
            if body.v_index in moving and body.max_angle < math.inf:
                return (
                    f"{name}: it does not hold the limit of the angle of ball joint "
                    f"{show(body.joint)}: load the robot from a file without this limit"
                )
        return None

    def results(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> Sequence[Any]:
        """See ``Computation``."""
        given = {name: x[name] for name in self.plain_inputs if name != "q"}
        algorithm = _VARIANTS[self.key.variant][0]
        state = State.of(tree, scalars, x, function=self.name, declared=self.inputs)
        state = replace(state, given={})  # constraints are at the places of the options
        results = algorithm(state, **given, frames=self.frames)
        return results if len(self.outputs) > 1 else (results,)
