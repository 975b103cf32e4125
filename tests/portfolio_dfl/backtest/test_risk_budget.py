"""Equal risk contributions, against skfolio and what is known of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portfolio_dfl.backtest.risk_budget import equal_risk_weights, risk_contributions
from portfolio_dfl.errors import AllocationError


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(-8.0, 2.0))
def test_every_asset_contributes_the_same_risk(seed, n_assets, exponent):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(n_assets, n_assets + 2)) * 10.0 ** rng.uniform(-1.5, 1.5, (n_assets, 1))
    covariance = 10.0**exponent * factor @ factor.T
    weights = equal_risk_weights(covariance)
    assert weights.min() > 0.0
    assert weights.sum() == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_allclose(risk_contributions(weights, covariance), 1.0 / n_assets, rtol=1e-7)


@given(st.integers(0, 2**32 - 1), st.integers(3, 8), st.floats(1.0, 1.8))
@settings(max_examples=15)
def test_weights_that_keep_a_limit_are_the_best_of_those_that_do(seed, n_assets, times):
    def objective(weights):  # the one of equal contributions, at the best scale of these weights
        return 0.5 * n_assets * np.log(weights @ covariance @ weights) - np.log(weights).sum()

    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(n_assets, n_assets + 2)) * rng.uniform(0.01, 0.1, (n_assets, 1))
    covariance, largest = factor @ factor.T, times / n_assets
    weights = equal_risk_weights(covariance, largest)
    assert weights.max() <= largest + 1e-8
    assert weights.sum() == pytest.approx(1.0, rel=1e-14)
    for other in rng.dirichlet(np.full(n_assets, 50.0), size=200):
        if other.max() <= largest:
            for share in (0.01, 0.1, 1.0):
                assert objective(weights + share * (other - weights)) >= objective(weights) - 1e-6


@pytest.mark.parametrize(("largest", "binds"), [(0.25, True), (0.3, True), (0.9, False)])
def test_with_a_largest_weight_they_are_skfolios(largest, binds):
    from skfolio.optimization import RiskBudgeting

    rng = np.random.default_rng(0)
    returns = rng.normal(size=(200, 5)) @ np.diag([0.01, 0.02, 0.03, 0.02, 0.005])
    weights = equal_risk_weights(np.cov(returns.T), largest)
    expected = RiskBudgeting(max_weights=largest).fit(pd.DataFrame(returns)).weights_
    np.testing.assert_allclose(weights, expected, atol=1e-4)
    assert (weights.max() > largest - 1e-6) == binds


def test_a_largest_weight_that_leaves_one_portfolio_or_none():
    np.testing.assert_array_equal(equal_risk_weights(np.diag([1.0, 4.0, 9.0, 16.0]), 0.25), 0.25)
    with pytest.raises(AllocationError, match=r"no portfolio of 4 assets is fully invested with weights ≤ 0\.2"):
        equal_risk_weights(np.eye(4), 0.2)


def test_uncorrelated_assets_are_held_in_inverse_proportion_to_volatility():
    volatility = np.array([0.1, 0.2, 0.4])
    expected = 1.0 / volatility / (1.0 / volatility).sum()
    np.testing.assert_allclose(equal_risk_weights(np.diag(volatility**2)), expected, rtol=1e-9)


def test_weights_are_skfolios(market: pd.DataFrame):
    from skfolio import RiskMeasure
    from skfolio.optimization import RiskBudgeting

    theirs = RiskBudgeting(risk_measure=RiskMeasure.VARIANCE).fit(market).weights_
    ours = equal_risk_weights(np.cov(market.to_numpy(), rowvar=False))
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_an_asset_without_volatility_is_named():
    with pytest.raises(AllocationError, match="asset 1 has no volatility"):
        equal_risk_weights(np.diag([1e-4, 0.0, 1e-4]))


def test_assets_that_hedge_each_other_completely_are_refused():
    with pytest.raises(AllocationError, match="without risk"):
        equal_risk_weights(1e-4 * np.array([[1.0, -1.0], [-1.0, 1.0]]))
