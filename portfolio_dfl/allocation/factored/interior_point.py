"""Mehrotra's primal-dual method on the factored system: the steps of `kernels.interior_point`, for all assets at once.

Trades are bounded by u ≥ ±(w_s − w_{s−1}), u is eliminated asset by asset, and what is left couples assets through the
columns of `system` alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portfolio_dfl.allocation.factored.problem import (
    FALL,
    LOWER,
    RISE,
    UPPER,
    FactoredProblem,
    before,
    forward_pull,
)
from portfolio_dfl.allocation.factored.system import FROZEN, FactoredSystem

__all__ = ["InteriorPoint"]

_Array = NDArray[np.float64]

_START = 0.1
_BOUNDARY = 0.995


@dataclass(slots=True)
class _Point:
    """Weights, trades and multipliers, or a step in them; slacks and duals of rows [4, H, N], of τ and of caps."""

    w: _Array
    u: _Array
    nu: _Array
    slack: _Array
    dual: _Array
    budget_slack: _Array
    budget_dual: _Array
    cap_slack: _Array
    cap_dual: _Array


class InteriorPoint:
    """The course of one problem's solve.

    Parameters
    ----------
    problem : FactoredProblem
    system : FactoredSystem
        Of the columns [loadings, ones, rows].

    Attributes
    ----------
    level : float
        Mean product of slack and multiplier.
    primal, dual : float
        Largest residuals.
    """

    def __init__(self, problem: FactoredProblem, system: FactoredSystem) -> None:
        self.problem, self.system = problem, system
        self.point = self._start()
        limited = problem.limited
        self._count = int(problem.exists.sum()) + int(limited.sum()) + self.point.cap_slack.size
        self.level = self._mean_product()
        self._measure()

    # ---- where it starts -------------------------------------------------------------------------------------------

    def _start(self) -> _Point:
        """A point inside the rows wherever w_0 allows it, walking from w_0 to the middle of the box."""
        problem = self.problem
        H, N = problem.returns.shape
        low = np.where(np.isfinite(problem.lower), problem.lower, np.minimum(0.0, problem.upper - 1.0))
        high = np.where(np.isfinite(problem.upper), problem.upper, np.maximum(low, 0.0) + 1.0)
        room = float((high - low).sum())
        centre = low + ((1.0 - low.sum()) / room if room > 0.0 else 0.0) * (high - low)
        distance = float((np.abs(centre - problem.previous) * problem.counted).sum())
        limited, exists = problem.limited, problem.exists
        reached = np.ones(H)
        if distance > 0.0:
            at = 0.0
            for s in range(H):
                at = min(1.0, at + 0.5 * problem.turnover[s] / distance)
                reached[s] = at
        w = problem.previous + reached[:, None] * (centre - problem.previous)
        w[:, problem.fixed] = problem.lower[problem.fixed]
        change = w - before(w, problem.previous)
        spent = np.diff(reached, prepend=0.0) * distance
        tau = np.where(limited, problem.turnover, 1.0)
        spare = np.where(limited, np.maximum(tau - spent, 0.05 * tau), 1.0)
        u = (np.abs(change) + 0.5 * spare[:, None] / N) * exists[RISE]
        slack = np.ones((4, H, N))
        for kind, distance_to in ((LOWER, w - problem.lower), (UPPER, problem.upper - w)):
            slack[kind] = np.where(exists[kind], np.maximum(distance_to, 0.01 / N), 1.0)
        slack[RISE] = np.where(exists[RISE], u - change, 1.0)
        slack[FALL] = np.where(exists[FALL], u + change, 1.0)
        budget_slack = np.where(limited, np.maximum(tau - u.sum(axis=1), 0.01 * tau), 1.0)
        budget_dual = np.where(limited, _START / budget_slack, 0.0)
        scale = np.maximum(np.abs(problem.caps), 1e-2)
        cap_slack = np.maximum(problem.caps - w @ problem.rows.T, 0.1 * scale)
        gradient = problem.risk(w) - problem.returns
        one_sided = exists[LOWER] & ~exists[UPPER]
        least = np.where(one_sided, gradient, np.inf).min(axis=1)
        nu = np.where(np.isfinite(least), _START - least, -gradient.mean(axis=1))
        pull = gradient + nu[:, None]
        dual = np.empty((4, H, N))
        dual[LOWER] = np.where(exists[UPPER], np.maximum(pull, 0.0) + _START, np.maximum(pull, _START))
        dual[UPPER] = np.maximum(-pull, 0.0) + _START
        dual[RISE] = dual[FALL] = 0.5 * (problem.cost + budget_dual[:, None])
        dual *= exists
        return _Point(w, u, nu, slack, dual, budget_slack, budget_dual, cap_slack, _START / cap_slack)

    # ---- where it is -----------------------------------------------------------------------------------------------

    def _mean_product(self) -> float:
        point = self.point
        total = np.vdot(point.slack, point.dual) + point.budget_slack @ point.budget_dual
        return float(total + np.vdot(point.cap_slack, point.cap_dual)) / self._count

    def _measure(self) -> None:
        """The residuals of the KKT conditions."""
        problem, point = self.problem, self.point
        exists, limited, dual, w, u = problem.exists, problem.limited, point.dual, point.w, point.u
        change = w - before(w, problem.previous)
        self._row_gap = np.empty_like(point.slack)
        for kind, value in (
            (LOWER, w - problem.lower),
            (RISE, u - change),
            (FALL, u + change),
            (UPPER, problem.upper - w),
        ):
            self._row_gap[kind] = np.where(exists[kind], value - point.slack[kind], 0.0)
        self._total_gap = 1.0 - w.sum(axis=1)
        self._budget_gap = np.where(limited, problem.turnover - u.sum(axis=1) - point.budget_slack, 0.0)
        self._cap_gap = problem.caps - w @ problem.rows.T - point.cap_slack
        gap = problem.risk(w) - problem.returns + point.nu[:, None] - dual[LOWER] + dual[UPPER]
        gap += forward_pull(dual[RISE] - dual[FALL]) + point.cap_dual @ problem.rows
        gap[:, problem.fixed] = 0.0
        self._w_gap = gap
        self._u_gap = np.where(exists[RISE], problem.cost - dual[RISE] - dual[FALL] + point.budget_dual[:, None], 0.0)
        parts = (self._row_gap, self._total_gap, self._budget_gap, self._cap_gap)
        self.primal = max(float(np.abs(part).max(initial=0.0)) for part in parts)
        self.dual = max(float(np.abs(gap).max()), float(np.abs(self._u_gap).max()))

    # ---- a step ----------------------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """One predictor-corrector step; False where the matrix cannot be factored."""
        problem, point = self.problem, self.point
        if not self._factor():
            return False
        exists = problem.exists
        products = point.slack * point.dual
        budget_products = point.budget_slack * point.budget_dual
        cap_products = point.cap_slack * point.cap_dual
        step = self._direction(products, budget_products, cap_products)
        primal, dual = self._lengths(step, 1.0)
        reached = (
            np.vdot(point.slack + primal * step.slack, point.dual + dual * step.dual)
            + (point.budget_slack + primal * step.budget_slack) @ (point.budget_dual + dual * step.budget_dual)
            + np.vdot(point.cap_slack + primal * step.cap_slack, point.cap_dual + dual * step.cap_dual)
        )
        centring = (float(reached) / self._count / self.level) ** 3 * self.level
        step = self._direction(
            products + (step.slack * step.dual - centring) * exists,
            budget_products + np.where(problem.limited, step.budget_slack * step.budget_dual - centring, 0.0),
            cap_products + step.cap_slack * step.cap_dual - centring,
        )
        primal, dual = self._lengths(step, _BOUNDARY)
        for name in ("w", "u", "slack", "budget_slack", "cap_slack"):
            getattr(point, name).__iadd__(primal * getattr(step, name))
        for name in ("nu", "dual", "budget_dual", "cap_dual"):
            getattr(point, name).__iadd__(dual * getattr(step, name))
        self.level = self._mean_product()
        self._measure()
        return True

    def _factor(self) -> bool:
        problem, point = self.problem, self.point
        self._inverse = 1.0 / point.slack
        weight = point.dual * self._inverse
        diagonal = problem.variance + weight[LOWER] + weight[UPPER]
        diagonal[:, problem.fixed] = FROZEN
        both = weight[RISE] + weight[FALL]
        self._give = np.divide(1.0, both, out=np.zeros_like(both), where=problem.exists[RISE])
        self._gamma = (weight[FALL] - weight[RISE]) * self._give
        springs = 4.0 * weight[RISE] * weight[FALL] * self._give
        budget = point.budget_dual / point.budget_slack
        self._kappa = budget / (1.0 + budget * self._give.sum(axis=1))
        give = np.zeros((len(budget), self.system.shape[2] + 1))
        K = problem.loadings.shape[1]
        give[:, :K] = 1.0
        give[:, K + 1 : -1] = point.cap_slack / point.cap_dual
        held = self._kappa > 0.0
        give[:, -1] = np.divide(1.0, self._kappa, out=np.ones_like(budget), where=held)
        return self.system.factor(diagonal, springs, np.where(held[:, None], self._gamma, 0.0), give)

    def _direction(self, target: _Array, budget_target: _Array, cap_target: _Array) -> _Point:
        """The step that asks each product slack · multiplier to fall by its target."""
        problem, point, inverse = self.problem, self.point, self._inverse
        exists, K = problem.exists, problem.loadings.shape[1]
        fixed_part = (target + point.dual * self._row_gap) * inverse
        budget = (budget_target + point.budget_dual * self._budget_gap) / point.budget_slack
        g = budget[:, None] - self._u_gap - fixed_part[RISE] - fixed_part[FALL]
        given = g * self._give
        pull = (self._kappa * given.sum(axis=1))[:, None]
        h = fixed_part[FALL] - fixed_part[RISE] + self._gamma * (g - pull)
        f = fixed_part[UPPER] - fixed_part[LOWER] - self._w_gap - forward_pull(h)
        b = np.zeros((len(budget), self.system.shape[2] + 1))
        b[:, K] = self._total_gap
        b[:, K + 1 : -1] = self._cap_gap + cap_target / point.cap_dual
        w, z = self.system.solve(f, b)
        w[:, problem.fixed] = 0.0
        change = w - before(w, 0.0)
        row = given - self._gamma * change
        u = row - (self._kappa * row.sum(axis=1))[:, None] * self._give
        slack = np.empty_like(point.slack)
        slack[LOWER], slack[RISE], slack[FALL], slack[UPPER] = w, u - change, u + change, -w
        slack += self._row_gap
        slack *= exists
        budget_slack = np.where(problem.limited, self._budget_gap - u.sum(axis=1), 0.0)
        return _Point(
            w,
            u,
            z[:, K],
            slack,
            -(target + point.dual * slack) * inverse,
            budget_slack,
            -(budget_target + point.budget_dual * budget_slack) / point.budget_slack,
            self._cap_gap - w @ problem.rows.T,
            z[:, K + 1 : -1],
        )

    def _lengths(self, step: _Point, keep: float) -> tuple[float, float]:
        """How far slacks and multipliers may go, of which none reaches zero."""
        point = self.point
        slacks = (
            (point.slack, step.slack),
            (point.budget_slack, step.budget_slack),
            (point.cap_slack, step.cap_slack),
        )
        duals = ((point.dual, step.dual), (point.budget_dual, step.budget_dual), (point.cap_dual, step.cap_dual))
        return _longest(slacks, keep), _longest(duals, keep)


def _longest(pairs: tuple[tuple[_Array, _Array], ...], keep: float) -> float:
    """The largest share of the moves that leaves all values at 1 − ``keep`` of theirs or more, at most 1."""
    worst = keep
    for value, move in pairs:
        if value.size:
            # A row that does not exist has multiplier 0, and 0 / 0 is no obstacle.
            worst = max(worst, -float(np.fmin.reduce(move / value, axis=None)))
    return keep / worst
