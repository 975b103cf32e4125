"""The books of a strategy, day by day."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.backtest import run_ledger
from portfolio_dfl.errors import BacktestError

HALVES = (0.5, 0.5)


def frame(rows: list[tuple[float, ...]], start: str = "2024-01-01") -> pd.DataFrame:
    dates = pd.bdate_range(start, periods=len(rows))
    return pd.DataFrame(rows, index=dates, columns=list("AB")[: len(rows[0])])


@pytest.fixture
def opposite_days() -> pd.DataFrame:
    """A day of decision, then twice the day on which A wins and B loses 10 %."""
    return frame([(0.0, 0.0), (0.1, -0.1), (0.1, -0.1)])


def test_held_weights_drift_with_returns(opposite_days):
    targets = frame([HALVES])
    ledger = run_ledger(targets, opposite_days)
    np.testing.assert_allclose(ledger.weights.iloc[1], [0.55, 0.45], rtol=1e-15)
    assert ledger.daily["wealth"].iloc[-1] == pytest.approx(1.01, abs=1e-15)


def test_rebalancing_trades_against_drifted_weights(opposite_days):
    ledger = run_ledger(frame([HALVES, HALVES]), opposite_days, cost_rate=0.001)
    assert ledger.daily["turnover"].iloc[1] == pytest.approx(0.10, abs=1e-15)
    np.testing.assert_allclose(ledger.trades.iloc[1], [-0.05, 0.05], atol=1e-15)
    assert ledger.daily["cost"].iloc[1] == pytest.approx(1e-4, abs=1e-18)


def test_the_same_day_repeated_is_flat_when_rebalanced(opposite_days):
    ledger = run_ledger(frame([HALVES, HALVES]), opposite_days)
    assert ledger.daily["wealth"].iloc[-1] == pytest.approx(1.0, abs=1e-15)


def test_costs_are_charged_once_and_only_on_days_with_trades():
    returns = frame([(0.0, 0.0)] + [(0.02, -0.01)] * 4)
    targets = pd.DataFrame([HALVES, (0.7, 0.3)], index=returns.index[[0, 2]], columns=returns.columns)
    ledger = run_ledger(targets, returns, cost_rate=0.01)
    traded = ledger.daily["turnover"] > 0.0
    assert traded.tolist() == [False, False, True, False]
    assert (ledger.daily["cost"] > 0.0).equals(traded)
    assert ledger.daily["cost"].sum() == pytest.approx(0.01 * ledger.daily["turnover"].sum(), rel=1e-15)


def test_fixed_costs_are_charged_an_order_in_units_of_the_starting_wealth():
    returns = frame([(0.0, 0.0), (1.0, 1.0), (0.0, 0.0)])
    targets = frame([(0.6, 0.4), (0.3, 0.7)])
    ledger = run_ledger(targets, returns, fixed_cost=0.01)
    # Two orders at wealth 1, then two at wealth 0.98 · 2.
    assert ledger.daily["cost"].tolist() == pytest.approx([0.02, 0.02 / 1.96], rel=1e-14)
    assert ledger.daily["wealth"].iloc[-1] == pytest.approx(1.94, rel=1e-14)


def test_an_asset_left_alone_is_not_an_order():
    returns = pd.DataFrame(np.zeros((2, 3)), index=pd.bdate_range("2024-01-01", periods=2), columns=list("ABC"))
    targets = pd.DataFrame([(0.5, 0.2, 0.3)], index=returns.index[:1], columns=list("ABC"))
    ledger = run_ledger(targets, returns, initial=np.array([0.4, 0.3, 0.3]))
    assert ledger.daily["orders"].tolist() == [2]


def test_the_noise_of_a_solver_at_rest_is_not_a_trade(opposite_days):
    targets = frame([HALVES, (0.55 + 1e-9, 0.45 - 1e-9)])
    ledger = run_ledger(targets, opposite_days, cost_rate=0.01, fixed_cost=0.01)
    assert (ledger.daily[["turnover", "orders", "cost"]] == 0.0).all(axis=None)
    assert ledger.daily["wealth"].iloc[-1] == pytest.approx(1.01, abs=1e-15)


def test_a_decision_earns_the_next_return():
    returns = frame([(0.5, 0.5), (0.1, 0.0), (0.0, 0.2)])
    targets = frame([(1.0, 0.0), (0.0, 1.0), (1.0, 0.0)])
    ledger = run_ledger(targets, returns)
    assert ledger.daily.index.equals(returns.index[1:])
    assert ledger.daily["gross_return"].tolist() == [0.1, 0.2]


def test_with_a_lag_a_decision_earns_the_return_after_the_next():
    returns = frame([(0.0, 0.0), (0.1, 0.0), (0.0, 0.2), (0.3, 0.0)])
    targets = frame([(1.0, 0.0), (0.0, 1.0), (1.0, 0.0)])
    ledger = run_ledger(targets, returns, lag=1)
    assert ledger.daily["gross_return"].tolist() == pytest.approx([0.05, 0.0, 0.0], abs=1e-15)
    np.testing.assert_array_equal(ledger.weights.to_numpy(), [(0.5, 0.5), (1.0, 0.0), (0.0, 1.0)])


def test_with_a_lag_the_first_day_holds_what_was_held_before():
    returns = frame([(0.0, 0.0), (0.1, 0.0), (0.0, 0.2)])
    targets = frame([(1.0, 0.0), (0.0, 1.0), (0.0, 1.0)])
    ledger = run_ledger(targets, returns, lag=1)
    assert ledger.weights.iloc[0].tolist() == [0.5, 0.5]


def test_a_row_without_an_order_drifts(opposite_days):
    targets = frame([HALVES, (np.nan, np.nan)])
    ledger = run_ledger(targets, opposite_days, cost_rate=0.001)
    assert ledger.daily["cost"].tolist() == [0.0, 0.0]
    assert ledger.daily["wealth"].iloc[-1] == pytest.approx(1.01, abs=1e-15)


def test_cash_earns_its_rate_and_is_not_traded():
    returns = frame([(0.0, 0.0), (0.1, 0.1), (0.1, 0.1)])
    ledger = run_ledger(frame([(0.25, 0.25)]), returns, cash=0.02, cost_rate=0.01, initial=np.zeros(2))
    assert ledger.weights.columns.tolist() == ["A", "B", "cash"]
    assert ledger.weights["cash"].iloc[0] == 0.5
    assert ledger.daily["turnover"].iloc[0] == 0.5
    assert ledger.daily["gross_return"].iloc[0] == pytest.approx(0.06, abs=1e-15)
    np.testing.assert_allclose(ledger.weights.sum(axis=1), 1.0, rtol=1e-15)


def test_cash_may_have_a_return_a_date():
    returns = frame([(0.0, 0.0), (0.0, 0.0), (0.0, 0.0)])
    cash = pd.Series([0.0, 0.01, 0.03], index=returns.index)
    ledger = run_ledger(frame([(0.0, 0.0)]), returns, cash=cash, initial=np.zeros(2))
    assert ledger.daily["gross_return"].tolist() == [0.01, 0.03]


def test_columns_may_come_in_another_order():
    returns = frame([(0.0, 0.0), (0.1, 0.0)])
    targets = frame([(0.9, 0.1)])
    there = run_ledger(targets, returns)
    back = run_ledger(targets[["B", "A"]], returns)
    pd.testing.assert_frame_equal(there.daily, back.daily)


def test_other_costs_give_the_books_of_a_fresh_run(opposite_days):
    targets = frame([(0.8, 0.2), (0.3, 0.7)])
    fresh = run_ledger(targets, opposite_days, cost_rate=0.002, fixed_cost=0.001)
    again = run_ledger(targets, opposite_days).with_costs(cost_rate=0.002, fixed_cost=0.001)
    pd.testing.assert_frame_equal(fresh.daily, again.daily)


@pytest.mark.parametrize(
    ("weights", "what"),
    [((0.5, 0.4), "sum to 0.9"), ((np.nan, 1.0), "not finite"), ((np.inf, 0.0), "not finite")],
)
def test_targets_that_are_no_portfolio_are_refused(opposite_days, weights, what):
    with pytest.raises(BacktestError, match=what):
        run_ledger(frame([weights]), opposite_days)


def test_a_date_without_returns_is_named(opposite_days):
    with pytest.raises(BacktestError, match="2023-01-02"):
        run_ledger(frame([HALVES], start="2023-01-02"), opposite_days)


def test_assets_that_differ_are_named(opposite_days):
    with pytest.raises(BacktestError, match="'C'"):
        run_ledger(frame([HALVES]).rename(columns={"B": "C"}), opposite_days)


def test_a_missing_return_is_named(opposite_days):
    opposite_days.iloc[1, 1] = np.nan
    with pytest.raises(BacktestError, match="B returned nan on 2024-01-02"):
        run_ledger(frame([HALVES]), opposite_days)


def test_a_decision_on_the_last_date_has_nothing_to_earn(opposite_days):
    with pytest.raises(BacktestError, match="last date"):
        run_ledger(frame([HALVES], start="2024-01-03"), opposite_days)


def test_losing_everything_is_an_error_with_its_date():
    returns = frame([(0.0, 0.0), (0.6, -0.5)])
    with pytest.raises(BacktestError, match="lost everything on 2024-01-02"):
        run_ledger(frame([(-1.0, 2.0)]), returns)


def test_costs_above_the_wealth_are_an_error_with_their_date(opposite_days):
    with pytest.raises(BacktestError, match="cannot pay"):
        run_ledger(frame([(1.0, 0.0)]), opposite_days, cost_rate=1.0)


@pytest.mark.parametrize("settings", [{"cost_rate": -0.1}, {"fixed_cost": np.nan}, {"lag": 2}])
def test_settings_out_of_range_are_refused(opposite_days, settings):
    with pytest.raises(BacktestError, match=next(iter(settings))):
        run_ledger(frame([HALVES]), opposite_days, **settings)
