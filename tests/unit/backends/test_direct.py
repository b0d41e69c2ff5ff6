"""The compiled function that reads NumPy arrays itself."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from gridgen.backends.cpu.backend import CpuBackend
from gridgen.backends.cpu.direct import as_arguments
from gridgen.backends.cpu.units import BLOCK


@pytest.fixture
def kernel(toy):
    return CpuBackend(threads=1).kernel(toy, "evaluate", "float64")


def expected(x):
    return x[..., :1] ** 2 + 3 * x[..., 1:]


@pytest.mark.parametrize("shape", [(2,), (1, 2), (7, 2), (BLOCK, 2)])
def test_small_batches_are_computed_at_once(kernel, shape):
    x = np.random.default_rng(0).normal(size=shape)
    y = np.empty((*shape[:-1], 1))
    assert kernel.direct(x, y) is True
    np.testing.assert_allclose(y, expected(x), rtol=1e-15)


@pytest.mark.parametrize("view", [lambda x: x[:, ::-1], lambda x: x[::-2], np.asfortranarray])
def test_any_strides_are_read_in_place(kernel, view):
    x = view(np.random.default_rng(0).normal(size=(9, 2)))
    y = np.empty((len(x), 1))
    assert kernel.direct(x, y) is True
    np.testing.assert_allclose(y, expected(x), rtol=1e-15)


def test_a_larger_batch_comes_back_as_arguments(kernel):
    x = np.random.default_rng(0).normal(size=(BLOCK + 1, 2))
    y = np.zeros((BLOCK + 1, 1))
    packed = kernel.direct(x, y)
    assert isinstance(packed, bytes)
    assert not y.any()
    kernel(as_arguments(packed), len(x))
    np.testing.assert_allclose(y, expected(x), rtol=1e-15)


def read_only():
    y = np.zeros((3, 1))
    y.flags.writeable = False
    return y


def unaligned():
    return np.zeros(8 * 6 + 1, np.uint8)[1:].view(np.float64).reshape(3, 2)


def overlapping():
    x = np.zeros((3, 2))
    return x, x[:, :1]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (np.zeros((3, 2)),),
        (np.zeros((3, 2)), np.zeros((3, 1)), np.zeros((3, 1))),
        (np.zeros((3, 2), np.float32), np.zeros((3, 1))),
        (np.zeros((3, 2), ">f8"), np.zeros((3, 1))),
        (np.zeros((3, 3)), np.zeros((3, 1))),
        (np.zeros((3, 2)), np.zeros((4, 1))),
        (np.zeros((3, 2)), np.zeros(1)),
        (np.zeros((1, 3, 2)), np.zeros((3, 1))),
        (np.zeros((0, 2)), np.zeros((0, 1))),
        (np.float64(1.0), np.zeros((3, 1))),
        ([1.0, 2.0], np.zeros(1)),
        (None, None),
        (np.zeros((3, 2)).view(np.recarray), np.zeros((3, 1))),
        (np.zeros((3, 2)), read_only()),
        (unaligned(), np.zeros((3, 1))),
        overlapping(),
        (np.zeros((3, 2)), np.lib.stride_tricks.as_strided(np.zeros(1), (3, 1), (0, 8))),
    ],
)
def test_everything_else_is_declined_untouched(kernel, arguments):
    before = [np.array(argument, copy=True) for argument in arguments]
    assert kernel.direct(*arguments) is None
    for argument, copy in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(np.asarray(argument), copy)


def test_no_reference_is_gained_or_lost(kernel):
    x, y = np.zeros((3, 2)), np.zeros((3, 1))
    kernel.direct(x, y)
    before = [sys.getrefcount(item) for item in (x, y, x.dtype)]
    for _ in range(100):
        kernel.direct(x, y)
        kernel.direct(x, x)
    assert [sys.getrefcount(item) for item in (x, y, x.dtype)] == before


PROCESS = """
import json, sys
import numpy as np
from gridgen.backends.cpu.backend import CpuBackend
from gridgen.backends.interface import Sources
kernel = CpuBackend(threads=1).kernel(Sources("toy", json.load(sys.stdin)), "evaluate", "float64")
sys.last = kernel.direct  # of all modules sys goes last
assert sys.last(np.ones((3, 2)), np.ones((3, 1))) is True
"""


def test_functions_outlive_all_modules(toy, kernel):
    """The interpreter frees them last; memory that it has freed before is overwritten here."""
    overwritten = {"PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "255"}
    subprocess.run(
        [sys.executable, "-c", PROCESS],
        input=json.dumps(toy.files).encode(),
        env=os.environ | overwritten,
        check=True,
    )
