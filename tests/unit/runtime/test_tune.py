"""What ``tune`` measures, and which robot the times are those of."""

from __future__ import annotations

import numpy as np
import pytest

import gridgen
from gridgen.compiler import generate, read_tree
from gridgen.cost import profile
from gridgen.errors import OptionError
from gridgen.functions import FUNCTIONS
from gridgen.modules import TracedModule
from gridgen.options import MAX_PROGRAM, GenerateOptions, RobotOptions
from gridgen.runtime.module.files import FolderModule
from gridgen.runtime.planning import tune
from helpers.robots import OWN

URDF = OWN / "two_link.urdf"


def tree_with(parameters):
    return read_tree(URDF, RobotOptions(parameters=parameters))


def test_other_options_make_another_robot():
    """Those that change its code, though the text is the same."""
    choices = ("forearm", ("forearm", "upper_arm"), "all", "armature")
    modules = [TracedModule(tree_with(names)) for names in ((), *choices)]
    plain = tree_with(())
    modules += [TracedModule(plain, 0), TracedModule(plain, MAX_PROGRAM, 0)]
    digests = {module.description.digest for module in modules}
    assert len(digests) == len(modules)


@pytest.mark.parametrize("parameters", [(), ("forearm", "damping")])
def test_loaded_and_generated_a_robot_is_the_same(tmp_path, parameters):
    options = GenerateOptions(output=tmp_path, parameters=parameters, functions=("gravity_forces",))
    written = FolderModule(generate(URDF, options).folder)
    loaded = TracedModule(tree_with(parameters))
    assert written.description.digest == loaded.description.digest


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("interpolate", "two_link"),
        ("difference", "quadruped"),
        pytest.param("step", "two_link", marks=pytest.mark.exhaustive),
    ],
)
def test_functions_are_given_arguments_of_their_shapes(tmp_path, monkeypatch, function, name):
    monkeypatch.setattr(profile, "cache_folder", tmp_path.joinpath)
    monkeypatch.setattr(tune, "_DRAWN", 3)  # so that states come again
    results = []

    def timed(clock, calls):
        results.extend(call() for call in calls.values())
        return dict.fromkeys(calls, 1.0)

    monkeypatch.setattr(tune, "least", timed)
    robot = gridgen.load(OWN / f"{name}.urdf", floating_base=name == "quadruped")
    tuned = robot.tune(device="cpu", functions=[function], batches=[8], dtypes=["float64"])
    methods = FUNCTIONS[function].methods
    assert {way.kernel for way in tuned.profile.times} == {
        "_".join(filter(None, (function, method))) for method in methods
    }
    assert len(results) == len(methods)
    for result in results:
        for array in result if isinstance(result, tuple) else (result,):
            assert np.isfinite(array).all()
            np.testing.assert_array_equal(array[:3], array[3:6])


def test_a_rollout_is_not_measured():
    robot = gridgen.load(URDF)
    with pytest.raises(OptionError, match='functions is "rollout"; choose one of'):
        robot.tune(device="cpu", functions=["rollout"])
