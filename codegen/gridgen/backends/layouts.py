"""Kernels with two forms: for arrays with any strides, and for arrays in rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gridgen.backends.interface import (
    Arguments,
    Enqueue,
    Rows,
    RunnableKernel,
    Sources,
    StreamKernel,
)


class LayoutKernel:
    """A kernel with two forms, each compiled on first use.

    Args:
        rows: shared-memory layout of the row form.
        make: returns the row form for True, the form for any strides for False.
    """

    def __init__(self, rows: Rows, make: Callable[[bool], RunnableKernel]) -> None:
        self._rows = rows
        self._make = make
        self._made: dict[bool, RunnableKernel] = {}

    def __call__(self, arguments: Arguments, batch: int) -> None:
        """Compute ``batch`` states; see ``RunnableKernel``."""
        self.form(arguments)(arguments, batch)

    def prepare(self, arguments: Arguments, batch: int) -> Callable[[], object]:
        """Return a function that computes the same states; see ``RunnableKernel``."""
        return self.form(arguments).prepare(arguments, batch)

    def prepare_anywhere(self, arguments: Arguments, batch: int) -> Enqueue:
        """Return a function that enqueues a batch at any addresses; see :class:`StreamKernel`."""
        rows, forms = self._rows, dict[bool, Enqueue]()
        may_be_rows = rows.are_contiguous(arguments)

        def enqueue(addresses: Sequence[int], stream: int) -> None:
            are_rows = may_be_rows and rows.are_aligned(addresses)
            if are_rows not in forms:
                kernel = self._form(are_rows)
                assert isinstance(kernel, StreamKernel)
                forms[are_rows] = kernel.prepare_anywhere(arguments, batch)
            forms[are_rows](addresses, stream)

        return enqueue

    def make(self, batch: int) -> None:
        """Compile both forms; see ``FormKernel``."""
        for are_rows in (False, True):
            self._form(are_rows)

    def form(self, arguments: Arguments) -> RunnableKernel:
        """Return the form for the layout of the arrays."""
        return self._form(self._rows.are(arguments))

    def _form(self, are_rows: bool) -> RunnableKernel:
        if are_rows not in self._made:
            self._made[are_rows] = self._make(are_rows)
        return self._made[are_rows]


def in_any_layout(
    sources: Sources, function: str, make: Callable[[bool], RunnableKernel]
) -> RunnableKernel:
    """Return a kernel for arrays of any layout.

    Args:
        sources:  the robot's module.
        function: name of the function.
        make:     returns the row form for True, the form for any strides for False.
    """
    if True not in sources.forms(function):
        return make(False)
    return LayoutKernel(sources.rows[function], make)
