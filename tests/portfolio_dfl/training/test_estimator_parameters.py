"""Parameters of the estimator by name, those of the covariance inside it too."""

from __future__ import annotations

import pytest
from sklearn.base import clone

from portfolio_dfl.risk import EWMACovariance, RollingCovariance
from portfolio_dfl.training.estimator import DecisionFocusedPortfolio


def test_parameters_of_the_covariance_inside_can_be_set() -> None:
    estimator = DecisionFocusedPortfolio().set_params(covariance__window=60, horizon=3)
    assert (estimator.covariance, estimator.horizon) == (RollingCovariance(60), 3)
    assert clone(estimator).get_params()["covariance__window"] == 60
    estimator.set_params(covariance=EWMACovariance(), covariance__halflife=5.0)
    assert estimator.covariance == EWMACovariance(halflife=5.0)


def test_a_parameter_that_the_covariance_does_not_have_is_named() -> None:
    with pytest.raises(ValueError, match="no parameter covariance__halflife; of RollingCovariance"):
        DecisionFocusedPortfolio().set_params(covariance__halflife=5.0)
