"""A limit on the tracking error: the penalty whose multiplier makes it hold, and how that moves with the arguments.

(w_s − b)ᵀΣ_s(w_s − b) ≤ ε² is no linear constraint, but with its multiplier λg_s/2 it is a penalty, and the plan with
penalties is a quadratic program again: Σ_s becomes (1 + g_s)Σ_s and r_s becomes r_s + λg_sΣ_s b. The multipliers
maximise the concave dual function, whose gradient is how much each stage's tracking error exceeds the limit, and whose
second derivatives the plan's own derivatives give: Newton's method with a line search finds them (Boyd and
Vandenberghe, *Convex Optimization*, 2004, sections 5.5 and 9.5).

At the solution g depends on the arguments by the implicit function theorem; one Newton step that is zero in value
carries those derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from portfolio_dfl.allocation.limits import Limit, Limits, benchmark_weights, require_benchmark
from portfolio_dfl.allocation.refusals import name_element
from portfolio_dfl.errors import AllocationError
from portfolio_dfl.scalars import require_number

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PenalisedPlan", "TrackingErrorLimit", "plan_within"]

_Array = NDArray[np.float64]

#: Weights [b, H, N] from expected returns [b, H, N] and covariances [b, H, N, N] of the batch elements named [b].
PenalisedPlan = Callable[[Tensor, Tensor, Tensor], Tensor]

# Of (tracking error / limit)² − 1, and what is taken where arithmetic allows no better.
_EXACT, _GOOD = 1e-10, 1e-8
_MOST_ITERATIONS = 80
_MOST_CUTS = 30
# Penalties, in multiples of λ, beyond which no portfolio is within the limit.
_HOPELESS = 1e10


@dataclass(frozen=True)
class TrackingErrorLimit(Limit):
    """√((w_s − benchmark)ᵀΣ_s(w_s − benchmark)) ≤ limit at every stage, in the units of the covariance.

    With the covariance of daily returns, 0.0025 is 4 % a year. It is measured by the covariance that the plan is given.
    """

    benchmark: Sequence[float]
    limit: float

    def __post_init__(self) -> None:
        require_benchmark("TrackingErrorLimit", self.benchmark)
        require_number(AllocationError, "TrackingErrorLimit.limit", self.limit, above=0.0)

    def apply(self, limits: Limits) -> None:
        if limits.tracking_error is not None:
            raise AllocationError("a plan has one limit on the tracking error: give one, against one benchmark")
        limits.tracking_error = (benchmark_weights(self.benchmark, limits.lower.shape[0]), float(self.limit))


def plan_within(
    plan: PenalisedPlan,
    returns: Tensor,
    covariance: Tensor,
    aversion: Tensor,
    tracking_error: tuple[_Array, float],
    dates: Sequence[object] | pd.DatetimeIndex | None,
) -> tuple[Tensor, Tensor]:
    """Arguments with the penalties that keep every stage within the limit: expected returns and covariances.

    Parameters
    ----------
    plan : callable
        The plan without the limit.
    returns : Tensor [B, H, N]
    covariance : Tensor [B, 1 or H, N, N]
        Symmetric.
    aversion : Tensor [1] or [B]
        λ.
    tracking_error : (array [N], float)
        Benchmark and limit.
    dates : sequence of B labels, optional

    Returns
    -------
    (Tensor [B, H, N], Tensor [B, H, N, N])
        Differentiable; the plan at these arguments is the plan within the limit.

    Raises
    ------
    AllocationError
        If no plan is within it.
    """
    B, H, _ = returns.shape
    problem = _Problem(
        plan, returns, covariance.expand(-1, H, -1, -1), aversion.reshape(-1, 1).expand(B, H), *tracking_error
    )
    penalties, slopes = _search(problem, dates)
    everyone = torch.arange(B)
    if not torch.is_grad_enabled() or not (penalties > 0.0).any():
        return problem.penalised(torch.from_numpy(penalties), everyone)
    fixed = torch.from_numpy(penalties)
    beyond = problem.excess(plan(*problem.penalised(fixed, everyone), everyone), everyone)
    step = torch.einsum("bsr,br->bs", torch.from_numpy(_inverses(slopes, penalties > 0.0)), beyond)
    return problem.penalised(fixed - (step - step.detach()), everyone)


@dataclass(frozen=True)
class _Problem:
    """Plans with penalties, and by how much they exceed the limit."""

    plan: PenalisedPlan
    returns: Tensor
    covariance: Tensor
    aversion: Tensor
    benchmark: _Array
    limit: float

    def penalised(self, penalties: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Arguments of the plan with penalties [b, H] of these rows."""
        covariance = self.covariance[rows]
        pull = (self.aversion[rows] * penalties)[..., None] * (covariance @ torch.from_numpy(self.benchmark))
        return self.returns[rows] + pull, (1.0 + penalties)[..., None, None] * covariance

    def excess(self, weights: Tensor, rows: Tensor) -> Tensor:
        """(tracking error / limit)² − 1 of every stage, [b, H]."""
        away = weights - torch.from_numpy(self.benchmark)
        squared = torch.einsum("bhi,bhij,bhj->bh", away, self.covariance[rows], away)
        return squared / self.limit**2 - 1.0

    def evaluate(self, penalties: _Array, rows: NDArray[np.int64], *, slopes: bool = True) -> tuple[_Array, _Array]:
        """Excess [b, H] and its derivatives [b, H, H] by the penalties."""
        where = torch.from_numpy(rows)
        with torch.no_grad():
            returns, covariance = self.penalised(torch.from_numpy(penalties), where)
        if not slopes:
            with torch.no_grad():
                return self.excess(self.plan(returns, covariance, where), where).numpy(), np.empty(0)
        with torch.enable_grad():
            returns.requires_grad_()
            weights = self.plan(returns, covariance, where)
            # The derivative of the excess itself: of weights alone, covariances standing still.
            away = (weights - torch.from_numpy(self.benchmark)).detach()
            marginal = torch.einsum("bhij,bhj->bhi", self.covariance[where].detach(), away)
            derivatives = torch.empty(*penalties.shape, penalties.shape[1], dtype=torch.float64)
            for stage in range(penalties.shape[1]):
                total = (weights[:, stage] * marginal[:, stage]).sum()
                (moved,) = torch.autograd.grad(total, returns, retain_graph=True)
                derivatives[:, stage] = -(moved * marginal).sum(-1)
            scale = 2.0 * self.aversion[where].detach() / self.limit**2
            excess = self.excess(weights.detach(), where).detach()
        return excess.numpy(), (derivatives * scale[:, None, :]).numpy()


