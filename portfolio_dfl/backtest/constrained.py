"""One decision under the study's constraints: the first step of the multi-period mean-variance plan."""

from __future__ import annotations

import numpy as np
import qpsolvers
from numpy.typing import NDArray

from portfolio_dfl.errors import AllocationError

__all__ = ["FirstStep"]

FloatArray = NDArray[np.float64]


class FirstStep:
    """Weights of the next period: long only, fully invested, ‖w − held‖₁ ≤ turnover_limit.

    Parameters
    ----------
    risk_aversion : float
        λ of ``−r̂ᵀw + λ/2 wᵀΣw``.
    turnover_limit : float
        τ; ``inf`` for none.
    """

    def __init__(self, *, risk_aversion: float, turnover_limit: float, solver: str = "auto") -> None:
        self.solver = solver
        self.risk_aversion = risk_aversion
        self.turnover_limit = turnover_limit

    def __call__(self, expected_returns: FloatArray, covariance: FloatArray, held: FloatArray) -> FloatArray:
        """Weights [N] from expected returns [H, N], covariance [N, N] and held weights [N]."""
        n = held.size
        scale = 1.0 / max(float(np.abs(covariance).max()), 1e-300)
        P = np.zeros((2 * n, 2 * n))
        P[:n, :n] = scale * self.risk_aversion * covariance
        q = np.concatenate([-scale * expected_returns[0], np.zeros(n)])
        eye = np.eye(n)
        G = np.block([[eye, -eye], [-eye, -eye], [np.zeros((1, n)), np.ones((1, n))]])
        limit = min(self.turnover_limit, 2.0 + np.abs(held).sum())
        h = np.concatenate([held, -held, [limit]])
        A = np.concatenate([np.ones(n), np.zeros(n)])[None]
        weights = qpsolvers.solve_qp(P, q, G, h, A, np.ones(1), lb=np.zeros(2 * n), solver="piqp")
        if weights is None:
            raise AllocationError(f"no portfolio within a turnover of {self.turnover_limit} of {held}")
        clipped = np.maximum(weights[:n], 0.0)
        first: FloatArray = clipped / clipped.sum()
        return first

    def many(self, expected_returns: FloatArray, covariance: FloatArray, held: FloatArray) -> FloatArray:
        """Weights [B, N] from expected returns [B, H, N], covariances [B, N, N] and held weights [B, N]."""
        rows = zip(expected_returns, covariance, held, strict=True)
        return np.array([self(mean, matrix, weights) for mean, matrix, weights in rows])
