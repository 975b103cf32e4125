"""What each baseline decides where the answer is known."""

from __future__ import annotations

import itertools
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from portfolio_dfl.backtest import Policy, roll, run_ledger
from portfolio_dfl.backtest.baselines import (
    BuyAndHold,
    EqualWeight,
    HistoricalMeanVariance,
    MinimumVariance,
    PerfectForesight,
    RiskParity,
)
from portfolio_dfl.backtest.risk_budget import equal_risk_weights
from portfolio_dfl.errors import BacktestError
from portfolio_dfl.risk import RollingCovariance

EQUAL = np.full(4, 0.25)


def baselines(market: pd.DataFrame, **limits: float) -> list[Policy]:
    return [
        EqualWeight(),
        BuyAndHold(),
        MinimumVariance(**limits),
        RiskParity(**limits),
        HistoricalMeanVariance(horizon=2, mean_window=20, **limits),
        PerfectForesight(market, horizon=2, **limits),
    ]


def policy_fields(policy: Policy) -> dict:
    return {field.name: getattr(policy, field.name) for field in fields(policy) if field.init}


def test_baselines_are_policies_with_different_names(market):
    policies = baselines(market)
    assert all(isinstance(policy, Policy) for policy in policies)
    assert len({policy.name for policy in policies}) == len(policies)


def test_weights_are_long_only_fully_invested_and_within_the_turnover_limit(market):
    for policy in baselines(market, turnover_limit=0.1):
        weights = roll(policy, market, start=market.index[25])
        assert weights.to_numpy().min() >= 0.0, policy.name
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-9, err_msg=policy.name)
        turnover = run_ledger(weights, market).daily["turnover"]
        if not isinstance(policy, EqualWeight):
            assert turnover.max() <= 0.1 + 1e-7, policy.name


def test_equal_weight_restores_one_over_n(market):
    assert (roll(EqualWeight(), market) == 0.25).all(axis=None)


def test_buy_and_hold_never_trades_again(market):
    ledger = run_ledger(roll(BuyAndHold(), market), market)
    assert (ledger.daily["orders"] == 0).all()
    bought = (1.0 + market.iloc[1:]).prod().mean()
    assert ledger.daily["wealth"].iloc[-1] == pytest.approx(bought, rel=1e-12)


def test_buy_and_hold_starts_anew_on_another_walk(market):
    policy = BuyAndHold()
    cash_like = np.array([1.0, 0.0, 0.0, 0.0])
    first, again = (roll(policy, market, initial=cash_like) for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    assert (first.iloc[0] == 0.25).all()


def least_variance(covariance: np.ndarray) -> np.ndarray:
    """Long-only minimum by trying every set of held assets, each in closed form."""
    best, best_variance = EQUAL, np.inf
    for size in range(1, 5):
        for held in itertools.combinations(range(4), size):
            inverse = np.linalg.solve(covariance[np.ix_(held, held)], np.ones(size))
            weights = np.zeros(4)
            weights[list(held)] = inverse / inverse.sum()
            variance = weights @ covariance @ weights
            if weights.min() >= 0.0 and variance < best_variance:
                best, best_variance = weights, variance
    return best


def test_minimum_variance_has_the_least_variance(market):
    estimator = RollingCovariance(30, ridge=0.0)
    weights = MinimumVariance(estimator).decide(market.iloc[:50], EQUAL)
    expected = least_variance(estimator(market.to_numpy()[20:50]))
    np.testing.assert_allclose(weights, expected, atol=1e-7)


def test_risk_parity_goes_towards_its_target_as_far_as_it_may(market):
    target = equal_risk_weights(RollingCovariance()(market.to_numpy()[30:50]))
    free = RiskParity().decide(market.iloc[:50], EQUAL)
    limited = RiskParity(turnover_limit=0.05).decide(market.iloc[:50], EQUAL)
    np.testing.assert_allclose(free, target, rtol=1e-12)
    assert np.abs(limited - EQUAL).sum() == pytest.approx(0.05, rel=1e-12)
    np.testing.assert_allclose((limited - EQUAL) / 0.05, (free - EQUAL) / np.abs(free - EQUAL).sum(), atol=1e-12)


def best_weights(mean: np.ndarray, covariance: np.ndarray, risk_aversion: float) -> np.ndarray:
    """Long-only mean-variance weights by a general-purpose solver."""
    scale = 1e4
    found = minimize(
        lambda w: scale * (0.5 * risk_aversion * w @ covariance @ w - mean @ w),
        EQUAL,
        jac=lambda w: scale * (risk_aversion * covariance @ w - mean),
        bounds=[(0.0, 1.0)] * 4,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": lambda w: np.ones(4)},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return found.x


def test_historical_mean_trades_mean_against_variance(market):
    estimator = RollingCovariance(30)
    policy = HistoricalMeanVariance(estimator, mean_window=40, horizon=2, risk_aversion=25.0)
    values = market.to_numpy()[:60]
    expected = best_weights(values[20:].mean(axis=0), estimator(values[30:]), 25.0)
    np.testing.assert_allclose(policy.decide(market.iloc[:60], EQUAL), expected, atol=1e-5)


def test_perfect_foresight_trades_the_next_return_against_what_is_to_be_realised(market):
    realised = RollingCovariance(10)
    policy = PerfectForesight(market, realised, risk_aversion=200.0)
    values = market.to_numpy()
    expected = best_weights(values[60], realised(values[60:70]), 200.0)
    np.testing.assert_allclose(policy.decide(market.iloc[:60], EQUAL), expected, atol=1e-5)


def test_perfect_foresight_is_ahead_of_every_other_baseline(market):
    wealth = {
        policy.name: run_ledger(roll(policy, market, start=market.index[25]), market).daily["wealth"].iloc[-1]
        for policy in baselines(market, turnover_limit=0.3)
    }
    assert max(wealth, key=wealth.__getitem__) == "perfect foresight (ceiling)"


@pytest.mark.parametrize("place", [2, 4, 5])
def test_plans_that_count_trading_costs_trade_less_and_stop_where_nothing_is_worth_them(market, place):
    """Strategies that learn may count costs in their plan; what they are compared with then counts them too."""
    turnover = []
    for cost in (0.0, 1e-4, 0.5):
        policy = baselines(market, turnover_limit=0.3)[place]
        policy = type(policy)(**{**policy_fields(policy), "transaction_cost": cost})
        weights = roll(policy, market, start=market.index[25], end=market.index[60])
        turnover.append(run_ledger(weights, market).daily["turnover"].iloc[:36].sum())
    assert turnover[0] > turnover[1] > 100 * turnover[2]


def test_perfect_foresight_shortens_its_plan_at_the_end_and_then_holds(market):
    policy = PerfectForesight(market, horizon=5)
    assert policy.decide(market.iloc[:-1], EQUAL) is not None
    assert policy.decide(market, EQUAL) is None


def test_perfect_foresight_of_other_dates_is_refused(market):
    with pytest.raises(BacktestError, match="was not given the returns around 2021-05-07"):
        PerfectForesight(market.iloc[:60]).decide(market, EQUAL)


@pytest.mark.parametrize("policy", [MinimumVariance(), RiskParity(), HistoricalMeanVariance()], ids=lambda p: p.name)
def test_a_history_shorter_than_the_window_says_to_start_later(market, policy):
    with pytest.raises(BacktestError, match="start later"):
        roll(policy, market, start=market.index[5])


def test_a_horizon_of_no_days_is_refused():
    with pytest.raises(BacktestError, match="horizon"):
        HistoricalMeanVariance(horizon=0)
