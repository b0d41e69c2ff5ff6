"""This machine's processor, and the machines that code can be compiled for."""

from __future__ import annotations

import itertools
import platform
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROCESSORS = Path("/proc/cpuinfo")
# Fields of that file's first paragraph that identify the processor, on x86 and on ARM.
_PROCESSOR_FEATURES = ("flags", "Features")
_PROCESSOR_KIND = ("vendor_id", "cpu family", "model", "stepping", "CPU ", *_PROCESSOR_FEATURES)
# x86 features that compilers use; others depend on the version of the system.
_INSTRUCTIONS = tuple(
    """
    3dnow abm adx aes amx avx bmi clflushopt clwb cmov cx16 cx8 f16c fma fxsr gfni lahf_lm mmx movbe
    pclmul pni popcnt rdrand rdseed sha sse ssse tbm vaes vpclmul xop xsave
    """.split()
)
#: x86 architecture levels of the psABI, with the features that each adds.
_LEVELS: Mapping[str, frozenset[str]] = {
    "x86-64": frozenset("cmov cx8 fxsr mmx sse sse2".split()),
    "x86-64-v2": frozenset("cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3".split()),
    "x86-64-v3": frozenset("abm avx avx2 bmi1 bmi2 f16c fma movbe xsave".split()),
    "x86-64-v4": frozenset("avx512bw avx512cd avx512dq avx512f avx512vl".split()),
}
#: The architecture of this processor.
NATIVE = "native"
# Flags of GCC and of Zig for the base architecture of other families.
_BASES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "armv8-a": (("-march=armv8-a",), "generic"),
    "armv7-a": (
        ("-march=armv7-a", "-mfpu=neon-vfpv4", "-mfloat-abi=hard"),
        "generic+v7a+neon+vfp4",
    ),
    "rv64gc": (("-march=rv64gc",), "baseline_rv64"),
    "wasm32": (("-msimd128",), "generic+simd128"),
}


@dataclass(frozen=True)
class Machine:
    """A kind of computer that code can be compiled for.

    Attributes:
        name:       name on the command line.
        system:     ``system()`` there.
        machine:    ``platform.machine()`` there.
        zig:        target of Zig, with the oldest C library that it can link.
        gnu:        prefix of GCC's commands; empty where only Zig is offered.
        processors: its architectures, least capable first.
    """

    name: str
    system: str
    machine: str
    zig: str
    gnu: str
    processors: tuple[str, ...]

    @property
    def suffix(self) -> str:
        """Ending of the file of a shared library."""
        return ".dylib" if self.system == "darwin" else ".so"

    @property
    def is_this(self) -> bool:
        """Whether this computer is of the kind."""
        return (self.system, self.machine) == (system(), platform.machine())


_ARM, _OLD_ARM, _RISC = ("armv8-a",), ("armv7-a",), ("rv64gc",)
_X86 = tuple(_LEVELS)
#: The machines by name.
MACHINES = {
    machine.name: machine
    for machine in (
        Machine(
            "x86_64-linux", "linux", "x86_64", "x86_64-linux-gnu.2.17", "x86_64-linux-gnu", _X86
        ),
        Machine("x86_64-linux-musl", "linux-musl", "x86_64", "x86_64-linux-musl", "", _X86),
        Machine(
            "aarch64-linux", "linux", "aarch64", "aarch64-linux-gnu.2.17", "aarch64-linux-gnu", _ARM
        ),
        Machine("aarch64-linux-musl", "linux-musl", "aarch64", "aarch64-linux-musl", "", _ARM),
        Machine(
            "armv7-linux",
            "linux",
            "armv7l",
            "arm-linux-gnueabihf.2.17",
            "arm-linux-gnueabihf",
            _OLD_ARM,
        ),
        Machine(
            "riscv64-linux",
            "linux",
            "riscv64",
            "riscv64-linux-gnu.2.27",
            "riscv64-linux-gnu",
            _RISC,
        ),
        Machine("aarch64-macos", "darwin", "arm64", "aarch64-macos.11.0", "", _ARM),
    )
}

#: Browsers, for pages that simulate a robot.
BROWSER = Machine("wasm32", "wasm", "wasm32", "wasm32-freestanding", "", ("wasm32",))


def system() -> str:
    """Return this system, as ``sys.platform``; with another C library than GNU's, with its name."""
    has_musl = "musl" in str(sysconfig.get_config_var("SOABI"))
    return f"{sys.platform}-musl" if has_musl else sys.platform


def this_machine() -> Machine:
    """Return the kind of this computer."""
    for machine in MACHINES.values():
        if machine.is_this:
            return machine
    return Machine(NATIVE, system(), platform.machine(), "", "", ())


def flags_of(variant: str, *, is_zig: bool) -> tuple[str, ...]:
    """Return the compiler flags of an architecture."""
    if variant in _BASES:
        of_gnu, of_zig = _BASES[variant]
        return (f"-mcpu={of_zig}",) if is_zig else of_gnu
    return (f"-march={variant.replace('-', '_') if is_zig else variant}",)  # Zig's spelling


def lacks(variant: str) -> tuple[str, ...] | None:
    """Return the instructions of an architecture that this processor lacks.

    Args:
        variant: an architecture of this machine, except ``native``.

    Returns:
        Names of instructions; ``None`` if the system does not report the processor's features.
    """
    if variant in _BASES:
        return ()
    here = processor()
    if here is None:
        return None
    words = {word for line in here if line.startswith(_PROCESSOR_FEATURES) for word in line.split()}
    names = tuple(_LEVELS)
    required = frozenset().union(*(_LEVELS[name] for name in names[: names.index(variant) + 1]))
    return tuple(sorted(required - words))


def processor() -> tuple[str, ...] | None:
    """Return the identification of this processor, or None if the system does not report it."""
    try:
        with PROCESSORS.open(encoding="utf-8", errors="replace") as file:
            first = itertools.takewhile(str.strip, file)  # the other cores are alike
            kind = tuple(line for line in first if line.startswith(_PROCESSOR_KIND))
    except OSError:
        return None
    return kind if any(line.startswith(_PROCESSOR_FEATURES) for line in kind) else None


def runs_code_of(made: Sequence[str] | None) -> bool:
    """Return whether this processor runs native code of another one.

    Args:
        made: result of ``processor`` on the other machine.
    """
    here = processor()
    if here is None or made is None:
        return False
    return _model(made) == _model(here) and _instructions(made) <= _instructions(here)


def _model(processor: Sequence[str]) -> list[str]:
    return [line for line in processor if not line.startswith((*_PROCESSOR_FEATURES, "stepping"))]


def _instructions(processor: Sequence[str]) -> set[str]:
    x86, arm = _PROCESSOR_FEATURES
    return {
        word
        for line in processor
        for word in line.split()
        if line.startswith(arm) or (line.startswith(x86) and word.startswith(_INSTRUCTIONS))
    }
