"""One instance as it was given: whether it can be solved, and in which units."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner
from portfolio_dfl.allocation.kernels.objective import is_convex, is_zero, scaled_covariance
from portfolio_dfl.allocation.statuses import (
    BAD_NUMBER,
    BAD_PARAMETER,
    CERTIFIED,
    NOT_CONVERGED,
    NOT_CONVEX,
    OUT_OF_RANGE,
    OUT_OF_REACH,
)

__all__ = ["Instance", "Units", "check_instance", "scale_instance"]

_Array = NDArray[np.float64]


class Instance(NamedTuple):
    """One instance as it was given: returns [H, N], covariance [K, N, N], previous [N], turnover [H], cost [H, N]."""

    returns: _Array
    covariance: _Array
    previous: _Array
    aversion: float
    turnover: _Array
    cost: _Array


class Units(NamedTuple):
    """The problem that is solved: the given one times ``alpha``, with ``rho`` added to every entry of its P."""

    alpha: float
    rho: float


@inner
def check_instance(given: Instance, lower: _Array, upper: _Array) -> int:
    """Find what cannot be solved before starting; CERTIFIED when nothing was found."""
    r, covariance, w0, tau, c = given.returns, given.covariance, given.previous, given.turnover, given.cost
    H, N = r.shape
    total = 0.0
    for s in range(H):
        for i in range(N):
            total += r[s, i] + c[s, i]
    for s in range(covariance.shape[0]):
        for i in range(N):
            for k in range(N):
                total += covariance[s, i, k]
    for i in range(N):
        total += w0[i]
    if not np.isfinite(total):
        return BAD_NUMBER
    if not (given.aversion > 0.0 and given.aversion < np.inf):
        return BAD_PARAMETER
    for s in range(H):
        if not tau[s] > 0.0:
            return BAD_PARAMETER
        for i in range(N):
            if c[s, i] < 0.0:
                return BAD_PARAMETER
    if tau[0] < np.inf:
        distance = 0.0
        total = 0.0
        for i in range(N):
            nearest = min(max(w0[i], lower[i]), upper[i])
            distance += abs(nearest - w0[i])
            total += nearest
        if distance + abs(1.0 - total) > tau[0] * (1.0 + 1e-9):
            return OUT_OF_REACH
    return CERTIFIED


@inner
def _size(given: Instance) -> float:
    """The largest return, beyond the mean of its stage, or variance times λ."""
    H, N = given.returns.shape
    size = 0.0
    for s in range(H):
        mean = 0.0
        for i in range(N):
            mean += given.returns[s, i] / N
        for i in range(N):
            size = max(size, abs(given.returns[s, i] - mean))
    for s in range(given.covariance.shape[0]):
        for i in range(N):
            size = max(size, given.aversion * abs(given.covariance[s, i, i]))
    return size


@inner
def scale_instance(given: Instance, P: _Array, r: _Array, c: _Array, S: _Array) -> tuple[int, Units]:
    """Put the scaled problem into P, r and c; with CERTIFIED, or with what speaks against solving it."""
    size = _size(given)
    alpha = 1.0 / size if size > 0.0 else 1.0
    rho = scaled_covariance(given.covariance, given.aversion * alpha, P)
    units = Units(alpha, rho)
    if not alpha < np.inf or not np.isfinite(rho):
        return OUT_OF_RANGE, units
    if is_zero(P):
        # Without risk the problem is linear: nothing for this solver.
        return NOT_CONVERGED, units
    if not is_convex(P, S):
        return NOT_CONVEX, units
    H, N = given.returns.shape
    for s in range(H):
        for i in range(N):
            r[s, i] = alpha * given.returns[s, i]
            c[s, i] = alpha * given.cost[s, i]
    return CERTIFIED, units
