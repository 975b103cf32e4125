"""The batch loop of the derivative: vector-Jacobian products with the factor that the polish left behind.

It takes the instances first, first + stride, … so that several threads share a batch without talking to one another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import compiled, inner
from portfolio_dfl.allocation.kernels.block_factor import System, factor_stages, new_system
from portfolio_dfl.allocation.kernels.coupling import Coupling, Given, new_coupling
from portfolio_dfl.allocation.kernels.coupling_polish import derive_coupling
from portfolio_dfl.allocation.kernels.coupling_trades import capped_pull
from portfolio_dfl.allocation.kernels.objective import scaled_covariance
from portfolio_dfl.allocation.kernels.polish import Active, Equalities, assemble_springs, new_equalities, refine
from portfolio_dfl.allocation.kernels.scratch import new_scratch, slab
from portfolio_dfl.allocation.kernels.store import open_signs, open_store

__all__ = ["Solved", "differentiate_batch", "to_covariance"]

_Array = NDArray[np.float64]
_Signs = NDArray[np.int8]


class Solved(NamedTuple):
    """One instance with its solution: covariance [K, N, N], previous [N], weights [H, N]; ``alpha`` is its scale."""

    covariance: _Array
    previous: _Array
    aversion: float
    counted: _Array
    weights: _Array
    alpha: float


@inner
def _load(upstream: _Array, b: int, eq: Equalities, coupling: Coupling | None) -> float:
    """Make the upstream the right-hand side, all unknowns zero; returns its largest entry."""
    H, N = upstream.shape
    size = 0.0
    if coupling is not None:
        derive_coupling(coupling, b)
    for s in range(H):
        eq.nu[s] = 0.0
        eq.theta[s] = 0.0
        for i in range(N):
            eq.x[s, i] = 0.0
            eq.tie[s, i] = 0.0
            eq.f[s, i] = upstream[s, i]
            size = max(size, abs(upstream[s, i]))
    return size


@inner
def to_covariance(solved: Solved, v: _Array, grad: _Array) -> float:
    """Gradients of the covariance, into ``grad``, and of λ, from v in the units of the given problem."""
    H, N = v.shape
    K = grad.shape[0]
    covariance, weights, lam = solved.covariance, solved.weights, solved.aversion
    grad[:] = 0.0
    total = 0.0
    for s in range(H):
        stage = s if K > 1 else 0
        for i in range(N):
            change = v[s, i]
            for k in range(N):
                half = 0.5 * lam * change * weights[s, k]
                grad[stage, i, k] -= half
                grad[stage, k, i] -= half
                total -= change * 0.5 * (covariance[stage, i, k] + covariance[stage, k, i]) * weights[s, k]
    return total


@inner
def _to_cost(solved: Solved, trade: _Signs, eq: Equalities, grad: _Array) -> None:
    """Gradients of the cost rates: what is traded more, by its sign."""
    H, N = grad.shape
    weights = solved.weights
    for s in range(H):
        for i in range(N):
            before = eq.x[s - 1, i] if s > 0 else 0.0
            kind = trade[s, i]
            sign = 0.0
            if kind == 2:
                if solved.counted[i] > 0.0:
                    sign = np.sign(weights[s, i] - (weights[s - 1, i] if s > 0 else solved.previous[i]))
            else:
                sign = kind
            grad[s, i] = -solved.alpha * sign * (eq.x[s, i] - before)


@inner
def _to_limits(
    active: Active, eq: Equalities, grad_turnover: _Array, grad_previous: _Array, coupling: Coupling | None
) -> None:
    """Gradients of the turnover limits, and of the weights held before the first trade."""
    for s in range(grad_turnover.shape[0]):
        grad_turnover[s] = eq.theta[s] if active.spent[s] == 1 else 0.0
    for i in range(grad_previous.shape[0]):
        kind = active.trade[0, i]
        grad_previous[i] = 0.0
        if kind == 0:
            grad_previous[i] = eq.tie[0, i]
        elif kind != 2 and active.spent[0] == 1:
            grad_previous[i] = kind * eq.theta[0]
        if coupling is not None:
            grad_previous[i] += capped_pull(coupling, 0, i, eq.tie)


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
    given: Given | None,
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
    of = open_signs(signs, B, H, N)
    found = open_store(store, B, H, N, kept)
    scratch = new_scratch(numbers)
    P = slab(scratch, covariance.shape[1], N, N)
    own = new_system(scratch, H, N)
    eq = new_equalities(scratch, H, N)
    coupling = new_coupling(scratch, given, B, H, N)
    for b in range(first, B, stride):
        lam = aversion[b if aversion.shape[0] > 1 else 0]
        solved = Solved(covariance[b], previous[b], lam, box[2], weights[b], found.facts[b, 8])
        active = Active(of.hold[b], of.trade[b], of.spent[b])
        scaled_covariance(solved.covariance, lam * solved.alpha, P)
        system = own
        size = _load(upstream[b], b, eq, coupling)
        assemble_springs(P, active, own, coupling)
        if kept:
            factor = found.C[b], found.q[b], found.sigma[b]
            system = System(own.d, own.m, own.kappa, own.gamma, *factor, own.S, own.row)
        else:
            factor_stages(P, own, coupling)
        residual = refine(P, active, system, eq, size, coupling)
        found.facts[b, 9] = residual / size if size > 0.0 else 0.0
        for s in range(H):
            for i in range(N):
                grad_returns[b, s, i] = solved.alpha * eq.x[s, i]
        if returns_only:
            continue
        grad_aversion[b] = to_covariance(solved, grad_returns[b], grad_covariance[b])
        _to_cost(solved, active.trade, eq, grad_cost[b])
        _to_limits(active, eq, grad_turnover[b], grad_previous[b], coupling)
    return 0
