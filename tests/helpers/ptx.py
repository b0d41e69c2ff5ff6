"""Handwritten PTX for tests."""

from __future__ import annotations

import struct

import numpy as np

from fake_gpu.ptx.executable import PtxLibrary

HEAD = """\
.version 8.0
.target sm_75
.address_size 64
"""
#: A kernel of one array: %out is its address, %tid the thread index.
KERNEL = """\
.visible .entry kernel(.param .u64 out)
{{
    .reg .b64 %out;
    .reg .b32 %tid;
    ld.param.u64 %out, [out];
    mov.u32 %tid, %tid.x;
{body}
    ret;
}}
"""


def kernel_text(body: str, before: str = "") -> str:
    """Return a module with one kernel."""
    return HEAD + before + KERNEL.format(body=body)


def run(text: str, out: np.ndarray, block: int, grid: int = 1, shared_bytes: int = 0) -> np.ndarray:
    """Run the kernel on an array; return the array."""
    parameters = [struct.pack("<Q", out.ctypes.data)]
    PtxLibrary(text).launch("kernel", grid, block, shared_bytes, parameters)
    return out
