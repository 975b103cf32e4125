"""What changed between two downloads of the same prices."""

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.data.comparison import compare_prices

DATES = pd.bdate_range("2022-01-03", periods=50, name="Date")


@pytest.fixture
def prices():
    noise = np.random.default_rng(2).normal(0.0, 0.01, (50, 2))
    return pd.DataFrame(100 * np.exp(np.cumsum(noise, axis=0)), index=DATES, columns=["AGG", "SPY"])


def test_the_drift_of_adjusted_histories_is_no_change(prices):
    noise = 1.0 + np.random.default_rng(3).uniform(-1e-5, 1e-5, prices.shape)
    comparison = compare_prices(prices, prices * noise)
    assert comparison.same
    assert 0.0 < comparison.drift < 5e-5


def test_a_new_dividend_rescales_the_history_before_it_and_changes_no_return(prices):
    assert compare_prices(prices, prices * [0.995, 0.98]).same


def test_a_dividend_that_appears_is_one_changed_return(prices):
    later = prices.copy()
    later.loc[: DATES[29], "AGG"] *= 1.0 - 0.003
    comparison = compare_prices(prices, later)
    assert comparison.rewrites_history
    (row,) = comparison.changed.to_dict("records")
    assert (row["ticker"], row["date"]) == ("AGG", DATES[30])
    assert row["difference"] == pytest.approx(0.003, abs=2e-4)
    assert f"AGG {DATES[30]:%Y-%m-%d}" in comparison.text()


def test_new_dates_and_tickers_extend_and_do_not_rewrite(prices):
    comparison = compare_prices(prices.iloc[:40, :1], prices)
    assert not comparison.same
    assert not comparison.rewrites_history
    assert len(comparison.added_dates) == 10
    assert comparison.added_tickers == ("SPY",)


def test_dates_and_tickers_that_are_gone_rewrite_history(prices):
    comparison = compare_prices(prices, prices.iloc[:40, :1])
    assert comparison.rewrites_history
    assert len(comparison.removed_dates) == 10
    assert comparison.removed_tickers == ("SPY",)


def test_a_price_that_appears_or_vanishes_is_a_change(prices):
    holed = prices.copy()
    holed.iloc[20, 0] = np.nan
    assert len(compare_prices(prices, holed).changed) == 2
    assert len(compare_prices(holed, prices).changed) == 2


def test_the_largest_change_comes_first(prices):
    later = prices.copy()
    later.iloc[10:, 0] *= 1.001
    later.iloc[20:, 0] *= 1.01
    assert compare_prices(prices, later).changed["date"].tolist() == [DATES[20], DATES[10]]
