"""CUDA source -> machine code for an architecture, with NVRTC: requires neither a GPU nor nvcc."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from gridgen.backends.cache import BuildCache, cache_key
from gridgen.backends.interface import SCALARS, Sources, kernel_name, only
from gridgen.backends.process import compile_error
from gridgen.errors import CompileError, InternalError, OptionError, warn
from gridgen.functions.types import Dtype
from gridgen.naming import one_line

INSTALL = (
    "pip install 'cupy-cuda12x>=14' nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 (for CUDA 13: "
    "'cupy-cuda13x>=14' nvidia-cuda-nvrtc nvidia-cuda-runtime)"
)
# Without a register usage level, ptxas limits some long programs to 32 registers and spills.
OPTIONS = (
    "--std=c++17",
    "--fmad=false",
    "--ptxas-options=-v",
    "--ptxas-options=--register-usage-level=10",
)

_OLDEST_CUPY = 14
_ARCH = re.compile(r"(sm|compute)_(\d+)")
_IMAGE = "image.bin"
_RECORD = "record.json"


@dataclass(frozen=True)
class KernelResources:
    """Resource usage of a kernel, as ptxas reports it."""

    kernel: str  #: name expression: ``<robot>::<function>_kernel<float>``.
    arch: str  #: architecture, such as ``sm_90``.
    registers: int  #: registers per thread.
    spill_stores: int  #: stores of spilled registers, called functions included [bytes].
    spill_loads: int  #: loads of spilled registers, called functions included [bytes].
    stack: int  #: stack per thread [bytes].
    shared_memory: int  #: static shared memory per block [bytes].
    constant_memory: int  #: constant memory [bytes]; includes kernel parameters before sm_90.


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled kernel."""

    image: bytes  #: cubin for ``sm_..``, PTX for ``compute_..``.
    entry: str  #: name of the kernel in the image.
    #: resource usage; ``None`` for PTX, which the driver assembles.
    resources: KernelResources | None


def compile_kernel(
    sources: Sources,
    function: str,
    dtype: Dtype,
    arch: str,
    cache: BuildCache | None = None,
    *,
    rows: bool = False,
) -> CompiledKernel:
    """Compile one kernel of ``<robot>.cu``, or load it from the cache.

    Args:
        sources:  the robot's module.
        function: name of the function; see ``kernel_name``.
        dtype:    element type.
        arch:     ``sm_90`` for machine code, ``compute_90`` for PTX.
        cache:    cache of compiled kernels; by default in the user's cache folder.
        rows:     whether to compile the row form.

    Raises:
        OptionError:  NVRTC does not support the architecture.
        CompileError: NVRTC rejects the source, or is missing and the kernel is not cached.
    """
    if sources.built and (found_built := sources.built.image(function, dtype, arch, rows=rows)):
        return _compiled_kernel(*found_built)
    cache = cache or BuildCache()
    expression = f"{kernel_name(sources.robot, function, rows=rows)}<{SCALARS[dtype]}>"
    defined = (f"--define-macro={macro}" for macro in only(function))
    options = (f"--gpu-architecture={arch}", *OPTIONS, *defined)
    sources = sources.included_by(f'#include "{sources.robot}.cu"')
    made = cache_key(
        kind="nvrtc",
        robot=sources.robot,
        files=sources.digest,
        expression=expression,
        options=options,
    )
    try:
        nvrtc = _nvrtc()
    except CompileError:
        # Code from any NVRTC release runs on this architecture.
        found = next(cache.variants(made), None)
        if found is None:
            raise
        return _read(found)
    check_arch(arch)
    key = f"{made}.{'.'.join(map(str, nvrtc.getVersion()))}"

    def build(entry: Path) -> None:
        try:
            image, name, log = _compile(nvrtc, sources, expression, options)
        except _RefusedError as refusal:
            raise compile_error(
                robot=sources.robot,
                function=f"{function} ({dtype}, {arch})",
                compiler="NVRTC",
                log=refusal.log,
                files=sources.files,
                keep=partial(cache.save_failure, key),
            ) from None
        _pass_on_warnings(expression, log)
        resources = parse_resources(log, expression, name, arch) if arch.startswith("sm") else None
        (entry / _IMAGE).write_bytes(image)
        record = {"entry": name, "resources": resources and asdict(resources)}
        (entry / _RECORD).write_text(json.dumps(record), encoding="utf-8")

    return _read(cache.entry(key, build))


def _read(found: Path) -> CompiledKernel:
    record = json.loads((found / _RECORD).read_bytes())
    return _compiled_kernel((found / _IMAGE).read_bytes(), record)


def _compiled_kernel(image: bytes, record: Mapping[str, Any]) -> CompiledKernel:
    resources = record["resources"] and KernelResources(**record["resources"])
    return CompiledKernel(image, record["entry"], resources)


def resource_report(
    sources: Sources,
    functions: Iterable[str],
    dtypes: Iterable[Dtype],
    arch: str,
    cache: BuildCache | None = None,
) -> list[KernelResources]:
    """Compile kernels for an ``sm_..`` architecture and return their resource usage.

    The report contains both forms of a kernel with a row form.
    """
    check_machine(arch)
    dtypes = tuple(dtypes)
    compiled = (
        compile_kernel(sources, function, dtype, arch, cache, rows=rows)
        for function in functions
        for rows in sources.forms(function)
        for dtype in dtypes
    )
    return [kernel.resources for kernel in compiled if kernel.resources is not None]


