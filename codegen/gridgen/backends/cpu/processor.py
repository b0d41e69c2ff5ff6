"""This machine's processor: identification, and the architectures that it supports."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Mapping, Sequence
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
_X86 = ("x86_64", "amd64")
_ARM = ("aarch64", "arm64")
_BASE_OF_ARM = "armv8-a"
#: The architecture of this processor.
NATIVE = "native"


def variants() -> tuple[str, ...]:
    """Return the architectures that this machine's compiler supports, least capable first."""
    machine = platform.machine().lower()
    if machine in _X86:
        return (*_LEVELS, NATIVE)
    return (_BASE_OF_ARM, NATIVE) if machine in _ARM else (NATIVE,)


def lacks(variant: str) -> tuple[str, ...] | None:
    """Return the instructions of an architecture that this processor lacks.

    Args:
        variant: one of ``variants``, except ``native``.

    Returns:
        Names of instructions; ``None`` if the system does not report the processor's features.
    """
    if variant == _BASE_OF_ARM:
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
