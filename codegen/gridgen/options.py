"""What a user may choose: of a robot, when it is loaded, when a module is generated."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from gridgen.errors import OptionError
from gridgen.functions import FUNCTIONS, GENERATED, FunctionName
from gridgen.functions.arrays import OPTIONAL_INPUTS
from gridgen.naming import ident, one_line, show, show_value, similar
from gridgen.reserved import is_declared

_LISTED = ", ".join(GENERATED)
#: Operations of the longest straight-line program, as ``schedules.thread.is_longer`` counts them. A
#: host compiler takes about 0.12 ms an operation, NVRTC 0.5 ms: half a minute, two minutes.
LONGEST_PROGRAM = 50_000
#: Those of a thread of a GPU. NVRTC compiles each of the humanoid's in 14 s at most.
#: docs/results/gpu.md lists its code of both kinds.
LONGEST_GPU_PROGRAM = LONGEST_PROGRAM
#: What is generated unless something else is asked for.
DEFAULT_FUNCTIONS = tuple(name for name in GENERATED if FUNCTIONS[name].is_default)
#: What is not.
LEFT_OUT = tuple(name for name in GENERATED if name not in DEFAULT_FUNCTIONS)
#: Endings of files with constraints.
CONSTRAINT_FILES = (".json", ".yaml", ".yml")
DTYPE_CHOICES = ("float32", "float64")
#: What a module's C++ header has beside functions.
_FACTS = (
    *("nq", "nv", "bodies", "total_mass", "joint_names", "body_names", "frame_names", "parents"),
    *("lower_limits", "upper_limits", "effort_limits", "velocity_limits", "unlimited"),
    *("joint_index", "body_index", "frame_index", "library", "simd"),
)
#: What modules have beside functions.
_TAKEN = (
    *("robot", "bind", "compile", "compute", "vjp", "jvp", "rollout_vjp", "partial"),
    *("TYPE_CHECKING", "Robot", "open_module", *_FACTS),
)

Fields = ParamSpec("Fields")
Options = TypeVar("Options")
Result = TypeVar("Result")


def keywords_of(
    record: Callable[Fields, Options],
) -> Callable[[Callable[[Any, Options], Result]], Callable[Concatenate[Any, Fields], Result]]:
    """Let the fields of a record be the keyword arguments of a function.

    Args:
        record: class of the record, the function's second parameter.
    """

    def decorate(
        function: Callable[[Any, Options], Result],
    ) -> Callable[Concatenate[Any, Fields], Result]:
        @wraps(function)
        def call(robot: Any, /, *given: Fields.args, **options: Fields.kwargs) -> Result:
            return function(robot, record(*given, **options))

        own = signature(function)
        first = next(iter(own.parameters.values())).replace(kind=Parameter.POSITIONAL_ONLY)
        fields = signature(record).parameters.values()
        call.__signature__ = own.replace(parameters=[first, *fields])  # type: ignore[attr-defined]
        return call

    return decorate


def check_switch(option: str, value: object) -> None:
    """Raise unless an option that is on or off is a bool: the string "no" would count as true."""
    if not isinstance(value, bool):
        raise OptionError(f"{option} is {show_value(value)}; give True or False")


@dataclass(frozen=True, kw_only=True)
class RobotOptions:
    """What a robot is compiled with, beside its file.

    Attributes:
        floating_base:  put a free joint under the root: q begins with x y z qx qy qz qw.
        joint_dynamics: include the damping and friction of the file (tau += d qd + c sign(qd)). A
                        free joint has none; the three joints of a planar one have that of the
                        planar joint.
        armature:       added to the diagonal of the mass matrix, beside what the file has there (a
                        URDF has nothing): one number for every joint with one velocity, or ``nv``
                        numbers.
        parameters:     numbers of the robot that are inputs of its functions: the name of a link,
                        whose inertia it is, a list of such, or ``all`` for every moving body with
                        all that it carries; ``armature``, ``damping`` (docs/parameters.md).
        check_parameters: have calls refuse rows of ``params`` that no body has, those that PyTorch
                        or JAX transforms too; not on a GPU.
        mappings:       arguments of a xacro file: ``{"prefix": "left_"}``.
        lock:           joints that stand still, with their positions [rad or m]:
                        ``{"finger": 0.04}``. They count as fixed, and so do joints that mimic them.
                        A planar joint has (x, y, angle), a floating one (x, y, z, qx, qy, qz, qw).
        constraints:    conditions on the motion, a dictionary each, or the path of a JSON or YAML
                        file with a list of such: ``{"kind": "point", "link": "foot"}``
                        (docs/constraints.md).

    Raises:
        OptionError: a value makes no sense.
    """

    floating_base: bool = False
    joint_dynamics: bool = False
    armature: float | Sequence[float] = 0.0
    parameters: str | Sequence[str] = ()
    check_parameters: bool = True
    mappings: Mapping[str, str] | None = field(default=None, hash=False)
    lock: Mapping[str, float | Sequence[float]] | None = field(default=None, hash=False)
    constraints: str | os.PathLike[str] | Sequence[Mapping[str, Any]] = field(
        default=(), hash=False
    )

    def __post_init__(self) -> None:
        check_switch("floating_base", self.floating_base)
        check_switch("joint_dynamics", self.joint_dynamics)
        check_switch("check_parameters", self.check_parameters)
        # A tree that was built with them is compared and hashed.
        for option in ("armature", "parameters"):
            value = getattr(self, option)
            if type(value) in (list, np.ndarray):
                value = value.tolist() if isinstance(value, np.ndarray) else value
                object.__setattr__(self, option, tuple(value) if type(value) is list else value)
        if not isinstance(self.mappings, (Mapping, type(None))):
            raise OptionError(
                f"mappings is {show_value(self.mappings)}; give a dictionary of a xacro file's "
                "arguments"
            )
        if not isinstance(self.lock, (Mapping, type(None))):
            raise OptionError(f"lock is {show_value(self.lock)}; give positions by joint: a dict")
        object.__setattr__(self, "constraints", read_constraints(self.constraints))

    @property
    def robot(self) -> RobotOptions:
        """Those of the robot alone."""
        return RobotOptions(**{field.name: getattr(self, field.name) for field in _OF_ROBOT})

    def as_data(self) -> dict[str, Any]:
        """Return those of the robot as data that JSON can hold."""
        return {field.name: _plain(getattr(self, field.name)) for field in _OF_ROBOT}


def read_constraints(given: object) -> tuple[Mapping[str, Any], ...]:
    """Return constraints as a tuple of dictionaries.

    Args:
        given: dictionaries, one for each constraint; or the path of a JSON or YAML file with such.

    Raises:
        OptionError: it is neither; the file cannot be read.
    """
    where = "constraints"
    if isinstance(given, (str, os.PathLike)):
        where, given = f"constraints: {os.fspath(given)}", _file(Path(given))
    if not isinstance(given, (list, tuple)):
        raise OptionError(
            f"{where} is {show_value(given)}; give a list of dictionaries, or the path of a file "
            f"({', '.join(CONSTRAINT_FILES)}) with one"
        )
    for entry in given:
        if not isinstance(entry, Mapping) or not all(isinstance(key, str) for key in entry):
            raise OptionError(
                f"{where} has {show_value(entry)}; give a dictionary for each constraint, such as "
                '{"kind": "point", "link": "foot"}'
            )
    return tuple(given)


def _file(path: Path) -> object:
    """Return what a file of constraints holds."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return json.loads(text)
        if path.suffix not in CONSTRAINT_FILES:
            raise OptionError(f"constraints: {path} is no file of {', '.join(CONSTRAINT_FILES)}")
        import yaml  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise OptionError(
            f"constraints: {path}: YAML is read by the package pyyaml, which is not installed: "
            "pip install pyyaml, or give a JSON file"
        ) from None
    except (OSError, ValueError) as error:
        raise OptionError(f"constraints: {path}: {one_line(error)}") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise OptionError(f"constraints: {path}: {one_line(error)}") from error


