"""Compiled loops over a batch, shared between threads: the kernels hold no lock, and no element meets another."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["share"]

_Array = NDArray[np.float64]

# Scratch of more numbers than this is given back after the call.
_SCRATCH_NUMBERS = 2**24

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}
_own = threading.local()


def _run_share(kernel: Callable[..., int], worker: int, workers: int, arguments: tuple[Any, ...], size: int) -> int:
    """One thread's part, in scratch that the thread keeps for its next call."""
    numbers: _Array | None = getattr(_own, "numbers", None)
    if numbers is None or numbers.shape[0] < size:
        numbers = np.empty(size)
        if size <= _SCRATCH_NUMBERS:
            _own.numbers = numbers
    return kernel(worker, workers, *arguments, numbers[:size])


def share(kernel: Callable[..., int], arguments: tuple[Any, ...], batch: int, threads: int, scratch: int) -> int:
    """Let ``kernel(worker, workers, *arguments, scratch)`` treat a batch; the sum of what its calls return.

    Parameters
    ----------
    kernel : callable
        Compiled without the interpreter's lock; treats every ``workers``-th element from ``worker`` on.
    batch : int
        Elements.
    threads : int
        At most so many calls at once, this thread's included.
    scratch : int
        Numbers that each call works in.
    """
    workers = min(threads, batch)
    if workers <= 1:
        return _run_share(kernel, 0, 1, arguments, scratch)
    # Threads do not survive a fork: a child process gets a pool of its own.
    pool = _pools.get((os.getpid(), workers))
    if pool is None:
        pool = _pools[os.getpid(), workers] = ThreadPoolExecutor(workers - 1, thread_name_prefix="dxpp")
    others = [pool.submit(_run_share, kernel, worker, workers, arguments, scratch) for worker in range(1, workers)]
    return _run_share(kernel, 0, workers, arguments, scratch) + sum(other.result() for other in others)
