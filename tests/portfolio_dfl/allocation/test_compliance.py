"""Which limits leave no portfolio, by how much they miss one another, and how far portfolios break them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from portfolio_dfl.allocation import (
    ActiveShare,
    BoxLimits,
    CashAsset,
    GrossLeverage,
    GroupLimits,
    Limit,
    MultiPeriodMeanVariance,
    NetExposure,
    NoTrade,
    TradeLimits,
)
from portfolio_dfl.allocation.compliance import find_conflict, violations
from portfolio_dfl.allocation.limits import Limits
from portfolio_dfl.errors import AllocationError

TICKERS = ("SPY", "AGG", "GLD", "TLT", "BIL")
EQUAL = np.full(5, 0.2)


def collected(*limits: Limit) -> Limits:
    return Limits.collect(5, limits, TICKERS)


@pytest.mark.parametrize(
    ("limits", "named", "amount"),
    [
        (
            (BoxLimits(0.0, 0.3), GroupLimits((0, 1), 0.7, name="stocks")),
            {"SPY at most 0.3", "AGG at most 0.3", "group 'stocks' at least 0.7"},
            0.1,
        ),
        ((NetExposure(upper=0.5),), {"net exposure at most 0.5"}, 0.5),
        ((BoxLimits(-0.3, 1.0), GrossLeverage(0.9)), {"gross leverage at most 0.9"}, 0.1),
        (
            (GroupLimits((0,), 0.7, name="one"), ActiveShare(tuple(EQUAL), 0.4)),
            {"group 'one' at least 0.7", "active share at most 0.4"},
            0.1,
        ),
    ],
)
def test_limits_that_leave_no_portfolio_are_named_with_what_they_lack(
    limits: tuple[Limit, ...], named: set[str], amount: float
) -> None:
    conflict = find_conflict(collected(*limits))
    assert conflict is not None
    assert named <= set(conflict.limits)
    assert conflict.amount == pytest.approx(amount)
    with pytest.raises(AllocationError, match="cannot be met together"):
        MultiPeriodMeanVariance(5, 1, limits=limits, assets=TICKERS)


def test_cash_takes_what_a_net_exposure_leaves() -> None:
    shorts = BoxLimits((-0.5, -0.5, -0.5, -0.5, 0.0), 1.0)
    assert find_conflict(collected(shorts, NetExposure(0.0, 0.0), CashAsset(4))) is None


@pytest.mark.parametrize(
    ("limits", "turnover", "named", "amount"),
    [
        ((GroupLimits((0, 1), 0.7, name="stocks"),), 0.2, {"group 'stocks' at least 0.7", "turnover at most 0.2"}, 0.2),
        ((BoxLimits(0.0, 0.5), TradeLimits(0.05)), np.inf, {"SPY at most 0.5", "trade of SPY at most 0.05"}, 0.05),
        ((NoTrade((0,)), GroupLimits((0, 1), upper=0.5)), np.inf, {"trade of SPY at most 0"}, 0.1),
    ],
)
def test_what_is_held_too_far_from_the_limits_is_told_by_limit_date_and_amount(
    limits: tuple[Limit, ...], turnover: float, named: set[str], amount: float
) -> None:
    held = EQUAL if turnover < np.inf else np.array([0.6, 0.1, 0.1, 0.1, 0.1])
    conflict = find_conflict(collected(*limits), held, turnover)
    assert conflict is not None
    assert named <= set(conflict.limits)
    assert conflict.amount == pytest.approx(amount)
    layer = MultiPeriodMeanVariance(5, 2, limits=limits, turnover_limit=turnover, assets=TICKERS)
    returns, covariance = torch.zeros(1, 2, 5).double(), torch.eye(5).double()
    with pytest.raises(AllocationError, match=f"^2020-01-02: .*miss one another by {amount:g}"):
        layer(returns, covariance, torch.from_numpy(held), dates=["2020-01-02"])


def test_limits_that_can_be_met_have_no_conflict() -> None:
    limits = collected(BoxLimits(-0.2, 0.5), GrossLeverage(1.2), GroupLimits((0, 1), 0.1, 0.5), TradeLimits(0.1))
    assert find_conflict(limits) is None
    assert find_conflict(limits, EQUAL, 0.05) is None


def test_portfolios_break_limits_by_what_they_lack_and_others_not_at_all() -> None:
    limits = collected(
        BoxLimits(-0.1, 0.5),
        GrossLeverage(1.2),
        GroupLimits((0, 1), 0.3, 0.6, "stocks"),
        ActiveShare(tuple(EQUAL), 0.5),
        TradeLimits(0.25),
    )
    weights = np.array([EQUAL, [0.7, 0.2, 0.2, 0.1, -0.2], [0.0, 0.1, 0.3, 0.3, 0.3]])
    found = violations(limits, weights, np.tile(EQUAL, (3, 1)), turnover_limit=0.6)
    expected = {
        "smallest weight of BIL": [0.0, 0.1, 0.0],
        "largest weight of SPY": [0.0, 0.2, 0.0],
        "group 'stocks'": [0.0, 0.3, 0.2],
        "gross leverage": [0.0, 0.2, 0.0],
        "turnover limit": [0.0, 0.4, 0.0],
        "largest trade of SPY": [0.0, 0.25, 0.0],
        "largest trade of BIL": [0.0, 0.15, 0.0],
    }
    assert found.keys() == expected.keys()
    for label, amounts in expected.items():
        np.testing.assert_allclose(found[label], amounts, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GrossLeverage(0.0), "must be positive"),
        (lambda: NetExposure(0.5, 0.2), "no number lies between 0.5 and 0.2"),
        (lambda: TradeLimits(0.0), "must be positive"),
        (lambda: NoTrade(()), "names no asset"),
        (lambda: collected(NoTrade((7,))), "names asset 7"),
        (lambda: collected(NoTrade((0, 1, 2, 3))), "leaves 1 of 5 assets"),
        (lambda: collected(TradeLimits((0.1, 0.2))), "2 entries for 5 assets"),
        (lambda: Limits.collect(5, (), ("A", "B")), "assets names 2, there are 5"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(make: object, words: str) -> None:
    with pytest.raises(AllocationError, match=words):
        make()  # type: ignore[operator]
