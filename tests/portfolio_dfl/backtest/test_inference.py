"""Intervals of differences between strategies."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.backtest import run_ledger
from portfolio_dfl.backtest.evaluation import performance_table
from portfolio_dfl.backtest.inference import (
    Bootstrap,
    compare,
    comparison_table,
    paired_interval,
)
from portfolio_dfl.errors import BacktestError

QUICK = Bootstrap(replications=300)


def series(values: np.ndarray) -> pd.Series:
    return pd.Series(values, index=pd.bdate_range("2020-01-01", periods=len(values)))


def book(values: np.ndarray, name: str):
    dates = pd.bdate_range("2019-12-31", periods=len(values) + 1)
    returns = pd.DataFrame({"A": [0.0, *values]}, index=dates)
    return run_ledger(pd.DataFrame({"A": [1.0]}, index=dates[:1]), returns, name=name)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def mean(values: np.ndarray) -> float:
    return float(values.mean())


def test_what_both_have_in_common_cancels(rng):
    common = rng.normal(0.0, 1.0, 400)
    first, second = series(common + 0.02 + rng.normal(0.0, 0.05, 400)), series(common)
    interval = paired_interval(first, second, {"mean": mean}, bootstrap=QUICK)[0]
    assert interval.estimate == pytest.approx(0.02, abs=0.01)
    assert interval.excludes_zero
    assert interval.high - interval.low < 0.03


def test_a_strategy_does_not_differ_from_itself(rng):
    values = series(rng.normal(size=100))
    interval = paired_interval(values, values, {"mean": mean}, bootstrap=QUICK)[0]
    assert (interval.estimate, interval.low, interval.high) == (0.0, 0.0, 0.0)
    assert not interval.excludes_zero


def test_swapping_the_strategies_turns_the_interval_round(rng):
    first, second = series(rng.normal(size=100)), series(rng.normal(size=100))
    there = paired_interval(first, second, {"mean": mean}, bootstrap=QUICK)[0]
    back = paired_interval(second, first, {"mean": mean}, bootstrap=QUICK)[0]
    assert back.estimate == pytest.approx(-there.estimate, rel=1e-12)
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low), rel=1e-9)


def test_the_seed_decides_the_interval(rng):
    first, second = series(rng.normal(size=100)), series(rng.normal(size=100))
    one, same, other = (
        paired_interval(first, second, {"mean": mean}, bootstrap=Bootstrap(replications=200, seed=seed))[0]
        for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_dependence_over_time_lengthens_the_blocks(rng):
    shocks = rng.normal(size=1000)
    slow = np.zeros(1000)
    for t in range(1, 1000):
        slow[t] = 0.9 * slow[t - 1] + shocks[t]
    zero = series(np.zeros(1000))
    persistent = paired_interval(series(slow), zero, {"mean": mean}, bootstrap=QUICK)[0]
    independent = paired_interval(series(shocks), zero, {"mean": mean}, bootstrap=QUICK)[0]
    assert persistent.block_length > 5 * independent.block_length


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    covered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        common = rng.normal(size=150)
        first, second = common + rng.normal(0.1, 0.5, 150), common + rng.normal(0.0, 0.5, 150)
        settings = Bootstrap(level=0.9, replications=200, seed=seed)
        interval = paired_interval(series(first), series(second), {"mean": mean}, bootstrap=settings)[0]
        covered += interval.low <= 0.1 <= interval.high
    assert 0.78 <= covered / 60 <= 1.0


def test_ledgers_are_compared_in_sharpe_utility_and_regret(rng):
    values = rng.normal(0.0, 0.01, 300)
    better, worse = book(values + 0.001, "better"), book(values, "worse")
    regret = series(np.abs(rng.normal(size=200)))
    intervals = compare([better], [worse], regrets=(regret.to_frame(), regret.to_frame() + 0.1), bootstrap=QUICK)
    assert [interval.statistic for interval in intervals] == ["sharpe", "utility", "regret"]
    assert [interval.estimate > 0 for interval in intervals] == [True, True, False]
    assert all(interval.excludes_zero for interval in intervals)
    assert intervals[1].estimate == pytest.approx(0.252, rel=1e-6)


def test_what_is_compared_are_the_metrics_of_the_tables(rng):
    first, second = book(rng.normal(0.001, 0.01, 200), "first"), book(rng.normal(0.0, 0.02, 200), "second")
    conventions = {"risk_aversion": 3.0, "risk_free": 0.04}
    table = performance_table([first, second], **conventions)
    for interval in compare([first], [second], bootstrap=QUICK, **conventions):
        expected = table.loc["first", interval.statistic] - table.loc["second", interval.statistic]
        assert interval.estimate == pytest.approx(expected, rel=1e-9)


def test_a_higher_level_gives_a_wider_interval(rng):
    first, second = series(rng.normal(size=100)), series(rng.normal(size=100))
    narrow, wide = (
        paired_interval(first, second, {"mean": mean}, bootstrap=Bootstrap(level=level, replications=300))[0]
        for level in (0.5, 0.99)
    )
    assert wide.low < narrow.low < narrow.high < wide.high


def test_regrets_keep_their_strategy(rng):
    books = {name: [book(rng.normal(0.0, 0.01, 100), name)] for name in ("one", "two")}
    regrets = {"one": series(np.full(100, 3.0)).to_frame(), "two": series(np.full(100, 1.0)).to_frame()}
    table = comparison_table(books, "two", regrets=regrets, bootstrap=QUICK)
    assert table.loc[("one", "regret"), "estimate"] == 2.0


def test_regrets_are_compared_on_the_days_that_both_have(rng):
    books = {name: [book(rng.normal(0.0, 0.01, 100), name)] for name in ("one", "two")}
    first, second = series(np.arange(100.0)).to_frame(), series(np.zeros(100)).to_frame()
    table = comparison_table(books, "two", regrets={"one": first.iloc[:60], "two": second.iloc[40:]}, bootstrap=QUICK)
    assert table.loc[("one", "regret"), "estimate"] == np.arange(40.0, 60.0).mean()
    few = comparison_table(books, "two", regrets={"one": first.iloc[:45], "two": second.iloc[40:]}, bootstrap=QUICK)
    assert ("one", "regret") not in few.index


def test_returns_without_volatility_have_no_sharpe_interval(rng):
    flat, other = book(np.full(100, 0.001), "flat"), book(rng.normal(size=100) * 0.01, "other")
    sharpe = compare([flat], [other], bootstrap=QUICK)[0]
    assert math.isnan(sharpe.estimate)
    assert not sharpe.excludes_zero


def test_the_table_compares_every_strategy_with_the_reference(rng):
    books = {name: [book(rng.normal(0.0, 0.01, 100), name)] for name in ("one", "two", "three")}
    table = comparison_table(books, "two", bootstrap=QUICK)
    assert table.index.tolist() == [(n, s) for n in ("one", "three") for s in ("sharpe", "utility")]
    assert {"estimate", "low", "high", "excludes_zero"} <= set(table.columns)


def test_seeds_are_averaged_not_picked(rng):
    good, bad, other = (book(rng.normal(mean, 0.01, 200), "x") for mean in (0.002, -0.001, 0.0))
    both = compare([good, bad], [other], bootstrap=QUICK)
    each = [compare([one], [other], bootstrap=QUICK) for one in (good, bad)]
    for statistic, first, second in zip(both, *each, strict=True):
        assert statistic.estimate == pytest.approx((first.estimate + second.estimate) / 2, rel=1e-9)
    assert compare([good, bad], [bad, good], bootstrap=QUICK)[0].estimate == pytest.approx(0.0, abs=1e-12)


def test_seeds_that_agree_do_not_make_an_interval_narrower(rng):
    values = [book(rng.normal(mean, 0.01, 200), "x") for mean in (0.001, 0.0)]
    assert compare([values[0]] * 3, [values[1]], bootstrap=QUICK) == compare([values[0]], [values[1]], bootstrap=QUICK)


def test_an_unknown_reference_lists_the_strategies(rng):
    with pytest.raises(BacktestError, match=r"'one'"):
        comparison_table({"one": [book(rng.normal(0.0, 0.01, 100), "one")]}, "two")


def test_series_of_different_dates_are_refused(rng):
    with pytest.raises(BacktestError, match="same dates"):
        paired_interval(series(rng.normal(size=50)), series(rng.normal(size=40)), {"mean": mean})


@pytest.mark.parametrize(
    ("settings", "what"),
    [({"level": 1.0}, "level"), ({"replications": 5}, "replications"), ({"block_length": 0}, "block_length")],
)
def test_settings_that_make_no_sense_are_refused(settings, what):
    with pytest.raises(BacktestError, match=what):
        Bootstrap(**settings)
