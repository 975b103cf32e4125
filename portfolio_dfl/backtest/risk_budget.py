"""Long-only weights whose assets contribute equally to the portfolio's risk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from portfolio_dfl.errors import AllocationError

__all__ = ["equal_risk_weights", "risk_contributions"]

FloatArray = NDArray[np.float64]

_TOLERANCE = 1e-10
_MOST_STEPS = 200
# x is 1 for uncorrelated assets and grows as they hedge each other; up here only rounding is left of the risk.
_LARGEST = 1e7


def equal_risk_weights(covariance: FloatArray) -> FloatArray:
    """Weights [N], positive and summing to 1, with equal risk contributions ``w_i (Σw)_i``.

    They are the minimiser of ``½ xᵀCx − Σ log x_i`` over positive x, C the correlation matrix, brought back
    to weights. The objective is self-concordant, so that damped Newton steps converge from any start (Spinu
    2013, "An Algorithm for Computing Risk Parity Weights").

    Parameters
    ----------
    covariance : array, shape (N, N)
        Positive semidefinite, with positive variances.

    Raises
    ------
    AllocationError
        If an asset has no variance, or the iteration does not settle (a portfolio of these assets has no
        risk).
    """
    volatility = np.sqrt(np.diagonal(covariance))
    if not (volatility > 0.0).all():
        asset = int(np.argmin(volatility > 0.0))
        raise AllocationError(
            f"asset {asset} has no volatility (variance {covariance[asset, asset]:g}): "
            "it cannot contribute its share of the risk; drop it or lengthen the window"
        )
    correlation = covariance / np.outer(volatility, volatility)
    x = np.full(len(correlation), 1.0 / np.sqrt(max(correlation.mean() * len(correlation), 1e-3)))
    for _ in range(_MOST_STEPS):
        gradient = correlation @ x - 1.0 / x
        direction = np.linalg.solve(correlation + np.diag(1.0 / x**2), gradient)
        decrement = float(np.sqrt(max(gradient @ direction, 0.0)))
        x = x - direction / (1.0 + decrement) if decrement > 0.25 else x - direction
        if decrement < _TOLERANCE:
            weights = x / volatility
            equal: FloatArray = weights / weights.sum()
            return equal
        if x.max() > _LARGEST:
            break
    raise AllocationError(
        "weights with equal risk contributions were not found: the assets can be combined to a portfolio "
        "without risk; add a ridge to the covariance"
    )


def risk_contributions(weights: FloatArray, covariance: FloatArray) -> FloatArray:
    """Share of each asset in the portfolio's variance, ``w_i (Σw)_i / wᵀΣw``; sums to 1."""
    shares: FloatArray = weights * (covariance @ weights) / (weights @ covariance @ weights)
    return shares
