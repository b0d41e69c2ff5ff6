"""This machine's processor: what tells it from others, and the code of which kinds it runs."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

PROCESSORS = Path("/proc/cpuinfo")
# What the first paragraph of that file says of the processor's kind, on x86 and on ARM.
_PROCESSOR_FEATURES = ("flags", "Features")
_PROCESSOR_KIND = ("vendor_id", "cpu family", "model", "stepping", "CPU ", *_PROCESSOR_FEATURES)
# Those of x86 that a compiler makes use of; the others come and go with the system's version.
_INSTRUCTIONS = tuple(
    """
    3dnow abm adx aes amx avx bmi clflushopt clwb cmov cx16 cx8 f16c fma fxsr gfni lahf_lm mmx movbe
    pclmul pni popcnt rdrand rdseed sha sse ssse tbm vaes vpclmul xop xsave
    """.split()
)
#: Kinds of x86 by what each adds to those before it, as compilers name them; from the psABI.
_LEVELS: Mapping[str, frozenset[str]] = {
    "x86-64": frozenset("cmov cx8 fxsr mmx sse sse2".split()),
    "x86-64-v2": frozenset("cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3".split()),
    "x86-64-v3": frozenset("abm avx avx2 bmi1 bmi2 f16c fma movbe xsave".split()),
    "x86-64-v4": frozenset("avx512bw avx512cd avx512dq avx512f avx512vl".split()),
}
_X86 = ("x86_64", "amd64")
_ARM = ("aarch64", "arm64")
_BASE_OF_ARM = "armv8-a"
#: This very kind, whatever it is.
NATIVE = "native"


def variants() -> tuple[str, ...]:
    """Return the kinds of processors that this machine's compiler compiles for, the least first."""
    machine = platform.machine().lower()
    if machine in _X86:
        return (*_LEVELS, NATIVE)
    return (_BASE_OF_ARM, NATIVE) if machine in _ARM else (NATIVE,)


def lacks(variant: str) -> tuple[str, ...] | None:
    """Return which instructions of a kind this processor lacks; none if it runs its code.

    Args:
        variant: one of ``variants``, but for ``native``.

    Returns:
        their names; ``None`` where the system does not say what there is.
    """
    if variant == _BASE_OF_ARM:
        return ()
    here = processor()
    if here is None:
        return None
    words = {word for line in here if line.startswith(_PROCESSOR_FEATURES) for word in line.split()}
    names = tuple(_LEVELS)
    wanted = frozenset().union(*(_LEVELS[name] for name in names[: names.index(variant) + 1]))
    return tuple(sorted(wanted - words))


def processor() -> tuple[str, ...] | None:
    """Return what tells processors apart that do not run the same code, if this system says it."""
    try:
        with PROCESSORS.open(encoding="utf-8", errors="replace") as file:
            first = itertools.takewhile(str.strip, file)  # the others are of the same kind
            kind = tuple(line for line in first if line.startswith(_PROCESSOR_KIND))
    except OSError:
        return None
    return kind if any(line.startswith(_PROCESSOR_FEATURES) for line in kind) else None


def runs_code_of(made: Sequence[str] | None) -> bool:
    """Tell whether this processor has all instructions of the one that code was made for.

    Args:
        made: what ``processor`` said there.
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
