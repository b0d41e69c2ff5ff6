"""The stages as consecutive calls: parse, tree, trace, emit; compile and run come with the calls.

parse_urdf     text of a URDF          -> RobotDescription   gridgen.model.urdf
build_tree     RobotDescription        -> KinematicTree      gridgen.model.tree
plan_thread    KinematicTree, function -> Program            gridgen.schedules.thread
render_...     Programs                -> files of a module  gridgen.emit.render
Robot          files                   -> compiled functions gridgen.runtime.robot
"""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from gridgen.backends import Sources
from gridgen.dynamics.cfa import refusal as cfa_refusal
from gridgen.dynamics.functions import FUNCTIONS, Function, frame_functions
from gridgen.emit.render import (
    MODEL_FILE,
    describe,
    model_text,
    render_module,
    render_sources,
)
from gridgen.emit.writer import write_folder
from gridgen.errors import ModelError, OptionError, UrdfError
from gridgen.kernel import KernelKey
from gridgen.model.description import RobotDescription, refuse_many
from gridgen.model.document import Source, is_text
from gridgen.model.objects import from_object, is_robot_object
from gridgen.model.tree import KinematicTree, build_tree, count_bodies
from gridgen.model.urdf import parse_urdf
from gridgen.naming import robot_ident, show_value
from gridgen.options import (
    FUNCTION_CHOICES,
    LONGEST_PROGRAM,
    GenerateOptions,
    check_switch,
)
from gridgen.runtime.description import Description, read_description
from gridgen.runtime.module import is_source
from gridgen.runtime.progress import announced
from gridgen.runtime.robot import Robot
from gridgen.runtime.types import BackendChoice
from gridgen.schedules.cfa import CFA_FUNCTIONS
from gridgen.schedules.scan import plan_scan, scan_refusal
from gridgen.schedules.scan_functions import SCAN_FUNCTIONS
from gridgen.schedules.thread import is_longer, plan_thread
from gridgen.symbolic.program import Program
from gridgen.version import __version__

Progress = Callable[[str], None]

#: Moving bodies of the largest robot; the text and the tracing time of its functions grow with it.
MOST_BODIES = 2048


@dataclass(frozen=True)
class GeneratedModule:
    """What ``generate`` made.

    Attributes:
        folder:   where it lies.
        tree:     the robot.
        programs: its functions, by name.
        scans:    names of its kernels of the scan schedule.
        left_out: functions that would be very long and were not asked for, with the reason.
        files:    text by file name.
    """

    folder: Path
    tree: KinematicTree
    programs: Mapping[str, Program]
    scans: Sequence[str]
    left_out: Mapping[str, str]
    files: Mapping[str, str]

    @cached_property
    def description(self) -> Description:
        """What is known of the robot."""
        return read_description(json.loads(self.files[MODEL_FILE]))

    def sources(self, function: str) -> Sources:
        """Return the files to compile: they define every function."""
        return self._sources

    @cached_property
    def _sources(self) -> Sources:
        files = {name: text for name, text in self.files.items() if is_source(name)}
        return Sources(self.folder.name, files)


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
    progress("reading the URDF")
    tree = read_tree(
        urdf,
        floating_base=options.floating_base,
        joint_dynamics=options.joint_dynamics,
        armature=options.armature,
    )
    name = robot_ident(tree.name if options.name is None else options.name)
    functions = selected_functions(tree, options.choices, options.frames, options.variants)
    longest = None if options.functions else LONGEST_PROGRAM
    programs: dict[str, Program] = {}
    left_out: dict[str, str] = {}
    for function, spec in functions.items():
        progress(f"tracing {function}")
        if longest and function in FUNCTIONS and is_longer(tree, function, longest):
            left_out[function] = _too_long(spec, longest)
        else:
            programs[function] = plan_thread(tree, function)
    progress("writing the text")
    scans, refused = selected_scans(tree, options.choices, options.variants)
    files = render_sources(tree, name, __version__, programs, scans)
    made = {function: functions[function] for function in programs}
    model = model_text(describe(tree, name, versions(), made, scans, left_out | refused))
    offered = options.choices if options.functions else FUNCTION_CHOICES
    keys = [*(functions[program].key for program in programs), *map(scan_key, scans)]
    files |= render_module(tree, name, __version__, offered, keys, model)
    return GeneratedModule(options.output / name, tree, programs, scans, left_out, files)


def _too_long(function: Function, longest: int) -> str:
    return (
        f"more than {longest} operations make a program that takes long to compile; "
        'on a GPU: schedule="scan", where the function has it; if the long program is '
        f"wanted: --functions {function.key.function}"
    )


def load(
    urdf: Any,
    *,
    floating_base: bool = False,
    joint_dynamics: bool = False,
    armature: float | Sequence[float] = 0.0,
    backend: BackendChoice = "auto",
) -> Robot:
    """Return a robot whose functions are generated and compiled when they are first called.

    Args:
        urdf:           path of a URDF file, its text (``str`` or ``bytes``), or a
                        ``urdfpy.URDF`` / ``urchin.URDF``.
        floating_base:  put a free joint under the root: q begins with x y z qx qy qz qw.
        joint_dynamics: count the URDF's damping and friction in (tau += d qd + c sign(qd)).
        armature:       added to the diagonal of the mass matrix: one number, or nv.
        backend:        ``auto``, ``cpu``, ``cuda`` or ``emulated``.

    Raises:
        GridGenError: the file is not one sound robot, or an option is wrong.
    """
    tree = read_tree(
        urdf, floating_base=floating_base, joint_dynamics=joint_dynamics, armature=armature
    )
    return Robot(TracedModule(tree), backend)


