"""Portfolio choice: the multi-period mean-variance layer, and how weights drift between decisions."""

from __future__ import annotations

from portfolio_dfl.allocation.drift import drift_weights

__all__ = ["drift_weights"]