def check_machine(arch: str) -> None:
    """Raise unless NVRTC generates machine code for an architecture.

    Raises:
        OptionError:  NVRTC does not support the architecture.
        CompileError: NVRTC is missing.
    """
    if not arch.startswith("sm_"):
        raise OptionError(f'arch is "{arch}"; resource usage requires machine code, such as sm_90')
    check_arch(arch)


def version() -> str:
    """Return the version of NVRTC, such as ``12.9``.

    Raises:
        CompileError: NVRTC is missing.
    """
    return ".".join(map(str, _nvrtc().getVersion()))


def supported_capabilities() -> tuple[int, ...]:
    """Return the compute capabilities that NVRTC supports, ascending: 75, ..., 120."""
    return tuple(sorted(_nvrtc().getSupportedArchs()))


def parse_resources(log: str, kernel: str, entry: str, arch: str) -> KernelResources:
    """Parse ptxas's report for a program with one kernel.

    Releases differ in line prefixes and in zero quantities that they omit, so the parser searches
    the whole log for each quantity.
    """

    def quantities(pattern: str) -> list[int]:
        return [int(number) for number in re.findall(pattern, log)]

    registers = quantities(r"Used (\d+) registers")
    if len(registers) != 1 or f"'{entry}'" not in log:
        raise InternalError(f"NVRTC's log does not report the kernel {kernel} for {arch}:\n{log}")
    # Functions that are not inlined have their own frames; the cumulative size includes them.
    stack = quantities(r"(\d+) bytes cumulative stack size") or quantities(
        r"(\d+) bytes stack frame"
    )
    return KernelResources(
        kernel=kernel,
        arch=arch,
        registers=registers[0],
        spill_stores=sum(quantities(r"(\d+) bytes spill stores")),
        spill_loads=sum(quantities(r"(\d+) bytes spill loads")),
        stack=max(stack, default=0),
        shared_memory=sum(quantities(r"(\d+)(?:\+\d+)? bytes smem")),
        constant_memory=sum(quantities(r"(\d+) bytes cmem\[\d+\]")),
    )


class _RefusedError(Exception):
    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


def _compile(
    nvrtc: ModuleType, sources: Sources, expression: str, options: tuple[str, ...]
) -> tuple[bytes, str, str]:
    """Return the image, the kernel's name in it, and the log."""
    main = f"{sources.robot}.cu"
    headers = {name: text for name, text in sources.files.items() if name != main}
    program = nvrtc.createProgram(
        sources.files[main],
        main,
        tuple(text.encode() for text in headers.values()),
        tuple(name.encode() for name in headers),
    )
    try:
        nvrtc.addNameExpression(program, expression)
        try:
            nvrtc.compileProgram(program, options)
        except nvrtc.NVRTCError as error:
            raise _RefusedError(nvrtc.getProgramLog(program) or str(error)) from None
        image = (
            _complete(nvrtc.getCUBIN(program))
            if options[0].startswith("--gpu-architecture=sm_")
            else nvrtc.getPTX(program)
        )
        return image, nvrtc.getLoweredName(program, expression), nvrtc.getProgramLog(program)
    finally:
        nvrtc.destroyProgram(program)


def _complete(image: bytes) -> bytes:
    """Return a cubin with its last byte, which CuPy drops like a string terminator.

    The byte is the high byte of an eight-byte field in the last table header, so it is zero.
    """
    tables = struct.unpack_from("<QQ", image, 32)  # ELF64: program headers, section headers
    sizes = struct.unpack_from("<HHHH", image, 54)  # size and number of each
    end = max(tables[0] + sizes[0] * sizes[1], tables[1] + sizes[2] * sizes[3])
    return image + b"\0" if len(image) == end - 1 else image


def _pass_on_warnings(expression: str, log: str) -> None:
    # NVRTC cannot turn warnings into errors. Python warnings let tests do so.
    found = [line.strip() for line in log.splitlines() if re.search(r"\bwarning\b", line)]
    if found:
        warn(f"NVRTC warns about {expression}: {'; '.join(found)}")


def check_arch(arch: str) -> None:
    """Raise unless NVRTC supports an architecture, PTX included; see ``check_machine``."""
    match = _ARCH.fullmatch(arch)
    if match is None or int(match[2]) not in supported_capabilities():
        known = ", ".join(f"sm_{capability}" for capability in supported_capabilities())
        raise OptionError(f'arch is "{arch}"; this NVRTC compiles for {known}')


def import_cupy() -> Any:
    """Import CuPy.

    Raises:
        ImportError: CuPy is missing, or too old to find an NVRTC installed by pip.
    """
    import cupy

    if int(cupy.__version__.partition(".")[0]) < _OLDEST_CUPY:
        raise ImportError(f"CuPy is {cupy.__version__}; {_OLDEST_CUPY} or newer is required")
    return cupy


def _nvrtc() -> ModuleType:
    try:
        import_cupy()  # locates the toolkit's libraries
        from cupy_backends.cuda.libs import nvrtc

        nvrtc.getVersion()
    except (ImportError, RuntimeError) as error:
        raise CompileError(f"NVRTC is not usable ({one_line(error)}); {INSTALL}") from error
    module: ModuleType = nvrtc
    return module
