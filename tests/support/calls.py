"""Calls for workers: a process that is to find one here imports nothing that takes long."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.execution.fan_out import fan_out

__all__ = ["die", "die_once", "kill", "linger", "multiplied", "sleep", "spread_sleepers", "square", "write_into"]


def square(number: int) -> int:
    """The square, but of three and four."""
    if number == 3:
        raise TrainingError("three is too many")
    if number == 4:
        raise ZeroDivisionError("four")
    return number * number


def write_into(array: Any) -> float:
    """The sum of an array after one was added to each of its entries."""
    array += 1
    return float(array.sum())


def multiplied(number: Any) -> int:
    """What a part of the user's own makes of it."""
    return int(number.multiplied())


def die(_: Path) -> int:
    """Kill the process that calls."""
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def die_once(place: Path) -> int:
    """Kill the process the first time, and give its number the next."""
    if not place.exists():
        place.touch()
        die(place)
    return os.getpid()


def kill(process: int) -> None:
    """Kill another process."""
    os.kill(process, signal.SIGKILL)
    time.sleep(1)


def linger(seconds: float) -> float:
    """Take so long."""
    time.sleep(seconds)
    return seconds


def sleep(folder: Path) -> None:
    """Leave the number of the process, and stay."""
    (folder / str(os.getpid())).touch()
    time.sleep(60)


def spread_sleepers(folder: Path) -> None:
    """Two processes that stay."""
    list(fan_out(sleep, [folder] * 2, names=["one", "two"], backend="loky", workers=2))
