"""Smoothed plans and their derivatives: the central path of the barrier, and the minimiser of the softplus penalty.

Both replace every row  s_i(w, u) ≥ 0  of the problem in `point` by a smooth term of its slack, a sum
Σ φ(s_i) in the objective, and keep 1ᵀw_s = 1 exactly:

    barrier   φ(s) = −μ log s                     force −φ′ = μ / s    stiffness φ″ = (μ / s) / s
    penalty   φ(s) = α δ log(1 + exp(−s / δ))     force −φ′ = α p      stiffness φ″ = α p (1 − p) / δ

with p = 1 / (1 + exp(s / δ)). The minimiser w(θ) is a smooth function of all parameters θ, also where the exact plan is
at a vertex. Differentiating its stationarity gives  M [dw; du] = −∂F/∂θ dθ  with M = P + Σ φ″(s_i) a_i a_iᵀ, the Newton
matrix at the minimiser with ``dual / slack`` replaced by the stiffness. So one factor of `block_factor` at that point
gives every derivative: with M [v; v_u] = [upstream; 0] on the plane 1ᵀv_s = 0,

    ∂/∂r = v,   ∂/∂c = −v_u,   ∂/∂τ_s = d_budget Σ_i v_u,
    ∂/∂w_0 = (diag(m_1) + κ_1 γ_1 γ_1ᵀ) v_1,   and of Σ and λ what the exact derivative has.

The barrier's minimiser is the point of the central path with all products slack · multiplier equal to μ: the
interior-point method is led there in place of the optimum. The penalty's is found by Newton steps with backtracking.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import compiled, inner
from portfolio_dfl.allocation.kernels.block_factor import System, factor_stages, new_system, solve_stages
from portfolio_dfl.allocation.kernels.coupling import DUAL, SLACK, Coupling, Given, new_coupling
from portfolio_dfl.allocation.kernels.differentiate import Solved, to_covariance
from portfolio_dfl.allocation.kernels.instance import Instance, Units, check_instance, scale_instance
from portfolio_dfl.allocation.kernels.interior_point import assemble_newton, mean_product, newton_iteration, residuals
from portfolio_dfl.allocation.kernels.point import Gaps, Point, Problem, count_places, mark_rows, new_gaps, new_point
from portfolio_dfl.allocation.kernels.scratch import matrix, new_scratch, slab, vector
from portfolio_dfl.allocation.kernels.softplus import minimise_penalty, start_penalty
from portfolio_dfl.allocation.kernels.start import start_point
from portfolio_dfl.allocation.statuses import CERTIFIED, NOT_CONVERGED

__all__ = ["Kept", "differentiate_smoothed", "smooth_batch"]

_Array = NDArray[np.float64]

_ROUNDS = 100
# Residuals of the scaled problem, and deviation of the products from μ relative to it, at a point that counts as found.
_TOLERANCE = 1e-11
_CENTRED = 1e-9


class Kept(NamedTuple):
    """What a smoothed solve leaves behind for its derivative, of every instance (scaled problem).

    m, gamma, give [B, H, N], kappa [B, H] and ``budget`` [B, H], the stiffness of the turnover limit, as in
    `interior_point`; the factor C, q, sigma; facts [B, 10], as in `native.NativeResult`.
    """

    m: _Array
    gamma: _Array
    give: _Array
    kappa: _Array
    budget: _Array
    C: _Array
    q: _Array
    sigma: _Array
    facts: _Array


@inner
def _centred(problem: Problem, point: Point, coupling: Coupling | None, aim: float) -> bool:
    """Whether all products slack · multiplier are ``aim``, to a share of `_CENTRED`."""
    worst = 0.0
    slack, dual, exists = point.slack.reshape(-1), point.dual.reshape(-1), problem.exists.reshape(-1)
    for i in range(problem.places):
        worst = max(worst, abs(slack[i] * dual[i] - aim) * exists[i])
    for s in range(point.budget_dual.shape[0]):
        if problem.tau[s] < np.inf:
            worst = max(worst, abs(point.budget_slack[s] * point.budget_dual[s] - aim))
    if coupling is not None:
        for s in range(coupling.rows.shape[1]):
            for r in range(coupling.rows.shape[2]):
                if coupling.equal[r] == 0.0:
                    worst = max(worst, abs(coupling.rows[SLACK, s, r] * coupling.rows[DUAL, s, r] - aim))
    return worst <= _CENTRED * aim


@inner
def _centre(
    problem: Problem,
    point: Point,
    system: System,
    gaps: Gaps,
    step: Point,
    rows: int,
    aim: float,
    coupling: Coupling | None,
    facts: _Array,
) -> bool:
    """Lead the interior-point method from its start to the point of the central path; whether it arrived."""
    level = mean_product(problem, point, rows, coupling) if rows > 0 else 1.0
    primal, dual = residuals(problem, point, gaps, coupling)
    for iteration in range(_ROUNDS):
        if max(primal, dual) <= _TOLERANCE and _centred(problem, point, coupling, aim):
            return True
        going, level = newton_iteration(
            problem, point, system, gaps, step, max(rows, 1), level if rows > 0 else 1.0, coupling, aim
        )
        facts[1] = iteration + 1
        if not going or not level < 1e10:
            return False
        primal, dual = residuals(problem, point, gaps, coupling)
    return max(primal, dual) <= 1e3 * _TOLERANCE


@inner
def _keep(b: int, problem: Problem, point: Point, system: System, gaps: Gaps, weights: _Array, kept: Kept) -> None:
    """Leave the plan, the trades' elimination and the factor behind."""
    H, N = point.w.shape
    for s in range(H):
        kept.kappa[b, s] = system.kappa[s]
        kept.budget[b, s] = point.budget_dual[s] / point.budget_slack[s]
        kept.sigma[b, s] = system.sigma[s]
        for i in range(N):
            weights[b, s, i] = point.w[s, i]
            kept.m[b, s, i] = system.m[s, i]
            kept.gamma[b, s, i] = system.gamma[s, i]
            kept.give[b, s, i] = gaps.give[s, i]
            kept.q[b, s, i] = system.q[s, i]
            for k in range(N):
                kept.C[b, s, i, k] = system.C[s, i, k]


