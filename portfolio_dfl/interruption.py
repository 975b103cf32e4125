"""Ctrl-C and termination signals end a study between two writes of its records, never inside one.

A signal that lands inside a database transaction would leave the store locked against the very process that must close
its runs.  So writes are marked, and a signal that arrives during one takes effect when it is done.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["closed_on_signal", "uninterrupted"]


class _State(threading.local):
    depth = 0
    pending: int | None = None


_state = _State()


def _leave(number: int) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def _on_signal(number: int, frame: FrameType | None) -> None:
    if _state.depth:
        _state.pending = number
    else:
        _leave(number)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold signals back until the block is done; only those that :func:`closed_on_signal` handles."""
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
        if not _state.depth and _state.pending is not None:
            number, _state.pending = _state.pending, None
            _leave(number)


@contextmanager
def closed_on_signal() -> Iterator[None]:
    """Let Ctrl-C and a termination signal unwind the stack, so that what is open is closed."""
    if threading.current_thread() is not threading.main_thread():  # only there may handlers be set
        yield
        return
    before = {number: signal.signal(number, _on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
