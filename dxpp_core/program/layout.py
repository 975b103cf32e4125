"""The sizes of a batch of programs, and how arguments of other batch shapes are summed to their own."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..matrices.pattern import SparsePattern

__all__ = ["Layout"]

Array = NDArray[np.float64]


class Layout(NamedTuple):
    """Batch dimensions, n variables, m inequalities, p equalities, and the patterns of sparse arguments."""

    batch_shape: tuple[int, ...]
    n: int
    m: int
    p: int
    patterns: dict[str, SparsePattern]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.batch_shape)

    def unravel(self, k: int) -> tuple[int, ...]:
        """Batch index of the k-th element; () without batch dimensions."""
        return tuple(int(i) for i in np.unravel_index(k, self.batch_shape)) if self.batch_shape else ()
