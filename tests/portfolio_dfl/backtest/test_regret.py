"""Distance from the best decision in hindsight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.allocation.limits import BoxLimits
from portfolio_dfl.backtest import roll, run_ledger
from portfolio_dfl.backtest.baselines import EqualWeight, MinimumVariance, PerfectForesight, RiskParity
from portfolio_dfl.backtest.regret import decision_regret
from portfolio_dfl.errors import AllocationError, BacktestError
from portfolio_dfl.risk import RollingCovariance

REALISED = RollingCovariance(10, ridge=0.0)


def regret_of(policy, market, limit=np.inf, risk_aversion=50.0):
    ledger = run_ledger(roll(policy, market, start=market.index[25]), market)
    return decision_regret(ledger, market, risk_aversion=risk_aversion, turnover_limit=limit, realised=REALISED)


def test_perfect_foresight_has_no_regret(market):
    policy = PerfectForesight(market, REALISED, risk_aversion=50.0, turnover_limit=0.2)
    table = regret_of(policy, market, limit=0.2)
    np.testing.assert_allclose(table["regret"], 0.0, atol=1e-9)


@pytest.mark.parametrize(
    "policy", [MinimumVariance(turnover_limit=0.2), RiskParity(turnover_limit=0.2)], ids=lambda p: p.name
)
def test_a_strategy_within_the_limit_is_never_better_than_hindsight(market, policy):
    table = regret_of(policy, market, limit=0.2)
    assert table["regret"].min() >= -1e-10
    assert table["regret"].mean() > 1e-4


def test_almost_without_risk_aversion_the_best_is_the_asset_that_won(market):
    table = regret_of(EqualWeight(), market, risk_aversion=1e-6)
    days = table.index
    np.testing.assert_allclose(table["best_loss"], -market.loc[days].max(axis=1), atol=1e-9)
    np.testing.assert_allclose(table["loss"], -market.loc[days].mean(axis=1), atol=1e-9)


def test_an_asset_may_be_named_like_the_column_that_cash_would_be_kept_in(market):
    renamed = market.rename(columns={market.columns[0]: "cash"})
    np.testing.assert_array_equal(regret_of(EqualWeight(), renamed), regret_of(EqualWeight(), market))


def test_days_whose_realised_covariance_is_not_known_yet_are_left_out(market):
    table = regret_of(EqualWeight(), market)
    assert table.index[0] == market.index[26]
    assert table.index[-1] == market.index[-10]


def test_the_realised_covariance_starts_on_the_day(market):
    table = regret_of(EqualWeight(), market)
    covariance = np.cov(market.to_numpy()[40:50], rowvar=False)
    expected = 25.0 * covariance.mean() - market.iloc[40].mean()
    assert table["loss"].loc[market.index[40]] == pytest.approx(expected, rel=1e-10)


def test_a_ledger_with_cash_is_refused(market):
    targets = pd.DataFrame(0.2, index=market.index[:1], columns=market.columns)
    with pytest.raises(BacktestError, match="cash"):
        decision_regret(run_ledger(targets, market, cash=0.0), market, risk_aversion=1.0)


def test_books_too_close_to_the_end_are_refused(market):
    targets = pd.DataFrame(0.25, index=market.index[-5:-4], columns=market.columns)
    with pytest.raises(BacktestError, match="20 returns after it"):
        decision_regret(run_ledger(targets, market), market, risk_aversion=1.0)


def test_days_are_judged_the_same_in_pieces_as_at_once(market, monkeypatch):
    """Covariances of many assets do not fit in memory all at once."""
    policy = MinimumVariance(turnover_limit=0.2)
    whole = regret_of(policy, market, limit=0.2)
    monkeypatch.setattr("portfolio_dfl.risk.covariance.CHUNK_NUMBERS", 400)
    pd.testing.assert_frame_equal(regret_of(policy, market, limit=0.2), whole, check_exact=True, check_freq=False)


def test_hindsight_obeys_limits_of_weights_too(market):
    book = run_ledger(roll(EqualWeight(), market, start=market.index[25]), market)
    rules = {"risk_aversion": 1e-6, "realised": REALISED}
    free = decision_regret(book, market, **rules)
    capped = decision_regret(book, market, limits=[BoxLimits(0.0, 0.5)], **rules)
    best_two = np.sort(market.loc[capped.index].to_numpy(), axis=1)[:, -2:]
    np.testing.assert_allclose(capped["best_loss"], -best_two.mean(axis=1), atol=1e-9)
    assert (capped["regret"] < free["regret"]).all()


def test_days_from_which_no_allowed_weights_can_be_reached_are_left_out(market):
    """Held weights above the largest weight, further than the turnover limit can bring them back."""
    rules = {"risk_aversion": 10.0, "realised": REALISED, "limits": [BoxLimits(0.0, 0.4)], "turnover_limit": 0.2}
    weights = pd.DataFrame(0.25, index=market.index[25:], columns=market.columns)
    weights.iloc[10] = [0.7, 0.1, 0.1, 0.1]
    book = run_ledger(weights, market)
    table = decision_regret(book, market, **rules)
    everything = decision_regret(book, market, risk_aversion=10.0, realised=REALISED)
    lost = everything.index.difference(table.index)
    assert lost.to_list() == [market.index[25 + 12]]  # decided at the close before it, from what was held by then
    stuck = run_ledger(weights.iloc[10:11], market)
    with pytest.raises(AllocationError, match="on no day"):
        decision_regret(replace(stuck, trades=0.0 * stuck.trades), market, **rules)
