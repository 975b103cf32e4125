"""Covariance estimators, causal and positive semidefinite by construction."""

from __future__ import annotations

from portfolio_dfl.risk.covariance import (
    CovarianceEstimate,
    CovarianceEstimator,
    CovariancePath,
    EWMACovariance,
    RollingCovariance,
    covariance_path,
    covariance_pieces,
    estimate_path,
)
from portfolio_dfl.risk.factor import FactorCovariance
from portfolio_dfl.risk.factor_models import StatisticalFactors
from portfolio_dfl.risk.factor_path import factor_path
from portfolio_dfl.risk.given_factors import GivenFactors
from portfolio_dfl.risk.learned import LearnedCovarianceScaling
from portfolio_dfl.risk.shrinkage import OAS, LedoitWolf

__all__ = [
    "OAS",
    "CovarianceEstimate",
    "CovarianceEstimator",
    "CovariancePath",
    "EWMACovariance",
    "FactorCovariance",
    "GivenFactors",
    "LearnedCovarianceScaling",
    "LedoitWolf",
    "RollingCovariance",
    "StatisticalFactors",
    "covariance_path",
    "covariance_pieces",
    "estimate_path",
    "factor_path",
]
