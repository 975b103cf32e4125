"""From a point near the optimum to the optimum, and back from it: the active set's equations under factor risk.

The active constraints are those of `kernels.polish` (weights held at bounds, trades that are not made, turnover spent,
1ᵀw = 1), and rows that meet their caps. Trades and turnover are springs in the matrix of `system`, refined against the
true equations until their bias is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portfolio_dfl.allocation.factored.interior_point import InteriorPoint
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

__all__ = ["ActiveSet", "Certificate", "Equations", "Solved", "identify", "repair", "solve_active_set", "verify"]

_Array = NDArray[np.float64]
_Signs = NDArray[np.int8]
_Mask = NDArray[np.bool_]

# Stiffness of a spring relative to the mean curvature, and of what only keeps an asset without variance from moving
# freely.
_STIFFNESS, _RIDGE = 1e6, 1e-7
_ROUNDS = 12
_ROUNDING = 1e-15


@dataclass(slots=True)
class ActiveSet:
    """hold [H, N]: −1 at the lower, 1 at the upper bound; trade [H, N]: its sign, 0 none made, 2 not charged.

    spent [H]: whether the turnover is used up; full [H, g]: whether a row meets its cap.
    """

    hold: _Signs
    trade: _Signs
    spent: _Mask
    full: _Mask

    @property
    def tied(self) -> _Mask:
        """Where w_s = w_{s−1}."""
        found: _Mask = self.trade == 0
        return found

    @property
    def sign(self) -> _Array:
        """Signs of trades whose turnover counts because it is spent, else 0."""
        return np.where((np.abs(self.trade) == 1) & self.spent[:, None], self.trade, 0).astype(np.float64)


@dataclass(slots=True)
class Solved:
    """The unknowns of an active set's equations: x [H, N] and multipliers of budget, ties, turnover and rows."""

    x: _Array
    nu: _Array
    tie: _Array
    theta: _Array
    push: _Array

    def add(self, step: tuple[_Array, ...], share: float) -> None:
        """Go a share of a step in all of them."""
        for value, move in zip((self.x, self.nu, self.tie, self.theta, self.push), step, strict=True):
            value += share * move


@dataclass(frozen=True, slots=True)
class Certificate:
    """Violations of the KKT conditions, and the least slack of an inactive or multiplier of an active row."""

    stationarity: float
    primal: float
    dual: float
    margin: float

    @property
    def worst(self) -> float:
        """The largest violation."""
        return max(self.stationarity, self.primal, self.dual)