@compiled
def smooth_batch(
    first: int,
    stride: int,
    returns: _Array,
    covariance: _Array,
    previous: _Array,
    aversion: _Array,
    turnover: _Array,
    cost: _Array,
    box: _Array,
    strength: float,
    height: _Array,
    exact: _Array,
    weights: _Array,
    kept: Kept,
    given_rows: Given | None,
    numbers: _Array,
) -> int:
    """Smoothed plans of instances of a batch, into ``weights`` and ``kept``; returns how many were not found.

    ``strength`` in the units of returns: μ of the barrier, or α δ of the penalty. ``height`` [B] is the penalty's α and
    ``exact`` [B, H, N] the plans that it starts from; both are empty for the barrier.
    """
    B, H, N = returns.shape
    lower, upper, counted = box[0], box[1], box[2]
    scratch = new_scratch(numbers)
    P = slab(scratch, covariance.shape[1], N, N)
    r = matrix(scratch, H, N)
    c = matrix(scratch, H, N)
    exists = slab(scratch, 4, H, N)
    centre = vector(scratch, N)
    system = new_system(scratch, H, N)
    point = new_point(scratch, H, N)
    step = new_point(scratch, H, N)
    gaps = new_gaps(scratch, H, N)
    old_w = matrix(scratch, H, N)
    old_u = matrix(scratch, H, N)
    coupling = new_coupling(scratch, given_rows, B, H, N)
    places = count_places(lower, upper, H)
    barrier = height.shape[0] == 0
    failed = 0
    for b in range(first, B, stride):
        tau = turnover[b if turnover.shape[0] > 1 else 0]
        rate = cost[b if cost.shape[0] > 1 else 0]
        lam = aversion[b if aversion.shape[0] > 1 else 0]
        given = Instance(returns[b], covariance[b], previous[b], lam, tau, rate)
        facts = kept.facts[b]
        facts[:] = 0.0
        status = check_instance(given, lower, upper)
        units = Units(0.0, 0.0)
        if status == CERTIFIED:
            status, units = scale_instance(given, P, r, c, system.S)
        facts[8] = units.alpha
        found = status == CERTIFIED
        if found:
            problem = Problem(P, r, c, previous[b], lower, upper, counted, tau, exists, places)
            rows = mark_rows(problem, coupling)
            if barrier:
                start_point(problem, point, centre, coupling)
                aim = units.alpha * strength
                found = _centre(problem, point, system, gaps, step, rows, aim, coupling, facts)
            else:
                width = strength / height[b]
                start_penalty(problem, point, exact[b], width)
                scaled = units.alpha * height[b]
                found = minimise_penalty(problem, point, system, gaps, step, scaled, width, old_w, old_u, facts)
            if found:
                assemble_newton(problem, point, system, gaps, coupling)
                found = factor_stages(P, system, coupling)
            if found:
                _keep(b, problem, point, system, gaps, weights, kept)
            else:
                status = NOT_CONVERGED
        facts[0] = status
        if not found:
            failed += 1
    return failed


