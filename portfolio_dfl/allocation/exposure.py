"""Limits of long-short portfolios: how much is held in all, and how much is left when shorts are taken off.

Weights sum to 1, cash included, so that short positions pay for long ones and cash holds the rest. Both limits count
every asset but cash (`CashAsset`); without one the net exposure is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from portfolio_dfl.allocation.limits import Limit, Limits
from portfolio_dfl.errors import AllocationError
from portfolio_dfl.scalars import require_number

__all__ = ["GrossLeverage", "NetExposure"]


@dataclass(frozen=True)
class GrossLeverage(Limit):
    """Σ_i |w_{s,i}| ≤ limit at every stage, over all assets but cash: 1.6 for a portfolio of 130 long and 30 short.

    Short positions are those that `BoxLimits` allow; with none the limit says how much is not cash.
    """

    limit: float

    def __post_init__(self) -> None:
        require_number(AllocationError, "GrossLeverage.limit", self.limit, above=0.0, infinite=True)

    def apply(self, limits: Limits) -> None:
        limits.gross = min(limits.gross, float(self.limit))


@dataclass(frozen=True)
class NetExposure(Limit):
    """lower ≤ Σ_i w_{s,i} ≤ upper at every stage, over all assets but cash: 0 and 0 for a dollar-neutral portfolio."""

    lower: float = float("-inf")
    upper: float = float("inf")

    def __post_init__(self) -> None:
        require_number(AllocationError, "NetExposure.lower", self.lower, infinite=True)
        require_number(AllocationError, "NetExposure.upper", self.upper, infinite=True)
        if not self.lower <= self.upper or self.lower == np.inf or self.upper == -np.inf:
            raise AllocationError(f"NetExposure: no number lies between {self.lower:g} and {self.upper:g}")

    def apply(self, limits: Limits) -> None:
        if self.upper < np.inf:
            limits.groups.append((limits.counted.copy(), float(self.upper), "net exposure"))
        if self.lower > -np.inf:
            limits.groups.append((-limits.counted, -float(self.lower), "net exposure"))
