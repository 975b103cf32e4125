"""Moves that look like unadjusted splits or bad ticks, and genuine ones that do not."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skfolio.datasets import load_sp500_dataset

from portfolio_dfl.data.formats import read_prices_file
from portfolio_dfl.data.jumps import jump_flags
from portfolio_dfl.data.panel import build_panel
from portfolio_dfl.errors import DataError

DATES = pd.bdate_range("2020-01-01", periods=300)
DAY = DATES[150]


def prices(tickers=1, volatility=0.01, seed=3):
    noise = np.random.default_rng(seed).normal(0.0, volatility, (len(DATES), tickers))
    return pd.DataFrame(100 * np.exp(np.cumsum(noise, axis=0)), index=DATES, columns=[f"T{k}" for k in range(tickers)])


def found(frame, **options):
    return [(flag.kind, flag.ticker, flag.date) for flag in jump_flags(frame, **options)]


def problems(frame):
    return [(flag.ticker, flag.date) for flag in jump_flags(frame) if flag.severity == "problem"]


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


@pytest.mark.parametrize("days", [2, 3, 4, 20, 149])
@pytest.mark.parametrize("factor", [100.0, 0.01, 10.0, 1000.0, 3.7, 1.8])
def test_wrong_prices_of_several_days_are_a_problem(factor, days):
    frame = prices()
    frame.iloc[150 : 150 + days] *= factor
    assert ("T0", DAY) in problems(frame)


def test_prices_a_third_too_high_for_two_days_are_a_problem():
    frame = prices()
    frame.iloc[150:152] *= 1.33
    assert problems(frame) == [("T0", DAY)]


@pytest.mark.parametrize("factor", [100.0, 0.01, 10.0, 1000.0])
@pytest.mark.parametrize("rows", [slice(0, 1), slice(0, 40), slice(299, 300), slice(290, 300)])
def test_a_change_of_unit_that_was_there_first_or_stays_is_a_problem(rows, factor):
    frame = prices()
    frame.iloc[rows] *= factor
    assert problems(frame) == [("T0", DATES[rows.stop] if rows.start == 0 else DATES[rows.start])]


def test_a_change_of_unit_of_all_tickers_at_once_is_no_crash_of_the_market():
    frame = prices(tickers=8)
    frame.iloc[150:170] *= 100
    assert {ticker for ticker, date in problems(frame) if date == DAY} == set(frame.columns)


def test_a_unit_that_changes_every_other_day_is_a_problem():
    frame = prices()
    frame.iloc[::2] *= 100
    assert problems(frame)


def test_a_change_of_unit_on_the_day_of_a_crash_is_a_problem():
    frame = prices(tickers=6)
    frame.iloc[150:] *= 0.8
    frame.iloc[150:160, 0] *= 100
    assert problems(frame)[0] == ("T0", DAY)


def test_a_large_move_that_the_next_months_do_not_take_back_is_a_warning_only():
    frame = prices()
    frame.iloc[150:] *= 1.8
    assert [flag.severity for flag in jump_flags(frame)] == ["warning"]


def test_wrong_prices_of_two_days_stop_a_study_with_the_way_out():
    frame = prices(tickers=3)
    frame.iloc[150:152, 0] *= 100
    with pytest.raises(DataError, match=f"T0 {DAY:%Y-%m-%d}: .*taken back within 2 days.*jumps=accept"):
        build_panel(frame, calendar=None)


REAL = load_sp500_dataset().loc["2003":"2022", ["AAPL", "BAC", "GE", "JPM", "XOM", "KO"]]


def test_real_prices_through_the_crises_of_2008_and_2020_are_no_problem():
    assert problems(REAL) == []


@given(
    factor=st.sampled_from([10.0, 100.0, 1000.0, 0.1, 0.01, 0.001]),
    place=st.tuples(st.integers(0, 499), st.integers(1, 499)).filter(
        lambda place: sum(place) <= 500 and place[1] < 500
    ),
    who=st.sets(st.sampled_from(range(REAL.shape[1])), min_size=1),
    begin=st.integers(0, len(REAL) - 500),
)
def test_a_change_of_unit_of_any_length_anywhere_in_real_prices_is_found(factor, place, who, begin):
    frame = REAL.iloc[begin : begin + 500].copy()
    first, days = place
    frame.iloc[first : first + days, list(who)] *= factor
    date = frame.index[first if first > 0 else days]
    tickers = {REAL.columns[position] for position in who}
    assert {ticker for ticker, day in problems(frame) if day == date} == tickers


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
