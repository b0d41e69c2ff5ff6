"""Inverse kinematics of random poses: grid-gen beside Pinocchio's loops and OptIK, in one process.

    python benchmarks/inverse_kinematics.py [--poses 4096] [--seconds 20] [--compile] [--write]

One thread. Poses are those of random configurations within the limits. A pose counts as solved if
forward kinematics in float64 is within 1e-4 m and 1e-3 rad of it, and the joints are within their
limits. Peers that take longer get fewer of the same poses. Times are the least of those of the
processor, for each pose. --write writes benchmarks/results/tables/inverse_kinematics.csv.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

os.environ.update(dict.fromkeys(("GRIDGEN_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

import native
import numpy as np
import pinocchio
from cases import Case
from interleave import interleaved
from machine import description
from peers.pinocchio_loop import Peer

import gridgen

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "tables" / "inverse_kinematics.csv"
TOLERANCE = (1e-4, 1e-3)
#: Robots with the links whose poses are given; the two arms of the last are one problem.
ROBOTS = {
    "panda": ("panda", ["panda_hand_tcp"]),
    "ur10": ("ur10_robot", ["tool0"]),
    "iiwa14": ("iiwa14", ["iiwa_link_7"]),
    "talos, both arms": ("talos_reduced", ["gripper_left_base_link", "gripper_right_base_link"]),
}
#: Starts and iterations of Pinocchio's loops; those that solve most poses a second.
STARTS, ITERATIONS, DAMPING = 32, 20, 0.03

Array = Any
Solve = Callable[[], Array]


def urdf_text(name: str) -> str:
    """Return the URDF of a robot, from example-robot-data or from frax."""
    for package, folder in (("cmeel", "../cmeel.prefix/share/example-robot-data"), ("frax", "")):
        if (spec := find_spec(package)) is None or not spec.submodule_search_locations:
            continue
        root = Path(next(iter(spec.submodule_search_locations))) / folder
        for path in sorted(root.rglob(f"{name}.urdf")):
            return path.read_text(encoding="utf-8")
    raise native.Unavailable(f"no installed package has {name}.urdf")


@dataclass(frozen=True)
class _OfLink(Case):
    """A robot whose frame is one link."""

    link: str = ""

    @property
    def frame(self) -> str:
        """The link."""
        return self.link


class Problem:
    """Random poses of one robot, and its solvers."""

    def __init__(self, name: str, frames: list[str], poses: int) -> None:
        self.frames = frames
        self.urdf = urdf_text(name)
        self.robot = gridgen.load(self.urdf)
        rng = np.random.default_rng(0)
        q = self.robot.random_configuration(rng, poses)
        self.targets = self.robot.forward_kinematics(q, frames)
        model = pinocchio.buildModelFromXML(self.urdf)
        self.model, self.data = model, model.createData()
        lower = np.maximum(model.lowerPositionLimit, -np.pi)
        upper = np.minimum(model.upperPositionLimit, np.pi)
        self.starts = rng.uniform(lower, upper, (poses, STARTS, model.nq))
        self.ids = [model.getFrameId(one) for one in frames]

    def solved(self, q: Array) -> float:
        """Return the share of poses that configurations solve."""
        robot, targets = self.robot, self.targets[: len(q)]
        q = q[:, : robot.nq]  # Pinocchio has the second finger too
        apart = robot.forward_kinematics(np.asarray(q, float), self.frames) - targets
        position = np.linalg.norm(apart[..., :3, 3], axis=-1).max(-1)
        chord = np.linalg.norm(apart[..., :3, :3], axis=(-2, -1)).max(-1) / np.sqrt(8)
        orientation = 2 * np.arcsin(np.minimum(chord, 1))
        slack = 1e-6
        within = (q >= np.array(robot.lower_limits) - slack) & (
            q <= np.array(robot.upper_limits) + slack
        )
        is_near = (position < TOLERANCE[0] + slack) & (orientation < TOLERANCE[1] + slack)
        return float((is_near & within.all(axis=1)).mean())

    def own(self) -> Iterator[tuple[str, int, Solve]]:
        """Yield grid-gen in both types."""
        for dtype in ("float32", "float64"):
            targets = self.targets.astype(dtype)
            yield (
                f"grid-gen, {dtype}",
                len(targets),
                lambda x=targets: self.robot.inverse_kinematics(x, self.frames).q,
            )

    def contestants(self) -> Iterator[tuple[str, int, Solve]]:
        """Yield name, number of poses and solver."""
        yield from self.own()
        if len(self.frames) > 1:
            return
        for make in (self.pinocchio_loop, self.optik, self.pyroki, self.pinocchio_python):
            try:
                yield make()
            except (native.Unavailable, ImportError) as error:
                print(f"    {make.__name__}: {error}", file=sys.stderr)

    def pinocchio_loop(self) -> tuple[str, int, Solve]:
        """Return Pinocchio called from C++."""
        count = min(256, len(self.targets))
        case = _OfLink("", self.urdf, floating_base=False, link=self.frames[0])
        peer = Peer(case, 1)
        peer._model = self.model
        source = Path(native.__file__).with_name("peers") / "pinocchio_inverse_kinematics.cpp"
        library = peer._compiled(source, "-lboost_serialization", takes_minutes=True)
        loop = peer._loop(library, self.model.saveToString(), "jacobian")
        settings = np.array([STARTS, ITERATIONS, *TOLERANCE, DAMPING])
        inputs = [self.starts[:count].copy(), self.targets[:count].copy(), settings]
        outputs = [np.empty((count, self.model.nq)), np.empty(count)]
        arguments = native.pointers(inputs), native.pointers(outputs)

        def solve() -> Array:
            library.evaluate(loop, native.ctypes.c_long(count), *arguments)
            return outputs[0]

        solve.inputs = inputs  # type: ignore[attr-defined]  # their memory outlives the call
        return "Pinocchio, C++ loop", count, solve

    def pinocchio_python(self) -> tuple[str, int, Solve]:
        """Return Pinocchio called from Python."""
        count = min(16, len(self.targets))
        return (
            "Pinocchio, Python loop",
            count,
            lambda: np.array([self._one(i) for i in range(count)]),
        )

    def _one(self, i: int) -> Array:
        model, data, (frame,) = self.model, self.data, self.ids
        goal = pinocchio.SE3(self.targets[i, 0])
        for q in self.starts[i]:
            for _ in range(ITERATIONS):
                pinocchio.framesForwardKinematics(model, data, q)
                left = data.oMf[frame].actInv(goal)
                error = pinocchio.log(left).vector
                if np.linalg.norm(left.translation) < TOLERANCE[0] and (
                    np.linalg.norm(error[3:]) < TOLERANCE[1]
                ):
                    return q
                J = pinocchio.computeFrameJacobian(model, data, q, frame)
                J = -pinocchio.Jlog6(left.inverse()) @ J
                damping = DAMPING * error @ error / 2 + 1e-9
                v = -J.T @ np.linalg.solve(J @ J.T + damping * np.eye(6), error)
                q = np.clip(
                    pinocchio.integrate(model, q, v),
                    model.lowerPositionLimit,
                    model.upperPositionLimit,
                )
        return q

    def optik(self) -> tuple[str, int, Solve]:
        """Return OptIK, which restarts a quasi-Newton method until a time is over."""
        from optik import Robot, SolverConfig

        count = min(64, len(self.targets))
        with tempfile.NamedTemporaryFile("w", suffix=".urdf", delete=False) as file:
            file.write(self.urdf)
        base = self.model.frames[1].name
        arm = Robot.from_urdf_file(file.name, base, self.frames[0])
        arm.set_parallelism(1)
        config = SolverConfig("speed", max_time=0.1, tol_f=1e-12)
        lower, upper = map(np.array, arm.joint_limits())
        middle = (lower + upper) / 2
        q = np.tile((self.robot.lower_limits + self.robot.upper_limits) / 2, (count, 1))

        def solve() -> Array:
            for i in range(count):
                found = arm.ik(config, self.targets[i, 0], middle)
                q[i, : len(middle)] = middle if found is None else found[0]
            return q

        return "OptIK", count, solve

    def pyroki(self) -> tuple[str, int, Solve]:
        """Return PyRoki's costs in its least squares, from several starts at once; best of them."""
        import jax
        import jaxlie
        import jaxls
        import pyroki
        import yourdfpy

        jax.config.update("jax_platforms", "cpu")
        count, starts = min(16, len(self.targets)), 8
        with tempfile.NamedTemporaryFile("w", suffix=".urdf", delete=False) as file:
            file.write(self.urdf)
        arm = pyroki.Robot.from_urdf(yourdfpy.URDF.load(file.name, load_meshes=False))
        link = jax.numpy.array(arm.links.names.index(self.frames[0]))
        variable = arm.joint_var_cls(0)
        low, high = arm.joints.lower_limits, arm.joints.upper_limits

        def one(pose: Array, start: Array) -> tuple[Array, Array]:
            goal = jaxlie.SE3.from_matrix(pose)
            costs = [
                pyroki.costs.pose_cost_analytic_jac(
                    arm, variable, goal, link, pos_weight=50.0, ori_weight=10.0
                ),
                pyroki.costs.limit_cost(arm, variable, weight=100.0),
            ]
            problem = jaxls.LeastSquaresProblem(costs, [variable]).analyze()
            found = problem.solve(
                initial_vals=jaxls.VarValues.make([variable.with_value(start)]),
                verbose=False,
                linear_solver="dense_cholesky",
                termination=jaxls.TerminationConfig(max_iterations=30),
            )[variable]
            found = found.clip(low, high)
            there = jaxlie.SE3(arm.forward_kinematics(found)[link])
            return found, jax.numpy.linalg.norm((there.inverse() @ goal).log())

        @jax.jit
        def every(poses: Array, begins: Array) -> Array:
            found, left = jax.vmap(jax.vmap(one, (None, 0)))(poses, begins)
            return found[jax.numpy.arange(len(poses)), left.argmin(axis=1)]

        poses = jax.numpy.asarray(self.targets[:count, 0], dtype="float32")
        drawn = np.random.default_rng(1).uniform(low, high, (count, starts, len(low)))
        begins = jax.numpy.asarray(drawn, dtype="float32")
        order = [list(arm.joints.actuated_names).index(name) for name in self.names]

        def solve() -> Array:
            return np.asarray(every(poses, begins))[:, order].astype(float)

        return "PyRoki", count, solve

    @property
    def names(self) -> list[str]:
        """Names of the joints that have positions of their own."""
        known = self.robot._description
        pairs = zip(known.joint_names, known.mimics, strict=True)
        return [name for name, mimics in pairs if not mimics]


