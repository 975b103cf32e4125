"""The batch loop of the derivative: vector-Jacobian products with the factor that the polish left behind.

It takes the instances first, first + stride, … so that several threads share a batch without talking to one another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import compiled
from portfolio_dfl.allocation.kernels.block_factor import System, factor_stages, new_system
from portfolio_dfl.allocation.kernels.objective import scaled_covariance
from portfolio_dfl.allocation.kernels.polish import Active, assemble_springs, new_equalities, refine
from portfolio_dfl.allocation.kernels.scratch import new_scratch, slab
from portfolio_dfl.allocation.kernels.store import open_signs, open_store

__all__ = ["differentiate_batch"]

_Array = NDArray[np.float64]
_Signs = NDArray[np.int8]


@compiled
def differentiate_batch(
    first: int,
    stride: int,
    upstream: _Array,
    covariance: _Array,
    previous: _Array,
    aversion: _Array,
    box: _Array,
    signs: _Signs,
    weights: _Array,
    store: _Array,
    kept: bool,
    returns_only: bool,
    grad_returns: _Array,
    grad_covariance: _Array,
    grad_previous: _Array,
    grad_aversion: _Array,
    grad_turnover: _Array,
    grad_cost: _Array,
    numbers: _Array,
) -> int:
    """Vector-Jacobian products of instances of a batch.

    With v, y the solution of  P v + Bᵀy = upstream,  B v = 0  over the active rows B:  ∂/∂r = v,  ∂/∂b = y,  and the
    objective's other parameters follow from v and w. ``facts[b, 9]`` receives the residual, relative to the upstream.
    With ``returns_only`` the other gradients are left alone. Returns 0, the number of instances that failed.
    """
    B, H, N = upstream.shape
    K = covariance.shape[1]
    counted = box[2]
    hold, trade, spent = open_signs(signs, B, H, N)
    _, _, _, _, facts, C_in, q_in, sigma_in = open_store(store, B, H, N, kept)
    scratch = new_scratch(numbers)
    P = slab(scratch, K, N, N)
    own = new_system(scratch, H, N)
    eq = new_equalities(scratch, H, N)
    for b in range(first, B, stride):
        lam = aversion[b if aversion.shape[0] > 1 else 0]
        alpha = facts[b, 8]
        scaled_covariance(covariance[b], lam * alpha, P)
        active = Active(hold[b], trade[b], spent[b])
        system = own
        assemble_springs(P, active, own)
        if kept:
            system = System(
                own.d,
                own.m,
                own.kappa,
                own.gamma,
                C_in[b],
                q_in[b],
                sigma_in[b],
                own.S,
                own.row,
            )
        else:
            factor_stages(P, own)
        size = 0.0
        for s in range(H):
            eq.nu[s] = 0.0
            eq.theta[s] = 0.0
            for i in range(N):
                eq.x[s, i] = 0.0
                eq.tie[s, i] = 0.0
                eq.f[s, i] = upstream[b, s, i]
                size = max(size, abs(upstream[b, s, i]))
        residual = refine(P, active, system, eq, size)
        facts[b, 9] = residual / size if size > 0.0 else 0.0
        for s in range(H):
            for i in range(N):
                grad_returns[b, s, i] = alpha * eq.x[s, i]
        if returns_only:
            continue
        for s in range(K):
            for i in range(N):
                for k in range(N):
                    grad_covariance[b, s, i, k] = 0.0
        total = 0.0
        for s in range(H):
            stage = s if K > 1 else 0
            grad_turnover[b, s] = eq.theta[s] if spent[b, s] == 1 else 0.0
            for i in range(N):
                v = grad_returns[b, s, i]
                before = eq.x[s - 1, i] if s > 0 else 0.0
                kind = trade[b, s, i]
                sign = 0.0
                if kind == 2:
                    if counted[i] > 0.0:
                        sign = np.sign(weights[b, s, i] - (weights[b, s - 1, i] if s > 0 else previous[b, i]))
                else:
                    sign = kind
                grad_cost[b, s, i] = -alpha * sign * (eq.x[s, i] - before)
                for k in range(N):
                    half = 0.5 * lam * v * weights[b, s, k]
                    grad_covariance[b, stage, i, k] -= half
                    grad_covariance[b, stage, k, i] -= half
                    total -= v * 0.5 * (covariance[b, stage, i, k] + covariance[b, stage, k, i]) * weights[b, s, k]
        grad_aversion[b] = total
        for i in range(N):
            kind = trade[b, 0, i]
            grad_previous[b, i] = 0.0
            if kind == 0:
                grad_previous[b, i] = eq.tie[0, i]
            elif kind != 2 and spent[b, 0] == 1:
                grad_previous[b, i] = kind * eq.theta[0]
    return 0
