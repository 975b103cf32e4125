"""The batch loops of the native solver: solve every instance and certify it; differentiate every instance.

Each kernel takes the instances first, first + stride, … so that several threads share a batch without talking to
one another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from portfolio_dfl.allocation.kernels.block_factor import System, factor_stages, new_system
from portfolio_dfl.allocation.kernels.compilation import SOURCES, compiled, inner
from portfolio_dfl.allocation.kernels.interior_point import (
    FALL,
    RISE,
    Point,
    Problem,
    mark_rows,
    new_gaps,
    new_point,
    newton_iteration,
    residuals,
    start_point,
)
from portfolio_dfl.allocation.kernels.polish import (
    Active,
    Certificate,
    Equalities,
    assemble_springs,
    identify,
    load_polish,
    new_active,
    new_equalities,
    refine,
    repair,
    verify,
)

__all__ = [
    "BAD_NUMBER",
    "BAD_PARAMETER",
    "CERTIFIED",
    "NOT_CONVERGED",
    "NOT_CONVEX",
    "OUT_OF_REACH",
    "UNCERTIFIED",
    "differentiate_batch",
    "solve_batch",
]

_Array = NDArray[np.float64]
_Signs = NDArray[np.int8]

# What became of an instance (column 0 of ``facts``).
CERTIFIED, UNCERTIFIED, NOT_CONVERGED, BAD_NUMBER, BAD_PARAMETER, NOT_CONVEX, OUT_OF_REACH = 0, 1, 2, 3, 4, 5, 6

# Violations of the scaled problem's KKT conditions that a certified point may have.
_TOLERANCE = 1e-10
# Violations up to which a point that could not be certified is still returned (and said to be uncertified).
_ACCEPTED = 1e-6
_ROUNDS = 80
_REPAIRS = 6
# The first polish is tried when the mean product slack · multiplier is below this.
_FIRST_TRY = 1e-6
_START_LEVEL = 1e-2


@inner
def _scaled_covariance(covariance: _Array, factor: float, P: _Array) -> float:
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
def _is_convex(P: _Array, S: _Array) -> bool:
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


@inner
def _check(
    r: _Array, covariance: _Array, w0: _Array, aversion: float, tau: _Array, c: _Array, lower: _Array, upper: _Array
) -> int:
    """Find what cannot be solved before starting; CERTIFIED when nothing was found."""
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
    if not (aversion > 0.0 and aversion < np.inf):
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
def _polish(
    problem: Problem, point: Point, active: Active, system: System, eq: Equalities, pull: _Array
) -> Certificate:
    """Solve for the active set, repair it while that helps, and certify; the factor is left in ``system``."""
    certificate = Certificate(np.inf, np.inf, np.inf, 0.0)
    for attempt in range(_REPAIRS + 1):
        assemble_springs(problem.P, active, system)
        if not factor_stages(problem.P, system):
            return Certificate(np.inf, np.inf, np.inf, 0.0)
        load_polish(problem, point, active, eq)
        refine(problem.P, active, system, eq)
        certificate = verify(problem, active, eq, pull)
        worst = max(certificate.stationarity, certificate.primal, certificate.dual)
        if worst <= _TOLERANCE or attempt == _REPAIRS or not worst < 1e3:
            break
        if repair(problem, active, eq, pull, 0.1 * _TOLERANCE) == 0:
            break
    return certificate


@inner
def _load_warm(
    problem: Problem,
    point: Point,
    active: Active,
    alpha: float,
    rho: float,
    hold: _Signs,
    trade: _Signs,
    spent: _Signs,
    weights: _Array,
    pressure: _Array,
    nu: _Array,
    theta: _Array,
) -> None:
    """Take active set and multipliers from an earlier solution (unscaled)."""
    H, N = weights.shape
    for s in range(H):
        active.spent[s] = spent[s] if problem.tau[s] < np.inf else 0
        point.budget_dual[s] = alpha * theta[s]
        point.nu[s] = alpha * nu[s] - rho
        for i in range(N):
            active.hold[s, i] = hold[s, i]
            active.trade[s, i] = trade[s, i]
            point.w[s, i] = weights[s, i]
            point.dual[RISE, s, i] = alpha * max(pressure[s, i], 0.0)
            point.dual[FALL, s, i] = alpha * max(-pressure[s, i], 0.0)


@compiled
def solve_batch(
    first: int,
    stride: int,
    returns: _Array,
    covariance: _Array,
    previous: _Array,
    aversion: _Array,
    turnover: _Array,
    cost: _Array,
    lower: _Array,
    upper: _Array,
    counted: _Array,
    warm: bool,
    hold: _Signs,
    trade: _Signs,
    spent: _Signs,
    weights: _Array,
    pull_out: _Array,
    pressure: _Array,
    nu: _Array,
    theta: _Array,
    facts: _Array,
    keep: bool,
    C_out: _Array,
    q_out: _Array,
    sigma_out: _Array,
    sources: int = SOURCES,
) -> None:
    """Solve instances of a batch (see `native.NativeSolver` for the meaning and shapes of the arrays).

    With ``warm``, hold, trade, spent, weights, pressure, nu and theta hold an earlier solution on entry.
    """
    B, H, N = returns.shape
    K = covariance.shape[1]
    P = np.empty((K, N, N))
    r = np.empty((H, N))
    c = np.empty((H, N))
    exists = np.zeros((4, H, N))
    centre = np.empty(N)
    system = new_system(H, N)
    point = new_point(H, N)
    step = new_point(H, N)
    gaps = new_gaps(H, N)
    active = new_active(H, N)
    eq = new_equalities(H, N)
    pull = np.empty((H, N))
    for b in range(first, B, stride):
        tau = turnover[b if turnover.shape[0] > 1 else 0]
        rate = cost[b if cost.shape[0] > 1 else 0]
        lam = aversion[b if aversion.shape[0] > 1 else 0]
        for k in range(facts.shape[1]):
            facts[b, k] = 0.0
        status = _check(returns[b], covariance[b], previous[b], lam, tau, rate, lower, upper)
        if status != CERTIFIED:
            facts[b, 0] = status
            continue
        size = 0.0
        for s in range(H):
            mean = 0.0
            for i in range(N):
                mean += returns[b, s, i] / N
            for i in range(N):
                size = max(size, abs(returns[b, s, i] - mean))
        for s in range(K):
            for i in range(N):
                size = max(size, lam * abs(covariance[b, s, i, i]))
        alpha = 1.0 / size if size > 0.0 else 1.0
        rho = _scaled_covariance(covariance[b], lam * alpha, P)
        if not _is_convex(P, system.S):
            facts[b, 0] = NOT_CONVEX
            continue
        for s in range(H):
            for i in range(N):
                r[s, i] = alpha * returns[b, s, i]
                c[s, i] = alpha * rate[s, i]
        problem = Problem(P, r, c, previous[b], lower, upper, counted, tau, exists)
        level = _START_LEVEL
        trigger = _FIRST_TRY
        best = np.inf
        rows = mark_rows(problem)
        iterations = 0
        tries = 0
        # Round 0 tries the active set of a warm start; the solver's own point starts when that does not settle it.
        for attempt in range(0 if warm else 1, _ROUNDS):
            finished = False
            if attempt == 0:
                _load_warm(
                    problem,
                    point,
                    active,
                    alpha,
                    rho,
                    hold[b],
                    trade[b],
                    spent[b],
                    weights[b],
                    pressure[b],
                    nu[b],
                    theta[b],
                )
            else:
                if attempt == 1:
                    start_point(problem, point, centre, _START_LEVEL)
                else:
                    going, level = newton_iteration(problem, point, system, gaps, step, rows)
                    iterations += 1
                    finished = not going or not level < 1e10
                primal, dual = residuals(problem, point, gaps)
                finished = finished or (level < 1e-13 and max(primal, dual) < 1e-9)
                if not finished and not (level < trigger and dual < 1e-3 and primal < 1e-6):
                    continue
                identify(problem, point, active)
                trigger = 0.03 * level
            certificate = _polish(problem, point, active, system, eq, pull)
            worst = max(certificate.stationarity, certificate.primal, certificate.dual)
            tries += 1
            if worst < best:
                best = worst
                facts[b, 4] = certificate.stationarity
                facts[b, 5] = certificate.primal
                facts[b, 6] = certificate.dual
                facts[b, 7] = certificate.margin
                for s in range(H):
                    nu[b, s] = (eq.nu[s] + rho) / alpha
                    theta[b, s] = eq.theta[s] / alpha if active.spent[s] == 1 else 0.0
                    spent[b, s] = active.spent[s]
                    for i in range(N):
                        weights[b, s, i] = eq.x[s, i]
                        kind = active.trade[s, i]
                        value = 0.0
                        if kind == 0:
                            value = eq.tie[s, i] / alpha
                        elif kind != 2:
                            value = kind * (theta[b, s] + rate[s, i])
                        pressure[b, s, i] = value
                        pull_out[b, s, i] = pull[s, i] / alpha if active.hold[s, i] != 0 else 0.0
                        hold[b, s, i] = active.hold[s, i]
                        trade[b, s, i] = kind
                if keep:
                    for s in range(H):
                        sigma_out[b, s] = system.sigma[s]
                        for i in range(N):
                            q_out[b, s, i] = system.q[s, i]
                            for k in range(N):
                                C_out[b, s, i, k] = system.C[s, i, k]
            if best <= _TOLERANCE or finished:
                break
        facts[b, 0] = NOT_CONVERGED
        if best <= _ACCEPTED:
            facts[b, 0] = CERTIFIED if best <= _TOLERANCE else UNCERTIFIED
        facts[b, 1] = iterations
        facts[b, 2] = tries
        facts[b, 3] = 1.0 if warm and iterations == 0 else 0.0
        facts[b, 8] = alpha


@compiled
def differentiate_batch(
    first: int,
    stride: int,
    upstream: _Array,
    covariance: _Array,
    previous: _Array,
    aversion: _Array,
    counted: _Array,
    hold: _Signs,
    trade: _Signs,
    spent: _Signs,
    weights: _Array,
    facts: _Array,
    kept: bool,
    C_in: _Array,
    q_in: _Array,
    sigma_in: _Array,
    grad_returns: _Array,
    grad_covariance: _Array,
    grad_previous: _Array,
    grad_aversion: _Array,
    grad_turnover: _Array,
    grad_cost: _Array,
    sources: int = SOURCES,
) -> None:
    """Vector-Jacobian products of instances of a batch.

    With v, y the solution of  P v + Bᵀy = upstream,  B v = 0  over the active rows B:  ∂/∂r = v,  ∂/∂b = y,  and the
    objective's other parameters follow from v and w. ``facts[b, 9]`` receives the residual, relative to the upstream.
    """
    B, H, N = upstream.shape
    K = covariance.shape[1]
    P = np.empty((K, N, N))
    scratch = new_system(H, N)
    eq = new_equalities(H, N)
    for b in range(first, B, stride):
        lam = aversion[b if aversion.shape[0] > 1 else 0]
        alpha = facts[b, 8]
        _scaled_covariance(covariance[b], lam * alpha, P)
        active = Active(hold[b], trade[b], spent[b])
        system = scratch
        assemble_springs(P, active, scratch)
        if kept:
            system = System(
                scratch.d,
                scratch.m,
                scratch.kappa,
                scratch.gamma,
                C_in[b],
                q_in[b],
                sigma_in[b],
                scratch.S,
                scratch.row,
            )
        else:
            factor_stages(P, scratch)
        size = 0.0
        for s in range(H):
            eq.nu[s] = 0.0
            eq.theta[s] = 0.0
            for i in range(N):
                eq.x[s, i] = 0.0
                eq.tie[s, i] = 0.0
                eq.f[s, i] = upstream[b, s, i]
                size = max(size, abs(upstream[b, s, i]))
        residual = refine(P, active, system, eq)
        facts[b, 9] = residual / size if size > 0.0 else 0.0
        for s in range(K):
            for i in range(N):
                for k in range(N):
                    grad_covariance[b, s, i, k] = 0.0
        total = 0.0
        for s in range(H):
            stage = s if K > 1 else 0
            grad_turnover[b, s] = eq.theta[s] if spent[b, s] == 1 else 0.0
            for i in range(N):
                v = alpha * eq.x[s, i]
                grad_returns[b, s, i] = v
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
