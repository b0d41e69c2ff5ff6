"""Kernels in two forms: for arrays of any strides, and for arrays in rows."""

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
    """A kernel in two forms, each made when it is first needed.

    Args:
        rows: what the form for rows takes.
        make: returns the form for rows, if it is told so, or that for any strides.
    """

    def __init__(self, rows: Rows, make: Callable[[bool], RunnableKernel]) -> None:
        self._rows = rows
        self._make = make
        self._made: dict[bool, RunnableKernel] = {}

    def __call__(self, arguments: Arguments, batch: int) -> None:
        """Compute ``batch`` states; see ``RunnableKernel``."""
        self.form(arguments)(arguments, batch)

    def prepare(self, arguments: Arguments, batch: int) -> Callable[[], object]:
        """Return what computes the same states whenever it is called; see ``RunnableKernel``."""
        return self.form(arguments).prepare(arguments, batch)

    def prepare_anywhere(self, arguments: Arguments, batch: int) -> Enqueue:
        """Return what enqueues as many states wherever they lie; see :class:`StreamKernel`."""
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

    def make(self) -> None:
        """Make both forms."""
        for are_rows in (False, True):
            self._form(are_rows)

    def form(self, arguments: Arguments) -> RunnableKernel:
        """Return the form that arrays are for."""
        return self._form(self._rows.are(arguments))

    def _form(self, are_rows: bool) -> RunnableKernel:
        if are_rows not in self._made:
            self._made[are_rows] = self._make(are_rows)
        return self._made[are_rows]


def in_any_layout(
    sources: Sources, function: str, make: Callable[[bool], RunnableKernel]
) -> RunnableKernel:
    """Return a kernel that takes arrays of any layout, in two forms if it has one for rows.

    Args:
        sources:  the robot's module.
        function: name of the function.
        make:     returns the form for rows, if it is told so, or that for any strides.
    """
    rows = sources.rows.get(function)
    return make(False) if rows is None else LayoutKernel(rows, make)
