"""Whether a polished point is optimal, and what its active set has wrong."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner
from portfolio_dfl.allocation.kernels.coupling import Coupling
from portfolio_dfl.allocation.kernels.coupling_polish import repair_coupling, verify_coupling
from portfolio_dfl.allocation.kernels.coupling_trades import free_pull
from portfolio_dfl.allocation.kernels.point import RISE, Problem
from portfolio_dfl.allocation.kernels.polish import Active, Equalities

__all__ = ["Certificate", "repair", "verify"]

_Array = NDArray[np.float64]


class Certificate(NamedTuple):
    """How well a point satisfies the KKT conditions of the scaled problem, and how strictly.

    ``margin`` is the smallest slack of an inactive or multiplier of an active row: at zero the map is not smooth.
    """

    stationarity: float
    primal: float
    dual: float
    margin: float


@inner
def verify(problem: Problem, active: Active, eq: Equalities, pull: _Array, coupling: Coupling | None) -> Certificate:
    """Check all conditions of optimality; ``pull`` receives the Lagrangian's gradient without bounds' multipliers."""
    H, N = eq.x.shape
    K = problem.P.shape[0]
    x = eq.x
    stationarity = 0.0
    primal = 0.0
    dual = 0.0
    margin = np.inf
    if coupling is not None:
        primal, dual, margin = verify_coupling(coupling, x, eq.before, eq.tie)
    for s in range(H):
        P_s = problem.P[s if K > 1 else 0]
        total = 0.0
        turnover = 0.0
        limited = problem.tau[s] < np.inf
        if active.spent[s] == 1:
            dual = max(dual, -eq.theta[s])
            margin = min(margin, eq.theta[s])
        for i in range(N):
            total += x[s, i]
            change = x[s, i] - (x[s - 1, i] if s > 0 else eq.before[i])
            turnover += abs(change) * problem.counted[i]
            trade = active.trade[s, i]
            if trade == 0:
                primal = max(primal, abs(change))
                strict = eq.theta[s] + problem.c[s, i] - abs(eq.tie[s, i])
                if coupling is not None:
                    strict += free_pull(coupling, i)
                dual = max(dual, -strict)
                margin = min(margin, strict)
            elif trade != 2:
                primal = max(primal, -trade * change)
                margin = min(margin, trade * change)
            value = eq.nu[s] - eq.f[s, i]
            for k in range(N):
                value += P_s[i, k] * x[s, k]
            if coupling is not None:
                value += coupling.force[s, i]
            if trade == 0:
                value += eq.tie[s, i]
            elif trade != 2:
                value += trade * eq.theta[s]
            if s + 1 < H:
                trade = active.trade[s + 1, i]
                if trade == 0:
                    value -= eq.tie[s + 1, i]
                elif trade != 2:
                    value -= trade * eq.theta[s + 1]
            pull[s, i] = value
            if problem.lower[i] == problem.upper[i]:
                continue
            if active.hold[s, i] != 0:
                strict = -active.hold[s, i] * value
                dual = max(dual, -strict)
                margin = min(margin, strict)
            else:
                stationarity = max(stationarity, abs(value))
                below = x[s, i] - problem.lower[i]
                above = problem.upper[i] - x[s, i]
                primal = max(primal, -below, -above)
                margin = min(margin, below, above)
        primal = max(primal, abs(1.0 - total))
        if limited:
            primal = max(primal, turnover - problem.tau[s])
            if active.spent[s] == 1:
                primal = max(primal, problem.tau[s] - turnover)
            else:
                margin = min(margin, problem.tau[s] - turnover)
    return Certificate(stationarity, primal, dual, margin)


@inner
def repair(
    problem: Problem, active: Active, eq: Equalities, pull: _Array, tolerance: float, coupling: Coupling | None
) -> int:
    """Flip every decision of the active set that its own solution contradicts; return how many were flipped.

    ``pull`` is what `verify` wrote.
    """
    H, N = eq.x.shape
    flips = 0
    if coupling is not None:
        flips += repair_coupling(coupling, eq.x, eq.before, eq.tie, tolerance)
    for s in range(H):
        turnover = 0.0
        for i in range(N):
            turnover += abs(eq.x[s, i] - (eq.x[s - 1, i] if s > 0 else eq.before[i])) * problem.counted[i]
        freed = active.spent[s] == 1 and eq.theta[s] < -tolerance
        bound = active.spent[s] == 0 and turnover > problem.tau[s] + tolerance
        if freed:
            active.spent[s] = 0
            flips += 1
        elif bound:
            active.spent[s] = 1
            flips += 1
        for i in range(N):
            change = eq.x[s, i] - (eq.x[s - 1, i] if s > 0 else eq.before[i])
            trade = active.trade[s, i]
            if freed and not problem.c[s, i] > 0.0:
                active.trade[s, i] = 2
            elif bound and trade == 2 and problem.exists[RISE, s, i] > 0.0:
                active.trade[s, i] = 1 if change > tolerance else (-1 if change < -tolerance else 0)
            elif abs(trade) == 1 and trade * change < -tolerance:
                active.trade[s, i] = 0
                flips += 1
            elif trade == 0 and not freed:
                most = eq.theta[s] + problem.c[s, i] + tolerance
                if coupling is not None:
                    most += free_pull(coupling, i)
                if abs(eq.tie[s, i]) > most:
                    active.trade[s, i] = 1 if eq.tie[s, i] > 0.0 else -1
                    flips += 1
            hold = active.hold[s, i]
            if problem.lower[i] == problem.upper[i]:
                continue
            if hold == 0:
                if eq.x[s, i] < problem.lower[i] - tolerance:
                    active.hold[s, i] = -1
                    flips += 1
                elif eq.x[s, i] > problem.upper[i] + tolerance:
                    active.hold[s, i] = 1
                    flips += 1
            elif hold * pull[s, i] > tolerance:
                active.hold[s, i] = 0
                flips += 1
    return flips