def main() -> int:
    """Measure all robots and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--poses", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each robot")
    parser.add_argument("--compile", action="store_true", help="also what takes minutes to compile")
    parser.add_argument("--robots", nargs="*", default=list(ROBOTS), choices=list(ROBOTS))
    parser.add_argument("--write", action="store_true", help="write the table of the manual")
    arguments = parser.parse_args()
    native.patient = arguments.compile
    print(description())
    rows = []
    for name in arguments.robots:
        problem = Problem(*ROBOTS[name], arguments.poses)
        contestants = list(problem.contestants())
        shares = {label: problem.solved(solve()) for label, _, solve in contestants}
        times = interleaved(
            {label: solve for label, _, solve in contestants}, arguments.seconds, process_time
        )
        least = {label: 1e6 * times[label].least / count for label, count, _ in contestants}
        for label, count, _ in contestants:
            ratio = least[label] / least["grid-gen, float32"]
            numbers = (f"{float(f'{value:.3g}'):g}" for value in (least[label], ratio))
            rows.append((name, label, f"{shares[label]:.2%}", *numbers))
            print(f"{name:18}{label:25}{count:6} poses", *rows[-1][2:], sep="  ", flush=True)
    if arguments.write:
        with RESULT.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("robot", "solver", "solved", "us per pose", "of grid-gen"))
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
