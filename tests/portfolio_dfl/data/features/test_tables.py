"""Feature tables: layouts, when values are known, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.data.features import FeatureSet, FeatureTable, check_features, feature_table, read_feature_file
from portfolio_dfl.errors import DataError

TICKERS = ("A", "B")


@pytest.fixture(scope="module")
def returns() -> pd.DataFrame:
    index = pd.bdate_range("2021-01-04", periods=10)
    return pd.DataFrame(np.random.default_rng(0).normal(0.0, 0.01, (10, 2)), index, list(TICKERS))


def known(table: FeatureTable, returns: pd.DataFrame) -> np.ndarray:
    return table.known(returns, len(returns))[0]


def test_a_value_is_known_from_the_close_of_its_date_on_and_lag_sessions_later(returns: pd.DataFrame) -> None:
    frame = pd.DataFrame({"vix": [10.0, 20.0]}, index=pd.to_datetime(["2021-01-05", "2021-01-09"]))  # a Saturday
    at_close = known(feature_table(frame, name="m", tickers=TICKERS, lag=0), returns)[:, 0, 0]
    np.testing.assert_array_equal(at_close, [np.nan, 10, 10, 10, 10, 20, 20, 20, 20, 20])
    later = known(feature_table(frame, name="m", tickers=TICKERS, lag=2), returns)[:, 0, 0]
    np.testing.assert_array_equal(later, [np.nan, np.nan, np.nan, 10, 10, 10, 10, 20, 20, 20])


def test_publication_dates_rule_and_a_revision_of_an_older_date_does_not_replace_a_newer_value(
    returns: pd.DataFrame,
) -> None:
    frame = pd.DataFrame(
        {
            "date": ["2021-01-04", "2021-01-05", "2021-01-04", "2021-01-05"],
            "released": ["2021-01-06", "2021-01-07", "2021-01-08", "2021-01-12"],
            "gdp": [1.0, 2.0, 1.5, 2.5],
        }
    )
    seen = known(feature_table(frame, name="m", tickers=TICKERS, known_at="released"), returns)[:, 0, 0]
    np.testing.assert_array_equal(seen, [np.nan, np.nan, 1, 2, 2, 2, 2.5, 2.5, 2.5, 2.5])


def test_old_values_are_missing(returns: pd.DataFrame) -> None:
    frame = pd.DataFrame({"x": [1.0]}, index=returns.index[:1])
    table = feature_table(frame, name="m", tickers=TICKERS, max_age=3)
    np.testing.assert_array_equal(np.isnan(known(table, returns)[:, 0, 0]), [False] * 4 + [True] * 6)
    with pytest.raises(DataError, match="x was 4 sessions old, more than its max_age on 2021-01-08"):
        FeatureSet((table,)).rows(returns, 10)


def test_all_layouts_of_values_by_asset_say_the_same(returns: pd.DataFrame, tmp_path: Path) -> None:
    wide = returns.rename_axis("date").rename_axis("ticker", axis=1)
    long = wide.reset_index().melt("date", value_name="size")
    levels = pd.concat({"size": wide}, axis=1)
    expected = known(feature_table(long, name="f", tickers=TICKERS), returns)
    np.testing.assert_array_equal(expected[:, :, 0], returns.to_numpy())
    long.to_csv(tmp_path / "long.csv", index=False)
    levels.to_csv(tmp_path / "levels.csv")
    long.to_parquet(tmp_path / "long.parquet")
    frames = [long.set_index(["date", "ticker"]), levels, levels.swaplevel(axis=1), wide]
    tables = [feature_table(frame, name="f", tickers=TICKERS) for frame in frames]
    tables += [read_feature_file(file, name="f", tickers=TICKERS) for file in sorted(tmp_path.iterdir())]
    for table in tables:
        assert table.by_asset
        np.testing.assert_allclose(known(table, returns), expected, rtol=1e-15)


def test_equal_content_has_one_hash(returns: pd.DataFrame) -> None:
    one, other = (feature_table(frame, name="f", tickers=TICKERS) for frame in (returns, returns[["B", "A"]]))
    assert one.sha256 == other.sha256 != feature_table(returns * 2, name="f", tickers=TICKERS).sha256


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ({"date": ["2021-01-04"], "x": ["high"]}, {}, "feature f: x on 2021-01-04 is 'high', which is no number"),
        ({"date": ["2021-01-04"], "x": [np.inf]}, {}, "feature f: x on 2021-01-04 is infinite"),
        ({"date": ["2021-01-04"] * 2, "x": [1.0, 2.0]}, {}, "the row on 2021-01-04 stands in two rows"),
        ({"date": ["2021-01-04"], "ticker": ["A"], "x": [1.0]}, {}, "feature f: no values of B"),
        ({"date": ["2021-01-04"], "x": [1.0]}, {"lag": -1}, "lag of feature f must be at least 0"),
        ({"date": ["2021-01-04"], "x": [1.0]}, {"columns": ["y"]}, "no column y; there are x"),
        ({"date": ["2021-01-04"], "x": [1.0]}, {"known_at": "out"}, "no column out for known_at"),
        (
            {"date": ["2021-01-04"], "out": ["2021-01-03"], "x": [1.0]},
            {"known_at": "out"},
            "known_at of 2021-01-03 lies before it",
        ),
        ({"x": [1.0]}, {}, "no dates in the index or in a column"),
    ],
)
def test_what_cannot_be_used_is_named(frame: dict[str, list[object]], options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        feature_table(pd.DataFrame(frame), name="f", tickers=TICKERS, **options)  # type: ignore[arg-type]


def test_missing_values_are_refused_or_stand_for_zero_or_the_mean(returns: pd.DataFrame) -> None:
    frame = pd.DataFrame({"x": [1.0]}, index=returns.index[4:5])
    with pytest.raises(DataError, match="from 2021-01-08 on nothing is missing: start later"):
        FeatureSet((feature_table(frame, name="m", tickers=TICKERS),)).rows(returns, 10)
    zero = FeatureSet((feature_table(frame, name="m", tickers=TICKERS, missing="zero"),))
    np.testing.assert_array_equal(zero.rows(returns, 10).dated[:, 0], [0] * 4 + [1] * 6)
    mean = FeatureSet((feature_table(frame, name="m", tickers=TICKERS, missing="mean"),))
    assert np.isnan(mean.rows(returns, 10).dated[:4]).all()
    assert mean.leaves_gaps == ("m",)


def test_a_check_shows_first_dates_coverage_age_and_jumps(returns: pd.DataFrame) -> None:
    frame = pd.DataFrame({"x": [1.0, 1.1, 1.2, 1.3, 99.0]}, index=returns.index[[2, 3, 4, 5, 6]])
    report = check_features(FeatureSet((feature_table(frame, name="m", tickers=TICKERS),)), returns)
    assert report.usable
    aged = feature_table(frame, name="m", tickers=TICKERS, max_age=2)
    assert check_features(FeatureSet((aged,)), returns).failures == ("m",)
    row = report.table.iloc[0]
    assert (row["feature"], row["first"]) == ("m.x", returns.index[2].date())
    assert (row["coverage"], row["all_sessions"], row["oldest"], row["jumps"]) == (1.0, 0.8, 3, 1)
    assert row["largest_jump"] == returns.index[6].date()
