"""Published figures of GPUs: the one table that predictions use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

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
MOST_REGISTERS = 255
#: Shared memory that the system reserves per block, since sm_80 [bytes].
RESERVED_SHARED = 1024
#: Bytes of a sector, the unit that L2 moves, and of a line of four sectors.
SECTOR, LINE = 32, 128
#: Capacity of a multiprocessor's instruction caches, and size of an instruction [bytes].
CODE_BYTES, INSTRUCTION_BYTES = 128 * 1024, 16


@dataclass(frozen=True)
class Device:
    """One GPU.

    Attributes:
        arch:      architecture, such as ``sm_90``.
        title:     name of the product.
        sms:       number of multiprocessors.
        clock:     highest boost clock [1/s].
        bandwidth: memory bandwidth [bytes/s].
        l2_clock:  bytes that L2 transfers per clock.
        link:      bandwidth to or from the host, one direction [bytes/s].
        latency:   memory latency [clocks].
        shared:    shared memory of a multiprocessor [bytes].
        warps:     most resident warps of a multiprocessor.
        blocks:    most resident blocks of a multiprocessor.
        lanes:     throughput of each pipe of a multiprocessor [threads per clock].
    """

    arch: str
    title: str
    sms: int
    clock: float
    bandwidth: float
    l2_clock: float
    link: float
    latency: float
    shared: int
    warps: int
    blocks: int
    lanes: Mapping[Pipe, int]

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


def _lanes(fp32: int, fp64: int, integers: int, memory: int) -> dict[Pipe, int]:
    return {
        "fp32": fp32,
        "fp64": fp64,
        "int": integers,
        "xu": 16,
        "memory": memory,
        "control": SCHEDULERS * WARP,
    }


# Multiprocessors, clocks and bandwidths: NVIDIA's data sheets and architecture white papers of the
# products. Warps, blocks and shared memory: CUDA C++ Programming Guide, "Technical Specifications
# per Compute Capability". Lanes: the same, "Throughput of Native Arithmetic Instructions"; those of
# memory from the figures in the white papers. L2: for the T4 as measured by Jia et al.
# (Dissecting the NVidia Turing T4 GPU via Microbenchmarking, 2019, arXiv:1903.07486: 1.27 TB/s),
# for the A100 from its white paper (5120 bytes per clock). NVIDIA publishes no figure for the last
# two; they get the A100's, a cautious choice. Links: PCI Express x16 of the product's generation,
# one direction. Latencies are rounded results of microbenchmarks.
_DEVICES = (
    Device(
        "sm_75", "T4", 40, 1.59e9, 320e9, 800, 16e9, 500, 64 * 1024, 32, 16, _lanes(64, 2, 64, 16)
    ),
    Device(
        "sm_80", "A100 SXM 80 GB", 108, 1.41e9, 2.039e12, 5120, 32e9, 500, 164 * 1024, 64, 32,
        _lanes(64, 32, 64, 32),
    ),
    Device(
        "sm_90", "H200 SXM", 132, 1.98e9, 4.8e12, 5120, 64e9, 600, 228 * 1024, 64, 32,
        _lanes(128, 64, 64, 32),
    ),
    Device(
        "sm_120", "RTX 5090", 170, 2.41e9, 1.792e12, 5120, 64e9, 600, 100 * 1024, 48, 24,
        _lanes(128, 2, 128, 32),
    ),
)  # fmt: skip

# CuPy's toolkits support no older devices.
_LEAST_CAPABILITY = 50
#: The devices by architecture, ascending.
DEVICES: Mapping[str, Device] = {device.arch: device for device in _DEVICES}


def device_of(arch: str) -> Device:
    """Return the device for an architecture: its own, the nearest older one, or the oldest.

    Args:
        arch: architecture, such as ``sm_90``.

    Raises:
        OptionError: ``arch`` is no architecture, or is older than sm_50.
    """
    capability = _capability(arch)
    if capability < _LEAST_CAPABILITY:
        raise OptionError(
            f"device is {show(arch)}; choose cpu, cuda or one of {', '.join(DEVICES)}"
        )
    older = [device for device in _DEVICES if device.capability <= capability]
    return older[-1] if older else _DEVICES[0]


def _capability(arch: str) -> int:
    match = re.fullmatch(r"sm_(\d+)a?", arch)
    return int(match[1]) if match else -1
