"""Strategies of skfolio, through the same books as ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["HierarchicalRisk", "ShrunkMeanVariance"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class ShrunkMeanVariance:
    """skfolio's mean-variance portfolio with James–Stein means and Ledoit–Wolf covariances, long only.

    Parameters
    ----------
    risk_aversion : float
        λ.
    cost : float
        Of a unit traded, counted over ``days`` until the next decision.
    days, window : int
        Rows between decisions, and rows learned from.
    max_weight : float
    """

    risk_aversion: float
    cost: float
    days: int = 5
    window: int = 250
    max_weight: float = 1.0

    def decide(self, history: pd.DataFrame, held: FloatArray) -> FloatArray:
        """Weights [N] at the last date of returns [T, N]."""
        from skfolio.moments import LedoitWolf, ShrunkMu
        from skfolio.optimization import MeanRisk, ObjectiveFunction
        from skfolio.prior import EmpiricalPrior

        model = MeanRisk(
            objective_function=ObjectiveFunction.MAXIMIZE_UTILITY,
            risk_aversion=0.5 * self.risk_aversion,
            prior_estimator=EmpiricalPrior(mu_estimator=ShrunkMu(), covariance_estimator=LedoitWolf()),
            max_weights=self.max_weight,
            transaction_costs=self.cost / self.days,
            previous_weights=held,
        )
        return _weights(model.fit(history.iloc[-self.window :]))


@dataclass(frozen=True)
class HierarchicalRisk:
    """skfolio's hierarchical risk parity (López de Prado 2016)."""

    window: int = 250

    def decide(self, history: pd.DataFrame, held: FloatArray) -> FloatArray:
        """Weights [N] at the last date of returns [T, N]."""
        from skfolio.optimization import HierarchicalRiskParity

        return _weights(HierarchicalRiskParity().fit(history.iloc[-self.window :]))


def _weights(model: Any) -> FloatArray:
    weights: FloatArray = np.clip(np.asarray(model.weights_, dtype=np.float64), 0.0, None)
    scaled: FloatArray = weights / weights.sum()
    return scaled
