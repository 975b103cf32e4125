"""Limits of the user's own by name: made, looked at, applied as ours are, the same in every process."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

from portfolio_dfl.allocation.limits import BoxLimits, GroupLimits, Limit, Limits
from portfolio_dfl.allocation.own_limit import OwnLimit
from portfolio_dfl.allocation.projection import nearest_weights
from portfolio_dfl.allocation.trading import TradeLimits
from portfolio_dfl.errors import AllocationError

TICKERS = ("A", "B", "C")


class Few(Limit):
    """A largest sum of the weights of some tickers."""

    def __init__(self, tickers: list[str], most: float) -> None:
        self.tickers, self.most = tickers, most

    def apply(self, limits: Limits) -> None:
        assert limits.assets is not None
        GroupLimits([limits.assets.index(ticker) for ticker in self.tickers], upper=self.most).apply(limits)


class Wide(BoxLimits):
    """Shorts down to a half."""

    def __init__(self) -> None:
        super().__init__(-0.5, 1.0)


class Slow(TradeLimits):
    """Small trades."""

    def __init__(self) -> None:
        super().__init__(0.01)


def capped(limits: Limits, most: float) -> None:
    limits.cut_upper(np.full(3, most))


def short(limits: Limits) -> None:
    limits.cut_upper(np.zeros(2))


def emptied(limits: Limits) -> None:
    limits.lower = np.zeros(2)


def endless(limits: Limits) -> None:
    limits.groups.append((np.full(3, np.inf), 1.0, "all"))


def own(part: str, **options: object) -> OwnLimit:
    return OwnLimit(f"{__name__}:{part}", options)


def test_an_own_limit_asks_what_ours_asks() -> None:
    mine = Limits.collect(3, [own("Few", tickers=["A", "C"], most=0.4)], TICKERS)
    ours = Limits.collect(3, [GroupLimits([0, 2], upper=0.4)], TICKERS)
    np.testing.assert_array_equal(mine.groups[0][0], ours.groups[0][0])
    assert mine.groups[0][1:] == ours.groups[0][1:]
    assert Limits.collect(3, [own("capped", most=0.5)]).upper.tolist() == [0.5, 0.5, 0.5]


def test_what_a_class_of_ours_says_of_itself_its_subclass_says_too() -> None:
    assert Limits.collect(3, [own("Wide")]).lower.tolist() == [-0.5] * 3
    np.testing.assert_allclose(nearest_weights([1.0, 0.0, 0.0], [own("Slow")]), [1.0, 0.0, 0.0], atol=1e-9)


def test_it_is_pickled_by_its_name_and_told_apart_by_its_options() -> None:
    limit = own("capped", most=0.5)
    again = pickle.loads(pickle.dumps(limit))
    assert again == limit != own("capped", most=0.6)
    assert repr(again) == repr(limit)
    assert "most" in repr(limit)


@pytest.mark.parametrize(
    ("part", "options", "message"),
    [
        ("Few", {}, "takes (tickers: 'list[str]', most: 'float'"),
        ("Few", {"tickers": ["D"], "most": 0.4}, "raised ValueError"),
        ("short", {}, "raised ValueError"),
        ("emptied", {}, "left lower as array([0., 0.]); one number for each of 3 assets is needed"),
        ("endless", {}, "gave all exposures"),
        ("Absent", {}, "has no attribute 'Absent'"),
    ],
)
def test_one_that_does_not_fit_is_named(part: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(AllocationError, match=re.escape(message)):
        Limits.collect(3, [own(part, **options)], TICKERS)