def read_tree(
    urdf: Any,
    *,
    floating_base: bool,
    joint_dynamics: bool,
    armature: float | Sequence[float],
) -> KinematicTree:
    """Return the kinematic tree of a URDF file, text or object.

    Raises:
        UrdfError:   it is none of these, or not one sound robot.
        ModelError:  it has more bodies than ``MOST_BODIES``.
        OptionError: an option has a value that makes no sense.
    """
    check_switch("floating_base", floating_base)
    check_switch("joint_dynamics", joint_dynamics)
    description = _read_description(urdf)
    refuse_many(description.source, count_bodies(description, floating_base), MOST_BODIES)
    return build_tree(
        description,
        floating_base=floating_base,
        joint_dynamics=joint_dynamics,
        armature=armature,
    )


def _read_description(urdf: Any) -> RobotDescription:
    """Return what a URDF file, text or object says."""
    if isinstance(urdf, (str, bytes, bytearray, memoryview, os.PathLike)):
        with _announced_if_slow(urdf):
            return parse_urdf(urdf, MOST_BODIES)
    if is_robot_object(urdf):
        return from_object(urdf)
    kind = type(urdf)
    what = "None" if urdf is None else f"a {kind.__module__}.{kind.__qualname__}"
    advice = "give the path of a URDF file, its text, or a urdfpy.URDF or urchin.URDF"
    if hasattr(urdf, "read"):
        what, advice = "an open file", "give its path, or what its read() returns"
    raise UrdfError(f"the robot is {what}; {advice}", "urdf")


def _announced_if_slow(urdf: Source) -> AbstractContextManager[None]:
    """Say what is waited for where a path leads to a pipe: it may have no writer yet."""
    if isinstance(urdf, (str, os.PathLike)) and not is_text(urdf):
        with suppress(OSError, ValueError):  # reading it says what is wrong
            if not stat.S_ISREG(os.stat(urdf).st_mode):
                name = os.fsdecode(urdf)
                return announced(f"reading {name}: a program must write into it", everywhere=True)
    return nullcontext()


def selected_functions(
    tree: KinematicTree,
    choices: Sequence[str],
    frames: Sequence[str] | None,
    variants: bool = True,
) -> dict[str, Function]:
    """Return the functions to generate, by name: those chosen that the robot can have.

    Args:
        tree:     the robot.
        choices:  of ``gridgen.options.FUNCTION_CHOICES``.
        frames:   the frames that have Jacobians; ``None`` for all.
        variants: whether those too that nothing calls unasked.
    """
    possible = FUNCTIONS | frame_functions(tree, frames)
    return {
        name: spec
        for name, spec in possible.items()
        if spec.key.function in choices
        and (variants or spec.is_called)
        and spec.refusal(tree) is None
    }


def selected_scans(
    tree: KinematicTree, choices: Sequence[str], variants: bool = True
) -> tuple[list[str], dict[str, str]]:
    """Return the kernels of the scan schedule to generate, and why there are not others.

    Args:
        tree:     the robot.
        choices:  of ``gridgen.options.FUNCTION_CHOICES``.
        variants: whether those too that nothing calls unasked.
    """
    chosen, refusals = [], {}
    for name in (*SCAN_FUNCTIONS, *CFA_FUNCTIONS):
        key = scan_key(name)
        if key.function not in choices or (key.variant and not variants):
            continue
        reason = _scan_refusal(tree, name)
        if reason is None:
            chosen.append(name)
        else:
            refusals[name] = reason
    return chosen, refusals


def scan_key(name: str) -> KernelKey:
    """Return which kernel of the scan schedule has a name."""
    return CFA_FUNCTIONS[name].key if name in CFA_FUNCTIONS else SCAN_FUNCTIONS[name].key


def _scan_refusal(tree: KinematicTree, name: str) -> str | None:
    try:
        plan = plan_scan(tree)
    except ModelError as error:  # too many bodies for a block of threads
        return str(error)
    return cfa_refusal(tree) if name in CFA_FUNCTIONS else scan_refusal(plan, name)


# Tracing keeps the interpreter to itself: one lock serves all robots.
_tracing: dict[int, threading.Lock] = {}


class TracedModule:
    """A module in memory, each function traced when it is first asked for.

    Args:
        tree: the robot.
    """

    def __init__(self, tree: KinematicTree) -> None:
        self._tree = tree
        self._ident = robot_ident(tree.name)
        self._sources: dict[str, Sources] = {}

    @cached_property
    def description(self) -> Description:
        """What is known of the robot."""
        functions = selected_functions(self._tree, FUNCTION_CHOICES, None)
        scans, refused = selected_scans(self._tree, FUNCTION_CHOICES)
        model = describe(self._tree, self._ident, versions(), functions, scans, refused)
        return read_description(model)

    def sources(self, function: str) -> Sources:
        """Return text in which ``function`` is defined, and no other."""
        if function not in self._sources:
            # Threads that ask at once shall wait for one to trace it. A fork may copy a lock that
            # is held, without the thread that holds it: each process has its own.
            with _tracing.setdefault(os.getpid(), threading.Lock()):
                self._trace(function)
        return self._sources[function]

    def _trace(self, function: str) -> None:
        if function not in self._sources:
            is_scan = function in SCAN_FUNCTIONS or function in CFA_FUNCTIONS
            scans = [function] if is_scan else []
            programs = {} if scans else {function: plan_thread(self._tree, function)}
            files = render_sources(self._tree, self._ident, __version__, programs, scans)
            self._sources[function] = Sources(self._ident, files)


def versions() -> dict[str, str]:
    """Return the versions that shape the output."""
    return {"grid-gen": __version__} | {
        name: metadata.version(name) for name in ("jinja2", "numpy", "sympy")
    }
