"""One wide frame from the layouts that price tables come in."""

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.data.layouts import notes_of, wide_prices
from portfolio_dfl.errors import DataError

DATES = pd.DatetimeIndex(["2020-01-02", "2020-01-03", "2020-01-06"], name="Date")
CLOSES = pd.DataFrame({"AGG": [110.0, 110.5, 110.2], "SPY": [320.0, 318.0, 319.5]}, index=DATES)


def yahoo(closes, *, auto_adjust=True, group_by="column"):
    """Frame in the shape of a Yahoo download."""
    fields = {"Close": closes if auto_adjust else closes * 1.25, "High": closes + 1, "Low": closes - 1}
    fields |= {"Open": closes, "Volume": closes * 0 + 1000}
    if not auto_adjust:
        fields["Adj Close"] = closes
    frame = pd.concat(fields, axis=1, names=["Price", "Ticker"])
    return frame if group_by == "column" else frame.swaplevel(axis=1).sort_index(axis=1)


@pytest.mark.parametrize("auto_adjust", [True, False])
@pytest.mark.parametrize("group_by", ["column", "ticker"])
def test_both_yahoo_column_shapes_give_the_same_prices(auto_adjust, group_by):
    wide = wide_prices(yahoo(CLOSES, auto_adjust=auto_adjust, group_by=group_by))
    pd.testing.assert_frame_equal(wide[["AGG", "SPY"]], CLOSES, check_names=False)


def test_a_single_ticker_gives_the_same_prices_with_one_and_two_header_levels():
    two = yahoo(CLOSES[["SPY"]])
    one = two.droplevel("Ticker", axis=1)
    pd.testing.assert_frame_equal(wide_prices(two), CLOSES[["SPY"]], check_names=False)
    pd.testing.assert_frame_equal(wide_prices(one, ticker="SPY"), CLOSES[["SPY"]], check_names=False)


def test_without_an_adjusted_close_the_close_is_used_and_said():
    wide = wide_prices(yahoo(CLOSES))
    assert any("no adjusted close" in note for note in notes_of(wide))
    assert not notes_of(wide_prices(yahoo(CLOSES, auto_adjust=False)))


def test_a_flattened_header_of_tuples_is_understood():
    frame = yahoo(CLOSES, auto_adjust=False)
    frame.columns = [str(column) for column in frame.columns]
    pd.testing.assert_frame_equal(wide_prices(frame)[["AGG", "SPY"]], CLOSES, check_names=False)


def test_a_flattened_header_of_field_and_ticker_is_understood():
    frame = yahoo(CLOSES)
    frame.columns = [f"{field}_{ticker}" for field, ticker in frame.columns]
    pd.testing.assert_frame_equal(wide_prices(frame)[["AGG", "SPY"]], CLOSES, check_names=False)


def test_a_wide_frame_comes_back_equal_and_may_be_read_twice():
    once = wide_prices(CLOSES)
    pd.testing.assert_frame_equal(once, CLOSES)
    pd.testing.assert_frame_equal(wide_prices(once), once)


def test_tickers_that_are_words_for_fields_stay_tickers_among_others():
    frame = CLOSES.set_axis(["LOW", "OPEN"], axis=1)
    assert list(wide_prices(frame).columns) == ["LOW", "OPEN"]


def test_a_long_table_is_pivoted():
    long = CLOSES.melt(ignore_index=False, var_name="ticker", value_name="close").reset_index()
    wide = wide_prices(long.sample(frac=1, random_state=0))
    pd.testing.assert_frame_equal(wide.sort_index()[["AGG", "SPY"]], CLOSES, check_names=False, check_index_type=False)


def test_a_second_price_of_a_long_table_becomes_a_second_row_of_its_date():
    long = pd.DataFrame({"date": ["2020-01-02"] * 3, "ticker": ["SPY", "AGG", "SPY"], "close": [320.0, 110.0, 321.0]})
    wide = wide_prices(long)
    assert wide["SPY"].tolist() == [320.0, 321.0]
    assert wide["AGG"].isna().tolist() == [False, True]


def test_the_field_asked_for_is_used():
    frame = yahoo(CLOSES[["SPY"]]).droplevel("Ticker", axis=1)
    assert wide_prices(frame, ticker="SPY", price="High")["SPY"].tolist() == [321.0, 319.0, 320.5]


def test_a_field_that_is_not_there_is_named():
    frame = yahoo(CLOSES[["SPY"]]).droplevel("Ticker", axis=1)
    with pytest.raises(DataError, match="'Settle'"):
        wide_prices(frame, ticker="SPY", price="Settle")


def test_fields_of_an_unnamed_ticker_ask_for_its_name():
    with pytest.raises(DataError, match="ticker="):
        wide_prices(yahoo(CLOSES[["SPY"]]).droplevel("Ticker", axis=1))


def test_a_table_without_dates_is_refused():
    with pytest.raises(DataError, match="no dates"):
        wide_prices(CLOSES.reset_index(drop=True))


def test_two_columns_of_one_ticker_are_refused():
    with pytest.raises(DataError, match="'SPY'"):
        wide_prices(CLOSES.set_axis(["SPY", "SPY"], axis=1))


def test_texts_that_are_prices_become_numbers_and_others_stay():
    frame = pd.DataFrame({"A": ["$1.50", "2.5", ""], "B": ["1.0", "0.4%", "3.0"]}, index=DATES)
    wide = wide_prices(frame)
    np.testing.assert_array_equal(wide["A"].to_numpy(np.float64), [1.5, 2.5, np.nan])
    assert wide["B"].tolist() == [1.0, "0.4%", 3.0]
