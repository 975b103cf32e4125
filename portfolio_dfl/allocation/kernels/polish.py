"""From a point near the optimum to the optimum: read off the active set, solve for it exactly, check every condition.

Written in weights alone, the problem's active constraints are of four kinds: a weight held at a bound, an asset not
traded (w_s = w_{s−1}), a turnover budget spent (Σ σ_i Δ_i = τ, with σ the sign of each trade) and 1ᵀw = 1. In the
paper's variables [w; u] an asset that is not traded has three active rows on two variables, and its multipliers are
not unique; here it has one. Held weights leave the system, 1ᵀw = 1 is eliminated exactly, and the two other kinds
become stiff springs (κ) in the matrix of `block_factor`. Repeating

    solve  H dv + 1 dν = r₁ + Bᵀκ r₂,   then   dy = κ (B dv − r₂)

on the residuals r₁, r₂ of the true system removes the spring's bias: each round gains some five digits, and rows
that repeat one another do no harm (their multipliers stay where the solver left them).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner, viewing
from portfolio_dfl.allocation.kernels.block_factor import FROZEN, System, solve_stages
from portfolio_dfl.allocation.kernels.coupling import Coupling
from portfolio_dfl.allocation.kernels.coupling_polish import (
    adjust_coupling,
    answer_gaps,
    coupling_gaps,
    identify_coupling,
    load_coupling,
    spring_coupling,
)
from portfolio_dfl.allocation.kernels.coupling_trades import capped_gap
from portfolio_dfl.allocation.kernels.point import FALL, LOWER, RISE, UPPER, Point, Problem
from portfolio_dfl.allocation.kernels.scratch import Scratch, matrix, signs, vector

__all__ = [
    "Active",
    "Equalities",
    "assemble_springs",
    "identify",
    "load_polish",
    "new_active",
    "new_equalities",
    "refine",
]

_Array = NDArray[np.float64]
_Signs = NDArray[np.int8]

# Stiffness of a spring relative to the mean curvature of the objective. A stiffer one has less bias, but its rounding
# errors in the factor, which grow from stage to stage, then cost more rounds than that saves.
_STIFFNESS = 1e6
_ROUNDS = 12
# A residual of this, relative to the right-hand side, is as good as zero.
_ROUNDING = 1e-15


class Active(NamedTuple):
    """An active set.

    hold [H, N]: −1 at the lower bound, +1 at the upper, 0 free. trade [H, N]: +1 bought, −1 sold, 0 not traded, 2 no
    condition (the asset is not counted, or nothing is charged and the budget is not spent). spent [H]: 1 if the
    turnover budget is used up.
    """

    hold: _Signs
    trade: _Signs
    spent: _Signs


class Equalities(NamedTuple):
    """Unknowns and right-hand sides of the system of an active set, and scratch.

    Solves  P x + 1 ν + (multipliers of trades) = f,  1ᵀx = total,  x_s − x_{s−1} = 0 where not traded,
    Σ σ (x_s − x_{s−1}) = budget where spent, with x_0 = ``before`` and held weights where they are.
    """

    x: _Array
    nu: _Array
    tie: _Array
    theta: _Array
    f: _Array
    total: _Array
    budget: _Array
    before: _Array
    right: _Array
    gap: _Array
    tie_gap: _Array
    theta_gap: _Array
    dx: _Array
    dnu: _Array


@viewing
def new_active(scratch: Scratch, H: int, N: int) -> Active:
    """Room for an active set."""
    return Active(signs(scratch, H * N).reshape(H, N), signs(scratch, H * N).reshape(H, N), signs(scratch, H))


@viewing
def new_equalities(scratch: Scratch, H: int, N: int) -> Equalities:
    """Room for the unknowns of an active set."""
    return Equalities(
        matrix(scratch, H, N),
        vector(scratch, H),
        matrix(scratch, H, N),
        vector(scratch, H),
        matrix(scratch, H, N),
        vector(scratch, H),
        vector(scratch, H),
        vector(scratch, N),
        matrix(scratch, H, N),
        vector(scratch, H),
        matrix(scratch, H, N),
        vector(scratch, H),
        matrix(scratch, H, N),
        vector(scratch, H),
    )


@inner
def identify(problem: Problem, point: Point, active: Active, coupling: Coupling | None) -> None:
    """Read the active set off a primal-dual point: a row is active if its (scaled) multiplier exceeds its slack."""
    H, N = point.w.shape
    slack, dual = point.slack, point.dual
    for s in range(H):
        active.spent[s] = 1 if point.budget_dual[s] > point.budget_slack[s] else 0
        for i in range(N):
            hold = 0
            if problem.lower[i] == problem.upper[i] or dual[LOWER, s, i] > slack[LOWER, s, i]:
                hold = -1
            elif dual[UPPER, s, i] > slack[UPPER, s, i]:
                hold = 1
            active.hold[s, i] = hold
            trade = 2
            if problem.exists[RISE, s, i] > 0.0 and (active.spent[s] == 1 or problem.c[s, i] > 0.0):
                bought = dual[RISE, s, i] > slack[RISE, s, i]
                sold = dual[FALL, s, i] > slack[FALL, s, i]
                trade = int(bought) - int(sold)
            active.trade[s, i] = trade
    if coupling is not None:
        identify_coupling(coupling, active.trade)


@inner
def assemble_springs(P: _Array, active: Active, system: System, coupling: Coupling | None) -> None:
    """Write the spring matrix of an active set."""
    H, N = active.hold.shape
    K = P.shape[0]
    mean = 0.0
    for s in range(K):
        for i in range(N):
            mean += P[s, i, i]
    stiffness = _STIFFNESS * mean / (K * N)
    for s in range(H):
        count = 0
        for i in range(N):
            system.d[s, i] = FROZEN if active.hold[s, i] != 0 else 0.0
            system.m[s, i] = stiffness if active.trade[s, i] == 0 else 0.0
            system.gamma[s, i] = 0.0
            if active.spent[s] == 1 and abs(active.trade[s, i]) == 1:
                system.gamma[s, i] = active.trade[s, i]
                count += 1
        system.kappa[s] = stiffness / count if count > 0 else 0.0
    if coupling is not None:
        spring_coupling(coupling, active.trade, system, stiffness)


@inner
def _gaps(P: _Array, active: Active, system: System, eq: Equalities, coupling: Coupling | None) -> float:
    """Write the residuals of the active set's system; return the largest."""
    H, N = eq.x.shape
    K = P.shape[0]
    x, tie, theta, gamma = eq.x, eq.tie, eq.theta, system.gamma
    worst = 0.0
    if coupling is not None:
        worst = coupling_gaps(coupling, x)
    # Without branches: multipliers of conditions that do not hold are zero, and so is γ of trades without one.
    for s in range(H):
        P_s = P[s if K > 1 else 0]
        before = x[s - 1] if s > 0 else eq.before
        total = 0.0
        spent = 0.0
        for i in range(N):
            total += x[s, i]
            change = x[s, i] - before[i]
            spent += gamma[s, i] * change
            gap = -change if active.trade[s, i] == 0 else 0.0
            if coupling is not None:
                gap += capped_gap(coupling, s, i, change)
            eq.tie_gap[s, i] = gap
            worst = max(worst, abs(gap))
        for i in range(N):
            value = eq.f[s, i] - eq.nu[s] - tie[s, i] - gamma[s, i] * theta[s]
            if s + 1 < H:
                value += tie[s + 1, i] + gamma[s + 1, i] * theta[s + 1]
            for k in range(N):
                value -= P_s[i, k] * x[s, k]
            if coupling is not None:
                value -= coupling.force[s, i]
            value = value if active.hold[s, i] == 0 else 0.0
            eq.right[s, i] = value
            worst = max(worst, abs(value))
        eq.gap[s] = eq.total[s] - total
        eq.theta_gap[s] = eq.budget[s] - spent if active.spent[s] == 1 else 0.0
        worst = max(worst, abs(eq.gap[s]), abs(eq.theta_gap[s]))
    return worst


