"""The model of the pipeline against the tables of the paper that it is from."""

from __future__ import annotations

import pytest

from gridgen.errors import OptionError
from gridgen.papers.model import (
    Machine,
    Operations,
    Split,
    best_split,
    pipeline,
)

# Table 1; a message of 72 bytes at 1.72 MB/s.
TRANSPUTER = Machine(operation=1.81e-6, start=54e-6, message=72 / 1.72e6)
# A matrix times a vector takes 15 operations, a cross product 9, a sum 3 (docs/papers.md).
FORWARD_STEPS = (15 + 1, 9, 15 + 1 + 3, 15, 9, 9 + 9, 3 + 3, 9, 9 + 9, 3 + 3)
BACKWARD_STEPS = (15, 15 + 9, 15 + 3 + 3, 9, 15 + 3, 9 + 3, 3 + 3 + 3, 5)
# The forward chain as its steps are counted; the backward chain by what the tables say of it.
OPERATIONS = Operations(forward=sum(FORWARD_STEPS), backward=68)

# Table 2: milliseconds from a sample to its efforts, 6 joints.
LATENCIES = {(2, 1): 2.039, (3, 1): 1.957, (3, 2): 1.746, (4, 2): 1.753}
# Table 3, of which the first column is that of Table 2: samples in a second.
RATES = {
    (2, 1): {6: 1111, 12: 544, 18: 352},
    (3, 1): {6: 1111, 12: 555, 18: 370},
    (3, 2): {6: 1428, 12: 704, 18: 456},
    (4, 2): {6: 1428, 12: 721, 18: 481},
}


def test_the_steps_of_the_forward_chain_are_those_that_its_rates_tell():
    assert sum(FORWARD_STEPS) == 125
    # 17 cycles of three stages in Table 3: C t_e = 3 (1 / (17 * 456 Hz) - T_c).
    told = 3 * (1 / (17 * 456) - TRANSPUTER.start) / TRANSPUTER.operation
    assert told == pytest.approx(125, rel=0.02)


def test_the_backward_chain_of_the_tables_has_fewer_operations_than_its_steps():
    """Three entries of the tables tell the same number: one processor, one stage, two stages."""
    t_e, t_c = TRANSPUTER.operation, TRANSPUTER.start
    alone = 2.100e-3 / 6 / t_e - OPERATIONS.forward
    one_stage = (1 / (12 * 555) - t_c / 2) / t_e
    two_stages = 2 * (1 / (12 * 721) - t_c) / t_e
    assert (alone, one_stage, two_stages) == pytest.approx((68, 68, 68), abs=0.5)
    assert sum(BACKWARD_STEPS) == 113


@pytest.mark.parametrize("split", LATENCIES)
def test_latencies_are_those_of_table_2(split):
    found = pipeline(6, Split(*split), OPERATIONS).latency(TRANSPUTER)
    assert 1e3 * found == pytest.approx(LATENCIES[split], rel=0.03)


@pytest.mark.parametrize(
    ("split", "joints"), [(split, joints) for split, row in RATES.items() for joints in row]
)
def test_rates_are_those_of_tables_2_and_3(split, joints):
    found = pipeline(joints, Split(*split), OPERATIONS).rate(TRANSPUTER)
    assert found == pytest.approx(RATES[split][joints], rel=0.015)


def test_one_processor_is_that_of_table_2():
    of_a_joint = OPERATIONS.forward + OPERATIONS.backward
    assert 1e3 * 6 * of_a_joint * TRANSPUTER.operation == pytest.approx(2.100, rel=0.005)


@pytest.mark.parametrize(("workers", "expected"), [(3, (2, 1)), (4, (3, 1)), (5, (3, 2))])
def test_processors_are_split_as_in_the_paper(workers, expected):
    assert best_split(workers, 18, OPERATIONS, TRANSPUTER) == Split(*expected)


def test_more_processors_stop_to_shorten_the_latency():
    """Each stage adds the start of a transfer and a message; the paper says so of large numbers."""
    few = best_split(4, 6, OPERATIONS, TRANSPUTER, "latency")
    many = best_split(100, 6, OPERATIONS, TRANSPUTER, "latency")
    assert few.forward + few.backward <= many.forward + many.backward < 20
    least = pipeline(6, many, OPERATIONS).latency(TRANSPUTER)
    wider = Split(many.forward + 1, many.backward)
    assert pipeline(6, wider, OPERATIONS).latency(TRANSPUTER) > least


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 6, OPERATIONS, TRANSPUTER), "workers is 1"),
        ((2, 0, OPERATIONS, TRANSPUTER), "joints is 0"),
        ((2, 6, OPERATIONS, TRANSPUTER, "speed"), "goal is 'speed'"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(OptionError, match=message):
        best_split(*arguments)
