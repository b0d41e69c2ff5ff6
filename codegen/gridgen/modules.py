"""Sources of a robot's functions: a generated module, or kernels traced one by one."""

from __future__ import annotations

import gc
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from gridgen.backends import Sources
from gridgen.dynamics.functions import FURTHER_STEPS, frame_idents
from gridgen.errors import ModelError
from gridgen.functions import GENERATED
from gridgen.kernel import Kernel, KernelKey, Work
from gridgen.model.tree import KinematicTree
from gridgen.naming import robot_ident, similar
from gridgen.options import MAX_GPU_PROGRAM, MAX_PROGRAM
from gridgen.progress import announced
from gridgen.runtime.module.description import ModuleRecord, RobotRecord
from gridgen.runtime.module.files import WholeModule
from gridgen.runtime.module.kernels import Kernels, subsets
from gridgen.schedules import KernelSelection, Schedules
from gridgen.schedules.thread.schedule import remedies
from gridgen.source_cache import cached_sources
from gridgen.version import MODULE_FORM, __version__

if TYPE_CHECKING:  # what traces and writes text is imported when it is needed
    from gridgen.emit.expressions import Expressions
    from gridgen.report import Drawings
    from gridgen.schedules.thread.plan import Programs


def record_of(tree: KinematicTree, ident: str, limits: tuple[int, int]) -> RobotRecord:
    """Return the description of a robot."""
    return RobotRecord(
        name=tree.name,
        ident=ident,
        source=tree.source.replace("\\", "/").rsplit("/", 1)[-1],
        sha256=tree.digest,
        versions=versions(),
        floating_base=tree.floating_base,
        options=tree.options.as_data(),
        armature=tree.armature,
        parameter_values=tree.parameters,
        parameter_names=tree.parameter_names,
        keyframes=tree.keyframes,
        sensors=tuple((one.name, one.size) for one in tree.sensors),
        longest_program=limits[0],
        longest_gpu_program=limits[1],
        nq=tree.nq,
        nv=tree.nv,
        joint_names=tree.joint_names,
        angles=tuple(body.joint_type.turns for body in tree.bodies),
        quaternions=tuple(body.joint_type.quaternion for body in tree.bodies),
        max_angles=tuple(body.max_angle for body in tree.bodies),
        body_names=tree.body_names,
        constraint_names=tuple(constraint.name for constraint in tree.constraints),
        contact_names=tuple(contact.name for contact in tree.contact_model.contacts),
        actuator_names=tuple(actuator.name for actuator in tree.actuators),
        sphere_links=tree.spheres.names,
        self_collision_pairs=tree.spheres.pair_names,
        frame_names=tree.frame_names,
        frame_idents=tuple(frame_idents(tree).values()),
        parents=tree.parents,
        levels=tree.levels,
        q_indices=tuple(body.q_index for body in tree.bodies),
        v_indices=tuple(body.v_index for body in tree.bodies),
        mimics=tuple(body.mimics for body in tree.bodies),
        lower_limits=tree.lower_limits,
        upper_limits=tree.upper_limits,
        effort_limits=tree.effort_limits,
        velocity_limits=tree.velocity_limits,
        masses=tuple(body.mass for body in tree.bodies),
        total_mass=tree.total_mass,
        singular_joint=tree.singular_joint,
    )


@dataclass(frozen=True)
class GeneratedModule(WholeModule):
    """A module that ``generate`` made.

    Attributes:
        folder:   folder of the module.
        tree:     the robot.
        programs: the programs of its thread-schedule kernels, by name.
        files:    text by file name.
        model:    content of ``model.json``.
    """

    folder: Path
    tree: KinematicTree
    programs: Mapping[str, Programs]
    files: Mapping[str, str]
    model: ModuleRecord

    @property
    def _record(self) -> ModuleRecord:
        return self.model

    def _texts(self) -> Mapping[str, str]:
        return self.files

    @property
    def drawings(self) -> Drawings:
        """Drawings of the robot."""
        from gridgen.report import Drawings

        return Drawings(self.tree, self, self.programs.__getitem__)

    @property
    def expressions(self) -> Expressions:
        """Expressions of the robot's functions."""
        from gridgen.emit.expressions import Expressions

        return Expressions(self.tree)

    def write(self, compiled: Mapping[str, bytes] = MappingProxyType({}), *, force: bool) -> None:
        """Write the module to its folder; see ``gridgen.emit.writer.write_folder``.

        Args:
            compiled: further files to write.
            force:    also replace files that grid-gen has not written.
        """
        from gridgen.emit.writer import write_folder

        files: dict[str, str | bytes] = {**self.files, **compiled}
        write_folder(self.folder, files, self.tree.source, self.tree.digest, force)