def _search(problem: _Problem, dates: Sequence[object] | pd.DatetimeIndex | None) -> tuple[_Array, _Array]:
    """Penalties [B, H] that maximise the dual function, and the derivatives [B, H, H] of the excess by them."""
    B, H = problem.returns.shape[:2]
    penalties, slopes = np.zeros((B, H)), np.zeros((B, H, H))
    left = np.arange(B)
    best = np.full(B, np.inf)
    for _ in range(_MOST_ITERATIONS):
        excess, derivatives = problem.evaluate(penalties[left], left)
        slopes[left] = derivatives
        missed = np.where(penalties[left] > 0.0, np.abs(excess), np.maximum(excess, 0.0)).max(axis=1)
        stuck = (missed <= _GOOD) & (missed > 0.5 * best[left])
        best[left] = np.minimum(best[left], missed)
        going = (missed > _EXACT) & ~stuck
        if not going.any():
            return penalties, slopes
        left, excess, derivatives = left[going], excess[going], derivatives[going]
        hopeless = penalties[left].max(axis=1) > _HOPELESS
        if hopeless.any():
            raise _no_plan(problem, int(left[hopeless][0]), excess[hopeless][0], dates)
        steps = np.stack([_newton(*each) for each in zip(penalties[left], excess, derivatives, strict=True)])
        penalties[left] = _along(problem, left, penalties[left], steps, excess)
    raise _no_plan(problem, int(left[0]), excess[0], dates)


def _newton(penalties: _Array, excess: _Array, slopes: _Array) -> _Array:
    """Newton's step [H] to penalties that are not negative, of a length that can be trusted."""
    from scipy.optimize import nnls

    # The highest point of the dual function's parabola over y ≥ 0, as a least squares problem in y.
    values, vectors = np.linalg.eigh(-0.5 * (slopes + slopes.T))
    roots = np.sqrt(np.maximum(values, max(1e-12 * values.max(initial=0.0), 1e-14)))
    factor = roots[:, None] * vectors.T
    step: _Array = nnls(factor, factor @ penalties + (vectors.T @ excess) / roots)[0] - penalties
    reach = 10.0 * max(1.0, float(penalties.max()))
    return step * min(1.0, reach / max(float(np.abs(step).max()), np.finfo(np.float64).tiny))


def _along(problem: _Problem, rows: NDArray[np.int64], start: _Array, steps: _Array, excess: _Array) -> _Array:
    """Penalties [b, H] near the dual function's highest point on the way from ``start`` along ``steps``.

    Its derivative along the way falls; where it is still positive at the end, the end is taken.
    """
    low, high = np.zeros(len(rows)), np.ones(len(rows))
    first = (excess * steps).sum(axis=1)
    at, rise = high.copy(), first.copy()
    found = start.copy()
    going = np.arange(len(rows))
    for _ in range(_MOST_CUTS):
        tried = np.maximum(start[going] + at[going, None] * steps[going], 0.0)
        found[going] = tried
        ahead = (problem.evaluate(tried, rows[going], slopes=False)[0] * steps[going]).sum(axis=1)
        known = first[going] > 0.0  # but for rounding, at the end of the search
        beyond = known & (ahead < -0.3 * first[going])
        short = known & (ahead > 0.3 * first[going]) & (at[going] < high[going])
        low[going[short]], rise[going[short]] = at[going[short]], ahead[short]
        high[going[beyond]] = at[going[beyond]]
        open_ = beyond | short
        if not open_.any():
            break
        # Between where it rises and where it falls: by the secant, but never near an end.
        falls = np.where(beyond, rise[going] - ahead, np.inf)
        share = np.where(beyond, np.clip(rise[going] / falls, 0.1, 0.9), 0.5)
        at[going] = low[going] + share * (high[going] - low[going])
        going = going[open_]
    return found


def _inverses(slopes: _Array, active: NDArray[np.bool_]) -> _Array:
    """Inverse of the derivatives [B, H, H] among active stages; zero elsewhere, and where nothing can move."""
    found = np.zeros_like(slopes)
    for element, among in enumerate(active):
        if among.any():
            where = np.ix_(among, among)
            found[element][where] = np.linalg.pinv(slopes[element][where], rcond=1e-12)
    return found


def _no_plan(
    problem: _Problem, element: int, excess: _Array, dates: Sequence[object] | pd.DatetimeIndex | None
) -> AllocationError:
    stage = int(excess.argmax())
    reached = problem.limit * float(np.sqrt(1.0 + excess[stage]))
    return AllocationError(
        f"{name_element(element, dates)}: no plan was found within the tracking error of {problem.limit:g}: the "
        f"nearest reaches {reached:.6g} at stage {stage + 1}; start nearer to the benchmark, or raise that limit or "
        "the turnover limit"
    )
