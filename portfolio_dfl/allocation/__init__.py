"""Portfolio choice: the multi-period mean-variance layer, and how weights drift between decisions."""

from __future__ import annotations

from portfolio_dfl.allocation.drift import drift_weights
from portfolio_dfl.allocation.multi_period import MultiPeriodMeanVariance
from portfolio_dfl.allocation.solution import AllocationSolution

__all__ = ["AllocationSolution", "MultiPeriodMeanVariance", "drift_weights"]
