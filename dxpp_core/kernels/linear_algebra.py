"""Products and the Cholesky factor of small or diagonal matrices, as plain loops: there a call of BLAS costs more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compilation import inner

__all__ = ["cholesky", "largest", "solve_cholesky", "times", "times_transposed"]

_Array = NDArray[np.float64]


@inner
def largest(v: _Array) -> float:
    """Largest magnitude in a vector; NaN where it has one, 0 where it is empty."""
    top = 0.0
    for value in v:
        size = abs(value)
        if not size <= top:
            top = size
    return top


@inner
def times(M: _Array, v: _Array, out: _Array) -> None:
    """out = M v; an M of one dimension is the diagonal of a matrix."""
    if M.ndim == 1:
        for i in range(M.shape[0]):
            out[i] = M[i] * v[i]
        return
    for i in range(M.shape[0]):
        total = 0.0
        for j in range(M.shape[1]):
            total += M[i, j] * v[j]
        out[i] = total


@inner
def times_transposed(M: _Array, s: _Array, out: _Array) -> None:
    """out = Mᵀ s."""
    out[:] = 0.0
    for i in range(M.shape[0]):
        value = s[i]
        if value != 0.0:
            for j in range(M.shape[1]):
                out[j] += value * M[i, j]


@inner
def cholesky(H: _Array) -> bool:
    """Replace the lower triangle of H by its Cholesky factor; False if H is not positive definite."""
    n = H.shape[0]
    for i in range(n):
        for j in range(i):
            total = H[i, j]
            for k in range(j):
                total -= H[i, k] * H[j, k]
            H[i, j] = total / H[j, j]
        total = H[i, i]
        for k in range(i):
            total -= H[i, k] * H[i, k]
        if not total > 0.0:
            return False
        H[i, i] = np.sqrt(total)
    return True


@inner
def solve_cholesky(L: _Array, rhs: _Array, out: _Array) -> None:
    """out = (L Lᵀ)⁻¹ rhs, from the lower triangle of L."""
    n = L.shape[0]
    for i in range(n):
        total = rhs[i]
        for k in range(i):
            total -= L[i, k] * out[k]
        out[i] = total / L[i, i]
    for i in range(n - 1, -1, -1):
        value = out[i] / L[i, i]
        out[i] = value
        for k in range(i):
            out[k] -= value * L[i, k]
