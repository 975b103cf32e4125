"""The day of a price is that of the clock where it was made, in whatever zone its stamp was written down."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portfolio_dfl.data.dates import calendar_days
from portfolio_dfl.data.formats import read_prices_file
from portfolio_dfl.data.panel import build_panel

DAYS = pd.bdate_range("2021-01-04", periods=261, name="Date")
MIDNIGHT = pd.Timedelta(0)
CLOSES = {
    "Europe/London": pd.Timedelta(hours=17, minutes=30),
    "America/New_York": pd.Timedelta(hours=16),
    "Asia/Tokyo": pd.Timedelta(hours=15),
    "Australia/Sydney": pd.Timedelta(hours=16),
    "Asia/Hong_Kong": pd.Timedelta(hours=16),
    "Europe/Berlin": pd.Timedelta(hours=17, minutes=35),
    "Asia/Kolkata": pd.Timedelta(hours=15, minutes=30),
}
ZONES = [*CLOSES, "Pacific/Auckland", "Europe/Moscow", "America/Sao_Paulo", "America/Chicago", "Asia/Singapore"]


def prices(index):
    moves = np.random.default_rng(2).normal(0, 0.01, (len(index), 2))
    return pd.DataFrame(100 * np.exp(np.cumsum(moves, axis=0)), index, ["A", "B"])


def stamps(zone, hour=MIDNIGHT, days=DAYS):
    return (days + hour).tz_localize(zone)


def in_utc(zone, hour=MIDNIGHT, days=DAYS):
    return stamps(zone, hour, days).tz_convert("UTC")


def assert_same_days(index, **options):
    panel = build_panel(prices(index), calendar=None, **options)
    assert panel.prices.index.tolist() == DAYS.tolist()
    return panel


@pytest.mark.parametrize(("zone", "close"), CLOSES.items())
def test_a_stamp_with_a_zone_of_its_own_is_of_the_day_of_its_own_clock(zone, close):
    for hour in (close, MIDNIGHT, pd.Timedelta(hours=23)):
        panel = assert_same_days(stamps(zone, hour))
        (note,) = panel.report.of_kind("dates")
        assert zone in note.message


@pytest.mark.parametrize("zone", ZONES)
def test_midnights_of_a_zone_written_in_utc_are_its_days_in_summer_and_winter(zone):
    assert_same_days(in_utc(zone))


@pytest.mark.parametrize(("zone", "close"), CLOSES.items())
def test_closes_of_a_zone_written_in_utc_are_its_days(zone, close):
    panel = assert_same_days(in_utc(zone, close))
    (note,) = panel.report.of_kind("dates")
    assert note.severity == "note"
    assert "stamps in UTC and no exchange calendar" in note.message


@given(zone=st.sampled_from(ZONES), first=st.integers(0, 240), length=st.integers(6, 21))
def test_a_week_of_midnights_in_utc_tells_its_days(zone, first, length):
    days = DAYS[first : first + length]
    assert calendar_days(in_utc(zone, days=days))[0].tolist() == days.tolist()


def test_an_exchange_that_is_named_tells_the_days_of_stamps_in_utc():
    days, (note,) = calendar_days(in_utc("Asia/Tokyo"), zone="Asia/Tokyo")
    assert days.tolist() == DAYS.tolist()
    assert "in Asia/Tokyo, the exchange's zone" in note


@pytest.mark.parametrize("form", ["iso", "space", "hours only"])
@pytest.mark.parametrize("zone", ["Europe/London", "America/New_York", "Asia/Tokyo"])
def test_texts_with_offsets_that_change_with_summer_are_of_their_own_days(zone, form, tmp_path):
    texts = stamps(zone, CLOSES[zone]).map(lambda stamp: stamp.isoformat())
    if form != "iso":
        texts = texts.str.replace("T", " ")
    if form == "hours only":
        texts = texts.str.replace(r":00$", "", regex=True)
    prices(pd.Index(texts, name="Date")).to_csv(tmp_path / "prices.csv")
    assert_same_days_of_file(tmp_path / "prices.csv")


@pytest.mark.parametrize("zone", ["Europe/London", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("written", ["zone", "utc"])
def test_a_parquet_file_with_zones_keeps_its_days(zone, written, tmp_path):
    frame = prices(stamps(zone, CLOSES[zone]) if written == "zone" else in_utc(zone))
    frame.to_parquet(tmp_path / "prices.parquet")
    assert_same_days_of_file(tmp_path / "prices.parquet")
    frame.rename_axis("Date").reset_index().to_parquet(tmp_path / "column.parquet")
    assert_same_days_of_file(tmp_path / "column.parquet")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["Europe/London", "America/New_York"])
def test_epoch_numbers_are_of_the_days_of_their_midnights(unit, zone, tmp_path):
    numbers = in_utc(zone).as_unit(unit).astype("int64").rename("Date")
    assert_same_days(numbers)
    prices(numbers).to_csv(tmp_path / "prices.csv")
    assert_same_days_of_file(tmp_path / "prices.csv")


def test_datetimes_of_several_offsets_are_of_their_own_days():
    assert_same_days(pd.Index(stamps("Europe/London", CLOSES["Europe/London"]).to_pydatetime(), dtype=object))


def test_midnights_in_utc_say_what_was_assumed():
    _, (note,) = calendar_days(DAYS.tz_localize("UTC"))
    assert "midnights in UTC, taken for the calendar days" in note


def test_times_without_a_zone_say_that_they_are_taken_for_local_time():
    _, (note,) = calendar_days(DAYS + pd.Timedelta(hours=16))
    assert "taken for local time" in note


def test_times_without_a_zone_that_lie_on_weekends_hint_at_utc():
    _, notes = calendar_days(in_utc("Europe/London").tz_localize(None))
    assert "lie on weekends: if the times are UTC" in notes[-1]


def test_dates_without_times_have_nothing_to_say():
    assert calendar_days(DAYS)[1] == []


def test_a_date_in_dashes_with_the_day_first_ends_in_no_offset():
    texts = [f"{day:%d-%m-%Y}" for day in DAYS[:30]]
    assert calendar_days(pd.Index(texts))[0].tolist() == DAYS[:30].tolist()


def assert_same_days_of_file(path):
    panel = build_panel(read_prices_file(path), calendar=None)
    assert panel.prices.index.tolist() == DAYS.tolist()
