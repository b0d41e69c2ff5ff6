"""Inputs are validated by every way into a kernel: of first calls, of later ones, of bound ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import gridgen
from gridgen.backends import Sources
from gridgen.errors import GridGenError, ModelError, OptionError
from gridgen.functions import FUNCTIONS, GENERATED
from gridgen.functions.arrays import ARRAYS, OPTIONAL_INPUTS, extents_of, shape_of
from gridgen.functions.calls import Request, RolloutSettings
from gridgen.modules import TracedModule
from gridgen.runtime.arrays import defaults
from gridgen.runtime.arrays.validation import RULES
from gridgen.runtime.calls import compiled
from helpers.dynamics import robot_path
from helpers.robots import GROUND

#: States and time steps of a call.
STATES, STEPS = 3, 2
WORLD = gridgen.world(spheres=[(5.0, 5, 5, 0.1)], boxes=[(3.0, 0, 0, 0, 0, 0, 1, 1, 1, 1)])
FIELD = gridgen.terrain(np.zeros((3, 4)), half_lengths=(1, 1))
#: Robots that together have all inputs.
ROBOTS: dict[str, dict[str, Any]] = {
    "constraints": {
        "constraints": [{"kind": "point", "link": "tip"}],
        "parameters": ("all", "armature", "damping", "joint_friction", "offsets"),
        "spheres": {"base": [(0.0, 0, 0, 0.3)], "forearm": [(0.0, 0, 0, 0.3)]},
    },
    "contacts": {
        "ground": GROUND["two_link"],
        "contact": {"terrain": FIELD},
        "parameters": ("all",),
    },
}


class Recorder:
    """A backend whose kernels compute nothing, and do not read their arrays.

    Attributes:
        launches: number of launches.
    """

    def __init__(self) -> None:
        self.launches = 0

    def kernel(self, *_: Any) -> Any:
        return self

    def __call__(self, *_: Any) -> None:
        self.launches += 1

    def prepare(self, *_: Any) -> Callable[[], None]:
        return self


class DirectRecorder(Recorder):
    """One for compiled code that reads NumPy arrays itself, and validates quaternions."""

    at_once = 64

    def has_unit_quaternions(self, arguments: Any, batch: int) -> bool:
        return True

    def direct(self, *arrays: Any) -> Any:
        if any(type(array) is not np.ndarray for array in arrays):
            return None
        self.launches += 1
        return True


@pytest.fixture(params=[Recorder, DirectRecorder])
def recorder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder: Recorder = request.param()
    monkeypatch.setattr(compiled, "backend", lambda name: recorder)
    monkeypatch.setattr(TracedModule, "sources", lambda self, kernel: Sources("fake", {}))
    return recorder


def good(robot: gridgen.Robot, name: str, *, timed: bool) -> np.ndarray:
    """Return a valid input of several states."""
    kind = ARRAYS[name]
    if kind.is_configuration:
        array = robot.neutral()
    elif kind.numbers == "obstacles":
        array = {"world": WORLD, "terrain": FIELD}[name]
    elif name in robot._description.parameters.own:
        array = robot.parameters(name)
    elif name == "offset":
        array = np.eye(4)
    else:
        array = np.full(shape_of(name, extents_of(robot)), 0.5)
    lead = (STATES, STEPS) if timed else (STATES,)
    return np.broadcast_to(array, (*lead, *array.shape)).copy()


def spoiled(name: str, array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield copies of a valid input with invalid numbers."""
    kind = ARRAYS[name]
    changes: dict[str, list[tuple[Any, Any]]] = {
        "0 or 1": [((..., 0), 0.5), ((..., 0), np.nan)],
        "0 or more": [(..., -1.0), (..., np.nan)],
        "0 to 1": [(..., -0.1), (..., 1.1)],
        "positive": [(..., 0.0), (..., np.inf)],
        "softness": [(..., 0.0), (..., -1.0), (..., np.inf), (..., np.nan)],
        "poses": [((..., 0, 0), 2.0), ((..., 3, 3), 0.0)],
        "factors": [((..., 0), -1.0), ((..., 0), np.nan), (..., 0.0)],
        "bodies": [((..., 0), -1.0), ((..., 0), np.nan), ((..., 4), -100.0)],
        "obstacles": [((..., i), wrong) for i in (0, 1) for wrong in (1e9, -1.0, 2.5, np.nan)]
        + [((..., 5), np.nan)],
        "": [((..., slice(3, 7)), 2.0), ((..., 6), 1.1)],  # quaternions
    }
    assert changes.keys() == {*RULES, ""}
    for place, wrong in changes[kind.numbers]:
        found = array.copy()
        found[-1:][place] = wrong
        yield found


