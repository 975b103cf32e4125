"""Laws of clean panels: no number comes from nowhere, and the way prices are written down does not matter."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from portfolio_dfl.data.panel import build_panel
from portfolio_dfl.data.sessions import sessions_between
from portfolio_dfl.errors import DataError

DATES = sessions_between("XNYS", pd.Timestamp("2022-01-03"), pd.Timestamp("2022-03-01"))
NOISE = np.random.default_rng(5).normal(0.0, 0.01, (len(DATES), 3))
PRICES = pd.DataFrame(100 * np.exp(np.cumsum(NOISE, axis=0)), index=DATES, columns=["AGG", "GLD", "SPY"])

holes = st.lists(
    st.tuples(st.integers(0, len(DATES) - 1), st.integers(0, 2), st.integers(1, 6)), min_size=0, max_size=8
)
choices = st.fixed_dictionaries(
    {
        "gaps": st.sampled_from(["fail", "drop_dates", "forward_fill:1", "forward_fill:4", "drop_ticker"]),
        "late_start": st.sampled_from(["fail", "start_later", "drop_ticker"]),
        "early_end": st.sampled_from(["fail", "end_earlier", "drop_ticker"]),
        "empty": st.sampled_from(["fail", "drop_ticker"]),
    }
)


def with_holes(places):
    raw = PRICES.copy()
    for row, column, length in places:
        raw.iloc[row : row + length, column] = np.nan
    return raw


@given(holes, choices)
def test_every_price_of_a_panel_is_one_that_was_there_on_that_date_or_filled_within_the_limit(places, policies):
    raw = with_holes(places)
    try:
        panel = build_panel(raw, policies=policies)
    except DataError:
        return
    kept = raw.loc[panel.prices.index, list(panel.tickers)]
    filled = kept.isna()
    pd.testing.assert_frame_equal(panel.prices.where(~filled), kept, check_names=False, check_freq=False)
    limit = int(policies["gaps"].partition(":")[2] or 0)
    if limit == 0:
        assert not filled.to_numpy().any()
        return
    expected = raw[list(panel.tickers)].ffill(limit=limit).loc[panel.prices.index]
    pd.testing.assert_frame_equal(panel.prices, expected, check_names=False, check_freq=False)
    # A row without any price at the start of the panel is no gap; all others count.
    assert panel.report.touched.get(f"gaps={policies['gaps']}", 0) == filled.to_numpy().sum()


@given(holes)
def test_prices_with_holes_become_no_panel_unless_a_policy_says_so(places):
    raw = with_holes(places)
    inner = raw.dropna(how="all")
    complete = inner.notna().to_numpy().all() and len(inner) == len(sessions_between("XNYS", *inner.index[[0, -1]]))
    try:
        build_panel(raw)
    except DataError:
        assert not complete
    else:
        assert complete


@given(st.permutations(range(len(DATES))), st.sampled_from([None, "UTC", "America/New_York", "Asia/Tokyo"]))
def test_neither_order_of_rows_nor_time_zone_changes_a_panel(order, zone):
    raw = PRICES.iloc[list(order)]
    written = raw if zone is None else raw.tz_localize(zone)
    assert build_panel(written).sha256 == build_panel(PRICES).sha256


@given(st.lists(st.integers(0, len(DATES) - 1), max_size=5))
def test_repeated_equal_rows_change_nothing(rows):
    assert build_panel(pd.concat([PRICES, PRICES.iloc[rows]])).sha256 == build_panel(PRICES).sha256
