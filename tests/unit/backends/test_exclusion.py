"""Locks that end with whoever holds them."""

from __future__ import annotations

import multiprocessing
import os
import threading

import pytest

from gridgen.backends.cache import exclusively


def test_a_lock_leaves_nothing_behind(tmp_path):
    with exclusively(tmp_path / "lock"):
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    assert list(tmp_path.iterdir()) == []


def test_where_no_file_can_be_made_all_go_on(tmp_path):
    with exclusively(tmp_path / "absent" / "lock"):
        pass


def test_patience_ends(tmp_path):
    entered = []

    def impatient() -> None:
        with exclusively(tmp_path / "lock", patience=0.05):
            entered.append(True)

    with exclusively(tmp_path / "lock"):
        thread = threading.Thread(target=impatient)
        thread.start()
        thread.join(30)
        assert entered


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork.*JAX is multithreaded:RuntimeWarning")
def test_a_fork_holds_no_lock_of_its_parent(tmp_path):
    lock = tmp_path / "lock"

    def child() -> None:
        with exclusively(lock, patience=60):
            os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=child)
    with exclusively(lock):
        process.start()
        process.join(0.3)
        assert process.is_alive()  # its parent does
    process.join(30)
    assert process.exitcode == 0
