"""Rows a year, read off dates: what passes between rows counts, not how many rows there are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portfolio_dfl.backtest import run_ledger
from portfolio_dfl.backtest.costs import cost_levels
from portfolio_dfl.backtest.deflation import deflated_sharpe
from portfolio_dfl.backtest.evaluation import performance, periods_per_year_of
from portfolio_dfl.backtest.inference import Bootstrap, compare
from portfolio_dfl.data.sessions import sessions_between
from portfolio_dfl.errors import BacktestError

SESSIONS = sessions_between("XNYS", pd.Timestamp("2000-01-01"), pd.Timestamp("2024-12-31"))


@pytest.mark.parametrize("periods", [10, 25, 60, 400])
@pytest.mark.parametrize(
    ("frequency", "count"),
    [
        *(("B", 252), ("D", 365), ("W-FRI", 52), ("W-SUN", 52), ("2W", 26), ("4W", 13)),
        *(("BME", 12), ("MS", 12), ("2ME", 6), ("QE", 4), ("BQE", 4), ("6ME", 2)),
    ],
)
def test_the_rhythm_is_read_off_the_dates(frequency: str, count: int, periods: int) -> None:
    assert periods_per_year_of(pd.date_range("2020-01-01", periods=periods, freq=frequency)) == count


@pytest.mark.parametrize("frequency", ["15D", "SME", "h", "30min", "9D"])
def test_an_unknown_rhythm_is_refused(frequency: str) -> None:
    with pytest.raises(BacktestError, match=r"evaluation\.periods_per_year"):
        periods_per_year_of(pd.date_range("2020-01-01", periods=9, freq=frequency))


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 10, 20, 21, 22, 60, 250, 251, 260])
def test_every_span_of_sessions_has_exactly_252(rows: int) -> None:
    starts = range(0, len(SESSIONS) - rows, 7 if rows < 60 else 41)
    # Two rows around a closure of a week (September 2001) look like any two weekly ones.
    odd = {start for start in starts if rows == 2 and (SESSIONS[start + 1] - SESSIONS[start]).days > 5}
    assert {periods_per_year_of(SESSIONS[first : first + rows]) for first in starts if first not in odd} == {252.0}


@pytest.mark.parametrize("calendar", ["XLON", "XTKS", "XSHG", "XBOM", "XBKK", "24/5"])
def test_exchanges_with_many_or_few_holidays_have_252_as_well(calendar: str) -> None:
    first, last = pd.Timestamp("2016-01-01"), pd.Timestamp("2023-12-31")
    assert periods_per_year_of(sessions_between(calendar, first, last)) == 252.0


def test_a_week_may_be_open_on_other_days() -> None:
    every = pd.date_range("2022-01-02", "2023-12-31")
    assert periods_per_year_of(every[~every.day_of_week.isin([4, 5])]) == 252.0  # Sunday to Thursday
    assert periods_per_year_of(every[every.day_of_week != 6]) == pytest.approx(365 * 6 / 7)
    assert periods_per_year_of(every[every.day_of_week.isin([0, 2, 4])]) == pytest.approx(365 * 3 / 7)


@pytest.mark.parametrize("gone", [0.02, 0.08])
def test_a_stray_row_and_missing_ones_do_not_change_it(gone: float) -> None:
    kept = SESSIONS[np.random.default_rng(0).random(len(SESSIONS)) > gone / 2]
    assert periods_per_year_of(kept) == 252.0
    assert periods_per_year_of(kept.union([pd.Timestamp("2010-06-05"), pd.Timestamp("2010-06-06")])) == 252.0
    assert periods_per_year_of(kept[(kept.year < 2008) | (kept.year > 2011)]) == 252.0


@settings(deadline=None, max_examples=40)
@given(
    every=st.integers(1, 5),
    rows=st.integers(260, 1500),
    start=st.integers(0, 3000),
    calendar=st.sampled_from(["sessions", "all days"]),
)
def test_growth_a_year_follows_from_the_time_that_passes(every: int, rows: int, start: int, calendar: str) -> None:
    days = SESSIONS if calendar == "sessions" else pd.date_range(SESSIONS[0], SESSIONS[-1])
    dates = days[start : start + rows * every : every]
    years = (dates[-1] - dates[0]).days / 365.25
    assert (len(dates) - 1) / years == pytest.approx(periods_per_year_of(dates), rel=0.05)


def ledger_of(prices: pd.Series, name: str = "one asset"):
    """Books of holding one asset."""
    returns = prices.pct_change().fillna(0.0).to_frame("A")
    return run_ledger(pd.DataFrame({"A": [1.0]}, index=prices.index[:1]), returns, name=name)


def growing(dates: pd.DatetimeIndex, yearly: float, seed: int = 0) -> pd.Series:
    """Prices that grow by this factor a year of time, with noise that is gone at both ends."""
    years = ((dates - dates[0]) / pd.Timedelta(days=365)).to_numpy()
    noise = 0.02 * np.random.default_rng(seed).standard_normal(len(dates))
    noise[[0, -1]] = 0.0
    return pd.Series(100.0 * yearly**years * np.exp(noise), index=dates)


def test_prices_of_seven_days_a_week_grow_by_what_they_grew() -> None:
    metrics = performance(ledger_of(growing(pd.date_range("2021-01-01", periods=366), 1.96)))
    assert metrics["cagr"] == pytest.approx(0.96, abs=1e-9)
    assert metrics["final_wealth"] == pytest.approx(1.96)


@pytest.mark.parametrize("rule", ["W-FRI", "ME", "QE"])
def test_growth_and_sharpe_ratio_of_aggregated_prices_are_those_of_daily_ones(rule: str) -> None:
    rng = np.random.default_rng(1)
    prices = pd.Series(np.exp(np.cumsum(rng.normal(0.0008, 0.01, len(SESSIONS)))), index=SESSIONS)
    daily, rarely = performance(ledger_of(prices)), performance(ledger_of(prices.resample(rule).last()))
    assert rarely["cagr"] == pytest.approx(daily["cagr"], rel=0.02)
    assert rarely["volatility"] == pytest.approx(daily["volatility"], rel=0.25)
    assert rarely["sharpe"] == pytest.approx(daily["sharpe"], rel=0.25)


def test_every_number_a_year_uses_the_same_count() -> None:
    """Metrics, costs, intervals and deflation of days of seven a week, against the count given by hand."""
    dates = pd.date_range("2021-01-01", periods=400)
    one, two = (ledger_of(growing(dates, 1.2 + seed, seed), str(seed)) for seed in (0, 1))
    given = {"periods_per_year": 365.0, "risk_free": 0.03}
    pd.testing.assert_series_equal(performance(one, risk_free=0.03), performance(one, **given))
    pd.testing.assert_frame_equal(cost_levels([one], risk_free=0.03), cost_levels([one], **given))
    few = Bootstrap(replications=100)
    assert compare([one], [two], risk_free=0.03, bootstrap=few) == compare([one], [two], **given, bootstrap=few)
    deflated = deflated_sharpe(one.net_returns, [1.0, 2.0], risk_free=0.03)
    assert deflated == deflated_sharpe(one.net_returns, [1.0, 2.0], **given)
    assert deflated != deflated_sharpe(one.net_returns, [1.0, 2.0], periods_per_year=252.0, risk_free=0.03)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_count_that_is_none_is_refused_everywhere(value: float) -> None:
    books = ledger_of(growing(pd.date_range("2021-01-01", periods=30), 2.0))
    calls = (
        lambda: performance(books, periods_per_year=value),
        lambda: cost_levels([books], periods_per_year=value),
        lambda: compare([books], [books], periods_per_year=value),
        lambda: deflated_sharpe(books.net_returns, [1.0], periods_per_year=value),
    )
    for call in calls:
        with pytest.raises(BacktestError, match="periods_per_year must be positive"):
            call()
