"""What belongs to the whole process: work that needs it alone takes turns, changes wanted at once are shared.

Torch's random state and default dtype, thread counts of BLAS, log levels and environment variables are one for all
threads. Saved by one thread and put back by another, in whatever order they come, they would be left changed, and
work between would go on with somebody else's.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

__all__ = ["SharedChange", "alone", "ignored_warnings", "log_level", "variable"]

_turn = threading.RLock()


def _new_turn() -> None:
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):  # the thread that had it is not there in a child
    os.register_at_fork(after_in_child=_new_turn)


@contextmanager
def alone() -> Iterator[None]:
    """Take turns with the other threads of this process; a thread may take its own turn again within it.

    A lock and not a process of its own: users' predictors draw from torch's global state, which no generator of ours
    reaches, while a process would need seconds to import what a window of a second needs, and dask's workers may not
    have children. Workers with one thread each lose nothing by it.
    """
    with _turn:
        yield


class SharedChange:
    """A change to the process that the first of several threads makes and the last takes back.

    Parameters
    ----------
    change : callable
        Gives a fresh context manager that makes the change and takes it back.
    """

    def __init__(self, change: Callable[[], AbstractContextManager[object]]) -> None:
        self._change = change
        self._lock = threading.Lock()
        self._users = 0
        self._made = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._made.enter_context(self._change())
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._made.close()


@contextmanager
def ignored_warnings(**which: Any) -> Iterator[None]:
    """Without the warnings that ``warnings.filterwarnings`` names so; the filters are one list for all threads."""
    with alone(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", **which)
        yield


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """An environment variable, set and put back."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


@contextmanager
def log_level(name: str, level: int) -> Iterator[None]:
    """A logger's level, set and put back."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
