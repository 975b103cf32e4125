"""Detectors, each alone."""

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.data.checks import gap_flags, runs_of, stale_runs, unchanged_dates

DATES = pd.bdate_range("2020-01-01", periods=400)


def prices(tickers=2):
    noise = np.random.default_rng(1).normal(0.0, 0.01, (len(DATES), tickers))
    return pd.DataFrame(100 * np.exp(np.cumsum(noise, axis=0)), index=DATES, columns=[f"T{k}" for k in range(tickers)])


@pytest.mark.parametrize(
    ("mask", "runs"), [([], []), ([1, 1, 0, 1], [(0, 1), (3, 3)]), ([0, 0], []), ([1, 1], [(0, 1)])]
)
def test_runs_are_first_and_last_positions(mask, runs):
    assert runs_of(np.array(mask, dtype=bool)) == runs


def test_a_long_unchanged_run_is_stale():
    frame = prices()
    frame.iloc[100:112, 1] = frame.iloc[100, 1]
    (flag,) = stale_runs(frame)
    assert (flag.kind, flag.ticker, flag.date, flag.last, flag.count) == (
        "stale_run",
        "T1",
        DATES[100],
        DATES[111],
        11,
    )


def test_a_short_unchanged_run_is_genuine():
    frame = prices()
    frame.iloc[100:105, 1] = frame.iloc[100, 1]
    assert stale_runs(frame) == []


def test_a_price_that_often_stays_unchanged_may_do_so_for_long():
    levels = np.repeat(100.0 + 0.01 * np.arange(40), 10)
    levels[200:212] = levels[200]
    assert stale_runs(pd.DataFrame({"PEG": levels}, index=DATES)) == []


def test_an_unchanged_start_looks_copied_back():
    frame = prices()
    frame.iloc[:50, 0] = frame.iloc[49, 0]
    (flag,) = stale_runs(frame)
    assert (flag.kind, flag.last) == ("constant_start", DATES[49])


def test_no_real_stock_or_fund_is_stale(shared_data):
    for name in ("universe_stock_adj_close.csv.gz", "universe_etf_adj_close.csv.gz"):
        assert stale_runs(pd.read_csv(shared_data / name, index_col=0, parse_dates=True)) == []


def test_a_gap_at_the_edge_is_none_and_one_inside_is_one():
    frame = prices()
    frame.iloc[:5, 0] = np.nan
    frame.iloc[-5:, 0] = np.nan
    frame.iloc[50:53, 0] = np.nan
    (flag,) = gap_flags(frame, "XNYS")
    assert (flag.kind, flag.ticker, flag.date, flag.last, flag.count) == ("gap", "T0", DATES[50], DATES[52], 3)


def test_a_date_without_any_price_is_one_finding_for_all_tickers():
    frame = prices()
    frame.iloc[50] = np.nan
    (flag,) = gap_flags(frame, "XNYS")
    assert (flag.kind, flag.ticker, flag.date) == ("missing_session", None, DATES[50])


def test_a_few_stray_rows_before_a_long_hole_are_told_apart():
    frame = prices()
    frame.iloc[1:200] = np.nan
    (flag,) = gap_flags(frame, "XNYS")
    assert f"start={DATES[200]:%Y-%m-%d}" in flag.message


def test_a_date_on_which_none_of_many_prices_moved_looks_copied_forward():
    frame = prices(tickers=5)
    frame.iloc[100] = frame.iloc[99]
    (flag,) = unchanged_dates(frame)
    assert (flag.kind, flag.severity, flag.date) == ("unchanged_date", "warning", DATES[100])
    assert unchanged_dates(frame.iloc[:, :4]) == []


def test_no_date_of_real_prices_looks_copied_forward(shared_data):
    frame = pd.read_csv(shared_data / "etf7_adj_close.csv", index_col=0, parse_dates=True)
    assert unchanged_dates(frame) == []
