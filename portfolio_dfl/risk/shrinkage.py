"""Covariances shrunk towards a multiple of the identity, by as much as the data ask for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portfolio_dfl.risk.covariance import CovarianceEstimate, WindowEstimator, check_window, gram

__all__ = ["OAS", "LedoitWolf"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class LedoitWolf(WindowEstimator):
    """Sample covariance shrunk towards a multiple of the identity (Ledoit and Wolf 2004).

    scikit-learn's ``ledoit_wolf`` for many windows at once: the same numbers (the tests hold it to them)
    without its input checks for every window, which cost a hundred times the arithmetic.

    Parameters
    ----------
    window : int
        Number of returns, at least 2.
    """

    window: int = 120

    def __post_init__(self) -> None:
        check_window(self.window)

    def estimate_many(self, windows: FloatArray) -> CovarianceEstimate:
        """Covariances of many windows [T, W, N] at once, with the shrinkage that the data chose."""
        centred, sample, mean_variance = _unit_scale_moments(windows)
        n_assets = windows.shape[-1]
        squares = centred**2
        # Σ_ij of the mean of (x_i x_j)² is the mean of (Σ_i x_i²)².
        noise = ((squares.sum(-1) ** 2).mean(-1) - (sample**2).sum((-2, -1))) / (n_assets * self.window)
        distance = (sample**2).sum((-2, -1)) / n_assets - mean_variance**2
        return _shrunk(windows, sample, mean_variance, np.clip(noise, 0.0, None), distance)


@dataclass(frozen=True)
class OAS(WindowEstimator):
    """Oracle approximating shrinkage towards a multiple of the identity (Chen, Wiesel, Eldar and Hero 2010).

    scikit-learn's ``oas`` for many windows at once, see :class:`LedoitWolf`.

    Parameters
    ----------
    window : int
        Number of returns, at least 2.
    """

    window: int = 120

    def __post_init__(self) -> None:
        check_window(self.window)

    def estimate_many(self, windows: FloatArray) -> CovarianceEstimate:
        """Covariances of many windows [T, W, N] at once, with the shrinkage that the data chose."""
        _, sample, mean_variance = _unit_scale_moments(windows)
        n_assets = windows.shape[-1]
        mean_square = (sample**2).mean((-2, -1))
        numerator = mean_square + mean_variance**2
        denominator = (self.window + 1.0) * (mean_square - mean_variance**2 / n_assets)
        return _shrunk(windows, sample, mean_variance, numerator, denominator)


def _scales(windows: FloatArray) -> FloatArray:
    """Largest absolute return of every window, or 1: fourth powers of tiny returns would underflow."""
    largest: FloatArray = np.abs(windows).max(axis=(1, 2))
    return np.where(largest > 0.0, largest, 1.0)


def _unit_scale_moments(windows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Centred returns, their second moments (ddof = 0) and mean variance, in units of each window's scale."""
    scaled = windows / _scales(windows)[:, None, None]
    centred = scaled - scaled.mean(axis=1, keepdims=True)
    sample = gram(centred / np.sqrt(windows.shape[1]))
    return centred, sample, np.trace(sample, axis1=-2, axis2=-1) / windows.shape[-1]


def _shrunk(
    windows: FloatArray,
    sample: FloatArray,
    mean_variance: FloatArray,
    numerator: FloatArray,
    denominator: FloatArray,
) -> CovarianceEstimate:
    """Mix sample and target by numerator / denominator, at most 1; nothing is mixed where the two agree."""
    n_assets = sample.shape[-1]
    differs = denominator > np.finfo(np.float64).eps * mean_variance**2
    shrinkage = np.minimum(numerator / np.where(differs, denominator, 1.0), 1.0) * differs
    target = mean_variance[:, None, None] * np.eye(n_assets)
    mixed = sample + shrinkage[:, None, None] * (target - sample)
    covariance = mixed * _scales(windows)[:, None, None] ** 2
    return CovarianceEstimate(covariance, shrinkage, np.zeros(len(windows)))
