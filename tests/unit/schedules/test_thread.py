"""Which programs a kernel has: one, or a CPU's and a GPU's."""

from __future__ import annotations

import pytest

from gridgen.schedules.thread import plan
from gridgen.schedules.thread.plan import count_operations, plan_programs
from helpers.scan import tree_of
from numerics.robots import load_tree, urdf_path


def test_a_program_that_both_can_have_is_one() -> None:
    programs = plan_programs(load_tree(urdf_path("arm7")), "inverse_dynamics")
    assert programs.are_one
    assert programs.cpu.loops is None


@pytest.mark.parametrize("function", ["forward_dynamics_aba", "mass_matrix_inverse"])
def test_a_gpu_has_straight_line_code_of_a_large_robot(function: str) -> None:
    programs = plan_programs(tree_of("humanoid", floating_base=True), function)
    assert programs.are_one
    assert programs.gpu.loops is None


def test_a_gpu_has_loops_where_a_line_of_code_takes_too_long_to_compile() -> None:
    tree = load_tree(urdf_path("arm6"))
    most = plan_programs(tree, "mass_matrix").cpu.instructions
    assert plan_programs(tree, "mass_matrix", longest_on_gpu=most).are_one
    programs = plan_programs(tree, "mass_matrix", longest_on_gpu=most - 1)
    assert programs.cpu.loops is None
    assert programs.gpu.loops is not None


def test_the_instructions_that_result_decide_about_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, function = load_tree(urdf_path("two_link")), "forward_dynamics_gradient"
    lines = plan_programs(tree, function).cpu
    assert lines.instructions < lines.operations < count_operations(tree, function)
    assert plan_programs(tree, function, lines.instructions).cpu.loops is None
    assert plan_programs(tree, function, lines.instructions - 1).cpu.loops is not None
    monkeypatch.delattr(plan, "plan_lines")  # too long by far: no trace
    assert plan_programs(tree, function, lines.instructions // 4).cpu.loops is not None


@pytest.mark.parametrize("on_gpu", [0, 10**6])
def test_what_is_too_long_for_a_cpu_is_so_for_a_gpu(on_gpu: int) -> None:
    programs = plan_programs(load_tree(urdf_path("arm6")), "mass_matrix", 0, on_gpu)
    assert programs.are_one
    assert programs.gpu.loops is not None
