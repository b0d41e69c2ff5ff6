"""Predictions of a GPU: what can be known of them without one."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise

import pytest

from gridgen.cost.devices import DEVICES, device_of, device_reported
from gridgen.cost.gpu import demand_of, predicted, roofline_bound, traffic_of
from gridgen.errors import OptionError
from gridgen.kernel import KernelKey
from gridgen.schedules import Schedules
from helpers.scan import tree_of

BATCHES = (1, 2, 31, 32, 33, 127, 128, 129, 1000, 4096, 16896, 16897, 100_000, 1 << 20)
FUNCTIONS = ("inverse_dynamics", "mass_matrix", "forward_dynamics_gradient")
#: What a device may have more of, and never be slower for it. A clock of memory is not among them:
#: with a faster one an answer takes more clocks, which the table says for each device. Nor is
#: shared memory: it holds more blocks, whose local memory may then outgrow the first cache. For
#: the same reason, L2 grows along.
WIDER = ("sms", "clock", "bandwidth", "l2_clock", "warps", "blocks")


@pytest.fixture(scope="module", params=("arm7", "quadruped"))
def demands(request):
    """What kernels of a robot take, of both schedules."""
    schedules = Schedules(tree_of(request.param, floating_base=request.param == "quadruped"))
    found = []
    for function in FUNCTIONS:
        team = "scan" if function == "inverse_dynamics" else "warp"
        for schedule in ("thread", team):
            kernel = schedules.kernel(KernelKey(function, schedule=schedule))
            work = schedules.work(kernel)
            found += [demand_of(kernel, work, itemsize) for itemsize in (4, 8)]
    return found


@pytest.mark.parametrize("arch", DEVICES)
def test_more_states_are_never_faster(arch, demands):
    for demand in demands:
        times = [predicted(demand, DEVICES[arch], batch).seconds for batch in BATCHES]
        assert all(few <= many for few, many in pairwise(times))
        assert times[0] > DEVICES[arch].launch
        assert times[-1] > 2 * times[0]


@pytest.mark.parametrize("name", WIDER)
def test_a_wider_device_is_never_slower(name, demands):
    for device in DEVICES.values():
        grown = {one: 2 * getattr(device, one) for one in (name, "l2_bytes")}
        wider = replace(device, **grown)
        for demand in demands:
            for batch in BATCHES:
                assert (
                    predicted(demand, wider, batch).seconds
                    <= predicted(demand, device, batch).seconds
                )


def test_more_lanes_of_a_kind_are_never_slower(demands):
    for device in DEVICES.values():
        wider = replace(device, lanes={pipe: 2 * n for pipe, n in device.lanes.items()})
        for demand in demands:
            faster = predicted(demand, wider, 1 << 20).seconds
            assert faster <= predicted(demand, device, 1 << 20).seconds


@pytest.mark.parametrize("arch", DEVICES)
def test_nothing_beats_the_roofline_bound(arch, demands):
    for demand in demands:
        for batch in BATCHES:
            found = predicted(demand, DEVICES[arch], batch)
            assert roofline_bound(demand, DEVICES[arch], batch) < found.seconds
            assert found.seconds == DEVICES[arch].launch + max(
                time for bound, time in found.terms.items() if bound != "launch"
            )


def test_blocks_fit_what_a_multiprocessor_has():
    """Registers: 128 threads of 255 take half; shared memory: with a kilobyte for each block."""
    device = DEVICES["sm_90"]
    assert device.blocks_at_once(128, 255, 0) == 2
    assert device.blocks_at_once(128, 128, 0) == 4
    assert device.blocks_at_once(32, 32, 0) == 32
    assert device.blocks_at_once(1024, 32, 0) == 2
    assert device.blocks_at_once(128, 32, 75 * 1024) == 3
    assert device.blocks_at_once(128, 32, 76 * 1024) == 2
    assert device.blocks_at_once(128, 32, 228 * 1024) == 0
    assert DEVICES["sm_75"].blocks_at_once(128, 32, 32 * 1024) == 2


def test_a_device_stands_for_those_that_came_after_it():
    assert device_of("sm_90a").title == DEVICES["sm_90"].title
    assert device_of("sm_88").arch == "sm_87"
    assert device_of("sm_103").arch == "sm_100"
    assert device_of("sm_101").title == device_of("sm_110").title
    assert device_of("sm_70").arch == "sm_75"  # older than all
    assert device_of("sm_50").arch == "sm_75"
    for wrong in ("90", "compute_90", "gpu", "sm_1", "sm_35"):
        with pytest.raises(
            OptionError, match=f'device is "{wrong}"; choose cpu, cuda or one of sm'
        ):
            device_of(wrong)


def test_a_device_is_what_its_driver_reports():
    """A slice of an H200, a product of sm_89, one that reports nothing, the second of sm_120."""
    slice_of = device_reported("sm_90", "NVIDIA H200 MIG 1g.18gb", {"MultiProcessorCount": 16})
    whole = DEVICES["sm_90"]
    assert (slice_of.sms, slice_of.clock, slice_of.shared) == (16, whole.clock, whole.shared)
    assert slice_of.l2_clock == pytest.approx(whole.l2_clock * 16 / 132)
    reported = {
        "MultiProcessorCount": 24,
        "ClockRate": 2_460_000,
        "MemoryClockRate": 8_501_000,
        "GlobalMemoryBusWidth": 128,
        "MaxSharedMemoryPerMultiprocessor": 102_400,
        "MaxThreadsPerMultiProcessor": 1536,
        "MaxBlocksPerMultiprocessor": 24,
    }
    laptop = device_reported("sm_89", "RTX 4060 Laptop", reported)
    assert (laptop.sms, laptop.clock, laptop.warps, laptop.blocks) == (24, 2.46e9, 48, 24)
    assert laptop.bandwidth == pytest.approx(272e9, rel=1e-3)
    assert replace(device_reported("sm_80", "A", {}), title="A100 SXM 80 GB") == DEVICES["sm_80"]
    orin = {"Integrated": 1, "MemoryClockRate": 1_300_000, "GlobalMemoryBusWidth": 256}
    assert device_reported("sm_87", "Orin", orin).bandwidth == DEVICES["sm_87"].bandwidth
    large = device_reported("sm_120", "NVIDIA RTX PRO 6000 Blackwell", {})
    assert (large.sms, DEVICES["sm_120"].sms) == (188, 170)


def test_traffic_is_that_of_the_arrays():
    """M of arm7: 49 numbers that a thread writes, 7 that it reads, whole sectors in any layout."""
    kernel = Schedules(tree_of("arm7")).kernel(KernelKey("mass_matrix"))
    found = [traffic_of(kernel, 4, layout) for layout in ("rows", "components")]
    assert found == 2 * [(4 * (7 + 49), 4 * (7 + 49) / 32)]


def test_a_team_writes_its_row_together():
    """Eight lanes write eight numbers, a sector of float32; gravity, which all share, is free."""
    kernel = Schedules(tree_of("arm7")).kernel(KernelKey("inverse_dynamics", schedule="scan"))
    assert traffic_of(kernel, 4) == (4 * (3 * 7 + 7), 4 * 3 * 7 / 32 + 7 / 8)


def test_local_memory_takes_time_where_caches_do_not_hold_it():
    """None in L1; then L2, then memory, which counts most where it is slow."""
    schedules = Schedules(tree_of("quadruped", floating_base=True))
    kernel = schedules.kernel(KernelKey("mass_matrix"))
    plain = demand_of(kernel, schedules.work(kernel), 4)
    times = {}
    for size in (64, 1024, 1 << 16):
        demand = replace(plain, local_bytes=size, local_moves=1000.0)
        for arch in ("sm_90", "sm_120"):
            times[size, arch] = predicted(demand, DEVICES[arch], 1 << 20)
    assert times[64, "sm_90"].bound != "L2"
    assert times[1024, "sm_90"].terms["L2"] > 2 * times[64, "sm_90"].terms["L2"]
    assert times[1 << 16, "sm_120"].bound == "memory"
    assert times[1 << 16, "sm_120"].seconds > 2 * times[1 << 16, "sm_90"].seconds
    # A single warp waits for its reads.
    few = replace(plain, local_bytes=64, local_moves=4000.0)
    waits = (
        predicted(few, DEVICES["sm_90"], 32).seconds
        - predicted(plain, DEVICES["sm_90"], 32).seconds
    )
    assert waits == pytest.approx(4000 / 2 / 8 * 35 / DEVICES["sm_90"].clock)


def test_the_figures_of_every_device_are_there():
    for device in DEVICES.values():
        assert all(getattr(device, field.name) for field in fields(device))
