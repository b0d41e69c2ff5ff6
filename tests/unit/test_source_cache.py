"""Text that is kept from process to process; here from robot to robot, which share nothing else."""

from pathlib import Path

import pytest

import gridgen.modules
from gridgen import source_cache
from gridgen.backends import Sources
from gridgen.compiler import read_tree
from gridgen.modules import TracedModule
from gridgen.options import RobotOptions
from helpers.robots import OWN


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The kernels that are traced from now on; nothing is kept yet."""
    monkeypatch.setenv("GRIDGEN_CACHE_DIR", str(tmp_path))
    names: list[str] = []
    plan = gridgen.modules.plan_programs
    monkeypatch.setattr(
        gridgen.modules,
        "plan_programs",
        lambda *given: names.append(given[1].name) or plan(*given),
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