@compiled
def differentiate_smoothed(
    first: int,
    stride: int,
    upstream: _Array,
    covariance: _Array,
    aversion: _Array,
    counted: _Array,
    fixed: _Array,
    weights: _Array,
    kept: Kept,
    returns_only: bool,
    grad_returns: _Array,
    grad_covariance: _Array,
    grad_previous: _Array,
    grad_aversion: _Array,
    grad_turnover: _Array,
    grad_cost: _Array,
    numbers: _Array,
) -> int:
    """Vector-Jacobian products of smoothed plans (see the module); ``fixed`` [N] is 1 where bounds fix a weight.

    With ``returns_only`` the other gradients are left alone. Returns 0, the number of instances that failed.
    """
    B, H, N = upstream.shape
    scratch = new_scratch(numbers)
    own = new_system(scratch, H, N)
    f = matrix(scratch, H, N)
    v = matrix(scratch, H, N)
    move = matrix(scratch, H, N)
    e = vector(scratch, H)
    y = vector(scratch, H)
    for b in range(first, B, stride):
        alpha = kept.facts[b, 8]
        factor = kept.C[b], kept.q[b], kept.sigma[b]
        system = System(own.d, kept.m[b], kept.kappa[b], kept.gamma[b], *factor, own.S, own.row)
        for s in range(H):
            for i in range(N):
                f[s, i] = upstream[b, s, i] if fixed[i] == 0.0 else 0.0
        solve_stages(system, f, e, v, y)
        for s in range(H):
            for i in range(N):
                if fixed[i] > 0.0:
                    v[s, i] = 0.0
                grad_returns[b, s, i] = alpha * v[s, i]
        if returns_only:
            continue
        solved = Solved(
            covariance[b], weights[b, 0], aversion[b if aversion.shape[0] > 1 else 0], counted, weights[b], alpha
        )
        grad_aversion[b] = to_covariance(solved, grad_returns[b], grad_covariance[b])
        for s in range(H):
            pull = 0.0
            for i in range(N):
                move[s, i] = -system.gamma[s, i] * (v[s, i] - (v[s - 1, i] if s > 0 else 0.0))
                pull += move[s, i]
            pull *= system.kappa[s]
            total = 0.0
            for i in range(N):
                move[s, i] -= pull * kept.give[b, s, i]
                total += move[s, i]
                grad_cost[b, s, i] = -alpha * move[s, i]
            grad_turnover[b, s] = kept.budget[b, s] * total
        # What is held before enters the first trades alone: their eliminated curvature, times v.
        pull = 0.0
        for i in range(N):
            pull += system.gamma[0, i] * v[0, i]
        pull *= system.kappa[0]
        for i in range(N):
            grad_previous[b, i] = system.m[0, i] * v[0, i] + pull * system.gamma[0, i]
    return 0
