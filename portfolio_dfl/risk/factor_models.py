"""Factor models from windows of returns: what many assets have in common, and what each has of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from portfolio_dfl.errors import DataError
from portfolio_dfl.risk.covariance import CovarianceEstimate, WindowEstimator, check_window
from portfolio_dfl.risk.factor import FactorCovariance

__all__ = ["StatisticalFactors"]

FloatArray = NDArray[np.float64]

# The least share of an asset's variance that is taken to be its own: as many components as returns leave none.
_OWN = 1e-3
# Returns that differ by no more than this, relative to the largest, do not vary.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class StatisticalFactors(WindowEstimator):
    """Principal components of the correlations of the last ``window`` returns, and each asset's own variance.

    Σ = S (V Λ Vᵀ + D) S with S the volatilities, V and Λ the largest eigenvectors and eigenvalues of the sample
    correlation, and D what these leave of each variance, so that variances are the sample's (ddof = 1). By default
    those components count whose eigenvalue exceeds (1 + √(N / W))², the largest that independent returns have in the
    limit (Marchenko and Pastur 1967): what lies below cannot be told from noise.

    Parameters
    ----------
    window : int
        Number of returns W, at least 3.
    factors : int or "auto"
        How many components K; "auto" takes those above the bound, one at least.
    shrinkage : float
        Share in [0, 1] by which the assets' own shares of their variance are drawn to their mean.
    """

    window: int = 250
    factors: int | Literal["auto"] = "auto"
    shrinkage: float = 0.0

    def __post_init__(self) -> None:
        check_window(self.window)
        if self.window < 3:
            raise DataError(f"a factor model needs a window of at least 3 returns, got {self.window}")
        if self.factors != "auto" and not 1 <= self.factors <= self.window - 2:
            raise DataError(
                f"factors is {self.factors!r}; it is 'auto' or a number from 1 to window − 2 = {self.window - 2}"
            )
        if not 0.0 <= self.shrinkage <= 1.0:
            raise DataError(f"shrinkage is {self.shrinkage}; it is a share from 0 to 1")

    def estimate_factors(self, windows: FloatArray) -> FactorCovariance:
        """Models of many windows [T, W, N] at once.

        K is the largest number of components that a window has; those that count for fewer have no exposure to the
        rest.
        """
        T, W, N = windows.shape
        centred = windows - windows.mean(axis=1, keepdims=True)
        variance = np.square(centred).sum(axis=1) / (W - 1)
        rounding = W * np.square(_ROUNDING * np.abs(windows).max(axis=1))
        if not (variance > rounding).all():
            window, asset = np.argwhere(~(variance > rounding))[0]
            raise DataError(
                f"asset {asset} does not vary in window {window} of returns, and has no correlation: leave it out"
            )
        volatility = np.sqrt(variance)
        scaled = centred / (volatility[:, None, :] * np.sqrt(W - 1.0))
        # Of the two Gram matrices the smaller one; they share their eigenvalues.
        rows = W <= N
        values, vectors = np.linalg.eigh(
            scaled @ scaled.swapaxes(1, 2) if rows else scaled.swapaxes(1, 2) @ scaled,
        )
        values, vectors = np.clip(values[:, ::-1], 0.0, None), vectors[:, :, ::-1]
        counts = self._counts(values, N)
        most = int(counts.max())
        values, vectors = values[:, :most], vectors[:, :, :most]
        counts_for = np.arange(most) < counts[:, None]
        if rows:
            vectors = scaled.swapaxes(1, 2) @ vectors / np.sqrt(np.where(values > 0.0, values, 1.0))[:, None, :]
        vectors = vectors * counts_for[:, None, :]
        own = np.clip(1.0 - np.einsum("tnk,tk->tn", np.square(vectors), values), _OWN, None)
        own += self.shrinkage * (own.mean(axis=1, keepdims=True) - own)
        factors = np.zeros((T, most, most))
        factors[:, np.arange(most), np.arange(most)] = np.where(counts_for, values, 0.0)
        parts = (volatility[:, :, None] * vectors, factors, variance * own)
        return FactorCovariance(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))

    def _counts(self, values: FloatArray, n_assets: int) -> NDArray[np.intp]:
        """Components of each window."""
        most = min(self.window - 2, n_assets)
        if self.factors != "auto":
            return np.full(len(values), min(self.factors, most))
        bound = (1.0 + np.sqrt(n_assets / self.window)) ** 2
        found: NDArray[np.intp] = np.clip((values > bound).sum(axis=1), 1, most)
        return found

    def estimate_many(self, windows: FloatArray) -> CovarianceEstimate:
        """The same in full, [T, N, N]."""
        dense = self.estimate_factors(windows).dense().numpy()
        symmetric = 0.5 * (dense + dense.swapaxes(-1, -2))
        return CovarianceEstimate(symmetric, np.full(len(windows), self.shrinkage), np.zeros(len(windows)))