# Tracing holds the interpreter's lock: one lock serves all robots.
_tracing: dict[int, threading.Lock] = {}


class TracedModule:
    """A module in memory, each kernel traced at its first use.

    Args:
        tree:           the robot.
        longest:        see ``load``.
        longest_on_gpu: the same for a thread of a GPU, if less.

    Attributes:
        tree: the robot.
    """

    def __init__(
        self,
        tree: KinematicTree,
        longest: int = MAX_PROGRAM,
        longest_on_gpu: int = MAX_GPU_PROGRAM,
    ) -> None:
        self.tree, self._limits = tree, (longest, longest_on_gpu)
        self._ident = robot_ident(tree.name)
        self._schedules = self._plan(tree)
        self._sources: dict[str, Sources] = {}
        self._work: dict[str, Work] = {}

    def _plan(self, tree: KinematicTree) -> Schedules:
        return Schedules(tree)

    def __reduce__(self) -> tuple[type[TracedModule], tuple[KinematicTree, int, int]]:
        """Copy and pickle without traced kernels."""
        return type(self), (self.tree, *self._limits)

    @cached_property
    def description(self) -> RobotRecord:
        """Description of the robot."""
        return record_of(self.tree, self._ident, self._limits)

    @cached_property
    def kernels(self) -> Kernels:
        """All kernels of the robot."""
        return PossibleKernels(self.tree.name, self._schedules)

    def sources(self, kernel: Kernel) -> Sources:
        """Return source text that defines this kernel alone."""
        if kernel.name not in self._sources:
            # Concurrent threads wait for the first one to trace the kernel. A fork may copy a held
            # lock without the thread that holds it: each process has its own lock.
            with _tracing.setdefault(os.getpid(), threading.Lock()):
                if kernel.name not in self._sources:
                    self._sources[kernel.name] = self._stored_sources(kernel)
        return self._sources[kernel.name]

    def work(self, kernel: Kernel) -> Work:
        """Return the work of a kernel per state: counted without tracing."""
        if kernel.name not in self._work:
            self._work[kernel.name] = self._schedules.work(kernel)
        return self._work[kernel.name]

    @property
    def drawings(self) -> Drawings:
        """Drawings of the robot."""
        from gridgen.report import Drawings

        return Drawings(self.tree, self, self._programs)

    @property
    def expressions(self) -> Expressions:
        """Expressions of the robot's functions."""
        from gridgen.emit.expressions import Expressions

        return Expressions(self.tree)

    def _programs(self, name: str) -> Programs:
        """Return the programs of a kernel."""
        from gridgen.schedules.thread.plan import plan_programs

        return plan_programs(self.tree, self.kernels.by_name[name].key, *self._limits)

    def _stored_sources(self, kernel: Kernel) -> Sources:
        """Return the text of a kernel from the source cache, or trace it."""
        return cached_sources(
            partial(self._traced, kernel),
            robot=self.description.digest,
            source=self.tree.source,
            kernel=json.dumps(kernel.as_data(), sort_keys=True),
            versions=versions(),
        )

    def _traced(self, kernel: Kernel) -> Sources:
        from gridgen.emit.render import render_sources, sources_of, with_called
        from gridgen.schedules.thread.plan import plan_programs

        task = f"tracing {kernel.name} of {self.tree.name}"
        shorter = f"once, then cached; for a shorter program, {remedies(self.tree, kernel.key)}"
        with announced(task, shorter), collected_rarely():
            programs = {
                called.name: plan_programs(self.tree, called.key, *self._limits)
                for called in with_called(self._schedules, [kernel])
            }
            files, _ = render_sources(self._schedules, self._ident, __version__, [kernel], programs)
        return sources_of(self._ident, files, programs, [kernel])


