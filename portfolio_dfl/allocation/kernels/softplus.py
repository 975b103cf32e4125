"""Newton's method for a plan whose inequalities are softplus penalties."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner
from portfolio_dfl.allocation.kernels.block_factor import System, factor_stages
from portfolio_dfl.allocation.kernels.interior_point import assemble_newton, newton_direction, residuals
from portfolio_dfl.allocation.kernels.point import LOWER, RISE, UPPER, Gaps, Point, Problem

__all__ = ["minimise_penalty", "start_penalty"]

_Array = NDArray[np.float64]

_ROUNDS = 100
# Fall of the penalty's objective (scaled) that a further Newton step promises where it counts as found.
_DECREMENT = 1e-24
_ARMIJO = 1e-4
_HALVINGS = 40


@inner
def _softplus(slack: float, height: float, width: float) -> tuple[float, float, float]:
    """φ, force and stiffness of one row."""
    t = slack / width
    e = np.exp(-abs(t))
    p = e / (1.0 + e) if t >= 0.0 else 1.0 / (1.0 + e)
    return height * (width * np.log1p(e) + max(-slack, 0.0)), height * p, height * e / (1.0 + e) ** 2 / width


@inner
def _press(problem: Problem, point: Point, height: float, width: float, force: bool) -> float:
    """Set the rows' slacks to what they are, their multipliers to force or stiffness; return Σ φ over them."""
    H, N = point.w.shape
    w, u, exists = point.w, point.u, problem.exists
    total = 0.0
    for s in range(H):
        spent = 0.0
        for i in range(N):
            change = w[s, i] - (w[s - 1, i] if s > 0 else problem.w0[i])
            spent += u[s, i]
            for kind in range(4):
                point.slack[kind, s, i] = 1.0
                point.dual[kind, s, i] = 0.0
                if exists[kind, s, i] == 0.0:
                    continue
                slack = u[s, i] - change if kind == RISE else u[s, i] + change
                if kind == LOWER:
                    slack = w[s, i] - problem.lower[i]
                elif kind == UPPER:
                    slack = problem.upper[i] - w[s, i]
                value, push, stiff = _softplus(slack, height, width)
                total += value
                point.dual[kind, s, i] = push if force else stiff
        point.budget_slack[s] = 1.0
        point.budget_dual[s] = 0.0
        if problem.tau[s] < np.inf:
            value, push, stiff = _softplus(problem.tau[s] - spent, height, width)
            total += value
            point.budget_dual[s] = push if force else stiff
    return total


@inner
def _plan_value(problem: Problem, point: Point) -> float:
    """½ wᵀPw − rᵀw + cᵀu over all stages."""
    H, N = point.w.shape
    K = problem.P.shape[0]
    total = 0.0
    for s in range(H):
        P_s = problem.P[s if K > 1 else 0]
        for i in range(N):
            row = 0.0
            for k in range(N):
                row += P_s[i, k] * point.w[s, k]
            total += point.w[s, i] * (0.5 * row - problem.r[s, i]) + problem.c[s, i] * point.u[s, i]
    return total


@inner
def start_penalty(problem: Problem, point: Point, weights: _Array, width: float) -> None:
    """Begin at a plan, with trades' variables a width above what is traded."""
    H, N = point.w.shape
    for s in range(H):
        point.nu[s] = 0.0
        for i in range(N):
            point.w[s, i] = weights[s, i]
    for s in range(H):
        for i in range(N):
            change = weights[s, i] - (weights[s - 1, i] if s > 0 else problem.w0[i])
            point.u[s, i] = (abs(change) + width) * problem.exists[RISE, s, i]


@inner
def minimise_penalty(
    problem: Problem,
    point: Point,
    system: System,
    gaps: Gaps,
    step: Point,
    height: float,
    width: float,
    old_w: _Array,
    old_u: _Array,
    facts: _Array,
) -> bool:
    """Newton's method with backtracking; the point's multipliers are the rows' stiffnesses at the end."""
    H, N = point.w.shape
    for iteration in range(_ROUNDS):
        value = _press(problem, point, height, width, True) + _plan_value(problem, point)
        residuals(problem, point, gaps, None)
        # With slacks of one and stiffnesses for multipliers, the Newton system of the interior point is the penalty's.
        _press(problem, point, height, width, False)
        gaps.row[:] = 0.0
        gaps.target[:] = 0.0
        gaps.budget[:] = 0.0
        gaps.budget_target[:] = 0.0
        assemble_newton(problem, point, system, gaps, None)
        if not factor_stages(problem.P, system, None):
            return False
        newton_direction(problem, point, system, gaps, step, None)
        facts[1] = iteration + 1
        fall = 0.0
        for s in range(H):
            point.nu[s] += step.nu[s]
            for i in range(N):
                old_w[s, i] = point.w[s, i]
                old_u[s, i] = point.u[s, i]
                # Along the plane 1ᵀdw = 0 ν does no work.
                fall -= gaps.w[s, i] * step.w[s, i] + gaps.u[s, i] * step.u[s, i]
        if not fall >= 0.0 and not abs(fall) < 1e-12:
            return False
        length = 1.0
        for _ in range(_HALVINGS):
            for s in range(H):
                for i in range(N):
                    point.w[s, i] = old_w[s, i] + length * step.w[s, i]
                    point.u[s, i] = old_u[s, i] + length * step.u[s, i]
            if fall < 1e-12:
                break
            reached = _press(problem, point, height, width, True) + _plan_value(problem, point)
            if reached <= value - _ARMIJO * length * fall:
                break
            length *= 0.5
        if fall <= _DECREMENT:
            _press(problem, point, height, width, False)
            return True
    return False
