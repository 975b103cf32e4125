"""Signals take effect between two writes."""

from __future__ import annotations

import os
import signal

import pytest

from portfolio_dfl.interruption import closed_on_signal, uninterrupted


@pytest.mark.parametrize(("number", "error"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_during_a_write_waits_for_its_end(number: int, error: type[BaseException]) -> None:
    done = []

    def write() -> None:
        with closed_on_signal():
            with uninterrupted():
                with uninterrupted():
                    os.kill(os.getpid(), number)
                    done.append("inner")
                done.append("outer")
            done.append("after")

    with pytest.raises(error):
        write()
    assert done == ["inner", "outer"]


def test_a_signal_between_writes_takes_effect_at_once() -> None:
    def wait() -> None:
        with closed_on_signal():
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()

    with pytest.raises(SystemExit) as caught:
        wait()
    assert caught.value.code == 128 + signal.SIGTERM


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with closed_on_signal():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
