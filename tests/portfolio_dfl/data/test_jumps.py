"""Moves that look like unadjusted splits or bad ticks, and genuine ones that do not."""

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.data.formats import read_prices_file
from portfolio_dfl.data.jumps import jump_flags

DATES = pd.bdate_range("2020-01-01", periods=300)
DAY = DATES[150]


def prices(tickers=1, volatility=0.01, seed=3):
    noise = np.random.default_rng(seed).normal(0.0, volatility, (len(DATES), tickers))
    return pd.DataFrame(100 * np.exp(np.cumsum(noise, axis=0)), index=DATES, columns=[f"T{k}" for k in range(tickers)])


def found(frame, **options):
    return [(flag.kind, flag.ticker, flag.date) for flag in jump_flags(frame, **options)]


@pytest.mark.parametrize("ratio", [1.5, 2.0, 3.0, 4.0, 7.0, 10.0, 20.0, 1 / 2, 1 / 8, 1 / 10, 100.0])
@pytest.mark.parametrize("volatility", [0.003, 0.01, 0.02])
def test_an_unadjusted_split_is_suspected_under_ordinary_noise(ratio, volatility):
    frame = prices(volatility=volatility, seed=5)
    frame.loc[DAY:] /= ratio
    assert found(frame) == [("split_suspect", "T0", DAY)]


def test_a_bad_price_that_is_taken_back_is_suspected():
    frame = prices()
    frame.loc[DAY] *= 1.3
    assert found(frame) == [("bad_tick", "T0", DAY)]


def test_a_fall_that_is_no_split_ratio_is_a_warning_only():
    frame = prices()
    frame.loc[DAY:] *= 0.72
    (flag,) = jump_flags(frame)
    assert (flag.kind, flag.severity) == ("large_move", "warning")


def test_a_crash_of_the_whole_market_is_nothing():
    frame = prices(tickers=8)
    frame.loc[DAY:] *= 2 / 3
    assert found(frame) == []


def test_a_jump_across_a_gap_is_found_at_the_first_price_after_it():
    frame = prices()
    frame.loc[DAY:] /= 4
    frame.loc[DATES[145] : DATES[149]] = np.nan
    assert found(frame) == [("split_suspect", "T0", DAY)]


def test_a_confirmed_move_is_a_note():
    frame = prices()
    frame.loc[DAY:] /= 2
    (flag,) = jump_flags(frame, frozenset({("T0", DAY)}))
    assert (flag.kind, flag.severity) == ("confirmed_move", "note")


@pytest.mark.parametrize("seed", range(20))
def test_ordinary_noise_is_nothing(seed):
    assert found(prices(tickers=3, volatility=0.02, seed=seed)) == []


def test_genuine_moves_of_seven_etfs_are_nothing(shared_data):
    assert jump_flags(pd.read_csv(shared_data / "etf7_adj_close.csv", index_col=0, parse_dates=True)) == []


def test_few_genuine_moves_of_many_stocks_are_suspected(shared_data):
    frame = pd.read_csv(shared_data / "universe_stock_adj_close.csv.gz", index_col=0, parse_dates=True)
    suspects = [flag for flag in jump_flags(frame) if flag.severity == "problem"]
    assert len(suspects) <= 5
    assert (np.abs(frame.pct_change(fill_method=None)) > 0.25).sum().sum() > 60


def test_a_wrong_price_of_a_real_etf_is_suspected(shared_data):
    frame = pd.read_csv(shared_data / "universe_etf_adj_close.csv.gz", index_col=0, parse_dates=True)
    suspects = [flag for flag in jump_flags(frame) if flag.severity == "problem"]
    assert [(flag.ticker, flag.date) for flag in suspects] == [("CMF", pd.Timestamp("2014-12-26"))]


def test_the_real_split_of_june_2008_is_suspected_in_unadjusted_closes_only(shared_data):
    path = shared_data / "unadjusted" / "VTI_unadjusted_split_2008.csv.gz"
    for price, expected in (("close", [("VTI", "2008-06-18")]), (None, [])):
        frame = read_prices_file(path, ticker="VTI", price=price)
        frame.index = pd.to_datetime(frame.index)
        flags = [flag for flag in jump_flags(frame.sort_index()) if flag.severity == "problem"]
        assert [(flag.ticker, f"{flag.date:%Y-%m-%d}") for flag in flags] == expected
