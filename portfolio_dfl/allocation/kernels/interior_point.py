"""A primal-dual interior-point method (Mehrotra) whose Newton system is eliminated stage by stage (see `point`).

Eliminating u_s from the Newton system leaves in Δ_s the matrix diag(m) + κ γγᵀ of `block_factor`:
with a = d_rise + d_fall (d = multiplier / slack),  m = 4 d_rise d_fall / a,  γ = (d_fall − d_rise) / a,
κ = d_budget / (1 + d_budget Σ 1/a).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner
from portfolio_dfl.allocation.kernels.block_factor import FROZEN, System, factor_stages, solve_stages
from portfolio_dfl.allocation.kernels.coupling import DDUAL, DSLACK, DUAL, SLACK, Coupling
from portfolio_dfl.allocation.kernels.coupling_interior import (
    aim_coupling,
    assemble_coupling,
    coupling_product,
    coupling_residuals,
    limit_multipliers,
    move_coupling,
    push_coupling,
    recover_coupling,
)
from portfolio_dfl.allocation.kernels.point import FALL, LOWER, RISE, UPPER, Gaps, Point, Problem

__all__ = [
    "assemble_newton",
    "mean_product",
    "newton_direction",
    "newton_iteration",
    "residuals",
]

_Array = NDArray[np.float64]

# Share of the way to the nearest boundary that a step may go.
_BOUNDARY = 0.995


@inner
def residuals(problem: Problem, point: Point, gaps: Gaps, coupling: Coupling | None) -> tuple[float, float]:
    """Write the residuals of the KKT conditions; return the largest primal and the largest dual one."""
    H, N = point.w.shape
    K = problem.P.shape[0]
    w, u, slack, dual, exists = point.w, point.u, point.slack, point.dual, problem.exists
    lower, upper, w0 = problem.lower, problem.upper, problem.w0
    primal = 0.0
    stationarity = 0.0
    if coupling is not None:
        primal, stationarity = coupling_residuals(coupling, w, problem.w0)
    for s in range(H):
        P_s = problem.P[s if K > 1 else 0]
        total = 0.0
        spent = 0.0
        for i in range(N):
            total += w[s, i]
            spent += u[s, i]
            change = w[s, i] - (w[s - 1, i] if s > 0 else w0[i])
            gaps.row[RISE, s, i] = (u[s, i] - change - slack[RISE, s, i]) * exists[RISE, s, i]
            gaps.row[FALL, s, i] = (u[s, i] + change - slack[FALL, s, i]) * exists[FALL, s, i]
            if exists[LOWER, s, i] > 0.0:
                gaps.row[LOWER, s, i] = w[s, i] - lower[i] - slack[LOWER, s, i]
                primal = max(primal, abs(gaps.row[LOWER, s, i]))
            if exists[UPPER, s, i] > 0.0:
                gaps.row[UPPER, s, i] = upper[i] - w[s, i] - slack[UPPER, s, i]
                primal = max(primal, abs(gaps.row[UPPER, s, i]))
            primal = max(primal, abs(gaps.row[RISE, s, i]), abs(gaps.row[FALL, s, i]))
            value = point.nu[s] - problem.r[s, i] - dual[LOWER, s, i] + dual[UPPER, s, i]
            value += dual[RISE, s, i] - dual[FALL, s, i]
            if s + 1 < H:
                value -= dual[RISE, s + 1, i] - dual[FALL, s + 1, i]
            for k in range(N):
                value += P_s[i, k] * w[s, k]
            if coupling is not None:
                value += coupling.force[s, i]
            if lower[i] == upper[i]:
                value = 0.0
            gaps.w[s, i] = value
            gaps.u[s, i] = 0.0
            if exists[RISE, s, i] > 0.0:
                gaps.u[s, i] = problem.c[s, i] - dual[RISE, s, i] - dual[FALL, s, i] + point.budget_dual[s]
            stationarity = max(stationarity, abs(value), abs(gaps.u[s, i]))
        gaps.total[s] = 1.0 - total
        gaps.budget[s] = 0.0
        if problem.tau[s] < np.inf:
            gaps.budget[s] = problem.tau[s] - spent - point.budget_slack[s]
        primal = max(primal, abs(gaps.total[s]), abs(gaps.budget[s]))
    return primal, stationarity


@inner
def assemble_newton(problem: Problem, point: Point, system: System, gaps: Gaps, coupling: Coupling | None) -> None:
    """Write the matrix of the Newton system at this point."""
    H, N = point.w.shape
    inverse, dual = gaps.inverse, point.dual
    flat, slack = inverse.reshape(-1), point.slack.reshape(-1)
    for i in range(problem.places):
        flat[i] = 1.0 / slack[i]
    for s in range(H):
        give = 0.0
        for i in range(N):
            value = dual[LOWER, s, i] * inverse[LOWER, s, i] + dual[UPPER, s, i] * inverse[UPPER, s, i]
            system.d[s, i] = FROZEN if problem.lower[i] == problem.upper[i] else value
            if problem.exists[RISE, s, i] > 0.0:
                rise = dual[RISE, s, i] * inverse[RISE, s, i]
                fall = dual[FALL, s, i] * inverse[FALL, s, i]
                share = 1.0 / (rise + fall)
                system.m[s, i] = 4.0 * rise * fall * share
                system.gamma[s, i] = (fall - rise) * share
                gaps.give[s, i] = share
                give += share
            else:
                system.m[s, i] = 0.0
                system.gamma[s, i] = 0.0
                gaps.give[s, i] = 0.0
        budget = point.budget_dual[s] / point.budget_slack[s]
        system.kappa[s] = budget / (1.0 + budget * give)
    if coupling is not None:
        assemble_coupling(coupling, system)


@inner
def newton_direction(
    problem: Problem, point: Point, system: System, gaps: Gaps, step: Point, coupling: Coupling | None
) -> None:
    """One Newton step: each product slack · multiplier is asked to fall by ``gaps.target`` or ``budget_target``."""
    H, N = point.w.shape
    rows = problem.places
    exists = problem.exists
    inverse, dual, target = gaps.inverse.reshape(-1), point.dual.reshape(-1), gaps.target.reshape(-1)
    row_gap, ddual, dslack = gaps.row.reshape(-1), step.dual.reshape(-1), step.slack.reshape(-1)
    f, h, g, give, row = gaps.f, gaps.h, gaps.g, gaps.give, system.row
    # Until the end, step.dual carries the part of each multiplier's step that does not depend on the primal step.
    for i in range(rows):
        ddual[i] = (target[i] + dual[i] * row_gap[i]) * inverse[i]
    for s in range(H):
        budget = (gaps.budget_target[s] + point.budget_dual[s] * gaps.budget[s]) / point.budget_slack[s]
        pull = 0.0
        for i in range(N):
            g[s, i] = budget - gaps.u[s, i] - step.dual[RISE, s, i] - step.dual[FALL, s, i]
            pull += g[s, i] * give[s, i]
        pull *= system.kappa[s]
        for i in range(N):
            h[s, i] = step.dual[FALL, s, i] - step.dual[RISE, s, i] + system.gamma[s, i] * (g[s, i] - pull)
    for s in range(H):
        for i in range(N):
            value = step.dual[UPPER, s, i] - step.dual[LOWER, s, i] - gaps.w[s, i] - h[s, i]
            if s + 1 < H:
                value += h[s + 1, i]
            f[s, i] = value
    if coupling is not None:
        push_coupling(coupling, f)
    solve_stages(system, f, gaps.total, step.w, step.nu)
    if coupling is not None:
        recover_coupling(coupling, step.w)
    for s in range(H):
        pull = 0.0
        for i in range(N):
            change = step.w[s, i] - (step.w[s - 1, i] if s > 0 else 0.0)
            # (d_fall − d_rise) Δ = γ a Δ, and give = 1 / a.
            row[i] = g[s, i] * give[s, i] - system.gamma[s, i] * change
            pull += row[i]
        pull *= system.kappa[s]
        total = 0.0
        for i in range(N):
            change = step.w[s, i] - (step.w[s - 1, i] if s > 0 else 0.0)
            move = row[i] - pull * give[s, i]
            step.u[s, i] = move
            total += move
            step.slack[LOWER, s, i] = (step.w[s, i] + gaps.row[LOWER, s, i]) * exists[LOWER, s, i]
            step.slack[RISE, s, i] = (move - change + gaps.row[RISE, s, i]) * exists[RISE, s, i]
            step.slack[FALL, s, i] = (move + change + gaps.row[FALL, s, i]) * exists[FALL, s, i]
            step.slack[UPPER, s, i] = (gaps.row[UPPER, s, i] - step.w[s, i]) * exists[UPPER, s, i]
        step.budget_slack[s] = gaps.budget[s] - total if problem.tau[s] < np.inf else 0.0
        value = gaps.budget_target[s] + point.budget_dual[s] * step.budget_slack[s]
        step.budget_dual[s] = -value / point.budget_slack[s]
    for i in range(rows):
        ddual[i] = -(target[i] + dual[i] * dslack[i]) * inverse[i]


@inner
def _longest(value: _Array, move: _Array, worst: float) -> float:
    """Reciprocal of the largest t with value + t · move ≥ 0 over flat arrays, at least ``worst``."""
    for i in range(value.shape[0]):
        if -move[i] > worst * value[i]:
            worst = -move[i] / value[i]
    return worst


@inner
def mean_product(problem: Problem, point: Point, rows: int, coupling: Coupling | None) -> float:
    """Mean of slack · multiplier over the rows that exist."""
    total = _product(problem, point, point, 0.0, 0.0)
    if coupling is not None:
        total += coupling_product(coupling, 0.0, 0.0, False)
    return total / rows


@inner
def _product(problem: Problem, point: Point, step: Point, primal: float, dual: float) -> float:
    """Sum of slack · multiplier after steps of these lengths (rows that do not exist add nothing)."""
    total = 0.0
    slack, multiplier = point.slack.reshape(-1), point.dual.reshape(-1)
    dslack, dmultiplier = step.slack.reshape(-1), step.dual.reshape(-1)
    for i in range(problem.places):
        total += (slack[i] + primal * dslack[i]) * (multiplier[i] + dual * dmultiplier[i])
    for s in range(point.budget_slack.shape[0]):
        left = point.budget_slack[s] + primal * step.budget_slack[s]
        total += left * (point.budget_dual[s] + dual * step.budget_dual[s])
    return total


@inner
def newton_iteration(
    problem: Problem,
    point: Point,
    system: System,
    gaps: Gaps,
    step: Point,
    rows: int,
    mean: float,
    coupling: Coupling | None,
    aim: float,
) -> tuple[bool, float]:
    """One predictor-corrector step from the residuals in ``gaps`` and the mean product; success, and the mean after.

    All products are led to ``aim``: to the optimum where it is 0, else to a point of the central path.
    """
    assemble_newton(problem, point, system, gaps, coupling)
    if not factor_stages(problem.P, system, coupling):
        return False, 0.0
    places = problem.places
    slack, dual = point.slack.reshape(-1)[:places], point.dual.reshape(-1)[:places]
    target = gaps.target.reshape(-1)
    dslack, ddual = step.slack.reshape(-1)[:places], step.dual.reshape(-1)[:places]
    H = point.nu.shape[0]
    exists = problem.exists.reshape(-1)
    centring = 0.0
    share = 0.0
    primal = 0.0
    multiplier = 0.0
    # First straight at the optimum; then again, centred by how far that got, and corrected for its curvature.
    for corrected in range(2):
        for i in range(slack.shape[0]):
            correction = share * dslack[i] * ddual[i] - centring
            target[i] = slack[i] * dual[i] + correction * exists[i]
        for s in range(H):
            correction = 0.0
            if point.budget_dual[s] > 0.0:
                correction = share * step.budget_slack[s] * step.budget_dual[s] - centring
            gaps.budget_target[s] = point.budget_slack[s] * point.budget_dual[s] + correction
        if coupling is not None:
            aim_coupling(coupling, share, centring)
        newton_direction(problem, point, system, gaps, step, coupling)
        keep = 1.0 if corrected == 0 else _BOUNDARY
        worst = _longest(point.budget_slack, step.budget_slack, _longest(slack, dslack, keep))
        if coupling is not None:
            worst = _longest(coupling.rows[SLACK].reshape(-1), coupling.rows[DSLACK].reshape(-1), worst)
            worst = _longest(coupling.sides[SLACK].reshape(-1), coupling.sides[DSLACK].reshape(-1), worst)
            worst = _longest(coupling.steps[SLACK].reshape(-1), coupling.steps[DSLACK].reshape(-1), worst)
        primal = keep / worst
        worst = _longest(point.budget_dual, step.budget_dual, _longest(dual, ddual, keep))
        if coupling is not None:
            worst = _longest(coupling.sides[DUAL].reshape(-1), coupling.sides[DDUAL].reshape(-1), worst)
            worst = limit_multipliers(coupling, worst)
        multiplier = keep / worst
        if corrected == 0:
            product = _product(problem, point, step, primal, multiplier)
            if coupling is not None:
                product += coupling_product(coupling, primal, multiplier, True)
            centring = max((product / rows / mean) ** 3 * mean, aim)
            # Where the optimum is nearer than the aim, its curvature is no guide.
            share = 0.0 if aim > 0.0 and product < aim * rows else 1.0
    w, u, dw, du = point.w.reshape(-1), point.u.reshape(-1), step.w.reshape(-1), step.u.reshape(-1)
    for i in range(w.shape[0]):
        w[i] += primal * dw[i]
        u[i] += primal * du[i]
    for i in range(slack.shape[0]):
        slack[i] += primal * dslack[i]
        dual[i] += multiplier * ddual[i]
    for s in range(H):
        point.nu[s] += multiplier * step.nu[s]
        point.budget_slack[s] += primal * step.budget_slack[s]
        point.budget_dual[s] += multiplier * step.budget_dual[s]
    if coupling is not None:
        move_coupling(coupling, primal, multiplier)
    return True, mean_product(problem, point, rows, coupling)
