"""What becomes of positions in assets that left a universe: they are sold, and others bought for what they bring."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.allocation import drift_weights
from portfolio_dfl.errors import BacktestError

__all__ = ["drifted", "membership", "open_through", "require_members", "sold"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def sold(weights: FloatArray, may_hold: BoolArray | None, cash: int | None = None) -> FloatArray:
    """Weights without what may not be held.

    What it brought goes into cash where there is some, or else into the others held, in proportion; equally into all
    that may be held where nothing else is.

    Parameters
    ----------
    weights : array, shape (N,)
    may_hold : array of bool, shape (N,), optional
        None: everything.
    cash : int, optional
        Place of cash.

    Raises
    ------
    BacktestError
        If nothing may be held.
    """
    if may_hold is None:
        return weights
    leaving = ~may_hold & (weights != 0.0)
    if not leaving.any():
        return weights
    kept: FloatArray = np.where(leaving, 0.0, weights)
    brought = float(weights[leaving].sum())
    if cash is not None:
        kept[cash] += brought
        return kept
    rest = float(kept[kept != 0.0].sum())
    if rest > 0.0:
        return kept * (1.0 + brought / rest)
    if not may_hold.any():
        raise BacktestError("everything that was held has left, and nothing else may be held")
    return (rest + brought) * np.asarray(may_hold / may_hold.sum(), dtype=np.float64)


def drifted(weights: FloatArray, returns: FloatArray) -> tuple[FloatArray, float]:
    """Weights [N] after a row of returns [N], and the return of all of them; assets that are not held play no part.

    So that how many others there are, which depends on the future, changes no last bit of a sum.
    """
    held = weights != 0.0
    after = np.zeros_like(weights)
    after[held] = drift_weights(weights[held], returns[held])
    return after, float(weights[held] @ returns[held])


def membership(members: pd.DataFrame | None, returns: pd.DataFrame) -> BoolArray | None:
    """Whether each asset may be held at each close, [T, N], of the dates and columns of the returns.

    Raises
    ------
    BacktestError
        If a date or an asset is missing, or a value is neither true nor false.
    """
    if members is None:
        return None
    for what, lacking in (
        ("dates", returns.index.difference(members.index)),
        ("assets", returns.columns.difference(members.columns)),
    ):
        if len(lacking):
            raise BacktestError(f"members lack {len(lacking)} {what} of the returns, the first {lacking[0]}")
    found = members.loc[returns.index, returns.columns]
    if any(dtype != np.bool_ for dtype in found.dtypes):
        raise BacktestError("members are true or false: whether an asset may be held at the close of a date")
    return np.asarray(found.to_numpy(), dtype=np.bool_)


def open_through(may_hold: BoolArray) -> BoolArray:
    """Whether a position may be open through each row, [T, N]: whether it may be held at the close before."""
    through: BoolArray = np.vstack([np.zeros((1, may_hold.shape[1]), dtype=np.bool_), may_hold[:-1]])
    return through


def require_members(weights: FloatArray, may_hold: BoolArray | None, assets: list[str], what: str) -> None:
    """Raise BacktestError where weights hold an asset that may not be held; those that are NaN are no order."""
    if may_hold is None:
        return
    wrong = np.flatnonzero(~may_hold & (np.nan_to_num(weights) != 0.0))
    if len(wrong):
        raise BacktestError(f"{what} hold {weights[wrong[0]]:.3g} of {assets[wrong[0]]}, which is no member then")