class Equations:
    """P x + 1 ν + … = f,  1ᵀx = total,  x_s − x_{s−1} = 0 where tied,  Σ σ(x_s − x_{s−1}) = budget,  rows x = caps.

    Parameters
    ----------
    problem : FactoredProblem
    system : FactoredSystem
        It is factored for this set, and serves until another one is.
    active : ActiveSet
    """

    def __init__(self, problem: FactoredProblem, system: FactoredSystem, active: ActiveSet) -> None:
        self.problem, self.system, self.active = problem, system, active
        curvature = problem.curvature()
        stiffness = _STIFFNESS * curvature
        self._held = active.hold != 0
        self._springs = np.where(active.tied, stiffness, 0.0)
        self._sign = active.sign
        count = np.abs(self._sign).sum(axis=1)
        self._kappa = np.divide(stiffness, count, out=np.zeros_like(count), where=count > 0.0)
        size = np.square(problem.rows).sum(axis=1)
        self._strength = np.where(active.full, stiffness / np.maximum(size, 1e-300), 0.0)
        K = problem.loadings.shape[1]
        self._give = np.zeros((len(count), system.shape[2] + 1))
        self._give[:, :K] = 1.0
        self._give[:, K + 1 : -1] = np.divide(
            1.0, self._strength, out=np.full_like(self._strength, FROZEN), where=active.full
        )
        self._give[:, -1] = np.divide(1.0, self._kappa, out=np.ones_like(count), where=count > 0.0)

    def factor(self) -> bool:
        """Factor the system for this set."""
        problem = self.problem
        diagonal = np.broadcast_to(problem.variance + _RIDGE * problem.curvature(), self._held.shape)
        diagonal = np.where(self._held, FROZEN, diagonal)
        return self.system.factor(diagonal, self._springs, self._sign, self._give)

    def refine(
        self, solved: Solved, f: _Array, total: float, first: _Array | float, budget: _Array, size: float
    ) -> float:
        """Improve the unknowns until the residual is rounding beside ``size`` or stops falling; return it.

        ``total``, ``budget`` [H] and caps times ``total`` are the right-hand sides of rows, ``first`` is x_0.
        """
        caps = self.problem.caps * total
        worst, gaps = self._gaps(solved, f, total, first, budget, caps)
        K = self.problem.loadings.shape[1]
        for _ in range(_ROUNDS):
            if worst <= _ROUNDING * size:
                break
            right, gap, tie_gap, theta_gap, push_gap = gaps
            spring = self._springs * tie_gap + (self._kappa * theta_gap)[:, None] * self._sign
            right = right + forward_pull(spring) + (self._strength * push_gap) @ self.problem.rows
            right[self._held] = 0.0
            b = np.zeros_like(self._give)
            b[:, K] = gap
            dx, z = self.system.solve(right, b)
            dx[self._held] = 0.0
            change = dx - before(dx, 0.0)
            step = (
                dx,
                z[:, K],
                self._springs * (change - tie_gap),
                self._kappa * ((self._sign * change).sum(axis=1) - theta_gap),
                self._strength * (dx @ self.problem.rows.T - push_gap),
            )
            solved.add(step, 1.0)
            earlier = worst
            worst, gaps = self._gaps(solved, f, total, first, budget, caps)
            if not worst < earlier:
                solved.add(step, -1.0)
                return earlier
            if not worst < 0.25 * earlier:
                break
        return worst

    def _gaps(
        self, solved: Solved, f: _Array, total: float, first: _Array | float, budget: _Array, caps: _Array
    ) -> tuple[float, tuple[_Array, ...]]:
        problem, active = self.problem, self.active
        x = solved.x
        change = x - before(x, first)
        right = f - problem.risk(x) - solved.nu[:, None] - solved.push @ problem.rows
        right -= forward_pull(solved.tie + self._sign * solved.theta[:, None])
        right[self._held] = 0.0
        gaps = (
            right,
            total - x.sum(axis=1),
            np.where(active.tied, -change, 0.0),
            np.where(active.spent, budget - (self._sign * change).sum(axis=1), 0.0),
            np.where(active.full, caps - x @ problem.rows.T, 0.0),
        )
        return max(float(np.abs(part).max(initial=0.0)) for part in gaps), gaps


def identify(course: InteriorPoint) -> ActiveSet:
    """Read the active set off a primal-dual point: a row is active if its multiplier exceeds its slack."""
    problem, point = course.problem, course.point
    beyond = point.dual > point.slack
    hold = np.where(beyond[LOWER], -1, np.where(beyond[UPPER], 1, 0)).astype(np.int8)
    hold[:, problem.fixed] = -1
    spent = problem.limited & (point.budget_dual > point.budget_slack)
    charged = problem.exists[RISE] & (spent[:, None] | (problem.cost > 0.0))
    trade = np.where(charged, beyond[RISE].astype(np.int8) - beyond[FALL].astype(np.int8), 2).astype(np.int8)
    return ActiveSet(hold, trade, spent, point.cap_dual > point.cap_slack)


def solve_active_set(course: InteriorPoint, equations: Equations) -> Solved:
    """Solve for an active set from the solver's point, so that what is not unique stays where it was."""
    problem, point, active = course.problem, course.point, equations.active
    x = np.where(active.hold == -1, problem.lower, np.where(active.hold == 1, problem.upper, point.w))
    solved = Solved(
        x,
        point.nu.copy(),
        np.where(active.tied, point.dual[RISE] - point.dual[FALL], 0.0),
        np.where(active.spent, point.budget_dual, 0.0),
        np.where(active.full, point.cap_dual, 0.0),
    )
    traded = np.abs(active.trade) == 1
    f = problem.returns - forward_pull(np.where(traded, active.trade * problem.cost, 0.0))
    equations.refine(solved, f, 1.0, problem.previous, np.where(active.spent, problem.turnover, 0.0), 1.0)
    return solved