def requests(robot: gridgen.Robot) -> Iterator[Request]:
    """Yield a valid call with all inputs of each function."""
    known = robot._description
    for name in GENERATED:
        row = FUNCTIONS[name]
        optional = [array for key in row.optional_inputs for array in OPTIONAL_INPUTS[key].arrays]
        names = (
            *row.arguments,
            *optional,
            *(n for n in row.parameters if n in known.parameters.own),
        )
        settings = RolloutSettings() if name == "rollout" else None
        timed = ("tau", "ctrl") if settings else ()
        arrays = {array: good(robot, array, timed=array in timed) for array in names}
        given = tuple(arrays.pop(argument) for argument in row.arguments)
        words = (robot.frame_names[-1], "local") if row.of_frame else (None, "")
        method = "semi_implicit" if row.method_word == "integrator" else "auto"
        yield Request(name, given, None, arrays, "auto", method, *words, settings)


@pytest.mark.parametrize("kind", ROBOTS)
def test_every_input_is_validated_by_every_way_into_a_kernel(kind: str, recorder: Recorder) -> None:
    """After a valid call, and in a bound one, no kernel reads arrays with invalid numbers."""
    robot = gridgen.load(robot_path("two_link"), floating_base=True, **ROBOTS[kind])
    tried: set[str] = set()
    for request in requests(robot):
        try:
            kernel = robot.resolver.resolve(request).kernel
        except ModelError:  # the robot does not support it
            continue
        call = partial(robot._call, request)
        for name, array in arrays_of(request).items():
            if name not in kernel.inputs or not is_validated(name, recorder):
                continue
            tried.add(name)
            call()
            bound = robot._binder.bind(robot.resolver.resolve(request))
            for wrong in spoiled(name, array):
                valid, before = array.copy(), recorder.launches
                array[...] = wrong
                for again in (call, bound):
                    with pytest.raises(GridGenError):
                        again()
                assert recorder.launches == before
                array[...] = valid
                call()
                bound()
                assert recorder.launches == before + 2
    assert tried >= {"constraints": {"active", "offset"}, "contacts": {"offset"}}[kind]


def arrays_of(request: Request) -> dict[str, Any]:
    names = FUNCTIONS[request.function].arguments
    return {**dict(zip(names, request.arrays, strict=True)), **request.options}


def is_validated(name: str, recorder: Recorder) -> bool:
    """Return whether Python validates an input; compiled code validates quaternions itself."""
    kind = ARRAYS[name]
    return bool(kind.numbers) or (kind.is_configuration and type(recorder) is Recorder)


def test_calls_with_new_numbers_each_time_do_not_fill_the_memory(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds of a rollout, and time steps; both are validated in each call."""
    monkeypatch.setattr(defaults, "_MAX_NUMBERS", 4)
    monkeypatch.setattr(defaults, "_NUMBERS", {})
    robot = gridgen.load(robot_path("two_link"))
    q = np.zeros((STATES, 2))
    for i in range(10):
        dt, stop_when = 0.01 + 1e-4 * i, {"elbow": (-1.0, 1.0 + i)}
        robot.rollout(q, q, np.zeros((STATES, STEPS, 2)), dt, stop_when=stop_when)
        robot.step(q, q, q, dt)
    assert len(defaults._NUMBERS) == 4
    made = len(defaults._MADE)
    with pytest.raises(OptionError, match="whose ends are exchanged"):
        robot.rollout(q, q, np.zeros((STATES, STEPS, 2)), dt, stop_when={"elbow": (1.0, -1.0)})
    robot.rollout(q, q, np.zeros((STATES, STEPS, 2)), dt, stop_when={"elbow": (-1.0, 20.0)})
    assert len(defaults._MADE) == made
