"""From raw prices to a clean panel, or to a message that names the defects and the policies."""

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.data.panel import PricePanel, build_panel, content_hash
from portfolio_dfl.data.policies import Policies
from portfolio_dfl.data.sessions import sessions_between
from portfolio_dfl.data.sources import EmbeddedSource, FileSource, FrameSource
from portfolio_dfl.errors import DataError

FIRST, LAST = pd.Timestamp("2021-11-01"), pd.Timestamp("2022-03-31")


def prices(tickers=("AGG", "GLD", "SPY"), first=FIRST, last=LAST):
    """Ordinary prices on the sessions of a range."""
    dates = sessions_between("XNYS", first, last).rename("Date")
    noise = np.random.default_rng(7).normal(0.0, 0.01, (len(dates), len(tickers)))
    return pd.DataFrame(100.0 * np.exp(np.cumsum(noise, axis=0)), index=dates, columns=list(tickers))


def kinds(panel):
    return {flag.kind for flag in panel.report.flags}


def test_the_seven_etfs_pass_without_any_policy(shared_data):
    panel = build_panel(FileSource(shared_data / "etf7_adj_close.csv").load())
    assert panel.prices.shape == (3522, 7)
    assert panel.report.flags == ()
    assert panel.returns["IWM"].idxmin() == pd.Timestamp("2020-03-16")
    assert panel.returns["IWM"].min() == pytest.approx(-0.1327, abs=5e-5)
    by_year = (1.0 + panel.returns).groupby(panel.returns.index.year).prod() - 1.0
    assert by_year.loc[2013, "VTI"] == pytest.approx(0.3345, abs=5e-5)
    assert by_year.loc[2013, "GLD"] == pytest.approx(-0.2833, abs=5e-5)
    assert by_year.loc[2022, "AGG"] == pytest.approx(-0.1302, abs=5e-5)


def test_the_embedded_sample_passes_without_any_policy():
    panel = build_panel(EmbeddedSource().load())
    assert panel.prices.shape == (2264, 5)
    assert panel.report.flags == ()


def test_returns_are_simple_and_start_at_the_second_date():
    panel = build_panel(prices())
    expected = panel.prices.to_numpy()[1:] / panel.prices.to_numpy()[:-1] - 1.0
    np.testing.assert_allclose(panel.returns.to_numpy(), expected, rtol=0, atol=1e-15)
    assert panel.returns.index.equals(panel.prices.index[1:])


def test_the_end_date_is_included():
    panel = build_panel(prices(), start="2021-12-01", end="2021-12-31")
    assert panel.prices.index[0] == pd.Timestamp("2021-12-01")
    assert panel.prices.index[-1] == pd.Timestamp("2021-12-31")


def test_a_range_may_start_and_end_on_days_without_a_session():
    panel = build_panel(prices(), start="2022-01-01", end="2022-01-30")
    assert panel.prices.index[[0, -1]].tolist() == [pd.Timestamp("2022-01-03"), pd.Timestamp("2022-01-28")]


def test_tickers_are_taken_in_the_order_asked_for():
    assert build_panel(prices(), tickers=["SPY", "AGG"]).tickers == ("SPY", "AGG")


def test_an_unknown_ticker_is_named_with_the_nearest():
    with pytest.raises(DataError, match=r"'spy'.*'SPY'"):
        build_panel(prices(), tickers=["spy"])


def test_time_zone_aware_midnight_in_new_york_stays_the_same_calendar_day():
    raw = prices()
    panel = build_panel(raw.tz_localize("America/New_York"))
    assert panel.prices.index.tz is None
    assert panel.prices.index.equals(build_panel(raw).prices.index)


def test_mixed_offsets_give_the_same_days():
    raw = prices()
    mixed = raw.set_axis([str(stamp) for stamp in raw.index.tz_localize("America/New_York")], axis=0)
    assert {text[-6:] for text in mixed.index} == {"-05:00", "-04:00"}
    assert build_panel(mixed).prices.index.equals(build_panel(raw).prices.index)


