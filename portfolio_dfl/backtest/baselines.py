"""Strategies without a learned forecast, under the same constraints and in the same ledger as the others."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.backtest.constrained import FirstStep
from portfolio_dfl.backtest.frames import equal_weights
from portfolio_dfl.errors import BacktestError
from portfolio_dfl.risk import CovarianceEstimator, RollingCovariance

__all__ = ["BuyAndHold", "EqualWeight", "MinimumVariance"]

FloatArray = NDArray[np.float64]


class _NothingToLearn:
    def fit(self, history: pd.DataFrame) -> None:
        """Nothing is learned ahead of a decision."""


@dataclass
class EqualWeight(_NothingToLearn):
    """1/N in every asset, restored at every decision (DeMiguel, Garlappi and Uppal 2009)."""

    name: str = "1/N daily"

    def decide(self, history: pd.DataFrame, held: FloatArray) -> FloatArray:
        """Equal weights, whatever was held."""
        return equal_weights(held.size)


@dataclass
class BuyAndHold(_NothingToLearn):
    """1/N bought at the first decision and never touched again; a date not after the last one starts anew."""

    name: str = "1/N buy and hold"
    _last_asked: pd.Timestamp | None = field(default=None, init=False, repr=False)

    def decide(self, history: pd.DataFrame, held: FloatArray) -> FloatArray | None:
        """Equal weights the first time, no order ever after."""
        today = history.index[-1]
        first = self._last_asked is None or today <= self._last_asked
        self._last_asked = today
        return equal_weights(held.size) if first else None


@dataclass
class MinimumVariance(_NothingToLearn):
    """The portfolio of least variance, long only, fully invested, within the turnover limit.

    Parameters
    ----------
    covariance : CovarianceEstimator
        Estimator of the covariance from the returns up to the decision.
    turnover_limit : float
        Largest ‖w − held‖₁ of a decision; ``inf`` for none.
    """

    covariance: CovarianceEstimator = field(default_factory=RollingCovariance)
    turnover_limit: float = np.inf
    name: str = "minimum variance"

    def __post_init__(self) -> None:
        self._first_step = FirstStep(risk_aversion=1.0, turnover_limit=self.turnover_limit)

    def decide(self, history: pd.DataFrame, held: FloatArray) -> FloatArray:
        """Least-variance weights given the covariance of the last window."""
        covariance = self.covariance(recent(history, self.covariance.window))
        return self._first_step(np.zeros((1, held.size)), covariance, held)


def recent(history: pd.DataFrame, window: int) -> FloatArray:
    """The last ``window`` returns [window, N]; BacktestError where the history is shorter."""
    if len(history) < window:
        raise BacktestError(
            f"a decision on {history.index[-1].date()} needs {window} returns and there are {len(history)}: "
            "start later, or shorten the window"
        )
    return history.iloc[-window:].to_numpy(dtype=np.float64)
