"""Kernels with one team of threads per state: the code that their schedules share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from gridgen.dynamics.functions import computation_of, input_sets
from gridgen.errors import ModelError
from gridgen.functions import FUNCTIONS
from gridgen.kernel import Kernel, KernelKey, TeamLaunch
from gridgen.model.description import listing
from gridgen.model.tree import KinematicTree
from gridgen.schedules.interface import KernelSelection
from gridgen.schedules.team.plan import ScanPlan, plan_scan
from gridgen.schedules.views import RobotView


@dataclass(frozen=True)
class TeamKernel:
    """One kernel with a team of threads per state."""

    key: KernelKey  #: identifies it.
    same: KernelKey  #: the computation of ``gridgen.dynamics.functions`` with the same arrays.
    source: str  #: reference of its algorithm.
    #: quantities of each body for an observer, in order: symbol and number of numbers.
    observed: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        """Its name in C++."""
        return self.key.name

    @property
    def optional_inputs(self) -> tuple[str, ...]:
        """Optional inputs that its variants can read."""
        return FUNCTIONS[self.key.function].optional_inputs


Row = TypeVar("Row", bound=TeamKernel)


def with_inputs(row: Row, inputs: tuple[str, ...]) -> Row:
    """Return the variant of a kernel that reads some optional inputs."""
    key, same = (replace(key, inputs=inputs) for key in (row.key, row.same))
    return replace(row, key=key, same=same)


def by_name(rows: Iterable[Row]) -> dict[str, Row]:
    """Return kernels by name, without optional inputs and with all."""
    every = (with_inputs(row, inputs) for row in rows for inputs in input_sets(row.optional_inputs))
    return {row.name: row for row in every}


class Teams:
    """The mapping of the bodies of a robot to the lanes of a team, planned once.

    Args:
        tree:    the robot.
        threads: threads of a block; by default chosen from the number of bodies.
    """

    def __init__(self, tree: KinematicTree, threads: int | None = None) -> None:
        self.tree = tree
        self._threads = threads

    @cached_property
    def plan(self) -> ScanPlan:
        """The plan of a robot without a ``refusal``."""
        return plan_scan(self.tree, threads=self._threads)

    @cached_property
    def refusal(self) -> str | None:
        """Why the schedules do not support the robot, or ``None``."""
        balls = [body.joint for body in self.tree.bodies if body.kind == "ball"]
        if balls:
            return (
                f"teams of threads do not compute ball joints ({listing(balls, 3)}): use "
                'schedule="thread"'
            )
        if self.tree.has_mujoco_quaternions:
            return (
                "teams of threads do not convert MuJoCo's coordinates: load it without convention="
            )
        if not self.tree.is_depth_first:
            return (
                "teams of threads require joints in depth-first order: load it without order=, and "
                "add those of a pinocchio.Model depth first"
            )
        if self.tree.options.friction_width or "joint_friction" in self.tree.parameters:
            return "teams of threads support constant friction c sign(qd) only: load the robot so"
        try:
            assert self.plan
        except ModelError as error:  # too many bodies for a block of threads
            return str(error)
        return None


class TeamSchedule(ABC, Generic[Row]):
    """A schedule with one team of threads per state, for one robot."""

    name: ClassVar[str]
    folder: ClassVar[str] = ""  #: of its templates, if it differs from the name.

    def __init__(self, teams: Teams, rows: Iterable[Row]) -> None:
        self.tree, self.teams = teams.tree, teams
        self._rows: Mapping[KernelKey, Row] = {row.key: row for row in rows}

    def row(self, key: KernelKey) -> Row:
        """Return the robot-independent record of a kernel."""
        return with_inputs(self._rows[key.plain], key.inputs)

    def keys(self, selection: KernelSelection) -> Iterator[KernelKey]:
        """Yield the requested kernels; see ``Schedule``."""
        for key, row in self._rows.items():
            if selection.has(key) and (selection.variants or not key.variant):
                for inputs in input_sets(row.optional_inputs, selection.inputs):
                    yield replace(key, inputs=inputs)

    def has(self, key: KernelKey) -> bool:
        """Return whether a kernel belongs to this schedule; see ``Schedule``."""
        return key.plain in self._rows

    def refusal(self, key: KernelKey) -> str | None:
        """Return why the robot does not support a kernel; see ``Schedule``."""
        return self.teams.refusal or self._refusal(self.row(key))

    def kernel(self, key: KernelKey) -> Kernel:
        """Return the record of a kernel; see ``Schedule``."""
        row = self.row(key)
        same = computation_of(self.tree, row.same)
        return same.kernel(self.tree, key, row.source, self._launch(row))

    def _refusal(self, row: Row) -> str | None:
        """Return why a robot with a plan does not support a kernel, or ``None``."""
        return computation_of(self.tree, row.same).refusal(self.tree)

    def view(
        self, robot: RobotView, kernels: Sequence[Kernel], *, observed: bool = False
    ) -> dict[str, Any]:
        """Return the fields of the template that contains the kernels of the schedule."""
        rows = [self.row(kernel.key) for kernel in kernels]
        pairs = zip(kernels, rows, strict=True)
        return {
            "robot": robot,
            **self._tables(rows),
            "functions": [self._function(kernel, row, observed) for kernel, row in pairs],
            "observed": observed,
        }

    @abstractmethod
    def _tables(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Return the data that all kernels of the robot share, by template variable."""

    @abstractmethod
    def _function(self, kernel: Kernel, row: Row, observed: bool) -> Any:
        """Return the template data of one kernel."""

    @abstractmethod
    def _launch(self, row: Row) -> TeamLaunch:
        """Return how a kernel is launched."""
