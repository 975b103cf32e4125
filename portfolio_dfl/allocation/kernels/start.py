"""Where the interior-point method starts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner
from portfolio_dfl.allocation.kernels.coupling import Coupling
from portfolio_dfl.allocation.kernels.coupling_interior import start_coupling
from portfolio_dfl.allocation.kernels.point import FALL, LOWER, RISE, UPPER, Point, Problem

__all__ = ["start_point"]

_Array = NDArray[np.float64]

# Least multiplier of a row at the start, and the product slack · multiplier of a budget there (scaled problem).
_START = 0.1


@inner
def start_point(problem: Problem, point: Point, centre: _Array, coupling: Coupling | None) -> None:
    """Write a point strictly inside all rows wherever w0 allows it, with multipliers that balance its gradient.

    The weights walk from w0 towards the middle of the box, spending half of the turnover budget at each stage.
    """
    H, N = point.w.shape
    lower, upper, w0, tau, exists = problem.lower, problem.upper, problem.w0, problem.tau, problem.exists
    w, u, slack = point.w, point.u, point.slack
    base = 0.0
    room = 0.0
    for i in range(N):
        low = lower[i] if lower[i] > -np.inf else min(0.0, upper[i] - 1.0)
        high = upper[i] if upper[i] < np.inf else max(low, 0.0) + 1.0
        centre[i] = low
        base += low
        room += high - low
    fill = (1.0 - base) / room if room > 0.0 else 0.0
    distance = 0.0
    for i in range(N):
        high = upper[i] if upper[i] < np.inf else max(centre[i], 0.0) + 1.0
        centre[i] += fill * (high - centre[i])
        distance += abs(centre[i] - w0[i]) * problem.counted[i]
    reached = 0.0
    for s in range(H):
        limited = tau[s] < np.inf
        before = reached
        reached = 1.0
        if limited and distance > 0.0:
            reached = min(1.0, before + 0.5 * tau[s] / distance)
        spare = max(tau[s] - (reached - before) * distance, 0.05 * tau[s]) if limited else 1.0
        total = 0.0
        for i in range(N):
            change = (reached - before) * (centre[i] - w0[i])
            w[s, i] = w0[i] + reached * (centre[i] - w0[i])
            if lower[i] == upper[i]:
                w[s, i] = lower[i]
            u[s, i] = (abs(change) + 0.5 * spare / N) * exists[RISE, s, i]
            total += u[s, i]
            for kind in range(4):
                slack[kind, s, i] = 1.0
            if exists[LOWER, s, i] > 0.0:
                slack[LOWER, s, i] = max(w[s, i] - lower[i], 0.01 / N)
            if exists[UPPER, s, i] > 0.0:
                slack[UPPER, s, i] = max(upper[i] - w[s, i], 0.01 / N)
            if exists[RISE, s, i] > 0.0:
                slack[RISE, s, i] = u[s, i] - change
                slack[FALL, s, i] = u[s, i] + change
        point.budget_slack[s] = 1.0
        point.budget_dual[s] = 0.0
        if limited:
            point.budget_slack[s] = max(tau[s] - total, 0.01 * tau[s])
            point.budget_dual[s] = _START / point.budget_slack[s]
    _start_multipliers(problem, point, centre)
    if coupling is not None:
        start_coupling(coupling, w, w0, _START)


@inner
def _start_multipliers(problem: Problem, point: Point, gradient: _Array) -> None:
    """Multipliers of at least `_START` that add up to the gradient at each weight, as far as its bounds allow it.

    ``gradient`` [N] is scratch.
    """
    H, N = point.w.shape
    K = problem.P.shape[0]
    dual, exists = point.dual, problem.exists
    for s in range(H):
        P_s = problem.P[s if K > 1 else 0]
        least = np.inf
        mean = 0.0
        for i in range(N):
            value = -problem.r[s, i]
            for k in range(N):
                value += P_s[i, k] * point.w[s, k]
            gradient[i] = value
            mean += value / N
            if exists[LOWER, s, i] > 0.0 and exists[UPPER, s, i] == 0.0:
                least = min(least, value)
        # Where a weight has no upper bound, only that of its lower one can balance the gradient.
        point.nu[s] = _START - least if least < np.inf else -mean
        for i in range(N):
            pull = gradient[i] + point.nu[s]
            dual[LOWER, s, i] = max(pull, 0.0) + _START if exists[UPPER, s, i] > 0.0 else max(pull, _START)
            dual[UPPER, s, i] = max(-pull, 0.0) + _START
            dual[RISE, s, i] = 0.5 * (problem.c[s, i] + point.budget_dual[s])
            dual[FALL, s, i] = dual[RISE, s, i]
            for kind in range(4):
                dual[kind, s, i] *= exists[kind, s, i]
