"""Portfolio choice: the multi-period mean-variance layer, its limits, and how weights drift between decisions."""

from __future__ import annotations

from portfolio_dfl.allocation.costs import Costs
from portfolio_dfl.allocation.drift import drift_weights
from portfolio_dfl.allocation.exposure import GrossLeverage, NetExposure
from portfolio_dfl.allocation.limits import (
    ActiveShare,
    BenchmarkBand,
    BoxLimits,
    CashAsset,
    ExposureLimits,
    GroupLimits,
    Limit,
    TrackingCost,
    append_cash,
)
from portfolio_dfl.allocation.multi_period import MultiPeriodMeanVariance
from portfolio_dfl.allocation.smoothing import Smoothing
from portfolio_dfl.allocation.solution import AllocationSolution
from portfolio_dfl.allocation.tracking_error import TrackingErrorLimit
from portfolio_dfl.allocation.trading import NoTrade, TradeLimits

__all__ = [
    "ActiveShare",
    "AllocationSolution",
    "BenchmarkBand",
    "BoxLimits",
    "CashAsset",
    "Costs",
    "ExposureLimits",
    "GrossLeverage",
    "GroupLimits",
    "Limit",
    "MultiPeriodMeanVariance",
    "NetExposure",
    "NoTrade",
    "Smoothing",
    "TrackingCost",
    "TrackingErrorLimit",
    "TradeLimits",
    "append_cash",
    "drift_weights",
]
