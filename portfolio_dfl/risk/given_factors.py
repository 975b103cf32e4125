"""Factor models whose exposures are known beforehand: what remains to be estimated is how the factors move."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from portfolio_dfl.errors import DataError
from portfolio_dfl.risk.covariance import CovarianceEstimate, WindowEstimator, check_window
from portfolio_dfl.risk.factor import FactorCovariance

__all__ = ["GivenFactors"]

FloatArray = NDArray[np.float64]

# The least share of an asset's variance that is taken to be its own.
_OWN = 1e-3


@dataclass(frozen=True, eq=False)
class GivenFactors(WindowEstimator):
    """Fundamental factors: each day's returns are regressed on the exposures, across assets.

    With exposures B, f_t = (BᵀB)⁻¹ Bᵀ r_t are the factors' returns of day t and e_t = r_t − B f_t what each asset has
    of its own; Σ = B Ω Bᵀ + D with Ω the sample covariance of f and D the sample variances of e (ddof = 1 both). The
    exposures are the same in all windows: they must have been known at the first date that is decided on.

    Fama and MacBeth (1973) for the regressions; Grinold and Kahn (2000), chapter 3, for the model.

    Parameters
    ----------
    window : int
        Number of returns W, at least 3.
    exposures : array, shape (N, K)
        Of each asset to each factor.
    market : bool
        Whether a factor that all assets are exposed to alike is added.
    shrinkage : float
        Share in [0, 1] by which own variances are drawn to their mean, and covariances of factors to zero.

    Raises
    ------
    DataError
        If the window is too short, the exposures are not finite, or a factor follows from the others.
    """

    window: int
    exposures: FloatArray = field(repr=False)
    market: bool = True
    shrinkage: float = 0.0
    loadings: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_window(self.window)
        if self.window < 3:
            raise DataError(f"a factor model needs a window of at least 3 returns, got {self.window}")
        if not 0.0 <= self.shrinkage <= 1.0:
            raise DataError(f"shrinkage is {self.shrinkage}; it is a share from 0 to 1")
        given = np.array(self.exposures, dtype=np.float64)
        if given.ndim != 2 or not np.isfinite(given).all():
            raise DataError("exposures must be finite numbers, a row for each asset and a column for each factor")
        if self.market:
            given = np.column_stack([np.ones(len(given)), given])
        if np.linalg.matrix_rank(given) < given.shape[1]:
            raise DataError(
                f"{given.shape[1]} factors{', the market among them,' if self.market else ''} are not told apart by "
                f"the exposures of {len(given)} assets: leave out one that follows from the others (of groups that "
                "every asset is in one of, one; or set market to false)"
            )
        object.__setattr__(self, "loadings", given)

    def estimate_factors(self, windows: FloatArray) -> FactorCovariance:
        """Models of many windows [T, W, N] at once."""
        T, W, N = windows.shape
        B = self.loadings
        if len(B) != N:
            raise DataError(f"exposures are of {len(B)} assets, returns of {N}")
        factors = windows @ np.linalg.pinv(B).T  # [T, W, K]
        own = (windows - factors @ B.T).var(axis=1, ddof=1)
        centred = factors - factors.mean(axis=1, keepdims=True)
        common = centred.swapaxes(1, 2) @ centred / (W - 1)
        own = np.maximum(own, _OWN * windows.var(axis=1, ddof=1))
        if not (own > 0.0).all():
            window, asset = np.argwhere(~(own > 0.0))[0]
            raise DataError(f"asset {asset} does not vary in window {window} of returns: leave it out")
        own += self.shrinkage * (own.mean(axis=1, keepdims=True) - own)
        diagonal = np.arange(B.shape[1])
        variances = common[:, diagonal, diagonal]
        common *= 1.0 - self.shrinkage
        common[:, diagonal, diagonal] = variances
        parts = (np.broadcast_to(B, (T, *B.shape)), common, own)
        return FactorCovariance(*(torch.from_numpy(np.array(part, dtype=np.float64, order="C")) for part in parts))

    def estimate_many(self, windows: FloatArray) -> CovarianceEstimate:
        """The same in full, [T, N, N]."""
        dense = self.estimate_factors(windows).dense().numpy()
        symmetric = 0.5 * (dense + dense.swapaxes(-1, -2))
        return CovarianceEstimate(symmetric, np.full(len(windows), self.shrinkage), np.zeros(len(windows)))
