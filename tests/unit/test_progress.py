"""Reports on long tasks."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from gridgen import progress
from gridgen.backends.process import side_by_side
from gridgen.progress import Step, announced


@pytest.fixture(autouse=True)
def loud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(progress.QUIET_VARIABLE)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)


class Stream(io.StringIO):
    """A stream, of a terminal or not, that can be waited for."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal
        self._changed = threading.Condition()

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        with self._changed:
            self._changed.notify_all()
            return super().write(text)

    def wait_for(self, text: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: text in self.getvalue(), 20.0), self.getvalue()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], Stream]:
    def replace(is_terminal: bool) -> Stream:
        stream = Stream(is_terminal=is_terminal)
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "200")
        return stream

    return replace


def test_a_long_task_says_what_it_does_and_what_shortens_it(
    shown: Callable[[bool], Stream],
) -> None:
    stream = shown(False)
    with announced("tracing step of go1", "lock joints") as step:
        stream.wait_for("grid-gen: tracing step of go1 ... (lock joints)\n")
        step(Step.of("compiling", "a", 1, 2))
    assert stream.getvalue().splitlines()[1:] == ["grid-gen: compiling 1 of 2: a ... (lock joints)"]


def test_a_task_inside_is_shown_in_place_of_the_outer_one(
    shown: Callable[[bool], Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = shown(False)
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    with announced("outer"):
        with announced("inner", "fewer shapes"):
            stream.wait_for("grid-gen: inner ... (fewer shapes)\n")
        stream.wait_for("grid-gen: outer ... (fewer shapes)\n")
    assert len(stream.getvalue().splitlines()) == 2


def test_a_task_that_names_its_steps_covers_those_of_its_threads(
    shown: Callable[[bool], Stream],
) -> None:
    stream = shown(False)

    def task() -> None:
        with announced("compiling inside"):
            stream.wait_for("starting")

    with announced("starting", names_steps=True) as step:
        stream.wait_for("starting")
        assert list(side_by_side({"a": task, "b": task}, step, jobs=2)) == [None, None]
    assert "grid-gen: compiling 2 of 2: b ...\n" in stream.getvalue()
    assert "inside" not in stream.getvalue()


def test_a_terminal_shows_bars_and_removes_them(shown: Callable[[bool], Stream]) -> None:
    stream = shown(True)
    with suppress(ZeroDivisionError), announced("compiling") as step:
        stream.wait_for("compiling ...")
        step(Step.of("compiling", "b", 2, 4))
        stream.wait_for("compiling 2 of 4: b ...")
        raise ZeroDivisionError
    assert progress._screen._rows is None
    length = len(stream.getvalue())
    with announced("another"):
        stream.wait_for("another ...")
    assert len(stream.getvalue()) > length


def test_threads_have_rows_of_their_own(shown: Callable[[bool], Stream]) -> None:
    stream = shown(True)

    def task(name: str) -> None:
        with announced(f"task {name}"):
            stream.wait_for("task a ...")
            stream.wait_for("task b ...")

    threads = [threading.Thread(target=task, args=name) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert progress._screen._rows is None


@pytest.mark.parametrize("reason", ["quick", "quiet", "called back", "closed", "none"])
def test_what_is_not_to_be_shown_is_not(
    shown: Callable[[bool], Stream], monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    stream, steps = shown(False), []
    if reason == "quick":
        monkeypatch.setattr(progress, "PATIENCE", 60.0)
    elif reason == "quiet":
        monkeypatch.setenv(progress.QUIET_VARIABLE, "1")
    elif reason == "closed":
        stream.close()
    elif reason == "none":
        monkeypatch.setattr(sys, "stderr", None)
    back = steps.append if reason == "called back" else None
    with announced("outer", progress=back) as step, announced("inner"):
        step("first")
        threading.Event().wait(0.05)
    assert steps == (["first"] if back else [])
    assert stream.closed or stream.getvalue() == ""
