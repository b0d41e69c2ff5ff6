"""The stages as consecutive calls: parse, tree, trace, emit; compile and run come with the calls.

parse_urdf    text of a URDF         -> RobotDescription   gridgen.model.readers.urdf
build_tree    RobotDescription       -> KinematicTree      gridgen.model.tree
Schedules     KinematicTree, choices -> Kernels            gridgen.schedules
plan_programs Kernel                 -> Programs           gridgen.schedules.thread
work_of       Kernel                 -> Work               gridgen.counts
render_...    Kernels, Programs      -> files of a module  gridgen.emit.render
Robot         files                  -> compiled functions gridgen.runtime.robot
"""

from __future__ import annotations

import gc
import json
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, astuple, dataclass, replace
from functools import cache, cached_property, partial
from importlib import metadata
from pathlib import Path
from typing import Any

from gridgen.backends import Rows, Sources
from gridgen.backends.units import LIBRARY_FLAGS
from gridgen.counts import work_of
from gridgen.dynamics.functions import fused_keys
from gridgen.emit.library import render_library
from gridgen.emit.render import (
    MODEL_FILE,
    describe,
    model_text,
    render_module,
    render_sources,
    with_called,
)
from gridgen.emit.writer import write_folder
from gridgen.errors import ModelError, OptionError
from gridgen.functions import GENERATED
from gridgen.functions.types import BackendChoice
from gridgen.kept_text import kept_sources
from gridgen.kernel import Kernel, KernelKey, Work
from gridgen.model.description import refuse_many
from gridgen.model.oddities import noted
from gridgen.model.readers import read_robot
from gridgen.model.readers.document import is_text
from gridgen.model.tree import KinematicTree, build_tree
from gridgen.model.walk import count_bodies
from gridgen.naming import robot_ident, show_value, similar
from gridgen.options import (
    LONGEST_GPU_PROGRAM,
    LONGEST_PROGRAM,
    GenerateOptions,
    check_switch,
)
from gridgen.report import Drawings
from gridgen.runtime.description import Description, read_description, read_kernels, read_work
from gridgen.runtime.kernels import Kernels, subsets
from gridgen.runtime.module import is_source
from gridgen.runtime.progress import announced
from gridgen.runtime.robot import Robot
from gridgen.schedules import Schedules, Wanted
from gridgen.schedules.thread import Programs, plan_programs, plan_rows
from gridgen.version import __version__

Progress = Callable[[str], None]

#: Moving bodies of the largest robot; the text and the tracing time of its functions grow with it.
MOST_BODIES = 2048

# Objects made between two searches for those that only hold each other. Tracing makes millions that
# stay; Python's own 700 would let it spend a quarter of its time on going through them.
_OBJECTS_BETWEEN_SEARCHES = 100_000


@dataclass(frozen=True)
class GeneratedModule:
    """What ``generate`` made.

    Attributes:
        folder:   where it lies.
        tree:     the robot.
        programs: the programs of its kernels of the thread schedule, by name.
        files:    text by file name.
    """

    folder: Path
    tree: KinematicTree
    programs: Mapping[str, Programs]
    files: Mapping[str, str]

    @cached_property
    def description(self) -> Description:
        """What is known of the robot."""
        return read_description(self._model)

    @cached_property
    def kernels(self) -> Kernels:
        """The kernels that there are."""
        return read_kernels(self._model)

    def work(self, kernel: Kernel) -> Work:
        """Return what a state costs a kernel."""
        return read_work(self._model)[kernel.name]

    @property
    def drawings(self) -> Drawings:
        """What draws the robot."""
        return Drawings(self.tree, self, self.programs.__getitem__)

    @cached_property
    def _model(self) -> Any:
        return json.loads(self.files[MODEL_FILE])

    def sources(self, kernel: Kernel) -> Sources:
        """Return the files to compile: they define every kernel."""
        return self._sources

    @cached_property
    def _sources(self) -> Sources:
        files = {name: text for name, text in self.files.items() if is_source(name)}
        room = room_of(self.programs, self.kernels.by_name.values())
        return Sources(self.folder.name, files, room, rows_of(self.programs))