def verify(problem: FactoredProblem, active: ActiveSet, solved: Solved) -> tuple[Certificate, _Array]:
    """Check all conditions of optimality; also the Lagrangian's gradient [H, N] without multipliers of bounds."""
    x, theta = solved.x, solved.theta[:, None]
    change = x - before(x, problem.previous)
    traded = np.abs(active.trade) == 1
    price = np.where(traded, active.trade * (theta + problem.cost), np.where(active.tied, solved.tie, 0.0))
    pull = problem.risk(x) - problem.returns + solved.nu[:, None] + forward_pull(price) + solved.push @ problem.rows
    limited, free = problem.limited, ~problem.fixed[None, :]
    held = (active.hold != 0) & free
    loose = (active.hold == 0) & free
    turnover = (np.abs(change) * problem.counted).sum(axis=1)
    used = x @ problem.rows.T
    strict = [  # what is not to be negative: multipliers of what is active, slacks of what is not
        solved.theta[active.spent],
        (theta + problem.cost - np.abs(solved.tie))[active.tied],
        (-active.hold * pull)[held],
        solved.push[active.full],
    ]
    slacks = [
        (active.trade * change)[traded],
        (x - problem.lower)[loose],
        (problem.upper - x)[loose],
        (problem.turnover - turnover)[limited & ~active.spent],
        (problem.caps - used)[~active.full],
    ]
    equal = [
        1.0 - x.sum(axis=1),
        change[active.tied],
        (problem.turnover - turnover)[active.spent],
        (problem.caps - used)[active.full],
    ]
    primal = max(
        max(float(np.abs(part).max(initial=0.0)) for part in equal),
        max(float((-part).max(initial=0.0)) for part in slacks),
    )
    certificate = Certificate(
        float(np.abs(pull[loose]).max(initial=0.0)),
        primal,
        max(float((-part).max(initial=0.0)) for part in strict),
        min(float(part.min(initial=np.inf)) for part in (*strict, *slacks)),
    )
    return certificate, pull


def repair(problem: FactoredProblem, active: ActiveSet, solved: Solved, pull: _Array, tolerance: float) -> int:
    """Flip every decision of the active set that its own solution contradicts; return how many were flipped."""
    x, theta = solved.x, solved.theta[:, None]
    change = x - before(x, problem.previous)
    turnover = (np.abs(change) * problem.counted).sum(axis=1)
    freed = active.spent & (solved.theta < -tolerance)
    bound = problem.limited & ~active.spent & (turnover > problem.turnover + tolerance)
    trade, hold = active.trade, active.hold
    unpaid = freed[:, None] & (problem.cost <= 0.0) & problem.exists[RISE]
    joins = bound[:, None] & (trade == 2) & problem.exists[RISE]
    others = ~(unpaid | joins)
    turned = others & (np.abs(trade) == 1) & (trade * change < -tolerance)
    moved = others & (trade == 0) & ~freed[:, None]
    moved &= np.abs(solved.tie) > theta + problem.cost + tolerance
    direction = np.where(change > tolerance, 1, np.where(change < -tolerance, -1, 0))
    active.trade = np.select(
        [unpaid, joins, turned, moved], [2, direction, 0, np.where(solved.tie > 0.0, 1, -1)], trade
    ).astype(np.int8)
    active.spent = (active.spent & ~freed) | bound
    free = ~problem.fixed[None, :]
    low = free & (hold == 0) & (x < problem.lower - tolerance)
    high = free & (hold == 0) & (x > problem.upper + tolerance)
    leaves = free & (hold != 0) & (hold * pull > tolerance)
    active.hold = np.select([low, high, leaves], [-1, 1, 0], hold).astype(np.int8)
    used = x @ problem.rows.T
    off = active.full & (solved.push < -tolerance)
    on = ~active.full & (used > problem.caps + tolerance)
    active.full = (active.full & ~off) | on
    return int(sum(int(part.sum()) for part in (freed, bound, turned, moved, low, high, leaves, off, on)))
