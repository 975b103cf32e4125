"""The covariance of assets among which one is known to have no risk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from portfolio_dfl.risk.covariance import CovarianceEstimate, CovarianceEstimator, FloatArray, WindowEstimator

__all__ = ["BesideRiskless"]


@dataclass(frozen=True)
class BesideRiskless(WindowEstimator):
    """An estimator of all assets but one, which has variance 0: neither ridge nor shrinkage gives it any.

    Parameters
    ----------
    estimator : CovarianceEstimator
        Of the others.
    place : int
        Column of the asset without risk, such as cash.
    """

    estimator: CovarianceEstimator
    place: int

    @property
    def window(self) -> int:  # type: ignore[override]
        """Number of returns an estimate uses."""
        return self.estimator.window

    def estimate_many(self, windows: FloatArray) -> CovarianceEstimate:
        """Covariances [T, N, N] of many windows [T, W, N] at once, with the shrinkage used."""
        others = self.estimator.estimate_many(np.ascontiguousarray(np.delete(windows, self.place, axis=2)))
        covariance = np.insert(np.insert(others.covariance, self.place, 0.0, axis=1), self.place, 0.0, axis=2)
        return others._replace(covariance=covariance)
