"""Limits of single trades: the largest one of each asset, and assets that are not traded at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from portfolio_dfl.allocation.limits import Limit, Limits, asset_vector
from portfolio_dfl.errors import AllocationError
from portfolio_dfl.scalars import require_number, require_whole

__all__ = ["NoTrade", "TradeLimits"]


@dataclass(frozen=True)
class TradeLimits(Limit):
    """|w_{s,i} − w_{s−1,i}| ≤ largest_i at every stage; a number, or one for each asset, infinite for none.

    The first stage's trade is taken from the weights held before. A weight that prices drove further beyond its
    bounds than one trade can take back leaves no portfolio to go to, which the error says.
    """

    largest: float | Sequence[float]

    of_weights: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_number(AllocationError, "TradeLimits.largest", self.largest, above=0.0, infinite=True)

    def apply(self, limits: Limits) -> None:
        _tighten(limits, asset_vector("TradeLimits.largest", self.largest, limits.lower.shape[0]))


@dataclass(frozen=True)
class NoTrade(Limit):
    """The weights of these assets (their numbers) are changed by prices alone.

    Whatever they have drifted to is what they stay at, so that no bound of single weights applies to them; groups,
    leverage and limits on a benchmark count them.
    """

    assets: Sequence[int]

    # After all bounds of weights.
    turn: ClassVar[int] = 1
    of_weights: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not len(self.assets):
            raise AllocationError("NoTrade names no asset: leave it out")
        for asset in self.assets:
            require_whole(AllocationError, "asset of NoTrade", asset, 0)

    def apply(self, limits: Limits) -> None:
        n = limits.lower.shape[0]
        held = sorted(set(self.assets))
        if held[-1] >= n:
            raise AllocationError(f"NoTrade names asset {held[-1]}, but there are {n}")
        if len(held) >= n - 1:
            raise AllocationError(f"NoTrade leaves {n - len(held)} of {n} assets to trade: two at least are needed")
        largest = np.full(n, np.inf)
        largest[held] = 0.0
        limits.lower[held], limits.upper[held] = -np.inf, np.inf
        _tighten(limits, largest)


def _tighten(limits: Limits, largest: np.ndarray) -> None:
    before = limits.largest_trade
    limits.largest_trade = largest if before is None else np.minimum(before, largest)
