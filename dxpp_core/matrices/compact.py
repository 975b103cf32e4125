"""The factor that the compiled polish of a compact program leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["CompactFactor"]

Array = NDArray[np.float64]


class CompactFactor:
    """P (or its diagonal), the rows and their stiffnesses, the factor, and the variables at active bounds."""

    __slots__ = ("C", "L", "P", "at_bound", "kappa")

    def __init__(self, P: Array, C: Array, kappa: Array, L: Array, at_bound: NDArray[np.bool_]) -> None:
        self.P, self.C, self.kappa, self.L, self.at_bound = P, C, kappa, L, at_bound

    def solve(self, rhs: Array) -> Array:
        return _kernel()(self.P, self.C, self.kappa, self.L, np.where(self.at_bound, 0.0, rhs))


@cache
def _kernel() -> Callable[..., Array]:
    """Imported when first needed: Numba takes its time."""
    from ..kernels.compact import solve_compact

    return solve_compact