def test_unsorted_rows_are_sorted_with_a_note():
    raw = prices()
    panel = build_panel(raw.sample(frac=1, random_state=0))
    pd.testing.assert_frame_equal(panel.prices, build_panel(raw).prices)
    assert kinds(panel) == {"unsorted"}


def test_two_rows_of_one_date_with_equal_closes_and_different_volumes_become_one_with_a_note():
    close = prices(["SPY"])["SPY"]
    raw = pd.DataFrame({"Close": close, "Adj Close": close, "Volume": 1000.0})
    again = raw.iloc[[-1]].assign(Volume=1100.0)
    panel = build_panel(FrameSource(pd.concat([raw, again]), ticker="SPY").load())
    assert len(panel.prices) == len(raw)
    (note,) = panel.report.of_kind("repeated_date")
    assert note.date == raw.index[-1]


def test_two_rows_of_one_date_with_different_closes_are_an_error_that_names_ticker_date_and_prices():
    raw = prices()
    raw.iloc[-1] = [101.5, 102.5, 103.5]
    again = raw.iloc[[-1]].assign(SPY=103.75)
    with pytest.raises(DataError, match=r"SPY 2022-03-31: 103\.5 and 103\.75"):
        build_panel(pd.concat([raw, again]))


def test_a_conflict_after_the_end_does_not_matter():
    raw = prices()
    again = raw.iloc[[-1]] + 1.0
    assert len(build_panel(pd.concat([raw, again]), end="2022-03-30").prices) == len(raw) - 1


def test_equal_closes_on_different_days_stay():
    raw = prices()
    raw.iloc[10:13] = raw.iloc[10].to_numpy()
    panel = build_panel(raw)
    assert len(panel.prices) == len(raw)
    assert panel.report.flags == ()


def gap():
    dates = pd.DatetimeIndex(["2022-01-03", "2022-01-04", "2022-01-05", "2022-01-06"], name="Date")
    return pd.DataFrame({"SPY": [100.0, 101.0, np.nan, 103.02], "AGG": [50.0, 50.1, 50.2, 50.3]}, index=dates)


def test_a_gap_never_becomes_a_silent_zero_return():
    with pytest.raises(DataError, match=r"SPY 2022-01-05.*gaps=drop_dates \| forward_fill:K \| drop_ticker"):
        build_panel(gap())


def test_a_gap_of_a_single_ticker_never_becomes_a_silent_zero_return():
    with pytest.raises(DataError, match=r"2022-01-05.*gaps=drop_dates"):
        build_panel(gap()[["SPY"]])


def test_a_gap_may_be_left_out_so_that_one_return_spans_it():
    panel = build_panel(gap(), policies={"gaps": "drop_dates"})
    np.testing.assert_allclose(panel.returns["SPY"], [0.01, 0.02], atol=1e-12)
    assert panel.report.touched == {"gaps=drop_dates": 2}


def test_a_gap_may_be_filled_forward_if_the_policy_says_so_and_the_report_counts_it():
    panel = build_panel(gap(), policies={"gaps": "forward_fill:1"})
    np.testing.assert_allclose(panel.returns["SPY"], [0.01, 0.0, 0.02], atol=1e-12)
    assert panel.report.touched == {"gaps=forward_fill:1": 1}


def test_a_gap_may_cost_the_ticker():
    panel = build_panel(gap(), policies={"gaps": "drop_ticker"})
    assert panel.tickers == ("AGG",)
    assert panel.report.dropped_tickers == ("SPY",)


def test_a_gap_longer_than_may_be_filled_is_still_refused():
    raw = prices()
    raw.iloc[20:24, 0] = np.nan
    with pytest.raises(DataError, match=r"AGG 2021-12-03..*still there after gaps=forward_fill:3"):
        build_panel(raw, policies={"gaps": "forward_fill:3"})
    assert build_panel(raw, policies={"gaps": "forward_fill:4"}).report.touched == {"gaps=forward_fill:4": 4}


