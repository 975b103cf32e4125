"""Changes to the process that threads want at once are made once and taken back by the last; turns are taken."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from portfolio_dfl.execution.process import SharedChange, alone, ignored_warnings, log_level, variable
from portfolio_dfl.tracking.mlflow_store import open_store, tracked_run

_NAME = "PORTFOLIO_DFL_TEST"


@pytest.mark.parametrize("before", [None, "as it was"])
def test_a_shared_variable_is_put_back_by_the_last_to_leave(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first to come leaves first, which saved copies would put back in the wrong order."""
    if before is not None:
        monkeypatch.setenv(_NAME, before)
    change = SharedChange(lambda: variable(_NAME, "changed"))
    second_is_in, first_is_out = threading.Event(), threading.Event()
    seen = []

    def first() -> None:
        with change:
            second_is_in.wait(10)
        first_is_out.set()

    def second() -> None:
        with change:
            second_is_in.set()
            first_is_out.wait(10)
            seen.append(os.environ.get(_NAME))

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(first), pool.submit(second)]:
            done.result()
    assert seen == ["changed"]
    assert os.environ.get(_NAME) == before


def test_a_log_level_is_put_back_after_an_error() -> None:
    logger = logging.getLogger("portfolio_dfl.test")
    level = logger.level

    def break_off() -> None:
        with log_level(logger.name, logging.ERROR):
            assert logger.level == logging.ERROR
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert logger.level == level


def test_warnings_ignored_in_several_threads_are_heard_again_afterwards() -> None:
    before = list(warnings.filters)
    both = threading.Barrier(2)

    def ignore(_: int) -> None:
        both.wait(10)
        for _ in range(200):
            with ignored_warnings(category=DeprecationWarning):
                warnings.warn("old", DeprecationWarning, stacklevel=1)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ignore, range(2)))
    assert list(warnings.filters) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_process_has_a_turn_of_its_own() -> None:
    """The thread that has the parent's is not there to give it back."""
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with alone():
            inside.set()
            leave.wait(30)

    staying = threading.Thread(target=stay)
    staying.start()
    inside.wait(10)
    try:
        child = os.fork()
        if child == 0:
            with alone():
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    finally:
        leave.set()
        staying.join()


def test_runs_recorded_by_several_threads_leave_the_environment_as_it_was(tmp_path: Path) -> None:
    """Every request has its own number of tries, set in the environment."""
    store = open_store(tmp_path, experiment="study")
    before = dict(os.environ)

    def record(number: int) -> None:
        with tracked_run(store, f"run {number}") as run:
            for step in range(10):
                run.log_metrics({"value": 1.0}, step=step)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(record, range(4)))
    assert dict(os.environ) == before
