"""What holds for every ledger, whatever the weights, returns and costs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from portfolio_dfl.allocation import drift_weights
from portfolio_dfl.backtest import run_ledger


@st.composite
def markets(draw: st.DrawFn) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Target weights on some of the dates, and returns on all of them."""
    seed = draw(st.integers(0, 2**32 - 1))
    n_assets = draw(st.integers(1, 5))
    n_days = draw(st.integers(2, 15))
    rng = np.random.default_rng(seed)
    dates = pd.bdate_range("2020-01-01", periods=n_days)
    columns = [f"asset{i}" for i in range(n_assets)]
    returns = pd.DataFrame(rng.uniform(-0.2, 0.25, (n_days, n_assets)), index=dates, columns=columns)
    decided = np.sort(rng.choice(n_days - 1, size=draw(st.integers(1, n_days - 1)), replace=False))
    targets = pd.DataFrame(rng.dirichlet(np.ones(n_assets), size=len(decided)), index=dates[decided], columns=columns)
    return targets, returns


rates = st.floats(0.0, 0.02)
lags = st.integers(0, 1)


@given(markets(), rates, rates, lags)
def test_wealth_is_the_product_of_net_returns(market, cost_rate, fixed_cost, lag):
    ledger = run_ledger(*market, cost_rate=cost_rate, fixed_cost=fixed_cost / 10, lag=lag)
    wealth = np.cumprod(1.0 + ledger.daily["net_return"].to_numpy())
    np.testing.assert_array_equal(ledger.daily["wealth"].to_numpy(), wealth)


@given(markets(), lags)
def test_turnover_is_measured_against_drifted_weights(market, lag):
    targets, returns = market
    ledger = run_ledger(targets, returns, lag=lag)
    held = np.full(returns.shape[1], 1.0 / returns.shape[1])
    for date, weights in ledger.weights.iterrows():
        trade = weights.to_numpy() - held
        np.testing.assert_allclose(ledger.daily.loc[date, "turnover"], np.abs(trade).sum(), atol=1e-14)
        np.testing.assert_allclose(ledger.trades.loc[date], trade, atol=1e-14)
        held = drift_weights(weights.to_numpy(), returns.loc[date].to_numpy())


@given(markets(), lags)
def test_weights_add_up_to_one_and_trades_to_nothing(market, lag):
    ledger = run_ledger(*market, lag=lag)
    np.testing.assert_allclose(ledger.weights.sum(axis=1), 1.0, rtol=1e-13)
    np.testing.assert_allclose(ledger.trades.sum(axis=1), 0.0, atol=1e-13)


@given(markets(), lags)
def test_gross_return_is_what_the_held_weights_earn(market, lag):
    targets, returns = market
    ledger = run_ledger(targets, returns, lag=lag)
    earned = (ledger.weights * returns.loc[ledger.weights.index]).sum(axis=1)
    np.testing.assert_allclose(ledger.daily["gross_return"], earned, atol=1e-15)


