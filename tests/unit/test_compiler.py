import gc

import numpy as np
import pytest

import gridgen
from gridgen.compiler import make_module
from gridgen.errors import UrdfError
from gridgen.options import GenerateOptions
from robots_for_tests import OWN


def test_the_search_for_unreachable_objects_is_rarer_while_tracing_and_then_as_before():
    usual, seen = gc.get_threshold(), []
    arm = OWN / "two_link.urdf"
    make_module(arm, GenerateOptions(), lambda step: seen.append(gc.get_threshold()))
    assert min(seen) > usual
    with pytest.raises(UrdfError):
        make_module("<robot", GenerateOptions(), lambda step: None)
    assert gc.get_threshold() == usual


@pytest.mark.usefixtures("traced_anew")
def test_a_robot_in_memory_is_traced_so_too(monkeypatch):
    usual, seen = gc.get_threshold(), []
    plan = gridgen.modules.plan_programs
    monkeypatch.setattr(
        gridgen.modules, "plan_programs", lambda *a: seen.append(gc.get_threshold()) or plan(*a)
    )
    robot = gridgen.load(OWN / "two_link.urdf", backend="cpu")
    robot.mass_matrix(np.array([0.1, 0.2]))
    assert min(seen) > usual == gc.get_threshold()
