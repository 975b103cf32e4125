"""The vectors of a program in the units of its equilibrated matrices, in one pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compilation import compiled, inner
from .linear_algebra import largest

__all__ = ["scale_vectors", "unit_step", "write_scaled"]

_Array = NDArray[np.float64]

# A scaled solution below this makes the unit of x suspect; one reduction of it goes no further than that.
_SMALL = 1e-2
_LARGEST_STEP = 1e-4


@inner
def _largest_finite(v: _Array, top: float) -> float:
    """Largest finite magnitude in a vector, or ``top`` if that is larger."""
    for value in v:
        size = abs(value)
        if size > top and size < np.inf:
            top = size
    return top


@inner
def write_scaled(
    D: _Array,
    E: _Array,
    c: float,
    has_curvature: bool,
    q: _Array,
    b: _Array,
    h: _Array,
    lb: _Array,
    ub: _Array,
    out: _Array,
) -> tuple[float, float, float, float, int, bool]:
    """Vectors of the equilibrated program, in a unit α of x: the size that one may expect of the solution.

    That is never below the right-hand sides of the equalities, and at most what attracts x (the unconstrained minimum)
    and what limits it.

    ``out`` [n + m + those of lb + those of ub] receives q, d = [b; h], lb and ub; returns α, c, the size of the duals,
    the largest finite limit, the number of variables whose bounds are equal, and whether the vectors are plain: all of
    them finite but for the bounds, which may be missing and do not cross.
    """
    n, p, m = D.shape[0], b.shape[0], E.shape[0]
    bounds = out[n + m :]
    lower, upper = bounds[: lb.shape[0]], bounds[lb.shape[0] :]
    if not has_curvature:
        # A linear program: nothing but q fixes the units of the objective.
        top = 0.0
        for j in range(n):
            top = max(top, abs(D[j] * q[j]))
        c = 1.0 / top if top > 0.0 else 1.0
    pull = 0.0
    for j in range(n):
        out[j] = c * D[j] * q[j]
        pull = max(pull, abs(out[j]))
    for i in range(m):
        out[n + i] = E[i] * (b[i] if i < p else h[i - p])
    for j in range(lower.shape[0]):
        lower[j] = lb[j] / D[j]
    for j in range(upper.shape[0]):
        upper[j] = ub[j] / D[j]
    limits = _largest_finite(out[n + p : n + m], _largest_finite(lower, _largest_finite(upper, 0.0)))
    reach = pull if has_curvature else np.inf
    if limits > 0.0:
        reach = min(reach, limits)
    size = max(_largest_finite(out[n : n + p], 0.0), reach if np.isfinite(reach) else 0.0)
    alpha = size if size > 0.0 else 1.0
    for k in range(out.shape[0]):
        out[k] /= alpha
    plain = True
    for k in range(n + m):
        plain = plain and np.isfinite(out[k])
    for j in range(lower.shape[0]):
        plain = plain and lower[j] < np.inf
    for j in range(upper.shape[0]):
        plain = plain and upper[j] > -np.inf
    equal = 0
    if lower.shape[0] > 0 and upper.shape[0] > 0:
        for j in range(n):
            plain = plain and lower[j] <= upper[j]
            if lower[j] == upper[j]:
                equal += 1
    return alpha, c, max(1.0, largest(out[:n])), limits / alpha, equal, plain


@compiled
def scale_vectors(
    D: _Array,
    E: _Array,
    c: float,
    has_curvature: bool,
    q: _Array,
    b: _Array,
    h: _Array,
    lb: _Array,
    ub: _Array,
    out: _Array,
) -> tuple[float, float, float, float, int, bool]:
    """`write_scaled`, for Python."""
    return write_scaled(D, E, c, has_curvature, q, b, h, lb, ub, out)


@inner
def unit_step(limits: _Array, size: float) -> float:
    """By how much the unit of x is too large where the scaled solution is of this size; 1 where it is not.

    ``limits``: right-hand sides and bounds in that unit.  If none of them is smaller than the unit, a small x is small.
    """
    if size >= _SMALL:
        return 1.0
    least = np.inf
    for value in limits:
        if value != 0.0 and abs(value) < least:
            least = abs(value)
    factor = max(least, size, _LARGEST_STEP)
    return factor if factor < _SMALL else 1.0
