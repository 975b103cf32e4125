"""Factor and solve the one linear system behind the solver, the polish and the gradients.

With stages s = 1…H and N assets a stage, every Newton, polish and sensitivity system of the portfolio problem reads

    T_s x_s − M_s x_{s−1} − M_{s+1} x_{s+1} + 1 y_s = f_s,    1ᵀx_s = e_s,
    T_s = P_s + diag(d_s) + M_s + M_{s+1},    M_s = diag(m_s) + κ_s γ_s γ_sᵀ    (x_0 = 0, M_{H+1} = 0)

because the turnover variables leave, when they are eliminated, a diagonal plus rank one in w_s − w_{s−1}. Rows that
couple the weights of one stage (`coupling`) add terms of rank one to P_s.
Stages are eliminated in order. What remains of a stage is C_s = S_s⁻¹ − q_s q_sᵀ / σ_s, the inverse of its pivot S_s
on the plane 1ᵀx = 0, with q_s = S_s⁻¹ 1 and σ_s = 1ᵀq_s; C_s is formed explicitly, because a product with a
small symmetric matrix is quicker than two triangular solves. Cost: N³ multiplications a stage, memory N².
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner, viewing
from portfolio_dfl.allocation.kernels.coupling import Coupling, add_terms
from portfolio_dfl.allocation.kernels.scratch import Scratch, matrix, slab, vector

__all__ = ["FROZEN", "System", "factor_stages", "new_system", "solve_stages"]

_Array = NDArray[np.float64]

# In d, this holds a weight in place: its row and column leave the system.
FROZEN = 1e30

# From this size on, blocks and BLAS are quicker than plain loops.
_LARGE = 150
_BLOCK = 48


class System(NamedTuple):
    """The matrix (d, m, κ, γ), its factor (C, q, σ) and scratch (S, row)."""

    d: _Array
    m: _Array
    kappa: _Array
    gamma: _Array
    C: _Array
    q: _Array
    sigma: _Array
    S: _Array
    row: _Array


@viewing
def new_system(scratch: Scratch, H: int, N: int) -> System:
    """Room for a system of H stages and N assets."""
    return System(
        matrix(scratch, H, N),
        matrix(scratch, H, N),
        vector(scratch, H),
        matrix(scratch, H, N),
        slab(scratch, H, N, N),
        matrix(scratch, H, N),
        vector(scratch, H),
        matrix(scratch, N, N),
        vector(scratch, N),
    )


@inner
def _invert_small(S: _Array, C: _Array) -> bool:
    """C = S⁻¹ from the lower triangle of S, by sweeps over pairs of whole rows; False if S is not positive definite.

    For a positive definite matrix the sweeps need no pivoting, and their plain inner loops beat a Cholesky factor's
    short ones at the sizes met here.
    """
    n = S.shape[0]
    for i in range(n):
        for k in range(i + 1):
            C[i, k] = S[i, k]
            C[k, i] = S[i, k]
    for k in range(0, n - 1, 2):
        # The pivot's block [[a, b], [b, d]] and its inverse [[p, q], [q, t]].
        a, b, d = C[k, k], C[k, k + 1], C[k + 1, k + 1]
        determinant = a * d - b * b
        if not (a > 0.0 and determinant > 0.0):
            return False
        p, q, t = d / determinant, -b / determinant, a / determinant
        for j in range(n):
            first, second = C[k, j], C[k + 1, j]
            C[k, j] = p * first + q * second
            C[k + 1, j] = q * first + t * second
        C[k, k], C[k, k + 1], C[k + 1, k], C[k + 1, k + 1] = p, q, q, t
        for i in range(n):
            if i != k and i != k + 1:
                first, second = C[i, k], C[i, k + 1]
                C[i, k] = 0.0
                C[i, k + 1] = 0.0
                for j in range(n):
                    C[i, j] -= first * C[k, j] + second * C[k + 1, j]
    if n % 2 == 1:
        k = n - 1
        if not C[k, k] > 0.0:
            return False
        pivot = 1.0 / C[k, k]
        for j in range(n):
            C[k, j] *= pivot
        C[k, k] = pivot
        for i in range(k):
            value = C[i, k]
            C[i, k] = 0.0
            for j in range(n):
                C[i, j] -= value * C[k, j]
    return True


@viewing
def _invert_large(S: _Array, C: _Array) -> bool:
    """Like `_invert_small`, in blocks (so that BLAS does the work): sweeps one block of rows after another.

    Sweeping block k of a matrix replaces B = S_kk by −B⁻¹, its rows R by B⁻¹R and the rest by S − RᵀB⁻¹R; after all
    blocks the matrix is −S⁻¹. S is scaled to a unit diagonal first.
    """
    n = S.shape[0]
    scale = np.empty(n)
    for i in range(n):
        if not S[i, i] > 0.0:
            return False
        scale[i] = 1.0 / np.sqrt(S[i, i])
    for i in range(n):
        for k in range(i + 1):
            value = S[i, k] * scale[i] * scale[k]
            C[i, k] = value
            C[k, i] = value
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        pivot = C[start:stop, start:stop].copy()
        inverse = np.empty((stop - start, stop - start))
        if not _invert_small(pivot, inverse):
            return False
        rows = C[start:stop].copy()
        swept = np.dot(inverse, rows)
        for i in range(n):
            for k in range(start, stop):
                rows[k - start, i] = C[k, i]
        update = np.dot(rows.T.copy(), swept)
        for i in range(n):
            inside = start <= i < stop
            for k in range(n):
                if inside:
                    C[i, k] = swept[i - start, k]
                elif start <= k < stop:
                    C[i, k] = swept[k - start, i]
                else:
                    C[i, k] -= update[i, k]
        for i in range(start, stop):
            for k in range(start, stop):
                C[i, k] = -inverse[i - start, k - start]
    for i in range(n):
        for k in range(i + 1):
            value = -0.5 * (C[i, k] + C[k, i]) * scale[i] * scale[k]
            C[i, k] = value
            C[k, i] = value
    return True


@inner
def factor_stages(P: _Array, system: System, coupling: Coupling | None) -> bool:
    """Eliminate the stages of the system above; P is [K, N, N] with K = 1 (the same in all stages) or H.

    Returns False when a pivot block is not positive definite.
    """
    d, m, kappa, gamma = system.d, system.m, system.kappa, system.gamma
    C, q, sigma, S, row = system.C, system.q, system.sigma, system.S, system.row
    H, N = d.shape
    K = P.shape[0]
    for s in range(H):
        P_s = P[s if K > 1 else 0]
        for i in range(N):
            for k in range(i + 1):
                S[i, k] = P_s[i, k]
            S[i, i] += d[s, i] + m[s, i]
        if s + 1 < H:
            for i in range(N):
                S[i, i] += m[s + 1, i]
            if kappa[s + 1] > 0.0:
                for i in range(N):
                    value = kappa[s + 1] * gamma[s + 1, i]
                    for k in range(i + 1):
                        S[i, k] += value * gamma[s + 1, k]
        if s > 0:
            previous = C[s - 1]
            for i in range(N):
                value = m[s, i]
                if value != 0.0:
                    for k in range(i + 1):
                        S[i, k] -= value * previous[i, k] * m[s, k]
        if kappa[s] > 0.0:
            # κ γγᵀ − M C M: the rank-one parts, with row = m ∘ Cγ.
            strength = kappa[s]
            inner = 0.0
            if s > 0:
                previous = C[s - 1]
                for i in range(N):
                    value = 0.0
                    for k in range(N):
                        value += previous[i, k] * gamma[s, k]
                    inner += value * gamma[s, i]
                    row[i] = m[s, i] * value
            else:
                for i in range(N):
                    row[i] = 0.0
            factor = strength * (1.0 - strength * inner)
            for i in range(N):
                left = factor * gamma[s, i] - strength * row[i]
                right = strength * gamma[s, i]
                for k in range(i + 1):
                    S[i, k] += left * gamma[s, k] - right * row[k]
        if coupling is not None:
            add_terms(coupling, s, S)
        C_s = C[s]
        good = _invert_small(S, C_s) if N < _LARGE else _invert_large(S, C_s)
        if not good:
            return False
        total = 0.0
        for i in range(N):
            value = 0.0
            for k in range(N):
                value += C_s[i, k]
            q[s, i] = value
            total += value
        if not total > 0.0:
            return False
        sigma[s] = total
        for i in range(N):
            value = q[s, i] / total
            for k in range(N):
                C_s[i, k] -= value * q[s, k]
    return True


@inner
def _couple(m: _Array, kappa: float, gamma: _Array, x: _Array, out: _Array) -> None:
    """out = M x."""
    inner = 0.0
    if kappa > 0.0:
        for i in range(x.shape[0]):
            inner += gamma[i] * x[i]
        inner *= kappa
    for i in range(x.shape[0]):
        out[i] = m[i] * x[i] + inner * gamma[i]


@inner
def solve_stages(system: System, f: _Array, e: _Array, x: _Array, y: _Array) -> None:
    """Solve the factored system: f [H, N] (overwritten), e [H] → x [H, N], y [H]."""
    m, kappa, gamma = system.m, system.kappa, system.gamma
    C, q, sigma, row = system.C, system.q, system.sigma, system.row
    H, N = f.shape
    for s in range(H):
        if s > 0:
            _couple(m[s], kappa[s], gamma[s], x[s - 1], row)
            for i in range(N):
                f[s, i] += row[i]
        C_s = C[s]
        share = e[s] / sigma[s]
        for i in range(N):
            value = 0.0
            for k in range(N):
                value += C_s[i, k] * f[s, k]
            x[s, i] = value + q[s, i] * share
    for s in range(H - 1, -1, -1):
        if s + 1 < H:
            _couple(m[s + 1], kappa[s + 1], gamma[s + 1], x[s + 1], row)
            C_s = C[s]
            for i in range(N):
                value = 0.0
                for k in range(N):
                    value += C_s[i, k] * row[k]
                x[s, i] += value
                f[s, i] += row[i]
        value = 0.0
        for i in range(N):
            value += q[s, i] * f[s, i]
        y[s] = (value - e[s]) / sigma[s]
