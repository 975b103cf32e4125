"""Room for what kernels work with, taken piece by piece from one array that outlives their calls.

Memory that every call asks for and gives back is fetched from the operating system again and again, page by page; for
a small problem that costs as much as solving it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import viewing

__all__ = ["Scratch", "matrix", "new_scratch", "scratch_size", "signs", "slab", "vector"]

_Array = NDArray[np.float64]


class Scratch(NamedTuple):
    """All the room there is, and how many of its numbers are taken."""

    numbers: _Array
    taken: NDArray[np.int64]


def scratch_size(K: int, H: int, N: int) -> int:
    """Numbers that any kernel takes for H stages of N assets with K covariances."""
    return (K + H + 1) * N * N + 57 * H * N + 21 * H + 4 * N + 4


@viewing
def new_scratch(numbers: _Array) -> Scratch:
    """All of it free."""
    taken = numbers[:1].view(np.int64)
    taken[0] = 1
    return Scratch(numbers, taken)


@viewing
def vector(scratch: Scratch, n: int) -> _Array:
    """Take [n] zeros."""
    first = scratch.taken[0]
    scratch.taken[0] = first + n
    if first + n > scratch.numbers.shape[0]:
        raise ValueError("the scratch array is too small")
    piece = scratch.numbers[first : first + n]
    piece[:] = 0.0
    return piece


@viewing
def matrix(scratch: Scratch, rows: int, columns: int) -> _Array:
    """Take [rows, columns] zeros."""
    return vector(scratch, rows * columns).reshape(rows, columns)


@viewing
def slab(scratch: Scratch, pages: int, rows: int, columns: int) -> _Array:
    """Take [pages, rows, columns] zeros."""
    return vector(scratch, pages * rows * columns).reshape(pages, rows, columns)


@viewing
def signs(scratch: Scratch, n: int) -> NDArray[np.int8]:
    """Take [n] small integers, zero."""
    return vector(scratch, (n + 7) // 8).view(np.int8)[:n]
