"""Published figures of GPUs: the one table that predictions use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any, Literal

from gridgen.errors import OptionError
from gridgen.kernel import WARP
from gridgen.naming import show

#: Execution units: floating point of each width, integers and moves, sines and roots, memory,
#: branches.
Pipe = Literal["fp32", "fp64", "int", "xu", "memory", "control"]

#: Schedulers of a multiprocessor; each issues one warp instruction per clock.
SCHEDULERS = 4
#: 32-bit registers of a multiprocessor; a warp gets a multiple of ``REGISTER_UNIT``.
REGISTERS = 64 * 1024
REGISTER_UNIT = 256
#: Most registers of a thread.
MAX_REGISTERS = 255
#: Shared memory that the system reserves per block, since sm_80 [bytes].
RESERVED_SHARED = 1024
#: Bytes of a sector, the unit that L2 moves, and of a line of four sectors.
SECTOR, LINE = 32, 128
#: Size of an instruction [bytes].
INSTRUCTION_BYTES = 16


@dataclass(frozen=True)
class Device:
    """One GPU."""

    arch: str  #: architecture, such as ``sm_90``.
    title: str  #: name of the product.
    sms: int  #: number of multiprocessors.
    clock: float  #: highest boost clock [1/s].
    bandwidth: float  #: memory bandwidth [bytes/s].
    l2_clock: float  #: bytes that L2 transfers per clock.
    l2_bytes: float  #: capacity of L2 [bytes].
    latency: float  #: memory latency [clocks].
    shared: int  #: shared memory of a multiprocessor [bytes].
    warps: int  #: most resident warps of a multiprocessor.
    blocks: int  #: most resident blocks of a multiprocessor.
    lanes: Mapping[Pipe, int]  #: throughput of each pipe of a multiprocessor [threads per clock].
    launch: float = 2.5e-6  #: time of an empty kernel in a CUDA graph [s].
    memory_reached: float = 1.0  #: share of the memory bandwidth that copies reach.
    #: share of the L2 rate that kernels reach: 59 % on a simulated GV100. Its threads store the
    #: rows of M number by number, 510,720 sectors in 13,551 clocks at 2,048 bytes per clock.
    l2_reached: float = 0.6
    code_bytes: float = 128 * 1024  #: capacity of a multiprocessor's instruction caches [bytes].
    #: clocks per instruction of a warp that runs alone and whose code is in no instruction cache:
    #: a response of L2 has eight instructions, and four requests may be in flight. A guess: it
    #: makes a program that exceeds the caches slower than one that fits.
    fetched_pace: float = 8.0

    @property
    def capability(self) -> int:
        """The compute capability, such as 90."""
        return _capability(self.arch)

    def blocks_at_once(self, threads: int, registers: int, shared: int) -> int:
        """Return the resident blocks of a multiprocessor; 0 if a block does not fit.

        Args:
            threads:   threads per block.
            registers: registers per thread.
            shared:    shared memory per block [bytes].
        """
        warps = -(-threads // WARP)
        for_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
        # Each scheduler has a quarter of the registers.
        by_registers = SCHEDULERS * (REGISTERS // SCHEDULERS // for_warp) // warps
        reserved = RESERVED_SHARED if self.capability >= 80 else 0
        by_shared = self.shared // (shared + reserved) if shared + reserved else self.blocks
        return min(self.blocks, self.warps // warps, by_registers, by_shared)

    @property
    def filling(self) -> int:
        """The resident threads of a kernel with the most registers."""
        return self.sms * WARP * self.blocks_at_once(WARP, MAX_REGISTERS, 0)


def _lanes(fp32: int, fp64: int, integers: int, memory: int) -> dict[Pipe, int]:
    return {
        "fp32": fp32,
        "fp64": fp64,
        "int": integers,
        "xu": 16,
        "memory": memory,
        "control": SCHEDULERS * WARP,
    }


_SM75, _SM80, _SM86 = _lanes(64, 2, 64, 16), _lanes(64, 32, 64, 32), _lanes(128, 2, 64, 32)
_SM90, _SM120 = _lanes(128, 64, 64, 32), _lanes(128, 2, 128, 32)

# Multiprocessors, clocks and bandwidths: NVIDIA's data sheets and architecture white papers of the
# products. Warps, blocks and shared memory: CUDA C++ Programming Guide, "Technical Specifications
# per Compute Capability". Lanes: the same, "Throughput of Native Arithmetic Instructions"; those of
# memory from the figures in the white papers. L2: the T4 as measured by Jia et al.
# (Dissecting the NVidia Turing T4 GPU via Microbenchmarking, 2019, arXiv:1903.07486: 1.27 TB/s),
# the A100 from its white paper (5120 bytes per clock). NVIDIA publishes no figure for later GPUs:
# the table assumes the A100's, scaled by the multiprocessors for smaller GPUs. Capacities of L2:
# the same sources; the driver reports that of the present GPU. Latencies are rounded results of
# microbenchmarks.
_DEVICES = tuple(starmap(Device, (
    ("sm_75", "T4", 40, 1.59e9, 320e9, 800, 4e6, 500, 65_536, 32, 16, _SM75),
    ("sm_80", "A100 SXM 80 GB", 108, 1.41e9, 2.039e12, 5120, 40e6, 500, 167_936, 64, 32, _SM80),
    ("sm_86", "A10", 72, 1.695e9, 600e9, 3400, 6e6, 500, 102_400, 48, 16, _SM86),
    ("sm_87", "Jetson AGX Orin 64 GB", 16, 1.3e9, 204.8e9, 760, 4e6, 600, 167_936, 48, 16, _SM86),
    ("sm_89", "L4", 58, 2.04e9, 300e9, 2750, 48e6, 600, 102_400, 48, 24, _SM86),
    ("sm_90", "H200 SXM", 132, 1.98e9, 4.8e12, 5120, 50e6, 600, 233_472, 64, 32, _SM90),
    ("sm_100", "B200 SXM", 148, 1.965e9, 8e12, 5120, 126e6, 600, 233_472, 64, 32, _SM90),
    ("sm_110", "Jetson AGX Thor", 20, 1.575e9, 273e9, 950, 32e6, 600, 233_472, 48, 24, _SM120),
    ("sm_120", "RTX PRO 6000", 188, 2.617e9, 1.792e12, 5120, 128e6, 600, 102_400, 48, 24, _SM120),
    ("sm_120", "RTX 5090", 170, 2.41e9, 1.792e12, 5120, 96e6, 600, 102_400, 48, 24, _SM120),
    ("sm_121", "DGX Spark", 48, 2.418e9, 273e9, 2280, 24e6, 600, 102_400, 48, 24, _SM120),
)))  # fmt: skip

# CuPy's toolkits support no older devices.
_MIN_CAPABILITY = 50
# Figures that `benchmarks/first_day.py --fit` measured; they replace published ones.
_MEASURED: Mapping[str, Mapping[str, Any]] = {}

# Architectures that CUDA 13 renamed: the name of CUDA 12, the name since.
_RENAMED = {101: 110}
#: The devices by architecture, ascending.
DEVICES: Mapping[str, Device] = {
    device.arch: replace(device, **_MEASURED.get(device.arch, {})) for device in _DEVICES
}


def device_of(arch: str) -> Device:
    """Return the device for an architecture: its own, the nearest older one, or the oldest.

    Args:
        arch: architecture, such as ``sm_90``.

    Raises:
        OptionError: ``arch`` is not an architecture, or is older than sm_50.
    """
    capability = _capability(arch)
    if capability < _MIN_CAPABILITY:
        raise OptionError(
            f"device is {show(arch)}; choose cpu, cuda or one of {', '.join(DEVICES)}"
        )
    older = [device for device in DEVICES.values() if device.capability <= capability]
    return max(older, key=lambda device: device.capability) if older else _DEVICES[0]


def device_reported(arch: str, title: str, reported: Mapping[str, int]) -> Device:
    """Return a GPU, or a partition of one, with the figures that its driver reports.

    The rate of L2 is assumed proportional to the multiprocessors; other figures are those of the
    table.

    Args:
        arch:     architecture, such as ``sm_90``.
        title:    name of the device.
        reported: device attributes of CUDA by name, without ``cudaDevAttr``; the table replaces
                  missing attributes and zeros.
    """

    def read(name: str, otherwise: float, unit: float = 1.0) -> float:
        return reported.get(name, 0) * unit or otherwise

    like = next((one for one in _DEVICES if one.arch == arch and one.title in title), None)
    like = like if like and arch not in _MEASURED else device_of(arch)
    sms = round(read("MultiProcessorCount", like.sms))
    # A bus transfers twice per clock. For memory shared with the CPU, the driver reports only the
    # current clock.
    bandwidth = reported.get("GlobalMemoryBusWidth", 0) / 8 * read("MemoryClockRate", 0, 2e3)
    return replace(
        like,
        arch=arch,
        title=title,
        sms=sms,
        clock=read("ClockRate", like.clock, 1e3),
        bandwidth=like.bandwidth if reported.get("Integrated") else bandwidth or like.bandwidth,
        l2_clock=like.l2_clock * sms / like.sms,
        l2_bytes=read("L2CacheSize", like.l2_bytes),
        shared=round(read("MaxSharedMemoryPerMultiprocessor", like.shared)),
        warps=round(read("MaxThreadsPerMultiProcessor", like.warps, 1 / WARP)),
        blocks=round(read("MaxBlocksPerMultiprocessor", like.blocks)),
    )


def _capability(arch: str) -> int:
    match = re.fullmatch(r"sm_(\d+)a?", arch)
    capability = int(match[1]) if match else -1
    return _RENAMED.get(capability, capability)
