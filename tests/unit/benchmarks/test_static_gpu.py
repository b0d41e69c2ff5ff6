"""What is counted of a GPU's machine code, and what tables show of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import tables as tables_of_text
from native import Unavailable
from sass import Code, Function, counted, kernel_of, pipe_of
from static_gpu import BATCH, CODE, TAKEN, heading, known_demand, tables, write_tables

from gridgen.backends.cuda.compiler import KernelResources
from gridgen.cost.devices import DEVICES
from gridgen.cost.gpu import demand_of, predicted, roofline_bound
from gridgen.kernel import KernelKey
from gridgen.schedules import Schedules
from helpers.scan import tree_of


@pytest.mark.parametrize(
    ("opcode", "pipe"),
    [
        ("FFMA", "fp32"),
        ("FADD.FTZ", "fp32"),
        ("HFMA2.MMA", "fp32"),
        ("DFMA", "fp64"),
        ("DSETP.NEU.AND", "fp64"),
        ("IMAD.WIDE.U32", "int"),
        ("UIADD3.X", "int"),
        ("LEA.HI.X", "int"),
        ("MOV", "int"),
        ("MUFU.RCP", "xu"),
        ("I2F.S64", "xu"),
        ("S2R", "xu"),
        ("LDG.E.CONSTANT", "memory"),
        ("LD.E", "memory"),
        ("LDCU.64", "memory"),
        ("ULDC.64", "memory"),
        ("STL", "memory"),
        ("ST.E", "memory"),
        ("SHFL.IDX", "memory"),
        ("BRA", "control"),
        ("BSYNC", "control"),
        ("BAR.SYNC.DEFER_BLOCKING", "control"),
        ("RET.REL.NODEC", "control"),
    ],
)
def test_an_instruction_has_a_pipe(opcode, pipe):
    assert pipe_of(opcode) == pipe


def test_machine_code_is_counted():
    """As nvdisasm prints it: a predicate, padding, and the branch that nothing reaches."""
    code = [
        {"opcode": "S2R", "operands": "R2,SR_TID.X"},
        {"predicate": "@P0", "opcode": "EXIT"},
        {"opcode": "LDL", "operands": "R17,[R1+0x8]"},
        {"opcode": "FFMA", "operands": "R30.reuse,R4,R5,R255"},
        {"opcode": "STL.64", "operands": "[UR9+R1],R6"},
        {"opcode": "BRA", "operands": "0x50"},
        {"opcode": "NOP"},
        {"opcode": "NOP"},
    ]
    listing = [{}, [{"function-name": "f", "length": 128, "sass-instructions": code}]]
    (found,) = counted(listing)
    assert found.name == "f"
    assert found.instructions == 5
    assert found.pipes == {"xu": 1, "control": 1, "memory": 2, "fp32": 1}
    assert (found.local, found.rare) == (2, 0)
    assert found.registers == 256
    assert found.code_bytes == 128
    functions = [
        Function("f", 7, 0, 128),
        Function("$f$reduce_far", 7, 48, 80),
        Function("reduce_far of another kernel", 8, 0, 128),
    ]
    (found,) = counted(listing, functions)
    assert found.pipes == {"xu": 1, "control": 1, "memory": 1}
    assert (found.instructions, found.local, found.rare) == (3, 1, 2)
    assert found.registers == 256


def test_a_whole_warp_goes_round_loops():
    """The first branch leads to a loop, of which there is none on the other way."""
    code = [
        {"opcode": "FADD"},
        {"predicate": "@P0", "opcode": "BRA", "operands": "0x60"},
        {"opcode": "CALL.REL.NOINC", "operands": "$copy"},
        {"opcode": "FADD"},
        {"opcode": "BRA", "operands": "0x90"},
        {"opcode": "NOP"},
        {"opcode": "FADD"},
        {"opcode": "FADD"},
        {"predicate": "@P1", "opcode": "BRA", "operands": "P2,0x70"},
        {"opcode": "EXIT"},
        {"opcode": "STG"},
        {"opcode": "RET.REL.NODEC", "operands": "R28,f"},
        {"opcode": "BRA", "operands": "0xc0"},
    ]
    functions = [Function("f", 7, 0, 160), Function("$copy", 7, 160, 192)]
    listing = [{}, [{"function-name": "f", "length": 208, "sass-instructions": code}]]
    (found,) = counted(listing, functions)
    assert (found.instructions, found.whole) == (11, 8)


def test_the_machine_code_of_a_kernel_is_found(tmp_path):
    """Every number is stored once by a thread, and M has fused multiply-adds in plenty."""
    pytest.importorskip("cupy")
    from gridgen.backends.cuda.compiler import compile_kernel
    from gridgen.modules import TracedModule

    module = TracedModule(tree_of("two_link"))
    kernel = module.kernels.named("mass_matrix")
    compiled = compile_kernel(module.sources(kernel), kernel.name, "float32", "sm_90")
    try:
        code = kernel_of(compiled.image)
    except Unavailable as error:
        pytest.skip(str(error))
    assert code.name == compiled.entry
    assert code.instructions == sum(code.pipes.values()) > 50
    assert code.local == 0
    assert code.rare > 50
    assert code.registers <= compiled.resources.registers
    assert 16 * code.instructions <= code.code_bytes


def test_what_is_known_takes_the_place_of_estimates():
    """Of code with loops, how often they turn is not: its instructions stay estimated."""
    schedules = Schedules(tree_of("arm7"))
    kernel = schedules.kernel(KernelKey("mass_matrix"))
    demand = demand_of(kernel, schedules.work(kernel), 4)
    taken = KernelResources("k", "sm_90", 77, 4, 4, 8, 0, 0)
    listing = [{"opcode": "FADD"}, {"opcode": "STL"}, {"opcode": "EXIT"}, {"opcode": "NOP"}]
    (code,) = counted([{}, [{"function-name": "k", "length": 64, "sass-instructions": listing}]])
    looped = known_demand(demand, taken, code, has_loops=True)
    assert looped == replace(demand, registers=77, code_bytes=64, local_bytes=8)
    pipes = {"fp32": 1, "memory": 1, "control": 1}
    straight = known_demand(demand, taken, code, has_loops=False)
    assert straight == replace(looped, instructions=3, pipes=pipes, local_moves=1)


def test_what_loops_keep_is_counted_as_plans_do():
    """It is in memory that a kernel is given; the stack is none of it."""
    schedules = Schedules(tree_of("chain 100"))
    kernel = schedules.kernel(KernelKey("forward_dynamics", "aba"))
    demand = demand_of(kernel, schedules.work(kernel), 4)
    taken = KernelResources("k", "sm_90", 255, 0, 0, 40, 0, 0)
    code = Code("k", 6000, {"fp32": 1000}, 0, 6000, 30, 255, 96_000)
    looped = known_demand(demand, taken, code, has_loops=True)
    assert looped.local_bytes == demand.local_bytes > 1000 > taken.stack
    device, batch = DEVICES["sm_90"], 1 << 20
    found, planned = (predicted(one, device, batch) for one in (looped, demand))
    assert 0.4 < found.seconds / planned.seconds < 1.2
    assert roofline_bound(looped, device, batch) < 0.3 * found.seconds


def test_tables_show_what_was_counted():
    row = {"robot": "a", "function": "f", "dtype": "float32", "registers": 40, "fp32": 1000}
    row |= {"microseconds": 12.34, "bound": "memory", "share": 0.5}
    device = {"title": "T", "sms": 2, "clock": 1.5e9, "bandwidth": 2e12}
    results = {
        "rows": [row],
        "peers": [{"robot": "p.cubin", "function": "g", "dtype": "", "registers": 8}],
        "device": device,
        "versions": {"nvdisasm": "13"},
        "arch": "sm_90",
        "date": "2026-01-01",
        "batch": [1024],
        "layout": "rows",
    }
    taken, batch, peers = tables(results)
    assert taken.headings == ("", TAKEN["registers"], TAKEN["fp32"])
    assert taken.lines == (("f", "40", "1,000"),)
    assert batch.headings == ("", BATCH["microseconds"], BATCH["bound"], BATCH["share"])
    assert batch.lines == (("f", "12.3", "memory", "50 %"),)
    assert peers.lines == (("g", "8"),)
    assert "Predicted, not measured: T, 2 multiprocessors at 1.50 GHz" in heading(results)


def test_tables_of_the_manual_compare_schedules(tmp_path, monkeypatch):
    """A function that has both; a row for each robot, the machine code of the humanoid."""
    monkeypatch.setattr(tables_of_text, "TABLES", tmp_path)
    one = dict.fromkeys(CODE, 1000) | {"times": [1.0, 250.0]}
    keys = [("humanoid", "f", "thread"), ("humanoid", "f", "warp"), ("humanoid", "f", "scan")]
    keys += [("g1", "f", "thread"), ("g1", "f", "warp"), ("g1", "g", "thread")]
    rows = [one | {"robot": a, "kernel": b, "schedule": c} for a, b, c in keys]
    write_tables({"rows": rows, "batch": [32, 1024]})
    taken, times = (
        (tmp_path / f"{name}.csv").read_text().splitlines() for name in ("warp", "gpu_schedules")
    )
    numbers = 6 * [',"1,000"']
    assert taken[0].startswith("kernel,schedule,registers,spilled bytes,stack bytes,")
    assert taken[1:] == ["".join([f"f,{one}", *numbers]) for one in ("thread", "warp")]
    assert times[0] == 'robot,function,"thread, 32","warp, 32","thread, 1,024","warp, 1,024"'
    assert times[1:] == ["humanoid,f,1.0,1.0,250,250", "g1,f,1.0,1.0,250,250"]