def generate(
    urdf: str | bytes | os.PathLike[Any],
    options: GenerateOptions | None = None,
    progress: Progress = lambda step: None,
) -> GeneratedModule:
    """Write the module of one robot.

    Args:
        urdf:     path of the URDF file, or its text (``str`` or ``bytes``).
        options:  choices; see ``GenerateOptions``.
        progress: called with a word for each step before it begins.

    Raises:
        GridGenError: the file or an option is wrong; nothing was written.
    """
    if not isinstance(options, (GenerateOptions, type(None))):
        raise OptionError(f"options is {show_value(options)}; give a gridgen.GenerateOptions")
    module = make_module(urdf, options or GenerateOptions(), progress)
    write_folder(module.folder, module.files)
    return module


def make_module(
    urdf: str | bytes | os.PathLike[Any], options: GenerateOptions, progress: Progress
) -> GeneratedModule:
    """Return the module of one robot, which is not yet written; arguments as in ``generate``."""
    with _collected_rarely():
        return _make_module(urdf, options, progress)


def _make_module(
    urdf: str | bytes | os.PathLike[Any], options: GenerateOptions, progress: Progress
) -> GeneratedModule:
    progress("reading the URDF")
    tree = read_tree(
        urdf,
        floating_base=options.floating_base,
        joint_dynamics=options.joint_dynamics,
        armature=options.armature,
        parameters=options.parameters,
        mappings=options.mappings,
    )
    name = robot_ident(tree.name if options.name is None else options.name)
    schedules = Schedules(tree)
    fused = fused_keys(tree, options.fuse)
    wanted = Wanted(
        options.choices,
        options.frames,
        options.inputs,
        options.variants,
        fused,
        options.products,
        options.casadi,
    )
    kernels, refused = schedules.select(wanted)
    _check_names(kernels, refused, fused)
    programs: dict[str, Programs] = {}
    limits = options.longest_program, options.longest_gpu_program
    for kernel in with_called(schedules, kernels):
        progress(f"tracing {kernel.name}")
        programs[kernel.name] = plan_programs(tree, kernel.key, *limits)
    progress("writing the text")
    files = render_sources(schedules, name, __version__, kernels, programs)
    own = with_called(schedules, kernels)
    files |= render_library(
        tree,
        name,
        __version__,
        own,
        programs,
        LIBRARY_FLAGS,
        list(files),
        casadi=options.casadi,
    )
    model = describe(tree, name, versions(), kernels, refused, limits)
    model["room"] = room_of(programs, kernels)
    model["rows"] = {name: asdict(rows) for name, rows in rows_of(programs).items()}
    model["work"] = {kernel.name: astuple(work_of(schedules, kernel)) for kernel in kernels}
    offered = options.choices if options.functions else GENERATED
    called = [(schedules.kernel(key), options.fuse[key.label]) for key in fused]
    files |= render_module(tree, name, __version__, offered, called, model_text(model))
    return GeneratedModule(options.output / name, tree, programs, files)


def _check_names(
    kernels: Sequence[Kernel], refused: Mapping[str, str], fused: Sequence[KernelKey]
) -> None:
    """Raise unless what is computed in one can be, under a name of its own."""
    names = [kernel.name for kernel in kernels]
    for key in fused:
        if key.name in refused:
            raise ModelError(f"fuse: no {key.name}: {refused[key.name]}")
        if names.count(key.name) > 1:
            raise OptionError(f"fuse: {key.name} is the name of another kernel; give a free one")


@contextmanager
def _collected_rarely() -> Iterator[None]:
    """Let Python look for unreachable objects less often, in the whole process."""
    usual = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def room_of(programs: Mapping[str, Programs], kernels: Iterable[Kernel]) -> dict[str, int]:
    """Return the numbers that the loops of kernels keep of a state, for those that have loops.

    Args:
        programs: by the names of their kernels.
        kernels:  all kernels; rollouts keep what the programs keep that they call.
    """
    rollouts = {
        kernel.name: max(programs[key.name].gpu.room for key in kernel.calls)
        for kernel in kernels
        if kernel.calls
    }
    rooms = {name: both.gpu.room for name, both in programs.items()} | rollouts
    return {name: room for name, room in rooms.items() if room}


def rows_of(programs: Mapping[str, Programs]) -> dict[str, Rows]:
    """Return what kernels take that move rows through shared memory, for those that do."""
    rows: dict[str, Rows] = {}
    for name, both in programs.items():
        program, split = both.gpu, both.gpu_parts
        if (staging := plan_rows(program)) is not None:
            in_place = {array.name for array in program.inputs} - set(staging.inputs)
            arrays = (*program.inputs, *program.outputs)
            lengths = tuple(0 if array.name in in_place else array.size for array in arrays)
            rows[name] = Rows(lengths, staging.numbers, 0 if split is None else split.parked)
    return rows


