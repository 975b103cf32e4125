"""Prices of securities that come and go: whose they are, what a position earns at the end, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.data.member_panel import MemberPanel, build_member_panel
from portfolio_dfl.data.members import read_members
from portfolio_dfl.data.sessions import sessions_between
from portfolio_dfl.errors import DataError

DATES = sessions_between("XNYS", pd.Timestamp("2021-11-01"), pd.Timestamp("2022-03-31"))
MIDDLE = DATES[50]


def prices(*tickers: str) -> pd.DataFrame:
    noise = np.random.default_rng(7).normal(0.0, 0.01, (len(DATES), len(tickers)))
    return pd.DataFrame(100.0 * np.exp(np.cumsum(noise, axis=0)), index=DATES, columns=list(tickers))


def members(*rows: tuple[str, pd.Timestamp, pd.Timestamp | None, float | None, str | None]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["ticker", "from", "to", "delisting_return", "column"])


def built(raw: pd.DataFrame, table: pd.DataFrame, **options: object) -> MemberPanel:
    return build_member_panel(raw, read_members(table), name="members.csv", **options)


def test_a_member_to_the_end_has_the_prices_of_its_column() -> None:
    raw = prices("AAA", "BBB", "CCC")
    panel = built(raw, members(("AAA", DATES[0], None, None, None), ("BBB", DATES[0], None, None, None)))
    pd.testing.assert_frame_equal(panel.prices, raw[["AAA", "BBB"]], check_names=False, check_freq=False)
    assert panel.members.to_numpy().all()
    assert panel.returns.equals(raw[["AAA", "BBB"]].pct_change().iloc[1:])


def test_what_left_and_has_no_price_after_is_sold_at_its_last_price() -> None:
    raw = prices("AAA", "BBB")
    raw.loc[DATES[51] :, "BBB"] = np.nan
    panel = built(raw, members(("AAA", DATES[0], None, None, None), ("BBB", DATES[0], MIDDLE, None, None)))
    assert panel.members["BBB"].sum() == 51
    assert panel.returns["BBB"].loc[DATES[51]] == 0.0
    assert panel.returns["BBB"].loc[DATES[52] :].isna().all()
    assert not panel.earned.isna().to_numpy().any()


def test_what_left_and_is_still_priced_earns_the_return_of_the_session_on_which_it_is_sold() -> None:
    raw = prices("AAA", "BBB")
    panel = built(raw, members(("AAA", DATES[0], None, None, None), ("BBB", DATES[0], MIDDLE, None, None)))
    assert panel.returns["BBB"].equals(raw["BBB"].pct_change().iloc[1:])
    assert not panel.members["BBB"].loc[DATES[51] :].any()


def test_a_delisting_return_is_that_of_the_session_after_the_last() -> None:
    raw = prices("AAA", "BBB")
    panel = built(raw, members(("AAA", DATES[0], None, None, None), ("BBB", DATES[0], MIDDLE, -1.0, None)))
    assert panel.returns["BBB"].loc[DATES[51]] == -1.0
    assert panel.returns["BBB"].loc[MIDDLE] == raw["BBB"].pct_change().loc[MIDDLE]


def test_the_spells_of_a_reused_ticker_see_no_price_of_another() -> None:
    raw = prices("AAA", "BBB")
    rows = (("BBB", DATES[3], DATES[20], None, None), ("BBB", DATES[30], None, None, None))
    panel = built(raw, members(("AAA", DATES[0], None, None, None), *rows))
    old, new = (f"BBB@{date.date()}" for date in (DATES[3], DATES[30]))
    assert list(panel.prices) == ["AAA", old, new]
    assert panel.prices[old].dropna().index.equals(DATES[3:21])
    assert panel.prices[new].dropna().index.equals(DATES[30:])


def test_a_security_that_comes_back_has_one_history() -> None:
    raw = prices("AAA", "BBB")
    rows = (("BBB", DATES[3], DATES[20], None, "BBB"), ("BBB", DATES[30], None, None, "BBB"))
    panel = built(raw, members(("AAA", DATES[0], None, None, None), *rows))
    assert panel.prices["BBB"].notna().all()
    assert panel.members["BBB"].sum() == 18 + len(DATES) - 30


def test_spells_outside_the_dates_are_left_out_and_told() -> None:
    raw = prices("AAA", "BBB")
    rows = [(ticker, DATES[0], None, None, None) for ticker in ("AAA", "BBB")]
    gone = ("OLD", pd.Timestamp("2001-01-02"), pd.Timestamp("2005-01-03"), None, None)
    panel = built(raw, members(*rows, gone), start=DATES[0])
    assert list(panel.prices) == ["AAA", "BBB"]
    assert "1 spell outside" in str(panel.report)


def test_gaps_are_found_where_a_security_is_a_member_and_there_alone() -> None:
    raw = prices("AAA", "BBB")
    raw.loc[DATES[10:12], "BBB"] = np.nan
    late = members(("AAA", DATES[0], None, None, None), ("BBB", DATES[20], None, None, None))
    assert built(raw, late).prices["BBB"].isna().sum() == 2
    table = members(("AAA", DATES[0], None, None, None), ("BBB", DATES[0], MIDDLE, None, None))
    with pytest.raises(DataError, match=r"gaps \(1\): BBB"):
        built(raw, table)
    filled = built(raw, table, policies={"gaps": "forward_fill:2"})
    assert filled.prices["BBB"].loc[DATES[11]] == raw["BBB"].loc[DATES[9]]
    left = built(raw, table, policies={"gaps": "drop_dates"})
    assert len(left.prices) == len(DATES) - 2


def test_nothing_is_filled_after_a_last_price() -> None:
    raw = prices("AAA", "BBB")
    raw.loc[DATES[10], "BBB"] = np.nan
    raw.loc[DATES[51] :, "BBB"] = np.nan
    table = members(("AAA", DATES[0], None, None, None), ("BBB", DATES[0], MIDDLE, None, None))
    panel = built(raw, table, policies={"gaps": "forward_fill:2"})
    assert panel.prices["BBB"].loc[DATES[51] :].isna().all()


def test_a_member_without_a_price_is_refused_by_line_ticker_and_date() -> None:
    raw = prices("AAA", "BBB")
    raw.loc[DATES[40] :, "BBB"] = np.nan
    with pytest.raises(DataError) as refused:
        built(raw, members(("AAA", DATES[0], None, None, None), ("BBB", DATES[0], MIDDLE, None, None)))
    told = f"members.csv: line 2, BBB from 2021-11-01, is a member on {DATES[40].date()} and has no price then"
    assert f"{told}, and on 10 more sessions" in str(refused.value)


def test_a_ticker_without_a_column_of_prices_is_refused_by_line() -> None:
    with pytest.raises(DataError, match=r"without a column of prices: AAB \(line 2, the nearest is AAA\)"):
        built(prices("AAA", "BBB"), members(*((t, DATES[0], None, None, None) for t in ("BBB", "AAB"))))


def test_a_spell_between_two_sessions_is_refused() -> None:
    saturday = pd.Timestamp("2022-01-15")
    table = members(("AAA", DATES[0], None, None, None), ("BBB", saturday, saturday, None, None))
    with pytest.raises(DataError, match="line 2, BBB from 2022-01-15 to 2022-01-15: the prices have no session in it"):
        built(prices("AAA", "BBB"), table)


def test_the_hash_knows_who_is_a_member_when() -> None:
    raw, rest = prices("AAA", "BBB"), ("AAA", DATES[0], None, None, None)
    tables = [
        members(rest, ("BBB", DATES[0], last, lost, None))
        for last, lost in ((None, None), (MIDDLE, None), (MIDDLE, -1.0), (MIDDLE, -0.5))
    ]
    assert len({built(raw, table).sha256 for table in tables}) == 4
