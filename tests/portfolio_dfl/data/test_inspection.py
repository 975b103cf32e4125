"""Reports on prices, also on the messiest files."""

import time

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.data.inspection import check_file, check_prices, completeness
from portfolio_dfl.data.panel import build_panel
from portfolio_dfl.data.sessions import sessions_between
from portfolio_dfl.errors import DataError

# What the report of each messy file must say: kind of finding, place or fact.
EXPECTED = {
    "yfinance_blank_ticker_cell_SPY.csv": (2535, 1, True, [("reading", "header cells without a ticker")]),
    "yfinance_multiindex_flattened_30stocks.csv": (3774, 30, True, [("reading", "columns without a name")]),
    "yahoo_nan_padded_before_inception_VTI.csv": (
        7508,
        1,
        True,
        [
            ("empty_rows", "1193 rows without any price before the first price"),
            ("empty_rows", "226 rows without any price on days without a session"),
            ("empty_rows", "2025-08-31: 1 row without any price after the last price"),
        ],
    ),
    "nan_before_inception_ARKF.csv": (1258, 1, True, [("empty_rows", "696 rows without any price before")]),
    "all_nan_ACCU.csv": (1258, 1, False, [("empty", "ACCU: no price at all")]),
    "ragged_start_dates_20stocks.csv": (7126, 20, False, [("late_start", "BABA 2014-09-19: first price")]),
    "spinoff_not_adjusted_EXPE.csv": (5291, 1, False, [("split_suspect", "EXPE 2011-12-21: -33.6 %")]),
    "tz_aware_utc_first_row_634_days_early_SPY.csv": (
        1181,
        1,
        False,
        [
            ("missing_session", "only 1 row lies before: start=2020-07-27 leaves it out"),
            ("dates", "calendar days in America/New_York"),
        ],
    ),
    "investing_percent_strings_weekends_GLD.csv": (
        274,
        1,
        False,
        [("off_calendar", "2020-05-02: Saturday"), ("unsorted", "newest first")],
    ),
    "investing_other_calendar_dollar_index.csv": (
        262,
        1,
        False,
        [("off_calendar", "2020-01-01: Wednesday"), ("calendar", "fit calendar 24/5 better")],
    ),
    "semicolon_decimal_comma_TLT_nav.csv": (
        5736,
        1,
        False,
        [("empty_rows", "1 row without date and prices"), ("off_calendar", "2024-03-31: Sunday")],
    ),
    "brazilian_thousand_dot_decimal_comma_ibovespa.csv": (
        1896,
        1,
        False,
        [("calendar", "BVMF better than XNYS"), ("unsorted", "newest first")],
    ),
    "constant_backfill_before_inception_china7.csv": (
        2692,
        7,
        False,
        [
            ("constant_start", "511090.SH 2015-01-05..2023-06-13: 93.48 unchanged"),
            ("calendar", "XSHG better than XNYS"),
        ],
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_messy_file_ends_with_a_report_that_names_what_is_messy(shared_data, name):
    dates, tickers, usable, findings = EXPECTED[name]
    check = check_file(shared_data / "messy" / name)
    assert check.prices.shape == (dates, tickers)
    assert check.usable is usable
    for kind, words in findings:
        assert any(words in str(flag) for flag in check.report.of_kind(kind)), check.text()
    assert ("Policies that deal with it" in check.text()) is not usable


def test_no_messy_file_is_left_unexpected(shared_data):
    assert {path.name for path in (shared_data / "messy").iterdir()} == set(EXPECTED)


def test_european_numbers_are_read_to_the_cent(shared_data):
    nav = check_file(shared_data / "messy" / "semicolon_decimal_comma_TLT_nav.csv").prices["TLT"]
    assert nav.loc["2002-07-25"] == 82.70
    index = check_file(
        shared_data / "messy" / "brazilian_thousand_dot_decimal_comma_ibovespa.csv", ticker="IBOV", calendar="BVMF"
    )
    assert index.prices.loc["2023-08-23", "IBOV"] == 118135.0


def test_the_messy_chinese_funds_become_a_panel_with_named_policies(shared_data):
    check = check_file(shared_data / "messy" / "constant_backfill_before_inception_china7.csv", calendar="XSHG")
    panel = build_panel(
        check.prices,
        calendar="XSHG",
        policies={"stale": "as_missing", "late_start": "drop_ticker", "gaps": "drop_dates"},
    )
    assert set(panel.report.dropped_tickers) == {"513300.SH", "511260.SH", "511090.SH"}


def test_a_check_says_what_its_policies_would_do():
    dates = sessions_between("XNYS", pd.Timestamp("2022-01-03"), pd.Timestamp("2022-03-31"))
    prices = pd.DataFrame({"SPY": np.linspace(100.0, 110.0, len(dates))}, index=dates)
    prices.iloc[5] = np.nan
    assert not check_prices(prices).usable
    filled = check_prices(prices, policies={"gaps": "forward_fill:1"})
    assert filled.usable
    assert "policy gaps=forward_fill:1 touched 1 cell\n" in filled.text()


def test_the_embedded_sample_and_a_missing_file_are_checked_by_name():
    assert check_file("embedded").usable
    with pytest.raises(DataError, match=r"no price source 'nowhere\.csv'"):
        check_file("nowhere.csv")


def test_weekly_prices_are_called_so():
    dates = pd.date_range("2020-01-03", periods=60, freq="W-FRI")
    check = check_prices(pd.DataFrame({"SPY": np.linspace(100.0, 110.0, 60)}, index=dates))
    assert check.report.of_kind("not_daily")


def test_completeness_counts_prices_and_holes():
    dates = pd.bdate_range("2022-01-03", periods=6)
    frame = pd.DataFrame({"A": [np.nan, 1, np.nan, 1, 1, np.nan], "B": np.nan}, index=dates)
    table = completeness(frame)
    assert table.loc["A"].tolist() == [dates[1], dates[4], 3, 1, 0.5]
    assert table.loc["B", ["prices", "missing_inside"]].tolist() == [0, 0]
    assert pd.isna(table.loc["B", "first"])


def test_the_report_is_a_table_too(shared_data):
    check = check_file(shared_data / "messy" / "spinoff_not_adjusted_EXPE.csv")
    table = check.report.to_frame().set_index("kind")
    assert table.loc["split_suspect", "ticker"] == "EXPE"
    assert table.loc["split_suspect", "date"] == pd.Timestamp("2011-12-21")


@pytest.mark.parametrize("name", ["prices.csv", "prices.parquet"])
def test_500_tickers_of_15_years_are_read_and_checked_within_10_seconds(tmp_path, name):
    dates = sessions_between("XNYS", pd.Timestamp("2010-01-01"), pd.Timestamp("2024-12-31")).rename("Date")
    generator = np.random.default_rng(0)
    values = 100.0 * np.exp(np.cumsum(generator.normal(0.0, 0.015, (len(dates), 500)), axis=0))
    values[generator.random(values.shape) < 0.001] = np.nan
    frame = pd.DataFrame(values, index=dates, columns=[f"T{k}" for k in range(500)])
    path = tmp_path / name
    if path.suffix == ".csv":
        frame.to_csv(path)
    else:
        frame.to_parquet(path)
    # Seconds of this process, so that a busy machine does not fail.
    start = time.process_time()
    check = check_file(path)
    assert time.process_time() - start < 10
    assert check.prices.shape == frame.shape