def test_a_ticker_that_begins_in_2022_does_not_cut_the_panel_in_silence():
    raw = prices()
    raw.loc[:"2021-12-31", "GLD"] = np.nan
    with pytest.raises(DataError, match=r"GLD 2022-01-03: first price on 2022-01-03.*start_later \| drop_ticker"):
        build_panel(raw)
    later = build_panel(raw, policies={"late_start": "start_later"})
    assert later.prices.index[0] == pd.Timestamp("2022-01-03")
    assert later.report.touched == {"late_start=start_later": 2 * int((raw.index < "2022").sum())}
    assert build_panel(raw, policies={"late_start": "drop_ticker"}).tickers == ("AGG", "SPY")


def test_a_ticker_that_stops_does_not_cut_the_panel_in_silence():
    raw = prices()
    raw.loc["2022-03-01":, "GLD"] = np.nan
    with pytest.raises(DataError, match=r"GLD 2022-02-28: last price on 2022-02-28.*end_earlier \| drop_ticker"):
        build_panel(raw)
    assert build_panel(raw, policies={"early_end": "end_earlier"}).prices.index[-1] == pd.Timestamp("2022-02-28")
    assert build_panel(raw, policies={"early_end": "drop_ticker"}).tickers == ("AGG", "SPY")


@pytest.mark.parametrize("calendar", ["XNYS", None])
def test_a_range_that_the_prices_do_not_fill_is_no_shorter_panel(calendar):
    with pytest.raises(DataError, match=r"early_end.*late_start"):
        build_panel(prices(), start="2020-01-01", end="2022-12-31", calendar=calendar)


def test_a_dropped_ticker_does_not_make_the_others_late():
    raw = prices()
    raw.loc[:"2021-12-31", ["AGG", "SPY"]] = np.nan
    raw.loc["2022-03-01":, "GLD"] = np.nan
    panel = build_panel(raw, policies={"early_end": "drop_ticker"})
    assert panel.tickers == ("AGG", "SPY")
    assert panel.prices.index[0] == pd.Timestamp("2022-01-03")


def test_both_edges_cut_are_counted_apart():
    raw = prices()
    raw.iloc[:4, 0] = np.nan
    raw.iloc[-2:, 1] = np.nan
    panel = build_panel(raw, policies={"late_start": "start_later", "early_end": "end_earlier"})
    assert panel.report.touched == {"early_end=end_earlier": 4, "late_start=start_later": 8}


def test_an_all_nan_first_row_is_left_out_with_a_note():
    raw = prices()
    raw.iloc[0] = np.nan
    panel = build_panel(raw)
    assert len(panel.prices) == len(raw) - 1
    assert kinds(panel) == {"empty_rows"}


def test_an_empty_row_on_a_holiday_is_left_out_with_a_note():
    raw = prices()
    raw.loc[pd.Timestamp("2021-11-25")] = np.nan
    assert kinds(build_panel(raw)) == {"unsorted", "empty_rows"}


def test_prices_on_a_holiday_are_refused_unless_the_policy_leaves_them_out():
    raw = prices()
    raw.loc[pd.Timestamp("2021-11-25")] = raw.loc["2021-11-24"]
    with pytest.raises(DataError, match=r"2021-11-25: Thursday, no session of XNYS.*off_calendar=drop_dates"):
        build_panel(raw)
    panel = build_panel(raw, policies={"off_calendar": "drop_dates"})
    assert pd.Timestamp("2021-11-25") not in panel.prices.index
    assert panel.report.touched == {"off_calendar=drop_dates": 3}


def test_a_session_that_no_ticker_has_is_found_by_the_calendar():
    raw = prices().drop(pd.Timestamp("2022-01-12"))
    with pytest.raises(DataError, match=r"2022-01-12: 1 session of XNYS without any price"):
        build_panel(raw)
    assert len(build_panel(raw, policies={"gaps": "drop_dates"}).prices) == len(raw)
    assert len(build_panel(raw, policies={"gaps": "forward_fill:1"}).prices) == len(raw) + 1
    assert len(build_panel(raw, calendar=None).prices) == len(raw)


