"""Text that is kept from process to process; here from robot to robot, which share nothing else."""

from pathlib import Path

import pytest

import gridgen
from gridgen import source_cache
from gridgen.backends import Sources
from gridgen.compiler import read_tree
from gridgen.modules import TracedModule
from gridgen.options import RobotOptions
from gridgen.schedules.thread import plan
from gridgen.schedules.warp import plan as warp
from helpers.robots import OWN


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The kernels that are traced from now on; nothing is kept yet."""
    monkeypatch.setenv("GRIDGEN_CACHE_DIR", str(tmp_path))
    names: list[str] = []
    planned = plan.plan_programs
    monkeypatch.setattr(
        plan,
        "plan_programs",
        lambda *given: names.append(given[1].name) or planned(*given),
    )
    return names


def text_of(function: str, longest: int = 50_000, **options: object) -> Sources:
    tree = read_tree(OWN / "two_link.urdf", RobotOptions(**options))
    module = TracedModule(tree, longest)
    return module.sources(module.kernels.named(function))


def test_a_kernel_is_traced_once(traced: list[str]) -> None:
    first, again = text_of("mass_matrix"), text_of("mass_matrix")
    assert first == again
    assert first.rows == again.rows != {}
    assert first.digest == again.digest
    assert traced == ["mass_matrix"]


@pytest.mark.parametrize(
    "other",
    [
        {"armature": 0.1},
        {"armature": [0.1, 0.2]},
        {"floating_base": True, "armature": 0.1},
        {"joint_dynamics": True},
        {"parameters": ["forearm"]},
        {"longest": 0},
        {"function": "bias_forces"},
    ],
)
def test_what_may_change_the_text_is_traced(traced: list[str], other: dict[str, object]) -> None:
    text_of("mass_matrix")
    text_of(**{"function": "mass_matrix"} | other)
    assert len(traced) == 2


def test_another_generator_traces_anew(traced: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text_of("mass_matrix")
    state = source_cache._generator()
    assert any("rnea.py" in line for line in state)
    assert any("robot_simd.h.jinja" in line for line in state)
    monkeypatch.setattr(source_cache, "_generator", lambda: (*state, "/dynamics/new.py 1 1"))
    text_of("mass_matrix")
    assert len(traced) == 2


def test_damaged_text_is_traced_anew(traced: list[str], tmp_path: Path) -> None:
    first = text_of("mass_matrix")
    (kept,) = tmp_path.glob("*/text")
    kept.write_text(kept.read_text(encoding="utf-8")[:-100], encoding="utf-8")
    assert text_of("mass_matrix") == first
    assert len(traced) == 2


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The kernels whose operations or lanes are counted from now on; no count is cached yet."""
    monkeypatch.setenv("GRIDGEN_CACHE_DIR", str(tmp_path))
    names: list[str] = []
    count = plan._count
    monkeypatch.setattr(
        plan, "_count", lambda *given: names.append(given[1].key.name) or count(*given)
    )
    run = warp._run
    monkeypatch.setattr(warp, "_run", lambda *given: names.append(given[1].name) or run(*given))
    plan._counted.cache_clear()
    warp.plan_warp.cache_clear()
    return names


def test_loading_counts_nothing_and_each_kernel_is_counted_once(counted: list[str]) -> None:
    def loaded() -> gridgen.Robot:
        ground = [{"link": "FL_foot", "radius": 0.02}]
        return gridgen.load(OWN / "quadruped.urdf", floating_base=True, ground=ground, contact=True)

    robot = loaded()
    assert counted == []
    assert robot.kernels["step_semi_implicit"].key.method == "semi_implicit"
    assert "step_rk4" in robot.kernels
    once = list(counted)
    assert sorted(once) == ["step_rk4", "step_semi_implicit"]
    plan._counted.cache_clear()
    again = loaded()
    assert "step_semi_implicit" in again.kernels
    assert "step_rk4" in again.kernels
    assert counted == once  # no second time
    assert "step_variational" not in again.kernels
    assert "mass_matrix_warp" in again.kernels
    assert counted == [*once, "mass_matrix_warp"]


def test_robots_of_one_file_have_their_own_counts(counted: list[str]) -> None:
    trees = [
        read_tree(OWN / "humanoid.urdf", RobotOptions(floating_base=True, armature=armature))
        for armature in (0.0, 0.1)
    ]
    for tree in (*trees, *trees):
        plan._counted.cache_clear()
        plan.count_operations(tree, "forward_dynamics_aba")
    assert counted == ["forward_dynamics_aba"] * 2
