"""Covariances from windows of returns: positive semidefinite by construction, the shrinkage on record.

An estimator is a small frozen dataclass. ``estimator(window)`` gives the matrix of one window,
``estimator.estimate_many(windows)`` those of many at once, and :func:`covariance_path` walks a frame of
returns so that the entry of a date uses returns up to and including that date and nothing later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.data.returns import why_not_returns
from portfolio_dfl.errors import DataError

__all__ = [
    "CovarianceEstimate",
    "CovarianceEstimator",
    "CovariancePath",
    "EWMACovariance",
    "RollingCovariance",
    "covariance_path",
    "covariance_pieces",
    "estimate_path",
]

FloatArray = NDArray[np.float64]

#: Windows are copied when they are centred; this many numbers at a time stay in the processor's cache.
CHUNK_NUMBERS = 2_000_000


class CovarianceEstimate(NamedTuple):
    """Covariances with what was done to them.

    Attributes
    ----------
    covariance : array, shape (..., N, N)
        Per-period covariance of simple returns (squared return units), symmetric and positive semidefinite.
    shrinkage : array, shape (...)
        Weight in [0, 1] that the structured target received: 0 is the plain estimate.
    ridge : array, shape (...)
        Number added to every variance, in squared return units.
    """

    covariance: FloatArray
    shrinkage: FloatArray
    ridge: FloatArray


class CovariancePath(NamedTuple):
    """Covariances date by date: entry ``t`` was estimated from returns up to and including ``dates[t]``."""

    dates: pd.DatetimeIndex
    covariance: FloatArray
    shrinkage: FloatArray
    ridge: FloatArray


@runtime_checkable
class CovarianceEstimator(Protocol):
    """What a covariance estimator offers; ``window`` is the number of returns it looks at."""

    @property
    def window(self) -> int:
        """Number of returns an estimate uses."""

    def __call__(self, returns_window: FloatArray) -> FloatArray:
        """Covariance [N, N] of one window of returns [W, N]."""

    def estimate_many(self, windows: FloatArray) -> CovarianceEstimate:
        """Covariances of many windows [T, W, N] at once, with the shrinkage used."""


class WindowEstimator:
    """One window is many windows of which there is one: both give the same bits."""

    window: int

    def __call__(self, returns_window: FloatArray) -> FloatArray:
        """Covariance [N, N] of one window of returns [W, N]; raises DataError unless W rows, all finite."""
        values = np.ascontiguousarray(returns_window, dtype=np.float64)
        if values.ndim != 2 or values.shape[0] != self.window:
            raise DataError(
                f"{type(self).__name__} looks at {self.window} returns [W, N], got a window of {values.shape}"
            )
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise DataError(
                f"the return in row {row}, column {column} of the window is {values[row, column]}: "
                "deal with missing prices before estimating a covariance"
            )
        covariance: FloatArray = self.estimate_many(values[None]).covariance[0]
        return covariance

    def estimate_many(self, windows: FloatArray) -> CovarianceEstimate:
        """Covariances of many windows [T, W, N] at once, with the shrinkage used."""
        raise NotImplementedError


@dataclass(frozen=True)
class RollingCovariance(WindowEstimator):
    """Sample covariance (mean removed, ddof = 1) of the last ``window`` returns, plus a small ridge.

    The paper's estimator: 20 daily returns "stabilized by adding a small diagonal ridge term". The ridge is
    relative, so that the estimate scales with the returns' units: ``ridge`` times the average variance is
    added to every variance.

    Parameters
    ----------
    window : int
        Number of returns, at least 2.
    ridge : float
        Share of the average variance that is added to the diagonal, at least 0.
    """

    window: int = 20
    ridge: float = 1e-3

    def __post_init__(self) -> None:
        check_window(self.window)
        _check_ridge(self.ridge)

    def estimate_many(self, windows: FloatArray) -> CovarianceEstimate:
        """Covariances of many windows [T, W, N] at once; their shrinkage is 0."""
        centred = windows - windows.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt(self.window - 1.0)
        return _with_ridge(gram(scaled), np.zeros(len(windows)), self.ridge)


@dataclass(frozen=True)
class EWMACovariance(WindowEstimator):
    """Exponentially weighted second moments of the last ``window`` returns, around zero.

    Weights fall by half every ``halflife`` returns and sum to 1 over the window (RiskMetrics technical
    document, J.P. Morgan 1996, truncated to the window; a decay of 0.94 is a half-life of 11.2).

    Parameters
    ----------
    window : int
        Number of returns, at least 2.
    halflife : float
        Number of returns after which a weight is half, positive.
    ridge : float
        Share of the average variance that is added to the diagonal, at least 0.
    """

    window: int = 120
    halflife: float = 20.0
    ridge: float = 1e-3

    def __post_init__(self) -> None:
        check_window(self.window)
        _check_ridge(self.ridge)
        if not (np.isfinite(self.halflife) and self.halflife > 0.0):
            raise DataError(f"halflife must be a positive number of returns, got {self.halflife}")

    def estimate_many(self, windows: FloatArray) -> CovarianceEstimate:
        """Covariances of many windows [T, W, N] at once; their shrinkage is 0."""
        weights = 0.5 ** (np.arange(self.window - 1, -1, -1) / self.halflife)
        scaled = windows * np.sqrt(weights / weights.sum())[:, None]
        return _with_ridge(gram(scaled), np.zeros(len(windows)), self.ridge)


def covariance_path(returns: pd.DataFrame, estimator: CovarianceEstimator) -> tuple[pd.DatetimeIndex, FloatArray]:
    """Covariances of every date that has a full window behind it.

    Parameters
    ----------
    returns : DataFrame
        Simple returns, one column an asset.
    estimator : CovarianceEstimator
        What turns a window of returns into a covariance.

    Returns
    -------
    dates : DatetimeIndex, length T = len(returns) − window + 1
    covariance : array, shape (T, N, N)
        Entry ``t`` uses the ``window`` returns up to and including ``dates[t]``; it does not change when
        later returns do.

    Raises
    ------
    DataError
        If a return is missing or not finite, or there are fewer returns than one window.
    """
    path = estimate_path(returns, estimator)
    return path.dates, path.covariance


def estimate_path(returns: pd.DataFrame, estimator: CovarianceEstimator) -> CovariancePath:
    """Covariances of every date as :func:`covariance_path`, with the shrinkage and ridge used at each."""
    pieces = list(covariance_pieces(returns, estimator))
    return CovariancePath(
        dates=pd.DatetimeIndex(returns.index[estimator.window - 1 :]),
        covariance=np.concatenate([piece.covariance for piece in pieces]),
        shrinkage=np.concatenate([piece.shrinkage for piece in pieces]),
        ridge=np.concatenate([piece.ridge for piece in pieces]),
    )


def covariance_pieces(
    returns: pd.DataFrame, estimator: CovarianceEstimator, only: pd.DatetimeIndex | None = None
) -> Iterator[CovariancePath]:
    """The path of :func:`estimate_path` in consecutive pieces that fit a processor's cache, for one at a time.

    ``only`` names the dates that are wanted; by default all that have a window.

    Covariances of many assets over many dates do not fit in memory: 500 assets need 2 MB a date.
    """
    windows, dates = require_windows(returns, estimator.window)
    chosen = np.arange(len(dates)) if only is None else np.flatnonzero(dates.isin(only))
    n_assets = max(1, windows.shape[2])
    count = max(1, CHUNK_NUMBERS // (max(estimator.window, n_assets) * n_assets))
    for first in range(0, len(chosen), count):
        some = chosen[first : first + count]
        # A contiguous copy: the order of operations, and so every bit, is that of a single window.
        estimate = estimator.estimate_many(np.ascontiguousarray(windows[some]))
        yield CovariancePath(dates[some], *estimate)


def require_windows(returns: pd.DataFrame, window: int) -> tuple[FloatArray, pd.DatetimeIndex]:
    """Every window of returns [T, W, N], a view, and the date of its last one.

    Raises
    ------
    DataError
        If a return is missing, not finite or no simple one, or there are fewer returns than one window.
    """
    values = returns.to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise DataError(
            f"the return of {returns.columns[column]} on {returns.index[row]} is {values[row, column]}: "
            "deal with missing prices before estimating covariances"
        )
    reason = why_not_returns(returns)
    if reason is not None:
        raise DataError(f"not simple returns: {reason}")
    if len(values) < window:
        raise DataError(
            f"a covariance needs {window} returns and there are {len(values)}: "
            "take a longer history or a shorter window"
        )
    windows = np.lib.stride_tricks.sliding_window_view(values, window, axis=0).swapaxes(1, 2)
    return windows, pd.DatetimeIndex(returns.index[window - 1 :])


def gram(scaled: FloatArray) -> FloatArray:
    """XᵀX of every window: a Gram matrix cannot have a negative eigenvalue beyond rounding."""
    product: FloatArray = np.matmul(scaled.swapaxes(-1, -2), scaled)
    symmetric: FloatArray = 0.5 * (product + product.swapaxes(-1, -2))
    return symmetric


def _with_ridge(covariance: FloatArray, shrinkage: FloatArray, share: float) -> CovarianceEstimate:
    n_assets = covariance.shape[-1]
    ridge = share * np.trace(covariance, axis1=-2, axis2=-1) / n_assets
    return CovarianceEstimate(covariance + ridge[:, None, None] * np.eye(n_assets), shrinkage, ridge)


def check_window(window: int) -> None:
    if window < 2:
        raise DataError(f"a covariance needs a window of at least 2 returns, got {window}")


def _check_ridge(ridge: float) -> None:
    if not (np.isfinite(ridge) and ridge >= 0.0):
        raise DataError(f"ridge must be a share of the average variance, 0 or more, got {ridge}")