def load(
    urdf: Any,
    *,
    floating_base: bool = False,
    joint_dynamics: bool = False,
    armature: float | Sequence[float] = 0.0,
    parameters: str | Sequence[str] = (),
    mappings: Mapping[str, str] | None = None,
    backend: BackendChoice = "auto",
) -> Robot:
    """Return a robot whose functions are generated and compiled when they are first called.

    Args:
        urdf:           path of a URDF, xacro or MJCF file; the text of a URDF or MJCF (``str`` or
                        ``bytes``); a name of the package robot_descriptions
                        (``"panda_description"``); or a ``URDF`` of urdfpy, urchin or yourdfpy, a
                        ``pinocchio.Model`` or a ``mujoco.MjModel`` (docs/formats.md).
        floating_base:  put a free joint under the root: q begins with x y z qx qy qz qw.
        joint_dynamics: count the URDF's damping and friction in (tau += d qd + c sign(qd)).
        armature:       added to the diagonal of the mass matrix: one number, or nv.
        parameters:     numbers of the robot that shall be inputs of its functions: the name of a
                        link, whose inertia it is, a list of such, or ``all`` for every moving body
                        with all that it carries; ``armature``, ``damping`` (docs/parameters.md).
        mappings:       arguments of a xacro file: ``{"prefix": "left_"}``.
        backend:        ``auto``, ``cpu``, ``cuda`` or ``emulated``.

    Raises:
        GridGenError: the file is not one sound robot, or an option is wrong.
    """
    tree = read_tree(
        urdf,
        floating_base=floating_base,
        joint_dynamics=joint_dynamics,
        armature=armature,
        parameters=parameters,
        mappings=mappings,
    )
    return Robot(TracedModule(tree), backend)


def read_tree(
    urdf: Any,
    *,
    floating_base: bool,
    joint_dynamics: bool,
    armature: float | Sequence[float],
    parameters: str | Sequence[str] = (),
    mappings: Mapping[str, str] | None = None,
) -> KinematicTree:
    """Return the kinematic tree of a robot; see ``read_robot`` for what it may be given as.

    Raises:
        UrdfError:   it is none of these, or not one sound robot.
        ModelError:  it has more bodies than ``MOST_BODIES``.
        OptionError: an option has a value that makes no sense.
    """
    check_switch("floating_base", floating_base)
    check_switch("joint_dynamics", joint_dynamics)
    with noted() as remarks:
        with _announced_if_slow(urdf):
            description = read_robot(urdf, MOST_BODIES, mappings)
        refuse_many(description.source, count_bodies(description, floating_base), MOST_BODIES)
        tree = build_tree(
            description,
            floating_base=floating_base,
            joint_dynamics=joint_dynamics,
            armature=armature,
            parameters=parameters,
        )
    return replace(tree, remarks=tuple(remarks))


def _announced_if_slow(urdf: Any) -> AbstractContextManager[None]:
    """Say what is waited for where a path leads to a pipe: it may have no writer yet."""
    if isinstance(urdf, (str, os.PathLike)) and not is_text(urdf):
        with suppress(OSError, ValueError):  # reading it says what is wrong
            if not stat.S_ISREG(os.stat(urdf).st_mode):
                name = os.fsdecode(urdf)
                return announced(f"reading {name}: a program must write into it", everywhere=True)
    return nullcontext()


# Tracing keeps the interpreter to itself: one lock serves all robots.
_tracing: dict[int, threading.Lock] = {}


