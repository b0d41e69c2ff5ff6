"""The order of predictions is that of a simulated GPU.

Cycles of a launch on GPGPU-Sim (commit 667834cf, its Quadro GV100, launch latency taken off), which
executed the PTX that NVRTC 12.9 makes of the kernels for compute_75: 32 states, float32, arrays in
rows, random numbers between -1 and 1, blocks as in the records of the kernels.
"""

from __future__ import annotations

import pytest

from gridgen.cost.devices import DEVICES
from gridgen.cost.gpu import demand_of, predicted
from gridgen.kernel import KernelKey
from gridgen.schedules import Schedules
from helpers.scan import tree_of

STATES = 32
#: By robot and function, method after a slash: cycles of a thread for each state, and of a team of
#: the scan schedule.
CYCLES = {
    ("arm7", "inverse_dynamics"): (5651, 11332),
    ("arm7", "forward_dynamics/aba"): (8637, 35192),
    ("arm7", "mass_matrix"): (4554, None),
    ("arm7", "mass_matrix_inverse"): (6622, None),
    ("arm7", "inverse_dynamics_gradient"): (17079, None),
    ("quadruped", "inverse_dynamics"): (10899, 13782),
    ("quadruped", "forward_dynamics/aba"): (18255, 38587),
    ("quadruped", "mass_matrix"): (10210, None),
    ("quadruped", "mass_matrix_inverse"): (24132, None),
}
#: The device that is most like the simulated one: as many lanes, a few multiprocessors more.
LIKE = DEVICES["sm_80"]
#: By how much the proportion of two predictions may miss that of the cycles.
NEAR = 2.0


def seconds(robot: str, function: str, schedule: str) -> float:
    """Predict what the simulator tells: the time without the launch."""
    name, _, method = function.partition("/")
    schedules = Schedules(tree_of(robot, floating_base=robot == "quadruped"))
    kernel = schedules.kernel(KernelKey(name, method, schedule))
    demand = demand_of(kernel, schedules.work(kernel), itemsize=4)
    return predicted(demand, LIKE, STATES).seconds - LIKE.launch


@pytest.mark.parametrize(("robot", "function"), [one for one, pair in CYCLES.items() if pair[1]])
def test_the_faster_schedule_is_predicted(robot, function):
    thread, team = CYCLES[robot, function]
    times = seconds(robot, function, "thread"), seconds(robot, function, "scan")
    assert (times[0] < times[1]) == (thread < team)
    assert 1 / NEAR < times[1] / times[0] / (team / thread) < NEAR


def test_functions_are_in_order():
    """Of two kernels of a robot and a schedule, where one takes twice the cycles of the other."""
    for at, schedule in enumerate(("thread", "scan")):
        for robot in ("arm7", "quadruped"):
            found = sorted(
                (cycles[at], seconds(robot, function, schedule))
                for (name, function), cycles in CYCLES.items()
                if name == robot and cycles[at]
            )
            for cycles, time in found:
                assert all(time < other for more, other in found if more > 2 * cycles)
