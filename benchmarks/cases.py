"""What is computed: robots, functions, and states in gridgen's conventions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from native import Unavailable, installed

from gridgen.check import random_states
from gridgen.compiler import read_tree
from gridgen.dynamics.computation import array_shape
from gridgen.dynamics.functions import computation_of, frame_idents, refusal
from gridgen.functions import FUNCTIONS, GENERATED
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.modules import TracedModule
from gridgen.options import MAX_PROGRAM, RobotOptions

States = Mapping[str, np.ndarray]

#: The functions compared, each by every method that has a program, by the names of these.
KEYS: dict[str, KernelKey] = {
    key.name: key
    for name in GENERATED
    for method, algorithm in FUNCTIONS[name].methods.items()
    for key in [KernelKey(name, method)]
    if algorithm.algorithm
}
#: Their inputs.
INPUTS = {name: FUNCTIONS[key.function].arguments for name, key in KEYS.items()}
#: Those of one frame, in its own axes.
OF_FRAME = tuple(name for name in GENERATED if FUNCTIONS[name].of_frame)

_EXAMPLES = "cmeel.prefix/share/example-robot-data/robots"
_OWN = Path(__file__).resolve().parents[1] / "robots"
#: Joints of the Panda that are fixed: one finger mimics the other, which few peers can compute.
_FINGERS = ("panda_finger_joint1", "panda_finger_joint2")


@dataclass(frozen=True)
class Case:
    """One robot.

    Attributes:
        name:          what tables call it.
        urdf:          text, without anything that is seen or touched: no peer needs a mesh.
        floating_base: whether the root moves freely.
        longest:       instructions of the longest straight-line program.
        constraints:   of the robot.
    """

    name: str
    urdf: str
    floating_base: bool
    longest: int = MAX_PROGRAM
    constraints: tuple[Mapping[str, object], ...] = ()

    @cached_property
    def tree(self) -> KinematicTree:
        """The robot as gridgen sees it."""
        options = RobotOptions(floating_base=self.floating_base, constraints=self.constraints)
        return read_tree(self.urdf, options)

    @cached_property
    def module(self) -> TracedModule:
        """Its kernels and their text, each traced when it is first asked for."""
        return TracedModule(self.tree, self.longest)

    def states(self, batch: int) -> States:
        """Return random states."""
        return random_states(self.tree, batch, np.random.default_rng(0))

    def result_shapes(self, function: str) -> list[tuple[int, ...]]:
        """Return the shapes of a function's results for one state."""
        outputs = computation_of(self.tree, self.entry(function)).outputs
        return [array_shape(name, self.tree) for name in outputs]

    @property
    def frame(self) -> str:
        """The link whose Jacobian is computed: that with the most joints above it."""
        tree = self.tree
        levels = [tree.bodies[frame.body].level if frame.body >= 0 else -1 for frame in tree.frames]
        return tree.frame_names[levels.index(max(levels))]

    def entry(self, function: str) -> str:
        """Return the name of a function in C++."""
        if function in OF_FRAME:
            frame = frame_idents(self.tree)[self.frame]
            return KernelKey(function, frame=frame, reference="local").name
        return function

    def keywords(self, function: str) -> dict[str, str]:
        """Return the keyword arguments by which ``Robot`` computes a function of ``KEYS``."""
        key = KEYS[function]
        chosen = {FUNCTIONS[key.function].method_word: key.method} if key.method else {}
        return chosen | ({"frame": self.frame} if function in OF_FRAME else {})

    def has(self, function: str) -> bool:
        """Tell whether the robot has a function."""
        return refusal(self.tree, self.entry(function)) is None


def urdf_file(name: str) -> Path:
    """Return the file of a robot of ``CASES``."""
    path = CASES[name][0]
    package = "frax" if path.startswith("frax/") else "example-robot-data"
    inside = path if package == "frax" else f"{_EXAMPLES}/{path}"
    file = _OWN / path if "/" not in path else installed(inside)
    if file is None:
        raise Unavailable(f"{name} comes with a package: pip install {package}")
    return file


def load_case(name: str) -> Case:
    """Return a robot of ``CASES``."""
    _, floating_base, fixed = CASES[name]
    text = urdf_file(name).read_text(encoding="utf-8")
    # Damping and friction are left out of all dynamics compared, so no peer gets to see them.
    for element in ("visual", "collision", "transmission", "dynamics"):
        text = re.sub(rf"<{element}\b[^>]*/>", "", text)
        text = re.sub(rf"<{element}\b.*?</{element}>", "", text, flags=re.DOTALL)
    for joint in fixed:
        text, found = re.subn(rf'(<joint name="{joint}" type=)"\w+"', r'\1"fixed"', text)
        assert found == 1, joint
    return Case(name, re.sub(r"<mimic\b[^>]*/>", "", text), floating_base)


def load_cases(names: Iterable[str], unavailable: dict[str, str]) -> Iterator[Case]:
    """Yield robots of ``CASES``; note of those that are not there why."""
    for name in names:
        try:
            yield load_case(name)
        except Unavailable as error:
            unavailable[name] = str(error)


#: Robots by name: file, whether the base floats, joints that are fixed.
CASES: dict[str, tuple[str, bool, tuple[str, ...]]] = {
    "arm7": ("arm7.urdf", False, ()),
    "panda": ("panda_description/urdf/panda.urdf", False, _FINGERS),
    "quadruped": ("quadruped.urdf", True, ()),
    "go2": ("go2_description/urdf/go2.urdf", True, ()),
    "humanoid": ("humanoid.urdf", True, ()),
    "g1": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", True, ()),
    "iiwa14": ("frax/assets/iiwa/iiwa14.urdf", False, ()),
    "g1_hands": ("g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf", False, ()),
}
#: Those that are at hand everywhere.
OWN = tuple(name for name, (path, _, _) in CASES.items() if "/" not in path)


def operations(case: Case, function: str) -> int:
    """Return the operations that gridgen's code takes for one state."""
    from gridgen.schedules.thread.plan import plan_programs

    return plan_programs(case.tree, case.entry(function)).cpu.operations
