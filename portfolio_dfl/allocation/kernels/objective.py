"""The quadratic part of the objective, scaled: shared by the solver and its derivative."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner

__all__ = ["is_convex", "is_zero", "scaled_covariance"]

_Array = NDArray[np.float64]


@inner
def scaled_covariance(covariance: _Array, factor: float, P: _Array) -> float:
    """P = factor · (symmetric part of the covariance) + ρ 11ᵀ; returns ρ.

    On 1ᵀw = 1 the last term is a constant. It makes P positive definite when one asset (cash) has no variance.
    """
    K, N = covariance.shape[0], covariance.shape[1]
    mean = 0.0
    for s in range(K):
        for i in range(N):
            mean += covariance[s, i, i]
    rho: float = factor * mean / (K * N * N)
    for s in range(K):
        for i in range(N):
            for k in range(N):
                P[s, i, k] = 0.5 * factor * (covariance[s, i, k] + covariance[s, k, i]) + rho
    return rho


@inner
def is_zero(P: _Array) -> bool:
    """Whether every entry is zero."""
    top = 0.0
    for value in P.reshape(-1):
        top = max(top, abs(value))
    return top == 0.0


@inner
def is_convex(P: _Array, S: _Array) -> bool:
    """Whether every P_s is positive semidefinite up to rounding (Cholesky with a ridge of 1e-10 of its diagonal)."""
    N = P.shape[1]
    for s in range(P.shape[0]):
        ridge = 0.0
        for i in range(N):
            ridge += abs(P[s, i, i])
        ridge *= 1e-10 / N
        for j in range(N):
            for i in range(j, N):
                S[i, j] = P[s, i, j]
            S[j, j] += ridge
        for j in range(N):
            if not S[j, j] > 0.0:
                return False
            root = 1.0 / np.sqrt(S[j, j])
            for i in range(j, N):
                S[i, j] *= root
            for i in range(j + 1, N):
                value = S[i, j]
                for k in range(j + 1, i + 1):
                    S[i, k] -= value * S[k, j]
    return True