def test_a_zero_price_is_refused_or_made_a_gap():
    raw = prices()
    raw.loc["2022-01-12", "SPY"] = 0.0
    with pytest.raises(DataError, match=r"SPY 2022-01-12: zero price 0 \[policies: bad_prices=as_missing"):
        build_panel(raw)
    with pytest.raises(DataError, match="gaps"):
        build_panel(raw, policies={"bad_prices": "as_missing"})
    panel = build_panel(raw, policies={"bad_prices": "as_missing", "gaps": "forward_fill:1"})
    assert panel.report.touched == {"bad_prices=as_missing": 1, "gaps=forward_fill:1": 1}
    assert build_panel(raw, policies={"bad_prices": "drop_ticker"}).tickers == ("AGG", "GLD")


@pytest.mark.parametrize(("value", "word"), [(-1.0, "negative"), (np.inf, "infinite")])
def test_negative_and_infinite_prices_are_refused(value, word):
    raw = prices()
    raw.iloc[5, 1] = value
    with pytest.raises(DataError, match=f"GLD 2021-11-08: {word}"):
        build_panel(raw)


def test_percent_strings_are_no_prices():
    raw = prices().astype(object)
    raw.loc["2022-01-12", "SPY"] = "0.4%"
    with pytest.raises(DataError, match=r"SPY 2022-01-12: '0.4%' is a percentage, not a price"):
        build_panel(raw)
    panel = build_panel(raw, policies={"bad_prices": "as_missing", "gaps": "drop_dates"})
    assert panel.report.touched == {"bad_prices=as_missing": 1, "gaps=drop_dates": 3}


def test_a_ticker_without_any_price_is_refused_or_dropped():
    raw = prices().assign(GLD=np.nan)
    with pytest.raises(DataError, match=r"GLD: no price at all \[policies: empty=drop_ticker\]"):
        build_panel(raw)
    assert build_panel(raw, policies={"empty": "drop_ticker"}).tickers == ("AGG", "SPY")


def test_policies_that_leave_nothing_say_so():
    with pytest.raises(DataError, match="no prices are left"):
        build_panel(prices()[["SPY"]] * np.nan, policies={"empty": "drop_ticker"})


def test_an_unadjusted_split_of_four_to_one_is_refused_unless_accepted_or_confirmed():
    raw = prices()
    raw.loc["2022-01-12":, "SPY"] /= 4.0
    with pytest.raises(DataError, match=r"SPY 2022-01-12.*4:1.*jumps=accept \| drop_ticker, or list"):
        build_panel(raw)
    assert len(build_panel(raw, policies={"jumps": "accept"}).tickers) == 3
    assert build_panel(raw, policies={"jumps": "drop_ticker"}).tickers == ("AGG", "GLD")
    confirmed = build_panel(raw, policies={"confirmed_jumps": ["SPY 2022-01-12"]})
    assert kinds(confirmed) == {"confirmed_move"}


def test_a_ticker_dropped_for_its_jump_does_not_shorten_the_panel_first():
    raw = prices()
    raw.loc["2022-01-12":, "SPY"] /= 4.0
    raw.loc[:"2021-12-31", "SPY"] = np.nan
    panel = build_panel(raw, policies={"jumps": "drop_ticker", "late_start": "start_later"})
    assert len(panel.prices) == len(raw)


def test_a_first_price_copied_back_is_refused_or_made_a_late_start():
    raw = prices()
    raw.loc[:"2021-12-31", "GLD"] = raw.loc["2022-01-03", "GLD"]
    with pytest.raises(DataError, match=r"GLD 2021-11-01..2022-01-03.*copied back.*stale=accept"):
        build_panel(raw)
    panel = build_panel(raw, policies={"stale": "as_missing", "late_start": "start_later"})
    assert panel.prices.index[0] == pd.Timestamp("2022-01-03")


