"""Which programs a kernel has: one, or a CPU's and a GPU's."""

from __future__ import annotations

import pytest

from gridgen.options import LONGEST_GPU_PROGRAM, LONGEST_PROGRAM
from gridgen.schedules.thread.plan import count_operations, plan_programs
from numerics.robots import load_tree, urdf_path


def test_a_program_that_both_can_have_is_one() -> None:
    programs = plan_programs(load_tree(urdf_path("arm7")), "inverse_dynamics")
    assert programs.are_one
    assert programs.cpu.loops is None


def test_a_gpu_has_loops_where_a_line_of_code_is_too_long_for_it_alone() -> None:
    tree = load_tree(urdf_path("humanoid"), True)
    length = count_operations(tree, "forward_dynamics_aba", LONGEST_PROGRAM)
    assert LONGEST_GPU_PROGRAM < length < LONGEST_PROGRAM
    programs = plan_programs(tree, "forward_dynamics_aba")
    assert programs.cpu.loops is None
    assert programs.gpu.loops is not None


@pytest.mark.parametrize("on_gpu", [0, 10**6])
def test_what_is_too_long_for_a_cpu_is_so_for_a_gpu(on_gpu: int) -> None:
    programs = plan_programs(load_tree(urdf_path("arm6")), "mass_matrix", 0, on_gpu)
    assert programs.are_one
    assert programs.gpu.loops is not None
