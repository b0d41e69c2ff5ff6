"""Options that commands share, their output, and one-line errors."""

from __future__ import annotations

import argparse
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from gridgen.errors import GridGenError, GridGenWarning, OptionError, printable
from gridgen.naming import show
from gridgen.options import DTYPE_CHOICES, Row, rows
from gridgen.progress import Progress, announced


def accept_any_alphabet() -> None:
    """Escape characters of names that an output stream cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(line: str) -> None:
    """Print a line to the standard error if it is open."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"grid-gen: {line}", file=sys.stderr, flush=True)


@contextmanager
def printing() -> Iterator[None]:
    """Flush the standard output at the end; a closed pipe is not an error.

    Raises:
        GridGenError: the output cannot be written.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        _stop_printing()
    except OSError as error:
        _stop_printing()
        raise GridGenError(f"cannot write to the standard output: {error.strerror}") from error


def _stop_printing() -> None:
    """Discard further output, including that of the interpreter at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def progress_shown(silent: bool) -> AbstractContextManager[Progress]:
    """Show the current step of a run, if it takes long."""
    return announced("starting", progress=(lambda step: None) if silent else None, names_steps=True)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print each warning as one line, without file name and source line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GridGenWarning)
        try:
            yield
        finally:
            for warning in caught:
                say(f"warning: {warning.message}")


Options = TypeVar("Options")
#: Exit status for an invalid input or option.
BAD_INPUT = 2


class _Once(argparse.Action):
    """Stores the value of an option; a second, different value is an error."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the value."""
        given = vars(namespace).setdefault("given", {})
        if given.setdefault(self.dest, values) != values:
            first, second = show(str(given[self.dest])), show(str(values))
            raise argparse.ArgumentError(self, f"given as {first} and as {second}; give it once")
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """A parser with one-line errors; options have one value each."""

    def __init__(self, **options: Any) -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=formatter, allow_abbrev=False, **options)
        for action in (None, "store"):
            self.register("action", action, _Once)

    def add_list(self, name: str, **words: Any) -> None:
        """Add an option that may be given several times; its values are a list."""
        self.add_argument(name, action="append", default=[], **words)

    def add_output(self, what: str) -> None:
        """Add the options that select what is printed."""
        output = self.add_mutually_exclusive_group()
        output.add_argument("--json", action="store_true", help=f"print {what} as JSON")
        output.add_argument("--quiet", action="store_true", help="print only errors")

    def error(self, message: str) -> NoReturn:
        """Print the error and exit."""
        say(f"{printable(message)}; {self.prog} --help lists the options")
        raise SystemExit(BAD_INPUT)


def one_of(what: str, choices: Sequence[str]) -> Callable[[str], str]:
    """Return a parser of words that accepts only the choices."""

    def parse(word: str) -> str:
        if word in choices:
            return word
        raise argparse.ArgumentTypeError(
            f"no {what} {show(word)}: choose one of {', '.join(choices)}"
        )

    return parse


def add_dtypes(parser: argparse.ArgumentParser, purpose: str = "") -> None:
    """Add the option that selects element types."""
    parser.add_argument(
        "--dtype",
        action="append",
        type=one_of("element type", DTYPE_CHOICES),
        metavar="TYPE",
        help=f"{purpose}{' or '.join(DTYPE_CHOICES)}; repeatable (default: both)",
    )


def add_urdf(parser: argparse.ArgumentParser) -> None:
    """Add the argument of the URDF file."""
    parser.add_argument("urdf", help="the URDF, xacro or MJCF file; - for a URDF on standard input")


def add_options(parser: argparse.ArgumentParser, record: type) -> None:
    """Add the options that a record declares itself; those that are not given are left out."""
    for name, default, row in rows(record):
        words: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS}
        if not row.metavar:
            words["action"] = "store_false" if default is True else "store_true"
        else:
            words |= {"metavar": row.metavar, "type": _reader(row)}
            if row.join:
                words["action"] = "append"
        parser.add_argument(*flags_of(name, row), help=help_of(default, row), **words)


def flags_of(name: str, row: Row) -> tuple[str, ...]:
    """Return the flags of an option."""
    return row.flags or (f"--{name.replace('_', '-')}",)


def help_of(default: Any, row: Row, *, is_markdown: bool = False) -> str:
    """Return the description of an option for a command line, or for a page about it."""
    text = row.text if is_markdown and row.choices else row.command or row.text
    text = " ".join(text.removesuffix(".").split())
    text = text.replace("``", "`") if is_markdown else text.replace("``", "").replace("%", "%%")
    if row.choices and not is_markdown:
        text += f"; names: {', '.join(row.choices)}"
    has_default = type(default) in (int, str, type(Path()))
    return text + "; repeatable" * (row.join is not None) + f" (default: {default})" * has_default


def _reader(row: Row) -> Callable[[str], Any]:
    """Return a function that reads a word of an option, with the errors of ``argparse``."""

    def read(word: str) -> Any:
        try:
            return row.read(word)
        except OptionError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    # Its name is in the error of a word that is no number.
    read.__name__ = getattr(row.read, "__name__", "value")
    return read


def options_of(arguments: argparse.Namespace, record: type[Options]) -> Options:
    """Return the record of options that a command line has."""
    found = {}
    for base in reversed(record.__mro__[:-1]):
        for name, _, row in rows(base):
            if not hasattr(arguments, name):
                continue
            found[name] = getattr(arguments, name)
            if row.join:
                try:
                    found[name] = row.join(found[name])
                except OptionError as error:
                    raise OptionError(f"{flags_of(name, row)[-1]} {error}") from None
    return record(**found)


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add the option that permits overwriting of files, to a command that writes one."""
    text = "overwrite a file that grid-gen did not write or that was changed since"
    parser.add_argument("--force", action="store_true", help=text)


def robot_text(argument: str) -> bytes | str | Path:
    """Return the text of the standard input for ``-``, else a catalog name or a path."""
    if argument != "-":
        from gridgen.model.readers import packages

        return Path(argument) if argument and not packages.is_robot_name(argument) else argument
    from gridgen.model.readers.document import MAX_BYTES
    from gridgen.progress import announced

    if sys.stdin is None:
        raise GridGenError("-: the standard input is closed; give the path of a URDF file")
    with announced("reading a URDF from standard input"):
        return sys.stdin.buffer.read(MAX_BYTES + 1)
