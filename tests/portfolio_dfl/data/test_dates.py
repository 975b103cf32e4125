"""Calendar days from dates as files write them."""

import datetime as dt

import pandas as pd
import pytest

from portfolio_dfl.data.dates import calendar_days, looks_like_dates
from portfolio_dfl.errors import DataError


def days(stamps, **options):
    return [f"{day:%Y-%m-%d}" for day in calendar_days(pd.Index(stamps), **options)[0]]


@pytest.mark.parametrize(
    "texts",
    [
        ["2020-12-30", "2020-12-31"],
        ["2020-12-30 00:00:00", "2020-12-31 00:00:00"],
        ["20201230", "20201231"],
        ["30/12/2020", "31/12/2020"],
        ["12/30/2020", "12/31/2020"],
        ["30.12.2020", "31.12.2020"],
        ["Dec 30, 2020", "Dec 31, 2020"],
        ["30-Dec-2020", "31-Dec-2020"],
        ["2020-12-30T16:00:00", "2020-12-31T16:00:00"],
        [20201230, 20201231],
        [dt.date(2020, 12, 30), dt.date(2020, 12, 31)],
        [1609286400, 1609372800],
        [1609286400000, 1609372800000],
    ],
)
def test_common_formats_are_read(texts):
    assert days(texts) == ["2020-12-30", "2020-12-31"]


def test_midnight_in_new_york_stays_the_same_calendar_day():
    stamps = pd.date_range("2021-03-10", periods=5, freq="D", tz="America/New_York")
    assert days(stamps) == ["2021-03-10", "2021-03-11", "2021-03-12", "2021-03-13", "2021-03-14"]


def test_midnight_in_tokyo_stays_the_same_calendar_day_for_an_exchange_in_new_york():
    assert days(pd.DatetimeIndex(["2021-03-10"], tz="Asia/Tokyo"), zone="America/New_York") == ["2021-03-10"]


def test_midnight_of_new_york_written_in_utc_becomes_its_day_in_summer_and_winter():
    stamps = pd.DatetimeIndex(["2021-03-12 05:00", "2021-03-15 04:00"], tz="UTC")
    assert days(stamps, zone="America/New_York") == ["2021-03-12", "2021-03-15"]


def test_midnight_of_tokyo_written_in_utc_becomes_its_day():
    assert days(pd.DatetimeIndex(["2021-03-11 15:00"], tz="UTC"), zone="Asia/Tokyo") == ["2021-03-12"]


def test_midnights_of_london_and_new_york_in_one_utc_index_stay_their_days():
    stamps = pd.DatetimeIndex(["2021-01-04 00:00", "2021-01-04 05:00", "2021-01-05 00:00"], tz="UTC")
    assert days(stamps, zone="America/New_York") == ["2021-01-04", "2021-01-04", "2021-01-05"]


def test_mixed_offsets_keep_the_day_that_each_clock_shows():
    texts = ["2021-03-12 00:00:00-05:00", "2021-03-15 00:00:00-04:00"]
    assert days(texts) == ["2021-03-12", "2021-03-15"]


def test_mixed_offset_datetimes_keep_the_day_that_each_clock_shows():
    moments = [pd.Timestamp("2021-03-12", tz="-05:00"), pd.Timestamp("2021-03-15", tz="-04:00")]
    assert days(pd.Index(moments, dtype=object)) == ["2021-03-12", "2021-03-15"]


def test_dates_with_and_without_zone_together_are_refused():
    with pytest.raises(DataError, match="some dates carry a time zone"):
        calendar_days(pd.Index(["2021-03-12 00:00:00-05:00", "2021-03-15 00:00:00"]))


def test_dates_that_fit_day_first_and_month_first_are_refused_with_both_formats():
    with pytest.raises(DataError, match=r"write every date as .*%d/%m/%Y.*%m/%d/%Y"):
        calendar_days(pd.Index(["01/02/2020", "02/03/2020"]))


def test_a_given_format_settles_day_first():
    assert days(["01/02/2020", "02/03/2020"], date_format="%d/%m/%Y") == ["2020-02-01", "2020-03-02"]


def test_the_text_that_is_no_date_is_named():
    with pytest.raises(DataError, match="'total'"):
        calendar_days(pd.Index(["2020-01-02", "2020-01-03", "total"]))


def test_empty_dates_are_missing():
    assert calendar_days(pd.Index(["2020-01-02", None, "2020-01-03"], dtype=object))[0].isna().tolist() == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("values", [[0, 1, 2, 3], [1.5, 2.5], ["AAPL", "MSFT"], ["100", "101"], []])
def test_counters_prices_and_words_do_not_look_like_dates(values):
    assert not looks_like_dates(values)