_OF_ROBOT = fields(RobotOptions)
#: A robot as its file describes it.
DEFAULT_ROBOT = RobotOptions()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(entry) for entry in value]
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(RobotOptions):
    """Choices for one module; those of its robot are described in ``RobotOptions``.

    Attributes:
        output:         folder that the module's folder is put in.
        name:           name of the module; by default the robot's name as an identifier.
        functions:      the functions to generate, of ``gridgen.functions``; none means all but
                        ``LEFT_OUT``.
        frames:         links of the URDF whose Jacobians are generated, and their derivatives
                        unless ``functions`` names one of the two.
        inputs:         optional inputs that the dynamics shall have, of ``OPTIONAL_INPUTS``: each
                        function that can read them is then generated without and with them.
        fuse:           names of functions, as of ``Robot.compute``, by what they shall be called
                        together: each becomes one function of the module, and one in its header.
        variants:       also generate kernels that nothing calls unasked: other orders of a scan's
                        sums, steps of the hybrid schedule in one thread.
        vjp:            also generate each function's pullback by all its arguments, for ``vjp``.
        jvp:            the same of pushforwards, for ``jvp``.
        casadi:         also write the functions, with their Jacobians, for CasADi's ``external``.
        longest_program: operations of the longest straight-line program; the bodies of what would
                        be longer are in loops.
        longest_gpu_program: the same for threads of a GPU, if it is less. There a shorter program
                        has loops as well, if they are predicted to take less time.
        force:          overwrite files in the module's folder that grid-gen has not written, and
                        the module of another robot.
    """

    output: Path = Path("generated")
    name: str | None = None
    functions: tuple[FunctionName, ...] = ()
    frames: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    fuse: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    variants: bool = False
    vjp: bool = False
    jvp: bool = False
    casadi: bool = False
    longest_program: int = LONGEST_PROGRAM
    longest_gpu_program: int = LONGEST_GPU_PROGRAM
    force: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.output, (str, os.PathLike)):
            raise OptionError(f"output is {show_value(self.output)}; give the path of a folder")
        object.__setattr__(self, "output", Path(self.output))
        if not isinstance(self.name, (str, type(None))):
            raise OptionError(f"name is {show_value(self.name)}; give a string")
        check_switch("variants", self.variants)
        check_switch("vjp", self.vjp)
        check_switch("jvp", self.jvp)
        check_switch("casadi", self.casadi)
        check_switch("force", self.force)
        _check_count("longest_program", self.longest_program)
        _check_count("longest_gpu_program", self.longest_gpu_program)
        for option in ("functions", "frames", "inputs"):
            names = getattr(self, option)
            is_several = isinstance(names, (tuple, list))
            if not is_several or not all(isinstance(name, str) for name in names):
                raise OptionError(f"{option} is {show_value(names)}; give a tuple of names")
            object.__setattr__(self, option, tuple(names))
        for function in self.functions:
            _check_function(function)
            if FUNCTIONS[function].of_frame and not self.frames:
                raise OptionError(
                    f"{function} is that of a link, and no link is named; add --frame LINK "
                    "(in Python: frames=)"
                )

        _check_fused(self.fuse)
        for name in self.inputs:
            if name not in OPTIONAL_INPUTS:
                choices = ", ".join(OPTIONAL_INPUTS)
                raise OptionError(f"no optional input {show(name)}; choose among {choices}")

    @property
    def products(self) -> tuple[str, ...]:
        """The products with derivatives that are generated."""
        return tuple(kind for kind in ("vjp", "jvp") if getattr(self, kind))

    @property
    def choices(self) -> tuple[str, ...]:
        """The functions to generate: those named, the default ones otherwise, those of frames."""
        chosen = self.functions or DEFAULT_FUNCTIONS
        of_frames = {name for name in GENERATED if FUNCTIONS[name].of_frame}
        is_chosen = of_frames & set(chosen) or not self.frames
        return chosen if is_chosen else (*chosen, "jacobian", "jacobian_dot_qd")


