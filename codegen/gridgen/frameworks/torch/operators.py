"""Functions as operators of PyTorch: ``torch.ops.gridgen.inverse_dynamics`` and its like.

Each is made from a function's record: its arrays by name, then a word for the robot and each of the
choices that a call has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gridgen.errors import OptionError
from gridgen.frameworks.torch.batches import arrays_of
from gridgen.frameworks.torch.operator import Asked, Operator, Tensor, Words
from gridgen.functions import FUNCTIONS, GENERATED, Function
from gridgen.functions.arrays import cotangent
from gridgen.functions.calls import Course


class Evaluation(Operator):
    """A function.

    Args:
        row: its record.
    """

    def __init__(self, row: Function) -> None:
        returns = ", ".join("Tensor" for _ in row.results)
        super().__init__(
            row.name,
            row,
            arrays_of(row),
            arrays_of(row)[len(row.arguments) :],
            returns if len(row.results) == 1 else f"({returns})",
        )
        self._vjp = Pullback(row)

    def evaluate(self, asked: Asked, words: Words, further: Any) -> Sequence[Tensor]:
        """See ``Operator``."""
        arrays = tuple(asked.given[name] for name in self.row.arguments)
        options = {n: one for n, one in asked.given.items() if n not in self.row.arguments}
        if words.backend:
            options["backend"] = words.backend
        frame = words.frame or None
        choices = (words.schedule, words.method, frame, words.reference)
        course = Course() if asked.kernel.calls else None
        found = asked.robot._call(self.row.name, arrays, None, options, *choices, course)
        results = found if isinstance(found, tuple) else (found,)
        return [asked.batch.restored(result) for result in results]

    def shapes(self, asked: Asked, further: Any) -> list[tuple[int, ...]]:
        """See ``Operator``."""
        return asked.batch.result_shapes()

    def pullback(
        self,
        saved: dict[str, Tensor],
        results: Sequence[Tensor],
        cotangents: Sequence[Tensor],
        words: Words,
        wrt: Sequence[str],
    ) -> Sequence[Tensor]:
        """See ``Operator``."""
        asked = self.asked(saved, words)
        ordered = [name for name in asked.kernel.inputs if name in wrt]
        given = (*(saved.get(name) for name in self.tensors), *results, *cotangents)
        found = dict(zip(ordered, self._vjp.call(*given, *words, ordered), strict=True))
        axes = tuple(range(len(asked.batch.axes)))
        return [found[name].sum(axes) if name in asked.batch.alone else found[name] for name in wrt]


class Pullback(Operator):
    """The vector-Jacobian product of a function: cotangents of its arrays, for each state.

    Args:
        row: the function's record.
    """

    def __init__(self, row: Function) -> None:
        arrays = arrays_of(row)
        # A function may return what it takes: interpolate's q is no argument, but step's q_next is.
        self._results = tuple(f"{name}_result" for name in row.results)
        self._cotangents = tuple(map(cotangent, row.results))
        super().__init__(
            f"{row.name}_vjp",
            row,
            (*arrays, *self._results, *self._cotangents),
            arrays[len(row.arguments) :],
            "Tensor[]",
            "str[] wrt",
        )

    def evaluate(self, asked: Asked, words: Words, further: Any) -> Sequence[Tensor]:
        """See ``Operator``."""
        (wrt,), row = further, self.row
        cotangents, results = (
            tuple(asked.given[name] for name in names)
            for names in (self._cotangents, self._results)
        )
        arguments = [asked.given[name] for name in row.arguments]
        options = {n: asked.given[n] for n in arrays_of(row)[len(arguments) :] if n in asked.given}
        if asked.kernel.calls:
            return _rollout_pullback(asked, words, cotangents, wrt, options)
        found = asked.robot.vjp(
            row.name,
            cotangents if len(cotangents) > 1 else cotangents[0],
            *arguments,
            wrt=tuple(wrt),
            results=results if len(results) > 1 else results[0],
            **options,
            **_choices(row, words),
        )
        return [asked.batch.restored(bar) for bar in (found if len(wrt) > 1 else (found,))]

    def shapes(self, asked: Asked, further: Any) -> list[tuple[int, ...]]:
        """See ``Operator``."""
        return [(*asked.batch.axes, *asked.batch.inputs[name]) for name in further[0]]

    def pullback(
        self,
        saved: dict[str, Tensor],
        results: Sequence[Tensor],
        cotangents: Sequence[Tensor],
        words: Words,
        wrt: Sequence[str],
    ) -> Sequence[Tensor]:
        """See ``Operator``."""
        raise OptionError(
            f"{self.row.name} has no second derivatives here; leave out create_graph, and nest no "
            "transform of the derivative"
        )


def _choices(row: Function, words: Words) -> dict[str, str]:
    """Return the keyword arguments that words stand for, as derivatives of a function take them.

    A method that is no program has the derivatives of the others.
    """
    chosen = {"backend": words.backend} if words.backend else {}
    if "" not in row.methods:
        traced = words.method in row.methods and row.methods[words.method].algorithm
        is_meant = row.method_word != "method" or traced
        chosen[row.method_word] = words.method if is_meant else "auto"
    if words.frame:
        chosen[row.words[0]] = words.frame
    if row.of_frame:
        chosen["reference"] = words.reference
    return chosen


def _rollout_pullback(
    asked: Asked, words: Words, cotangents: Any, wrt: Sequence[str], options: dict[str, Tensor]
) -> list[Tensor]:
    """Return the cotangents of a rollout's beginning and of its efforts."""
    arguments = [asked.given[name] for name in ("q0", "qd0", "tau", "dt")]
    choices = _choices(FUNCTIONS["rollout"], words)
    bars = asked.robot.rollout_vjp(*arguments, cotangents, **options, **choices)
    found = dict(zip(("q0", "qd0", "tau"), bars, strict=True))
    return [asked.batch.restored(found[name]) for name in wrt]


#: The operator of each function that generated code computes.
OPERATORS: dict[str, Evaluation] = {name: Evaluation(FUNCTIONS[name]) for name in GENERATED}
