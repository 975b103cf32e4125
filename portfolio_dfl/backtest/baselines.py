"""Strategies without a learned forecast, under the same constraints and in the same ledger as the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.allocation import Costs
from portfolio_dfl.backtest.constrained import FirstStep, Plan, Risk
from portfolio_dfl.backtest.frames import equal_weights, require_returns
from portfolio_dfl.backtest.risk_budget import equal_risk_weights
from portfolio_dfl.data.returns import compounded
from portfolio_dfl.errors import BacktestError
from portfolio_dfl.risk import CovarianceEstimator, FactorCovariance, RollingCovariance
from portfolio_dfl.risk.factor_path import estimate_now, in_parts
from portfolio_dfl.scalars import require_number, require_whole

if TYPE_CHECKING:
    from portfolio_dfl.allocation.limits import Limit

__all__ = [
    "BuyAndHold",
    "EqualWeight",
    "HistoricalMeanVariance",
    "MinimumVariance",
    "PerfectForesight",
    "PlanPolicy",
    "RiskParity",
]

FloatArray = NDArray[np.float64]


class _NothingToLearn:
    # Whether decisions look at returns that were not known: a ceiling, not a strategy.
    foresight: ClassVar[bool] = False

    def fit(self, history: pd.DataFrame) -> None:
        """Nothing is learned ahead of a decision."""


@dataclass
class EqualWeight(_NothingToLearn):
    """1/N in every asset, restored at every decision (DeMiguel, Garlappi and Uppal 2009).

    Its trades are not limited. A largest weight that leaves any portfolio at all is one that 1/N keeps.
    """

    name: str = "1/N daily"

    def decide(self, history: pd.DataFrame, held: FloatArray) -> FloatArray:
        """Equal weights, whatever was held."""
        return equal_weights(held.size)


@dataclass
class BuyAndHold(_NothingToLearn):
    """1/N bought at the first decision and never touched again; a date not after the last one starts anew.

    Its weights drift with prices, and no limit of weights binds them.
    """

    name: str = "1/N buy and hold"
    _last_asked: pd.Timestamp | None = field(default=None, init=False, repr=False)

    def decide(self, history: pd.DataFrame, held: FloatArray) -> FloatArray | None:
        """Equal weights the first time, no order ever after."""
        today = history.index[-1]
        first = self._last_asked is None or today <= self._last_asked
        self._last_asked = today
        return equal_weights(held.size) if first else None


@dataclass(kw_only=True)
class PlanPolicy(_NothingToLearn):
    """The study's multi-period plan for a forecast that nothing was trained for; :meth:`forecast` is what differs.

    Parameters
    ----------
    horizon, risk_aversion, turnover_limit, limits, transaction_cost, solver, assets
        Of the portfolio layer, as for the strategies that learn; ``inf`` is no turnover limit.
    stage : int
        Rows of returns that one stage of the plan is long: forecasts are of the returns compounded over it, and the
        covariance of one stage's return is ``stage`` times that of a row's.
    costs : Costs, optional
        All that the plan counts, in place of ``transaction_cost``.
    """

    horizon: int = 1
    risk_aversion: float = 10.0
    turnover_limit: float | Sequence[float] = np.inf
    limits: Sequence[Limit] = ()
    transaction_cost: float = 0.0
    costs: Costs | None = None
    solver: str = "auto"
    assets: Sequence[str] | None = None
    stage: int = 1

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise BacktestError(f"horizon must be at least 1 stage, got {self.horizon}")
        require_whole(BacktestError, "stage", self.stage, 1)
        self._first_step = FirstStep(
            risk_aversion=self.risk_aversion,
            turnover_limit=self.turnover_limit,
            limits=self.limits,
            transaction_cost=self.transaction_cost,
            costs=self.costs,
            solver=self.solver,
            assets=self.assets,
        )

    def forecast(self, history: pd.DataFrame) -> Plan | None:
        """Expected returns [H, N] of the stages ahead and the covariance of one; None where no day is left."""
        raise NotImplementedError

    def decide(self, history: pd.DataFrame, held: FloatArray) -> FloatArray | None:
        """First step of the plan for the forecast; no order without one."""
        known = self.forecast(history)
        return None if known is None else self._first_step.on(history.index[-1], list(history.columns), known, held)


@dataclass
class MinimumVariance(PlanPolicy):
    """The study's plan without a forecast: least variance, long only, fully invested, within the turnover limit.

    With a transaction cost a trade is made only where the variance it saves over the horizon, times λ/2, is worth it;
    λ matters only then.

    Parameters
    ----------
    covariance : CovarianceEstimator
        Estimator of the covariance from the returns up to the decision.
    horizon, risk_aversion, turnover_limit, limits, transaction_cost, solver, assets
        As of :class:`PlanPolicy`.
    """

    covariance: CovarianceEstimator = field(default_factory=RollingCovariance)
    name: str = field(default="minimum variance", kw_only=True)

    def forecast(self, history: pd.DataFrame) -> Plan:
        """No return is expected; the covariance is that of the last window."""
        risk = _risk(self.covariance, _recent(history, self.covariance.window), self.stage)
        return np.zeros((self.horizon, history.shape[1])), risk


@dataclass
class RiskParity(_NothingToLearn):
    """Every asset contributes the same risk; a decision goes as far towards it as the turnover limit allows.

    A rule of its own: beside a largest weight it knows no limit of weights, and it counts no cost.

    Parameters
    ----------
    covariance : CovarianceEstimator
        Estimator of the covariance from the returns up to the decision.
    turnover_limit : float
        Largest ‖w − held‖₁ of a decision; ``inf`` for none. A target further away is approached on the
        straight line from the weights held, whose points are all long only and fully invested.
    max_weight : float
        Largest weight of the target. A weight that prices drove beyond it comes back as far as the turnover
        limit allows.
    riskless : int, optional
        Place of an asset without risk, such as cash, which is left out of the target.
    """

    covariance: CovarianceEstimator = field(default_factory=RollingCovariance)
    turnover_limit: float = np.inf
    max_weight: float = 1.0
    name: str = "risk parity"
    riskless: int | None = None

    def __post_init__(self) -> None:
        require_number(BacktestError, "turnover_limit", self.turnover_limit, above=0.0, infinite=True)
        require_number(BacktestError, "max_weight", self.max_weight, above=0.0, most=1.0)

    def decide(self, history: pd.DataFrame, held: FloatArray) -> FloatArray:
        """Equal risk contributions given the covariance of the last window."""
        covariance = self.covariance(_recent(history, self.covariance.window))
        if self.riskless is None:
            target = equal_risk_weights(covariance, self.max_weight)
        else:
            others = np.delete(np.delete(covariance, self.riskless, axis=0), self.riskless, axis=1)
            target = np.insert(equal_risk_weights(others, self.max_weight), self.riskless, 0.0)
        step = target - held
        distance = float(np.abs(step).sum())
        return held + min(1.0, self.turnover_limit / max(distance, np.finfo(np.float64).tiny)) * step


@dataclass
class HistoricalMeanVariance(PlanPolicy):
    """The study's mean-variance plan with the mean of past returns as the forecast of every day ahead.

    Over a stage it compounds, which is the mean of the stage's return if days do not depend on each other.

    Parameters
    ----------
    covariance : CovarianceEstimator
        Estimator of the covariance from the returns up to the decision.
    mean_window : int
        Number of returns that the mean is taken over.
    horizon, risk_aversion, turnover_limit, limits, transaction_cost, solver, assets
        As of :class:`PlanPolicy`.
    """

    covariance: CovarianceEstimator = field(default_factory=RollingCovariance)
    mean_window: int = 120
    name: str = field(default="historical mean", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mean_window < 1:
            raise BacktestError(f"mean_window must be at least 1 return, got {self.mean_window}")

    def forecast(self, history: pd.DataFrame) -> Plan:
        """The mean of the last ``mean_window`` returns for every day; the covariance of the last window."""
        risk = _risk(self.covariance, _recent(history, self.covariance.window), self.stage)
        mean = _recent(history, self.mean_window).mean(axis=0)
        expected = mean if self.stage == 1 else np.power(1.0 + mean, self.stage) - 1.0
        return np.tile(expected, (self.horizon, 1)), risk


@dataclass
class PerfectForesight(PlanPolicy):
    """The same plan with the returns and the covariance that came true: a ceiling, not a strategy.

    It alone looks ahead, which ``foresight`` says. Where fewer days than the horizon are left the plan is as
    long as they are, in whole stages, or one that is cut short; the realised covariance then takes the last
    ``window`` returns there are.

    Parameters
    ----------
    returns : DataFrame, shape (T, N)
        All returns of the backtest, those after the decisions included.
    realised : CovarianceEstimator
        Estimator of the covariance realised over its window after the decision.
    horizon, risk_aversion, turnover_limit, limits, transaction_cost, solver, assets
        As of :class:`PlanPolicy`.
    """

    returns: pd.DataFrame
    realised: CovarianceEstimator = field(default_factory=lambda: RollingCovariance(20, ridge=0.0))
    name: str = field(default="perfect foresight (ceiling)", kw_only=True)

    foresight: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_returns(self.returns, total_losses=True)
        if len(self.returns) < self.realised.window:
            raise BacktestError(
                f"a realised covariance needs {self.realised.window} returns and there are {len(self.returns)}"
            )
        self._values = self.returns.to_numpy(dtype=np.float64)

    def forecast(self, history: pd.DataFrame) -> Plan | None:
        """The returns to come and their realised covariance; nothing where none are to come."""
        today = history.index[-1]
        if today not in self.returns.index:
            raise BacktestError(f"perfect foresight was not given the returns around {today.date()}")
        after = int(self.returns.index.searchsorted(today)) + 1
        days = self._values[after : after + self.horizon * self.stage]
        if len(days) == 0:
            return None
        length = min(self.stage, len(days))
        ahead = compounded(days, length)[::length]
        last = min(after + self.realised.window, len(self._values))
        return ahead, _risk(self.realised, self._values[last - self.realised.window : last], length)


def _risk(estimator: CovarianceEstimator, window: FloatArray, days: int) -> Risk:
    """Covariance of so many days, in parts where the estimator gives them and it pays."""
    if in_parts(estimator, window.shape[1]):
        found = estimate_now(estimator, window, days)
        assert isinstance(found, FactorCovariance)
        return found
    return estimator(window) * days


def _recent(history: pd.DataFrame, window: int) -> FloatArray:
    """The last ``window`` returns [window, N]; BacktestError where the history is shorter."""
    if len(history) < window:
        raise BacktestError(
            f"a decision on {history.index[-1].date()} needs {window} returns and there are {len(history)}: "
            "start later, or shorten the window"
        )
    return history.iloc[-window:].to_numpy(dtype=np.float64)
