"""The penalty Hessian of a compact program and its factor: a full matrix, or a diagonal beside a few rows.

H = P + Cᵀ diag(κ) C + ridge without the held variables.  A full P (an array of two dimensions) gives a Cholesky factor;
for the diagonal of P alone (an array of one dimension) the Schur complement of that diagonal is factored, m × m.
Numba compiles a version for either and drops the other branch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compilation import inner
from .linear_algebra import cholesky, solve_cholesky, times

__all__ = ["factor_hessian", "solve_hessian"]

_Array = NDArray[np.float64]
_Mask = NDArray[np.bool_]


@inner
def factor_hessian(
    P: _Array, C: _Array, rows: _Mask, held: _Mask, stiffness: float, ridge: float, kappa: _Array, L: _Array
) -> bool:
    """Write the stiffnesses of the rows to ``kappa`` and the factor to ``L``; False if there is none."""
    for r in range(C.shape[0]):
        kappa[r] = 0.0
        if rows[r]:
            kappa[r] = stiffness / _squared_norm(C[r], held)
    if P.ndim == 1:
        return _factor_beside_diagonal(P, C, held, ridge, kappa, L)
    return _factor_full(P, C, held, ridge, kappa, L)


@inner
def solve_hessian(P: _Array, C: _Array, kappa: _Array, L: _Array, rhs: _Array, out: _Array, small: _Array) -> None:
    """out = H⁻¹ rhs, where ``rhs`` is zero at the held variables; ``small`` [m] is scratch."""
    if P.ndim == 1:
        _solve_beside_diagonal(C, kappa, L, rhs, out, small)
    else:
        solve_cholesky(L.reshape(P.shape), rhs, out)


@inner
def _squared_norm(row: _Array, held: _Mask) -> float:
    """Squared norm over the variables that no bound holds; over all of them if that is nothing."""
    free = 0.0
    total = 0.0
    for j in range(row.shape[0]):
        square = row[j] * row[j]
        total += square
        free += 0.0 if held[j] else square
    return free if free > 0.0 else (total if total > 0.0 else 1.0)


@inner
def _factor_full(P: _Array, C: _Array, held: _Mask, ridge: float, kappa: _Array, L: _Array) -> bool:
    n = P.shape[0]
    H = L.reshape(n, n)
    for i in range(n):
        for j in range(i + 1):
            H[i, j] = P[i, j]
        H[i, i] += ridge
    for r in range(C.shape[0]):
        if kappa[r] == 0.0:
            continue
        for i in range(n):
            value = kappa[r] * C[r, i]
            if value != 0.0:
                for j in range(i + 1):
                    H[i, j] += value * C[r, j]
    for i in range(n):
        if held[i]:
            for j in range(i):
                H[i, j] = 0.0
            for k in range(i + 1, n):
                H[k, i] = 0.0
            H[i, i] = 1.0
    return cholesky(H)


@inner
def _factor_beside_diagonal(P: _Array, C: _Array, held: _Mask, ridge: float, kappa: _Array, L: _Array) -> bool:
    """``L`` [n + m²] receives 1 / (P + ridge), zero at the held variables, and the factor of 1/κ + C P⁻¹ Cᵀ."""
    n, m = P.shape[0], C.shape[0]
    inverse, S = L[:n], L[n : n + m * m].reshape(m, m)
    for j in range(n):
        if not P[j] + ridge > 0.0:
            return False
        inverse[j] = 0.0 if held[j] else 1.0 / (P[j] + ridge)
    for a in range(m):
        for b in range(a + 1):
            total = 0.0
            if kappa[a] > 0.0 and kappa[b] > 0.0:
                for j in range(n):
                    total += C[a, j] * inverse[j] * C[b, j]
            S[a, b] = total
        S[a, a] = S[a, a] + 1.0 / kappa[a] if kappa[a] > 0.0 else 1.0
    return cholesky(S)


@inner
def _solve_beside_diagonal(C: _Array, kappa: _Array, L: _Array, rhs: _Array, out: _Array, small: _Array) -> None:
    m, n = C.shape
    inverse, S = L[:n], L[n : n + m * m].reshape(m, m)
    for j in range(n):
        out[j] = inverse[j] * rhs[j]
    times(C, out, small)
    for a in range(m):
        if kappa[a] == 0.0:
            small[a] = 0.0
    solve_cholesky(S, small, small)
    for a in range(m):
        value = small[a]
        if value != 0.0:
            for j in range(n):
                out[j] -= inverse[j] * value * C[a, j]