@inner
def _push(active: Active, system: System, eq: Equalities, coupling: Coupling | None) -> None:
    """Add to the right-hand side what the springs answer to the gaps of their rows."""
    H, N = eq.x.shape
    right = eq.right
    for s in range(H):
        strength = system.kappa[s] * eq.theta_gap[s]
        for i in range(N):
            push = system.m[s, i] * eq.tie_gap[s, i] + strength * system.gamma[s, i]
            right[s, i] += push
            if s > 0:
                right[s - 1, i] -= push
    if coupling is not None:
        answer_gaps(coupling, right)
    for s in range(H):
        for i in range(N):
            right[s, i] = right[s, i] if active.hold[s, i] == 0 else 0.0


@inner
def refine(P: _Array, active: Active, system: System, eq: Equalities, size: float, coupling: Coupling | None) -> float:
    """Improve x, ν, tie and θ until the residual is rounding beside ``size`` or stops falling; return it."""
    H, N = eq.x.shape
    worst = _gaps(P, active, system, eq, coupling)
    for _ in range(_ROUNDS):
        if worst <= _ROUNDING * size:
            break
        _push(active, system, eq, coupling)
        solve_stages(system, eq.right, eq.gap, eq.dx, eq.dnu)
        for s in range(H):
            eq.nu[s] += eq.dnu[s]
            spent = 0.0
            for i in range(N):
                move = eq.dx[s, i] if active.hold[s, i] == 0 else 0.0
                eq.dx[s, i] = move
                eq.x[s, i] += move
                change = move - eq.dx[s - 1, i] if s > 0 else move
                eq.tie[s, i] += system.m[s, i] * (change - eq.tie_gap[s, i])
                spent += system.gamma[s, i] * change
            eq.theta[s] += system.kappa[s] * (spent - eq.theta_gap[s])
        if coupling is not None:
            adjust_coupling(coupling, eq.dx)
        before = worst
        worst = _gaps(P, active, system, eq, coupling)
        if not worst < 0.25 * before:
            break
    return worst


@inner
def load_polish(problem: Problem, point: Point, active: Active, eq: Equalities, coupling: Coupling | None) -> None:
    """Start the active set's system from the solver's point, so that what is not unique stays where it was."""
    H, N = point.w.shape
    for i in range(N):
        eq.before[i] = problem.w0[i]
    for s in range(H):
        eq.nu[s] = point.nu[s]
        eq.total[s] = 1.0
        eq.theta[s] = point.budget_dual[s] if active.spent[s] == 1 else 0.0
        eq.budget[s] = problem.tau[s]
        for i in range(N):
            eq.x[s, i] = point.w[s, i]
            if active.hold[s, i] == -1:
                eq.x[s, i] = problem.lower[i]
            elif active.hold[s, i] == 1:
                eq.x[s, i] = problem.upper[i]
            eq.tie[s, i] = 0.0
            if active.trade[s, i] == 0:
                eq.tie[s, i] = point.dual[RISE, s, i] - point.dual[FALL, s, i]
            eq.f[s, i] = problem.r[s, i]
    if coupling is not None:
        load_coupling(coupling, eq.tie)
    # A trade's cost is linear once its sign is known.
    for s in range(H):
        for i in range(N):
            if abs(active.trade[s, i]) == 1:
                cost = active.trade[s, i] * problem.c[s, i]
                eq.f[s, i] -= cost
                if s > 0:
                    eq.f[s - 1, i] += cost