class TracedModule:
    """A module in memory, each kernel traced when it is first asked for.

    Args:
        tree:           the robot.
        longest:        see ``GenerateOptions.longest_program``.
        longest_on_gpu: see ``GenerateOptions.longest_gpu_program``.
    """

    def __init__(
        self,
        tree: KinematicTree,
        longest: int = LONGEST_PROGRAM,
        longest_on_gpu: int = LONGEST_GPU_PROGRAM,
    ) -> None:
        self._tree, self._limits = tree, (longest, longest_on_gpu)
        self._ident = robot_ident(tree.name)
        self._schedules = Schedules(tree)
        self._sources: dict[str, Sources] = {}
        self._work: dict[str, Work] = {}

    def __reduce__(self) -> tuple[type[TracedModule], tuple[KinematicTree, int, int]]:
        """Copy and pickle without what is traced."""
        return type(self), (self._tree, *self._limits)

    @cached_property
    def description(self) -> Description:
        """What is known of the robot."""
        return read_description(describe(self._tree, self._ident, versions(), (), {}, self._limits))

    @cached_property
    def kernels(self) -> Kernels:
        """The kernels that there may be."""
        return _PossibleKernels(self._tree.name, self._schedules)

    def sources(self, kernel: Kernel) -> Sources:
        """Return text in which a kernel is defined, and no other."""
        if kernel.name not in self._sources:
            # Threads that ask at once shall wait for one to trace it. A fork may copy a lock that
            # is held, without the thread that holds it: each process has its own.
            with _tracing.setdefault(os.getpid(), threading.Lock()):
                if kernel.name not in self._sources:
                    self._sources[kernel.name] = self._kept(kernel)
        return self._sources[kernel.name]

    def work(self, kernel: Kernel) -> Work:
        """Return what a state costs a kernel: counted, not traced."""
        if kernel.name not in self._work:
            self._work[kernel.name] = work_of(self._schedules, kernel)
        return self._work[kernel.name]

    @property
    def drawings(self) -> Drawings:
        """What draws the robot."""
        return Drawings(self._tree, self, self._programs)

    def _programs(self, name: str) -> Programs:
        """Return the programs of a kernel."""
        return plan_programs(self._tree, self.kernels.by_name[name].key, *self._limits)

    def _kept(self, kernel: Kernel) -> Sources:
        """Return the text of a kernel, as another process has traced it if one has."""
        return kept_sources(
            partial(self._traced, kernel),
            robot=self.description.digest,
            source=self._tree.source,
            kernel=json.dumps(kernel.as_data(), sort_keys=True),
            versions=versions(),
        )

    def _traced(self, kernel: Kernel) -> Sources:
        with _collected_rarely():
            programs = {
                called.name: plan_programs(self._tree, called.key, *self._limits)
                for called in with_called(self._schedules, [kernel])
            }
            files = render_sources(self._schedules, self._ident, __version__, [kernel], programs)
        return Sources(self._ident, files, room_of(programs, [kernel]), rows_of(programs))


def _is_made_freely(key: KernelKey) -> bool:
    """Tell whether a kernel is one of too many to be listed."""
    return bool(key.parts or key.frame or key.bodies)


class _PossibleKernels(Kernels):
    """Every kernel that a robot can have, with any of the optional inputs.

    Args:
        robot:     its name.
        schedules: its schedules.
    """

    def __init__(self, robot: str, schedules: Schedules) -> None:
        super().__init__(robot, *schedules.select(Wanted(GENERATED)))
        self._schedules = schedules
        self._made: dict[str, Kernel] = {}

    def has(self, key: KernelKey) -> bool:
        """Tell whether a kernel serves a key; see ``Kernels``."""
        return _is_made_freely(key) or bool(key.products) or super().has(key)

    def find(self, key: KernelKey) -> Kernel:
        """Return a kernel, made if need be; see ``Kernels``."""
        base = key.plain.primal
        is_made_freely = _is_made_freely(key)
        if key.name in self.by_name or not (is_made_freely or base.name in self.by_name):
            return super().find(key)
        if key.name not in self._made:
            if (reason := self._schedules.of(key).refusal(key)) is not None:
                told = reason if is_made_freely else f"{key.name}: {reason}"
                raise ModelError(f"{self._robot}: no {told}")
            self._made[key.name] = self._schedules.kernel(key)
        return self._made[key.name]

    def named(self, name: str) -> Kernel:
        """Return the kernel of a name, made if need be; see ``Kernels``."""
        if name not in self.by_name:
            for kernel in self.by_name.values():
                for inputs in subsets(kernel.key.inputs):
                    if (key := replace(kernel.key, inputs=inputs)).name == name:
                        return self.find(key)
        return super().named(name)

    def _reason(self, name: str) -> str:
        near = similar(name, self.by_name)
        unknown = f"did you mean {' or '.join(near)}?" if near else "there is none (all: functions)"
        return self.refusals.get(name, unknown)


@cache
def versions() -> Mapping[str, str]:
    """Return the versions that shape the output."""
    return {"grid-gen": __version__} | {
        name: metadata.version(name) for name in ("jinja2", "numpy", "sympy")
    }
