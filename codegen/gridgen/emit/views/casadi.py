"""Data of the template of a robot's CasADi functions: shapes, sparsity, calls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from gridgen.emit.views.library import LibraryFunctionView
from gridgen.functions.arrays import ARRAYS, tangent
from gridgen.kernel import Kernel, Shape
from gridgen.schedules.thread.plan import jacobian_inputs
from gridgen.symbolic.program import Program, dependencies, is_zero

# Columns of a line.
_WIDTH = 95


@dataclass(frozen=True)
class MatrixView:
    """An array as a matrix of CasADi."""

    name: str  #: ``q``.
    ident: str  #: name of its sparsity.
    rows: int  #: its rows.
    columns: int  #: its columns.
    sparsity: tuple[str, ...]  #: compressed columns, in CasADi's format, in lines.
    has_quaternions: bool = False  #: whether it is a configuration.


@dataclass(frozen=True)
class JacobianView:
    """The Jacobian of a function."""

    product: str  #: the product with it, in the C interface.
    roles: tuple[str, ...]  #: initializers with the role of each array of the product.
    inputs: tuple[MatrixView, ...]  #: those of the function.
    results: tuple[MatrixView, ...]  #: the function's, which are inputs of a Jacobian.
    blocks: tuple[MatrixView, ...]  #: one for each result and input.
    scratch: int  #: numbers of scratch memory.

    @property
    def given(self) -> tuple[MatrixView, ...]:
        """All arguments that CasADi passes."""
        return self.inputs + self.results


@dataclass(frozen=True)
class CasadiFunctionView:
    """One function for CasADi."""

    name: str  #: its name without the robot's.
    c_name: str  #: its name in the C interface.
    inputs: tuple[MatrixView, ...]  #: arrays that it reads.
    outputs: tuple[MatrixView, ...]  #: arrays that it returns.
    arguments: tuple[str, ...]  #: those of the C function, in lines.
    scratch: int  #: numbers of scratch memory.
    jacobian: JacobianView | None  #: its Jacobian, if the robot has the product.


def casadi_view(
    kernel: Kernel,
    function: LibraryFunctionView,
    program: Program,
    product: tuple[Kernel, LibraryFunctionView, Program] | None,
) -> CasadiFunctionView:
    """Describe one function for CasADi."""
    inputs = tuple(
        _matrix(name, kernel.inputs[name], has_quaternions=ARRAYS[name].shape == ("nq",))
        for name in jacobian_inputs(kernel)
    )
    outputs = tuple(
        _matrix(name, shape, _nonzeros(program, name, shape))
        for name, shape in kernel.outputs.items()
    )
    given = {view.name: f"in[{index}]" for index, view in enumerate(inputs)}
    written = {view.name: f"out[{index}]" for index, view in enumerate(outputs)}
    words = {**given, **written, "n": "1", "gravity": "nullptr"}
    arguments = (
        ("*" if parameter.kind == "S" else "") + words[parameter.name]
        for parameter in function.parameters
    )
    scratch = sum(view.rows * view.columns for view in (*inputs, *outputs))
    return CasadiFunctionView(
        name=function.called[-1],
        c_name=function.name,
        inputs=inputs,
        outputs=outputs,
        arguments=tuple(wrap(", ".join(arguments), _WIDTH)),
        scratch=scratch,
        jacobian=None if product is None else _jacobian(inputs, outputs, scratch, *product),
    )


def _jacobian(
    inputs: Sequence[MatrixView],
    outputs: Sequence[MatrixView],
    scratch: int,
    kernel: Kernel,
    function: LibraryFunctionView,
    program: Program,
) -> JacobianView:
    order = {view.name: index for index, view in enumerate(inputs)}
    results = {view.name: index for index, view in enumerate(outputs)}
    roles = {"gravity": "{usual, 0, 3}"}
    roles |= {name: f"{{value, {index}, 0}}" for name, index in order.items()}
    roles |= {tangent(name): f"{{direction, {index}, 0}}" for name, index in order.items()}
    for name, index in results.items():
        size = outputs[index].rows * outputs[index].columns
        roles[tangent(name)] = f"{{change, {index}, {size}}}"
        read = name in kernel.inputs
        roles[name] = f"{{result, {index}, 0}}" if read else f"{{discarded, {index}, {size}}}"
    columns = sum(view.rows * view.columns for view in inputs)
    written = sum(array.size for array in function.arrays if array.is_result)
    blocks = []
    for output in outputs:
        changes = dependencies(program, tangent(output.name))
        for given in inputs:
            by = tangent(given.name)
            filled = (
                None
                if changes is None
                else {
                    (_by_columns(row, output), _by_columns(index, given))
                    for row, read in enumerate(changes)
                    for name, index in read
                    if name == by
                }
            )
            shape = (output.rows * output.columns, given.rows * given.columns)
            blocks.append(_matrix(f"jac_{output.name}_{given.name}", shape, filled))
    return JacobianView(
        product=function.name,
        roles=tuple(roles[array.name] for array in function.arrays),
        inputs=tuple(inputs),
        results=tuple(_result(view, kernel) for view in outputs),
        blocks=tuple(blocks),
        scratch=scratch + 2 * columns + columns * written,
    )


def _result(view: MatrixView, product: Kernel) -> MatrixView:
    """Describe a result as an input of a Jacobian; an unused result has no elements."""
    nonzeros: set[tuple[int, int]] | None = None if view.name in product.inputs else set()
    return _matrix(f"out_{view.name}", (view.rows, view.columns), nonzeros)


def extents(shape: Shape) -> tuple[int, int]:
    """Return rows and columns of an array, with its matrices stacked."""
    return (math.prod(shape), 1) if len(shape) < 2 else (math.prod(shape[:-1]), shape[-1])


def _by_columns(index: int, matrix: MatrixView) -> int:
    """Return the column-major index of a row-major element."""
    row, column = divmod(index, matrix.columns)
    return column * matrix.rows + row


def _nonzeros(program: Program, name: str, shape: Shape) -> set[tuple[int, int]] | None:
    zeros, columns = is_zero(program, name), extents(shape)[1]
    if zeros is None:
        return None
    return {divmod(index, columns) for index, zero in enumerate(zeros) if not zero}


def _matrix(
    name: str,
    shape: Shape,
    nonzeros: set[tuple[int, int]] | None = None,
    *,
    has_quaternions: bool = False,
) -> MatrixView:
    """Describe a matrix; by default all of its elements may be nonzero."""
    rows, columns = extents(shape)
    if nonzeros is None or len(nonzeros) == rows * columns:
        numbers = [rows, columns, 1]
    else:
        filled: Mapping[int, list[int]] = {column: [] for column in range(columns)}
        for row, column in sorted(nonzeros):
            filled[column].append(row)
        starts = [0]
        for column in range(columns):
            starts.append(starts[-1] + len(filled[column]))
        numbers = [rows, columns, *starts, *(row for column in filled.values() for row in column)]
    lines = tuple(wrap(", ".join(map(str, numbers)), _WIDTH))
    return MatrixView(name, f"sparsity_{name}", rows, columns, lines, has_quaternions)
