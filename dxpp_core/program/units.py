"""The vectors of a program in the units of its equilibrated matrices, and the unit of x."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..matrices import System
from ..matrices.equilibration import smallest_limit

__all__ = ["Scaled", "ScaledVectors", "scale", "shrunk", "too_small"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# A scaled solution smaller than _SMALL makes the unit of x suspect; one reduction makes it at least _LARGEST_STEP of
# what it was.
_SMALL = 1e-2
_LARGEST_STEP = 1e-4
_NOTHING = np.zeros(0)


@dataclass(slots=True)
class ScaledVectors:
    """q̂, d̂ = [b̂; ĥ], bounds, and what fixes their units: α (size of x), c (objective) and the size of the duals.

    ``limits`` is the largest finite magnitude among ĥ and the bounds.
    """

    q: Array
    d: Array
    lb: Array | None
    ub: Array | None
    fixed: Mask | None
    alpha: float
    c: float
    dual_size: float
    limits: float


class Scaled(NamedTuple):
    """The vectors of a program in the units of its equilibrated matrices and of x, one after the other.

    ``numbers``: q, d = [b; h], and those of lb and ub that there are.  ``plain``: whether all numbers but the bounds
    are finite and no bounds cross; ``equal``: how many variables have equal bounds; the rest as in
    :class:`ScaledVectors`.
    """

    n: int
    m: int
    has_lb: bool
    has_ub: bool
    numbers: Array
    alpha: float
    c: float
    dual_size: float
    limits: float
    equal: int
    plain: bool

    def parts(self) -> tuple[Array, Array, Array | None, Array | None]:
        """q, d, lb and ub."""
        n, out = self.n, self.numbers
        to_lb = n + self.m
        to_ub = to_lb + n if self.has_lb else to_lb
        return (
            out[:n],
            out[n:to_lb],
            out[to_lb:to_ub] if self.has_lb else None,
            out[to_ub:] if self.has_ub else None,
        )

    def vectors(self) -> ScaledVectors:
        q, d, lb, ub = self.parts()
        fixed = None if not self.equal or lb is None or ub is None else np.equal(lb, ub)
        return ScaledVectors(q, d, lb, ub, fixed, self.alpha, self.c, self.dual_size, self.limits)


def scale(system: System, q: Array, b: Array | None, h: Array | None, lb: Array | None, ub: Array | None) -> Scaled:
    """Bring the vectors of a program to the units of its equilibrated matrices, and to a unit of x."""
    n, m = system.D.size, system.E.size
    has_lb, has_ub = lb is not None, ub is not None
    out = np.empty(n + m + n * (has_lb + has_ub))
    found = _scaling_kernel()(
        system.D,
        system.E,
        system.c,
        system.has_curvature,
        np.ascontiguousarray(q),
        _NOTHING if b is None else np.ascontiguousarray(b),
        _NOTHING if h is None else np.ascontiguousarray(h),
        _NOTHING if lb is None else np.ascontiguousarray(lb),
        _NOTHING if ub is None else np.ascontiguousarray(ub),
        out,
    )
    return Scaled(n, m, has_lb, has_ub, out, *found)


@cache
def _scaling_kernel() -> Callable[..., tuple[float, float, float, float, int, bool]]:
    """Imported when first needed: Numba takes its time."""
    from ..kernels.vectors import scale_vectors

    return scale_vectors


def too_small(size: float) -> bool:
    """Whether a scaled solution of this size makes the unit of x suspect."""
    return not size >= _SMALL


def shrunk(vectors: ScaledVectors, size: float) -> ScaledVectors | None:
    """The vectors in a smaller unit of x, where a solution of this scaled size shows that the unit was too large.

    None if it was not, or if no limit of the program is smaller than the unit: then a small x is small.
    """
    if not too_small(size):
        return None
    least = smallest_limit(vectors.d, vectors.lb, vectors.ub)
    factor = max(least, size, _LARGEST_STEP)
    if not factor < _SMALL:
        return None

    def scaled(values: Array | None) -> Array | None:
        return None if values is None else values / factor

    q = vectors.q / factor
    return replace(
        vectors,
        q=q,
        d=vectors.d / factor,
        lb=scaled(vectors.lb),
        ub=scaled(vectors.ub),
        alpha=vectors.alpha * factor,
        dual_size=max(1.0, float(np.abs(q).max())),
        limits=vectors.limits / factor,
    )
