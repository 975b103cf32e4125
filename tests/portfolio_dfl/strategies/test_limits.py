"""Limits by ticker as those of the portfolio problem, where studies start, and what is refused before work starts."""

from __future__ import annotations

import numpy as np
import pytest

from portfolio_dfl.allocation import (
    ActiveShare,
    BenchmarkBand,
    BoxLimits,
    CashAsset,
    ExposureLimits,
    GrossLeverage,
    GroupLimits,
    NetExposure,
    NoTrade,
    TrackingCost,
    TrackingErrorLimit,
    TradeLimits,
)
from portfolio_dfl.config.sections import AllocationConfig
from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.strategies.limits import build_limits, starting_weights

TICKERS = ["SPY", "AGG", "GLD", "BIL"]
INF = float("inf")


def allocation(limits: str, *more: str) -> AllocationConfig:
    return StudyConfig().override([f"allocation.limits={limits}", *more]).allocation


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ("{}", []),
        ("{max_weight: 0.4}", [BoxLimits((0.0,) * 4, (0.4,) * 4)]),
        (
            "{min_weight: {GLD: -0.1}, max_weight: {SPY: 0.6, '*': 0.5}}",
            [BoxLimits((0.0, 0.0, -0.1, 0.0), (0.6, 0.5, 0.5, 0.5))],
        ),
        (
            "{min_weight: -0.2, gross: 1.4, net: 0, cash: BIL}",
            [
                BoxLimits((-0.2, -0.2, -0.2, 0.0), (INF,) * 4),
                CashAsset(3),
                GrossLeverage(1.4),
                NetExposure(0.0, 0.0),
            ],
        ),
        ("{net: {max: 0.9}, cash: BIL}", [CashAsset(3), NetExposure(-INF, 0.9)]),
        (
            "{groups: {equity: {tickers: [SPY, GLD], min: 0.2, max: 0.6}}}",
            [GroupLimits((0, 2), 0.2, 0.6, "equity")],
        ),
        (
            "{exposures: {beta: {values: {SPY: 1.0, GLD: 0.1, '*': 0.0}, max: 0.6}}}",
            [ExposureLimits((1.0, 0.0, 0.1, 0.0), -INF, 0.6, "beta")],
        ),
        (
            "{groups: {risky: {max: 0.5}, '*': {max: 0.7}}, group_of: {SPY: risky, AGG: safe, GLD: risky, BIL: safe}}",
            [GroupLimits((0, 2), -INF, 0.5, "risky"), GroupLimits((1, 3), -INF, 0.7, "safe")],
        ),
        (
            "{benchmark: {ticker: AGG, band: 0.3, active_share: 0.4, tracking_error: 0.002, tracking_aversion: 5}}",
            [
                BenchmarkBand((0.0, 1.0, 0.0, 0.0), (0.3,) * 4),
                ActiveShare((0.0, 1.0, 0.0, 0.0), 0.4),
                TrackingErrorLimit((0.0, 1.0, 0.0, 0.0), 0.002),
                TrackingCost((0.0, 1.0, 0.0, 0.0), 5.0),
            ],
        ),
        ("{max_trade: {SPY: 0.1}, no_trade: [GLD]}", [TradeLimits((0.1, INF, INF, INF)), NoTrade((2,))]),
    ],
)
def test_every_key_is_the_limit_of_its_name(limits: str, expected: list[object]) -> None:
    assert build_limits(allocation(limits), TICKERS) == expected


def test_the_old_largest_weight_is_the_limit_that_it_was() -> None:
    config = StudyConfig().override(["allocation.max_weight=0.5"]).allocation
    assert build_limits(config, TICKERS) == [BoxLimits(0.0, 0.5)]
    assert starting_weights(config, build_limits(config, TICKERS), TICKERS) is None


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (
            "{max_weight: {SPI: 0.4}, no_trade: [TLT], benchmark: {ticker: AG}}",
            r"SPI in max_weight \(the nearest is SPY\), TLT in no_trade, AG in benchmark.ticker \(the nearest is AGG\)",
        ),
        ("{min_weight: 0.5, max_weight: {SPY: 0.4}}", r"no weight is left for SPY \(at least 0.5, at most 0.4\)"),
        ("{groups: {risk: {max: 0.5}}, group_of: {SPY: risky, AGG: safe, GLD: risky, BIL: safe}}", "nearest is risky"),
        ("{groups: {risky: {max: 0.5}}, group_of: {SPY: risky, AGG: safe}}", "no group of GLD, BIL"),
        (
            "{exposures: {beta: {values: {SPY: 1.0, BLI: 0.1}, max: 1}}}",
            "BLI in exposures.beta.values .the nearest is BIL",
        ),
        ("{exposures: {beta: {values: {SPY: 1.0}, max: 1}}}", "exposures.beta has no value for AGG, GLD, BIL"),
    ],
)
def test_tickers_and_groups_that_are_not_there_are_named_at_once(limits: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build_limits(allocation(limits), TICKERS)


def test_two_largest_weights_are_one_too_many() -> None:
    with pytest.raises(ConfigError, match="give one of them"):
        build_limits(allocation("{max_weight: 0.5}", "allocation.max_weight=0.5"), TICKERS)


GROUP = "{groups: {equity: {tickers: [SPY], min: 0.6}}}"


def test_limits_that_contradict_each_other_are_told_with_their_names() -> None:
    both = "{groups: {one: {tickers: [SPY], min: 0.6}, two: {tickers: [AGG], min: 0.5}}}"
    config = allocation(both)
    with pytest.raises(
        ConfigError, match=r"'one' at least 0.6, group 'two' at least 0.5: they miss one another by 0.1"
    ):
        starting_weights(config, build_limits(config, TICKERS), TICKERS)


def test_a_start_out_of_reach_is_refused_or_projected() -> None:
    config = allocation(GROUP)
    with pytest.raises(ConfigError, match=r"'equity' at least 0.6, turnover at most 0.2.*repair=project"):
        starting_weights(config, build_limits(config, TICKERS), TICKERS)
    repaired = allocation(GROUP, "allocation.repair=project")
    start = starting_weights(repaired, build_limits(repaired, TICKERS), TICKERS)
    np.testing.assert_allclose(start, (0.6, 0.4 / 3, 0.4 / 3, 0.4 / 3), atol=1e-9)
    far = allocation(GROUP, "allocation.turnover_limit=0.8")
    assert starting_weights(far, build_limits(far, TICKERS), TICKERS) is None


def test_a_limited_tracking_error_starts_from_the_benchmark() -> None:
    config = allocation("{benchmark: {ticker: AGG, tracking_error: 0.001}}", "allocation.repair=project")
    np.testing.assert_allclose(
        starting_weights(config, build_limits(config, TICKERS), TICKERS), (0, 1, 0, 0), atol=1e-9
    )
