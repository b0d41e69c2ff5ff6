"""The fake GPU, and kernels compiled as for the tests of numbers."""

from numerics.conftest import _no_debug_records, cupy, machine

__all__ = ["_no_debug_records", "cupy", "machine"]
