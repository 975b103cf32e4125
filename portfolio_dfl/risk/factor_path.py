"""Factor covariances by date, in their parts: what a study of many assets estimates, learns from and is judged by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from portfolio_dfl.risk.covariance import (
    CHUNK_NUMBERS,
    CovarianceEstimate,
    CovarianceEstimator,
    WindowEstimator,
    require_windows,
)
from portfolio_dfl.risk.factor import WORTH_PARTS, FactorCovariance

__all__ = [
    "FactorEstimator",
    "RealisedFactors",
    "covariance_parts",
    "estimate_now",
    "factor_path",
    "factor_pieces",
    "in_parts",
    "realised_factors",
]

FloatArray = NDArray[np.float64]

# Share of each variance that a realised covariance of fewer returns than assets is taken to leave to the asset alone:
# without one there are riskless portfolios in it by the hundred, and the best of them is not to be told.
_OWN = 1e-4


@runtime_checkable
class FactorEstimator(Protocol):
    """A covariance estimator whose estimates are factor models."""

    @property
    def window(self) -> int:
        """Number of returns."""
        ...

    def estimate_factors(self, windows: FloatArray) -> FactorCovariance:
        """Models of many windows [T, W, N]."""
        ...


def in_parts(estimator: CovarianceEstimator, n_assets: int) -> bool:
    """Whether covariances of so many assets are kept in their parts: where these are estimated, and it pays."""
    return isinstance(estimator, FactorEstimator) and n_assets >= WORTH_PARTS


def factor_pieces(
    returns: pd.DataFrame, estimator: FactorEstimator
) -> Iterator[tuple[pd.DatetimeIndex, FactorCovariance]]:
    """Factor models of every date that has a full window behind it, in consecutive pieces.

    Raises
    ------
    DataError
        As `covariance_path`.
    """
    windows, dates = require_windows(returns, estimator.window)
    n_assets = max(1, windows.shape[2])
    count = max(1, CHUNK_NUMBERS // (max(estimator.window, n_assets) * n_assets))
    for first in range(0, len(windows), count):
        some = slice(first, first + count)
        yield dates[some], estimator.estimate_factors(np.ascontiguousarray(windows[some]))


def factor_path(returns: pd.DataFrame, estimator: FactorEstimator) -> tuple[pd.DatetimeIndex, FactorCovariance]:
    """The whole path of `factor_pieces`; where models have fewer factors than others, the rest are zero."""
    pieces = list(factor_pieces(returns, estimator))
    most = max(piece.n_factors for _, piece in pieces)
    return pd.DatetimeIndex(returns.index[estimator.window - 1 :]), FactorCovariance(
        torch.cat([_padded(piece.exposures, most, 1) for _, piece in pieces]),
        torch.cat([_padded(piece.factor_covariance, most, 2) for _, piece in pieces]),
        torch.cat([piece.specific_variance for _, piece in pieces]),
    )


def _padded(values: Tensor, size: int, dimensions: int) -> Tensor:
    lacking = size - values.shape[-1]
    return torch.nn.functional.pad(values, (0, lacking) * dimensions) if lacking else values


def estimate_now(estimator: CovarianceEstimator, window: FloatArray, scale: float = 1.0) -> Tensor | FactorCovariance:
    """Covariance of one window of returns [W, N] times a number: [N, N], or one factor model without a batch."""
    if in_parts(estimator, window.shape[1]):
        assert isinstance(estimator, FactorEstimator)
        found = estimator.estimate_factors(window[None])
        one = FactorCovariance(found.exposures[0], found.factor_covariance[0], found.specific_variance[0])
        return one.scaled(scale) if scale != 1.0 else one
    dense: Tensor = torch.from_numpy(estimator(window)) * scale
    return dense


def covariance_parts(covariance: Tensor | FactorCovariance) -> tuple[Tensor, ...]:
    """The tensors that a covariance is made of."""
    if isinstance(covariance, FactorCovariance):
        return covariance.exposures, covariance.factor_covariance, covariance.specific_variance
    return (covariance,)


@dataclass(frozen=True)
class RealisedFactors(WindowEstimator):
    """`realised_factors` of windows of returns, for what is judged in a study whose covariances are kept in parts."""

    window: int = 20

    def estimate_factors(self, windows: FloatArray) -> FactorCovariance:
        """Models of many windows [T, W, N]."""
        return realised_factors(torch.from_numpy(windows))

    def estimate_many(self, windows: FloatArray) -> CovarianceEstimate:
        """The same in full, [T, N, N]."""
        dense = self.estimate_factors(windows).dense().numpy()
        return CovarianceEstimate(dense, np.zeros(len(windows)), np.zeros(len(windows)))


def realised_factors(windows: Tensor) -> FactorCovariance:
    """Sample covariances (ddof = 1) of windows of returns [S, W, N], as models with W factors.

    Exposures are the centred returns over √(W − 1), factors are uncorrelated and of variance 1; of each variance 1e-4
    is added as the asset's own.
    """
    S, W, _ = windows.shape
    exposures = (windows - windows.mean(dim=1, keepdim=True)).transpose(1, 2) / (W - 1) ** 0.5
    own = _OWN * exposures.square().sum(dim=2)
    return FactorCovariance(exposures, torch.eye(W, dtype=torch.float64).expand(S, W, W), own)
