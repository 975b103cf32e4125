"""Signals take effect between two writes."""

from __future__ import annotations

import os
import signal

import pytest

from portfolio_dfl.execution.interruption import closed_on_signal, uninterrupted


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


def test_a_second_signal_does_not_break_off_the_closing_that_the_first_began() -> None:
    closed = []

    def close_slowly() -> None:
        with closed_on_signal():
            try:
                os.kill(os.getpid(), signal.SIGINT)
                signal.pause()
            finally:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGTERM)
                closed.append(True)

    with pytest.raises(KeyboardInterrupt):
        close_slowly()
    assert closed


def test_ctrl_c_that_a_library_makes_an_exit_of_is_ctrl_c_again() -> None:
    def exit_on_interrupt() -> None:
        with closed_on_signal():
            try:
                os.kill(os.getpid(), signal.SIGINT)
                signal.pause()
            except KeyboardInterrupt:
                raise SystemExit(1) from None

    with pytest.raises(KeyboardInterrupt):
        exit_on_interrupt()


def test_signals_that_are_ignored_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with closed_on_signal():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with closed_on_signal():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