def _is_made_freely(key: KernelKey) -> bool:
    """Return whether a kernel is one of too many to list."""
    is_projection = key.function == "inverse_kinematics" and not key.parts
    return bool(key.parts or key.frame or key.step in FURTHER_STEPS) or is_projection


Found = TypeVar("Found", covariant=True)


class _Decided(Mapping[str, Found]):
    """Results of a function of kernel keys, by name, each computed at its first use.

    Args:
        keys: all keys, by name.
        find: returns what belongs to a key, or ``None`` if nothing does.
    """

    def __init__(
        self, keys: Mapping[str, KernelKey], find: Callable[[KernelKey], Found | None]
    ) -> None:
        self._keys, self._find = keys, cache(find)

    def __getitem__(self, name: str) -> Found:
        if (found := self._find(self._keys[name])) is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name, key in self._keys.items() if self._find(key) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class PossibleKernels(Kernels):
    """Every kernel that a robot can have, with any of the optional inputs."""

    def __init__(self, robot: str, schedules: Schedules) -> None:
        super().__init__(robot, (), {})
        self._schedules = schedules
        selection = KernelSelection(GENERATED)
        self._keys = {key.name: key for each in schedules.all for key in each.keys(selection)}
        self.by_name = _Decided(self._keys, self._supported)
        self.refusals = _Decided(self._keys, self._refusal)
        self._made: dict[str, Kernel] = {}

    @property
    def identity(self) -> str:
        """Nothing: the robot determines its kernels."""
        return ""

    def _refusal(self, key: KernelKey) -> str | None:
        return self._schedules.of(key).refusal(key)

    def _supported(self, key: KernelKey) -> Kernel | None:
        return self._schedules.kernel(key) if key.name not in self.refusals else None

    def has(self, key: KernelKey) -> bool:
        """Return whether a kernel exists for a key; see ``Kernels``."""
        return _is_made_freely(key) or bool(key.products) or super().has(key)

    def find(self, key: KernelKey) -> Kernel:
        """Return a kernel, created when necessary; see ``Kernels``."""
        base = key.plain.primal
        is_made_freely = _is_made_freely(key)
        if key.name in self.by_name or not (is_made_freely or base.name in self.by_name):
            return super().find(key)
        if key.name not in self._made:
            if (reason := self._refusal(key)) is not None:
                refused = reason if is_made_freely else f"{key.name}: {reason}"
                raise ModelError(f"{self._robot}: no {refused}")
            self._made[key.name] = self._schedules.kernel(key)
        return self._made[key.name]

    def named(self, name: str) -> Kernel:
        """Return the kernel with a name, created when necessary; see ``Kernels``."""
        if name not in self.by_name:
            for known in self._keys.values():
                for inputs in subsets(known.inputs):
                    if (key := replace(known, inputs=inputs)).name == name:
                        return self.find(key)
        return super().named(name)

    def _reason(self, name: str) -> str:
        near = similar(name, self._keys)
        unknown = f"did you mean {' or '.join(near)}?" if near else "there is none (all: functions)"
        return self.refusals.get(name, unknown)


@cache
def versions() -> Mapping[str, str]:
    """Return the versions that determine the output."""
    return {"module": MODULE_FORM, "grid-gen": __version__} | {
        name: metadata.version(name) for name in ("jinja2", "numpy", "sympy")
    }


# Objects allocated between two collections. Tracing allocates millions of permanent objects: with
# Python's default of 700 the collector would use a quarter of the time, with 100,000 a seventh.
_OBJECTS_BETWEEN_SEARCHES = 2_000_000


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Run Python's garbage collector less often, in the whole process."""
    usual = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
