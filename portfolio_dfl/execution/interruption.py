"""Ctrl-C and termination signals end a study between two writes of its records, never inside one.

A signal that lands inside a database transaction would leave the store locked against the very process that must close
its runs.  So writes are marked, and a signal that arrives during one takes effect when it is done.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["closed_on_signal", "uninterrupted"]

_SIGNALS = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")]
# Signals within this time are one request: a second Ctrl-C must not break off the closing that the first one began.
_ONE_REQUEST_S = 2.0


class _State(threading.local):
    depth = 0
    pending: int | None = None
    taken: int | None = None
    taken_at = 0.0


_state = _State()


def _leave(number: int) -> None:
    if _state.taken is not None and time.monotonic() - _state.taken_at < _ONE_REQUEST_S:
        return
    _state.taken, _state.taken_at = number, time.monotonic()
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
    """Let Ctrl-C, a termination signal and a lost terminal unwind the stack, so that what is open is closed.

    Signals that are ignored, as under ``nohup``, stay ignored.
    """
    if threading.current_thread() is not threading.main_thread():  # only there may handlers be set
        yield
        return
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in _SIGNALS}
    heard = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, _on_signal)]
    for number in heard:
        signal.signal(number, _on_signal)
    try:
        yield
    except SystemExit as left:
        if _state.taken == signal.SIGINT:  # Lightning makes an exit of a Ctrl-C during a fit
            stopped = KeyboardInterrupt()
            for note in getattr(left, "__notes__", ()):
                stopped.add_note(note)
            raise stopped from None
        raise
    finally:
        if heard:
            _state.taken = _state.pending = None
        for number in heard:
            signal.signal(number, before[number])