@given(markets(), rates, lags, st.randoms(use_true_random=False))
def test_the_order_of_assets_does_not_matter(market, cost_rate, lag, random):
    targets, returns = market
    columns = list(returns.columns)
    random.shuffle(columns)
    there = run_ledger(targets, returns, cost_rate=cost_rate, lag=lag)
    shuffled = run_ledger(targets[columns], returns[columns], cost_rate=cost_rate, lag=lag)
    np.testing.assert_allclose(there.daily, shuffled.daily, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(there.weights[columns], shuffled.weights, rtol=1e-12)


@given(markets(), rates, st.floats(0.0, 10.0), lags)
def test_proportional_costs_scale_with_their_rate(market, cost_rate, factor, lag):
    ledger = run_ledger(*market, cost_rate=cost_rate, lag=lag)
    scaled = run_ledger(*market, cost_rate=factor * cost_rate, lag=lag)
    np.testing.assert_allclose(scaled.daily["cost"], factor * ledger.daily["cost"], rtol=1e-12, atol=1e-300)
    pd.testing.assert_frame_equal(scaled.weights, ledger.weights)


@given(markets(), rates, lags)
def test_costs_only_ever_lower_wealth(market, cost_rate, lag):
    free = run_ledger(*market, lag=lag)
    charged = run_ledger(*market, cost_rate=cost_rate, lag=lag)
    assert (charged.daily["wealth"] <= free.daily["wealth"] * (1 + 1e-12)).all()


@given(markets(), lags)
def test_one_asset_alone_earns_its_own_return(market, lag):
    _, returns = market
    alone = returns.iloc[:, :1]
    targets = pd.DataFrame(1.0, index=returns.index[:1], columns=alone.columns)
    ledger = run_ledger(targets, alone, cost_rate=0.01, lag=lag)
    np.testing.assert_allclose(ledger.daily["net_return"], alone.iloc[1:, 0], atol=1e-15)
    assert (ledger.daily["turnover"] == 0.0).all()


@given(markets(), rates, lags)
def test_cash_that_is_never_held_changes_nothing(market, cost_rate, lag):
    plain = run_ledger(*market, cost_rate=cost_rate, lag=lag)
    with_cash = run_ledger(*market, cost_rate=cost_rate, lag=lag, cash=0.0)
    np.testing.assert_allclose(with_cash.daily, plain.daily, rtol=1e-9, atol=1e-13)


@given(markets(), rates, lags)
def test_later_returns_do_not_change_earlier_rows(market, cost_rate, lag):
    targets, returns = market
    changed = returns.copy()
    changed.iloc[-1] = 0.3
    before = run_ledger(targets, returns, cost_rate=cost_rate, lag=lag).daily
    after = run_ledger(targets, changed, cost_rate=cost_rate, lag=lag).daily
    pd.testing.assert_frame_equal(before.iloc[:-1], after.iloc[:-1])


@st.composite
def changing(draw: st.DrawFn) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Targets and returns as above, and members that come and go: the first asset stays, what leaves may be lost."""
    targets, returns = draw(markets())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    there = rng.random(returns.shape) < 0.7
    there[:, 0] = True
    members = pd.DataFrame(there, index=returns.index, columns=returns.columns)
    before = members.shift(fill_value=False)
    returns = returns.where(~(before & ~members) | (rng.random(returns.shape) < 0.5), -1.0).where(before)
    targets = targets.where(members.loc[targets.index], 0.0)
    targets["asset0"] += 1.0 - targets.sum(axis=1)
    return targets, returns, members


@given(changing(), rates, lags)
def test_wealth_adds_up_where_members_come_and_go(market, cost_rate, lag):
    targets, returns, members = market
    ledger = run_ledger(targets, returns, members=members, cost_rate=cost_rate, lag=lag)
    money, earned = 1.0, returns.fillna(0.0)
    for date, weights in ledger.weights.iterrows():
        money -= cost_rate * money * ledger.trades.loc[date].abs().sum()
        money = float((money * weights * (1.0 + earned.loc[date])).sum())
        np.testing.assert_allclose(ledger.daily.loc[date, "wealth"], money, rtol=1e-12)


@given(changing(), lags)
def test_nothing_is_held_from_a_close_on_at_which_it_is_no_member(market, lag):
    targets, returns, members = market
    ledger = run_ledger(targets, returns, members=members, lag=lag)
    before = members.shift(fill_value=False).loc[ledger.weights.index]
    assert (ledger.weights.where(~before, 0.0) == 0.0).all(axis=None)
    np.testing.assert_allclose(ledger.weights.sum(axis=1), 1.0, rtol=1e-12)


@given(changing(), rates, lags)
def test_later_members_do_not_change_earlier_rows(market, cost_rate, lag):
    targets, returns, members = market
    targets = targets.loc[targets.index < returns.index[-2]]
    assume(len(targets))
    changed = members.copy()
    changed.iloc[-2, 1:] = False  # all but one are sold at the close before the last row
    before = run_ledger(targets, returns, members=members, cost_rate=cost_rate, lag=lag)
    after = run_ledger(targets, returns, members=changed, cost_rate=cost_rate, lag=lag)
    pd.testing.assert_frame_equal(before.daily.iloc[:-1], after.daily.iloc[:-1], check_exact=True)
    assert after.weights["asset0"].iloc[-1] == pytest.approx(1.0, abs=1e-12)
