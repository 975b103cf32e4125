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


def equal_risk_weights(covariance: FloatArray, max_weight: float = 1.0) -> FloatArray:
    """Weights [N], positive and summing to 1, with equal risk contributions ``w_i (Σw)_i``.

    They are the minimiser of ``½ xᵀCx − Σ log x_i`` over positive x, C the correlation matrix, brought back
    to weights. The objective is self-concordant, so that damped Newton steps converge from any start (Spinu
    2013, "An Algorithm for Computing Risk Parity Weights").

    Parameters
    ----------
    covariance : array, shape (N, N)
        Positive semidefinite, with positive variances.
    max_weight : float
        Largest weight. Where one would be larger, the minimiser is sought among the x whose weights keep the
        limit; contributions are then not all equal (Richard and Roncalli 2019, "Constrained Risk Budgeting
        Portfolios").

    Raises
    ------
    AllocationError
        If the limit leaves no portfolio that is fully invested, an asset has no variance, or the iteration does not
        settle (a portfolio of these assets has no risk).
    """
    if max_weight * len(covariance) < 1.0 - 1e-12:
        raise AllocationError(
            f"no portfolio of {len(covariance)} assets is fully invested with weights ≤ {max_weight:g}"
        )
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
            return equal if equal.max() <= max_weight else _limited(correlation, volatility, max_weight)
        if x.max() > _LARGEST:
            break
    raise AllocationError(
        "weights with equal risk contributions were not found: the assets can be combined to a portfolio "
        "without risk; add a ridge to the covariance"
    )


def _limited(correlation: FloatArray, volatility: FloatArray, max_weight: float) -> FloatArray:
    """The weights where a limit binds: the same objective, and a bound on each weight as a share of their sum."""
    import cvxpy as cp

    n = len(correlation)
    if max_weight * n <= 1.0 + 1e-12:  # no other portfolio is left
        return np.full(n, 1.0 / n)
    x = cp.Variable(n)
    weights = cp.multiply(x, volatility.mean() / volatility)
    objective = 0.5 * cp.quad_form(x, cp.psd_wrap(correlation)) - cp.sum(cp.log(x))
    problem = cp.Problem(cp.Minimize(objective), [weights <= max_weight * cp.sum(weights)])
    try:
        problem.solve(solver=cp.CLARABEL)
    except cp.error.SolverError as error:
        raise AllocationError(
            f"weights ≤ {max_weight:g} with equal risk contributions were not found: {error}"
        ) from error
    if x.value is None:
        raise AllocationError(
            f"weights ≤ {max_weight:g} with equal risk contributions were not found: {problem.status}"
        )
    found = x.value / volatility
    limited: FloatArray = found / found.sum()
    return limited


def risk_contributions(weights: FloatArray, covariance: FloatArray) -> FloatArray:
    """Share of each asset in the portfolio's variance, ``w_i (Σw)_i / wᵀΣw``; sums to 1."""
    shares: FloatArray = weights * (covariance @ weights) / (weights @ covariance @ weights)
    return shares