def test_all_defects_are_named_in_one_message():
    raw = prices()
    raw.iloc[10, 0] = np.nan
    raw.iloc[11, 1] = -1.0
    raw.loc[:"2021-12-31", "SPY"] = np.nan
    with pytest.raises(DataError) as caught:
        build_panel(raw)
    message = str(caught.value)
    assert all(word in message for word in ("bad_prices (1)", "late_start (1)", "gaps (1)"))
    assert "\n" not in message


def test_an_empty_range_says_what_there_is():
    with pytest.raises(DataError, match="the source has 2021-11-01 to 2022-03-31"):
        build_panel(prices(), start="1999-01-01", end="1999-12-31")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": "2022-02-01", "end": "2022-01-01"}, "lies after"),
        ({"start": "soon"}, "not a date"),
        ({"calendar": "NOWHERE"}, "no exchange calendar"),
        ({"policies": {"gap": "fail"}}, "did you mean 'gaps'"),
        ({"end": "2021-11-01"}, "one date of prices is left"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(DataError, match=message):
        build_panel(prices(), **arguments)


def test_a_date_of_another_century_is_a_slip_that_is_named():
    raw = prices()
    raw.index = [f"{date:%Y-%m-%d}" for date in raw.index]
    with pytest.raises(DataError, match="row 2 of the table is dated 9921-11-02"):
        build_panel(raw.rename(index={"2021-11-02": "9921-11-02"}))


def test_a_series_is_refused_with_the_way_out():
    with pytest.raises(DataError, match="to_frame"):
        build_panel(prices()["SPY"])


@pytest.mark.parametrize("dtype", ["float32", "Int64", "object", "str", "category"])
def test_numbers_of_any_type_become_float64(dtype):
    raw = prices().round().astype("int64").astype(dtype)
    assert (build_panel(raw, policies={"stale": "accept"}).prices.dtypes == np.float64).all()


def test_raw_prices_are_never_changed():
    raw = prices()
    raw.iloc[3, 0] = np.nan
    before = raw.copy()
    build_panel(raw, policies=Policies(gaps="forward_fill:1"))
    pd.testing.assert_frame_equal(raw, before)


def test_the_hash_depends_on_content_alone():
    raw = prices()
    assert build_panel(raw).sha256 == build_panel(raw[::-1].tz_localize("UTC")).sha256
    changed = raw.copy()
    changed.iloc[5, 0] += 1e-9
    assert len({content_hash(raw), content_hash(changed), content_hash(raw.rename(columns={"SPY": "VOO"}))}) == 3


@pytest.mark.parametrize(
    "break_it",
    [
        lambda frame: frame.tz_localize("UTC"),
        lambda frame: frame[::-1],
        lambda frame: frame.set_axis(frame.index + pd.Timedelta(hours=1), axis=0),
        lambda frame: frame.astype(np.float32),
        lambda frame: frame.mask(frame == frame.iloc[3, 0]),
        lambda frame: frame.iloc[:, :0],
        lambda frame: frame.set_axis(["A", "A", "B"], axis=1),
        lambda frame: frame.reset_index(drop=True),
    ],
)
def test_a_panel_of_unclean_prices_cannot_exist(break_it):
    with pytest.raises(DataError, match="build_panel"):
        PricePanel(break_it(prices()))


def test_prices_of_months_are_told_to_leave_the_calendar_out() -> None:
    months = pd.bdate_range("2015-01-01", "2019-12-31", freq="BME")
    prices = pd.DataFrame(100.0 + np.arange(len(months) * 2).reshape(-1, 2), months, ["A", "B"])
    with pytest.raises(DataError, match=r"rows are 31 days apart: prices of weeks or months need data\.calendar: null"):
        build_panel(prices)
    assert len(build_panel(prices, calendar=None).prices) == len(months)
