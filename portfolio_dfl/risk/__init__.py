"""Covariance estimators, causal and positive semidefinite by construction."""

from __future__ import annotations

from portfolio_dfl.risk.covariance import (
    OAS,
    CovarianceEstimate,
    CovarianceEstimator,
    CovariancePath,
    EWMACovariance,
    LedoitWolf,
    RollingCovariance,
    covariance_path,
    estimate_path,
)
from portfolio_dfl.risk.learned import LearnedCovarianceScaling

__all__ = [
    "OAS",
    "CovarianceEstimate",
    "CovarianceEstimator",
    "CovariancePath",
    "EWMACovariance",
    "LearnedCovarianceScaling",
    "LedoitWolf",
    "RollingCovariance",
    "covariance_path",
    "estimate_path",
]
