"""On which dates is decided, and that what is to come moves none of them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portfolio_dfl.backtest import Rebalancing, roll, run_ledger
from portfolio_dfl.backtest.baselines import EqualWeight
from portfolio_dfl.data.sessions import sessions_between
from portfolio_dfl.errors import BacktestError, DataError

RULES = ["daily", "weekly", "monthly", "quarterly", 5, 21]


@pytest.fixture(scope="module")
def sessions() -> pd.DatetimeIndex:
    return sessions_between("XNYS", pd.Timestamp("2023-11-20"), pd.Timestamp("2024-12-31"))


def dates(found: pd.DatetimeIndex) -> list[str]:
    return [f"{day:%m-%d}" for day in found]


def test_months_end_on_their_last_session_by_the_calendar(sessions):
    # March 2024 ended on Thursday the 28th: Good Friday, the last weekday, was no session.
    found = Rebalancing("monthly", calendar="XNYS").dates(
        sessions, pd.Timestamp("2024-01-01"), pd.Timestamp("2024-06-30")
    )
    assert dates(found) == ["01-31", "02-29", "03-28", "04-30", "05-31", "06-28"]


def test_without_a_calendar_the_row_after_stands_in_for_a_weekday_without_one(sessions):
    found = Rebalancing("monthly").dates(sessions, pd.Timestamp("2024-02-01"), pd.Timestamp("2024-05-01"))
    assert dates(found) == ["02-29", "04-01", "04-30"]


def test_first_sessions_of_weeks_and_quarters(sessions):
    rule = Rebalancing("weekly", "first", "XNYS")
    assert dates(rule.dates(sessions, pd.Timestamp("2024-01-08"), pd.Timestamp("2024-01-31"))) == [
        "01-08",
        "01-16",  # Monday the 15th was a holiday
        "01-22",
        "01-29",
    ]
    quarters = Rebalancing("quarterly", "first", "XNYS").dates(sessions)
    assert dates(quarters) == ["01-02", "04-01", "07-01", "10-01"]  # the data begin in the middle of one


def test_a_last_session_without_a_row_is_made_up_for_at_the_next(sessions):
    rows = sessions[sessions != "2024-01-31"]
    found = Rebalancing("monthly", calendar="XNYS").dates(rows, pd.Timestamp("2024-01-02"), pd.Timestamp("2024-03-01"))
    assert dates(found) == ["02-01", "02-29"]


def test_every_so_many_sessions_counts_from_the_start(sessions):
    found = Rebalancing("every 5 sessions").dates(sessions, sessions[3], sessions[14])
    assert found.equals(sessions[[3, 8, 13]])


def test_dates_of_ones_own(sessions):
    rule = Rebalancing((dt.date(2024, 1, 3), dt.date(2024, 2, 5), dt.date(2030, 1, 2)))
    assert dates(rule.dates(sessions)) == ["01-03", "02-05"]
    with pytest.raises(BacktestError, match=r"names 2024-01-06, for which there is no return.*2024-01-08"):
        Rebalancing((dt.date(2024, 1, 6),)).dates(sessions)


def test_month_ends_on_weekends_are_decided_on_once():
    every_day = pd.date_range("2024-01-01", "2024-04-30")
    assert dates(Rebalancing("monthly", calendar="24/7").dates(every_day)) == ["01-31", "02-29", "03-31", "04-30"]
    assert len(Rebalancing("monthly").dates(every_day)) == 4
    months = pd.date_range("2022-01-31", "2024-04-30", freq="ME")
    assert Rebalancing("monthly").dates(months).equals(months)
    assert len(Rebalancing("quarterly").dates(months)) == 9


@pytest.mark.parametrize("rule", ["fortnightly", 0, 2.5, True, None, [], ["2024-02-05", "2024-01-03"], ["soon"]])
def test_what_is_no_rule_is_refused(rule):
    with pytest.raises(BacktestError, match="rebalance"):
        Rebalancing.of(rule)


def test_an_unknown_calendar_is_named(sessions):
    with pytest.raises(DataError, match="NOWHERE"):
        Rebalancing("monthly", calendar="NOWHERE").dates(sessions)


@settings(max_examples=25)
@given(
    rule=st.sampled_from(RULES),
    on=st.sampled_from(["last", "first"]),
    calendar=st.sampled_from(["XNYS", None, "24/7"]),
    kept=st.lists(st.booleans(), min_size=80, max_size=80),
    cut=st.integers(1, 79),
)
def test_rows_to_come_move_no_date(rule, on, calendar, kept, cut):
    rows = pd.bdate_range("2024-01-17", periods=80)[np.array(kept) | (np.arange(80) == 0)]
    rebalancing = Rebalancing(rule, on, calendar)
    cut = min(cut, len(rows))
    all_known, known = rebalancing.dates(rows), rebalancing.dates(rows[:cut])
    assert known.equals(all_known[all_known <= rows[cut - 1]])


@settings(max_examples=25)
@given(
    rule=st.sampled_from(["weekly", "monthly", "quarterly"]),
    on=st.sampled_from(["last", "first"]),
    day=st.integers(0, 250),
)
def test_what_predict_is_told_is_what_the_backtest_does(rule, on, day):
    rows = sessions_between("XNYS", pd.Timestamp("2022-01-03"), pd.Timestamp("2023-12-29"))
    rebalancing = Rebalancing(rule, on, "XNYS")
    decided = rebalancing.dates(rows)
    due, following = rebalancing.outlook(rows[: day + 1], rows[0])
    assert due == (rows[day] in decided)
    assert following == decided[decided > rows[day]][0]


def test_the_outlook_counts_from_an_earlier_decision_than_the_prices(sessions):
    rule = Rebalancing(5, calendar="XNYS")
    assert rule.outlook(sessions[8:14], sessions[3]) == (True, sessions[18])
    assert rule.outlook(sessions[8:13], sessions[3]) == (False, sessions[13])
    assert Rebalancing((dt.date(2024, 1, 3),)).outlook(sessions, sessions[0]) == (False, None)


def test_bought_and_held_between_rebalancing_is_the_ledger(market):
    """The oracle holds shares: it buys them on decision dates and values them on all."""
    decided = market.index[[3, 10, 31, 32]]
    targets = roll(EqualWeight(), market, rebalance=decided)
    book = run_ledger(targets, market)
    prices = np.vstack([np.ones(market.shape[1]), np.cumprod(1.0 + market.to_numpy(), axis=0)])
    wealth, shares, values = 1.0, np.zeros(market.shape[1]), []
    for day, date in enumerate(market.index):
        if day > 3:
            wealth = float(shares @ prices[day + 1])
            values.append(wealth)
        if date in decided:
            shares = wealth / market.shape[1] / prices[day + 1]
    np.testing.assert_allclose(book.daily["wealth"], values, rtol=1e-12)
    assert (book.daily["turnover"] > 1e-12).sum() == 3  # the first decision finds equal weights
    np.testing.assert_allclose(np.cumprod(1.0 + book.net_returns), values, rtol=1e-12)


@pytest.mark.parametrize("calendar", [None, "XNYS"])
def test_every_weekly_row_is_a_weekly_decision_though_holidays_move_it(calendar: str | None) -> None:
    fridays = pd.date_range("2018-01-05", "2019-12-31", freq="W-FRI")
    good = [pd.Timestamp("2018-03-30"), pd.Timestamp("2019-04-19")]
    rows = pd.DatetimeIndex([day - pd.Timedelta(days=1) if day in good else day for day in fridays])
    rule = Rebalancing("weekly", calendar=calendar)
    assert rule.dates(rows, rows[3]).equals(rows[3:])
    assert all(rule.dates(rows[:count], rows[3]).equals(rows[3:count]) for count in (12, 13, 14, 70))