def _check_fused(fuse: object) -> None:
    """Raise unless functions are named that can be one, under names that are free."""
    if not isinstance(fuse, Mapping):
        raise OptionError(f"fuse is {show_value(fuse)}; give lists of functions by name")
    for label, names in fuse.items():
        if not isinstance(label, str) or ident(label) != label or is_declared(label, frozenset()):
            raise OptionError(
                f"fuse: no function can be called {show_value(label)}; give a name such as control"
            )
        if label in FUNCTIONS or label in _TAKEN or label.startswith("room_of_"):
            raise OptionError(f"fuse: {label} is the name of another function; give a free one")
        if isinstance(names, (str, bytes)) or not isinstance(names, Sequence) or len(names) < 2:
            raise OptionError(
                f"fuse: {label} is {show_value(names)}; give two functions or more, such as "
                '["mass_matrix", "jacobian:hand"]'
            )


def _check_function(name: str) -> None:
    """Raise unless a function can be chosen; say which may have been meant."""
    if name in GENERATED:
        return
    if name in FUNCTIONS:
        raise OptionError(f"{name} is in every module and takes no code: leave it out")
    near = similar(name, GENERATED)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose among {_LISTED}"
    raise OptionError(f"no function {show(name)}; {hint}")


def _check_count(option: str, value: object) -> None:
    """Raise unless an option is a whole number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise OptionError(
            f"{option} is {show_value(value)}; give a number of operations, 0 or more"
        )
