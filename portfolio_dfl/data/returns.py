"""What simple returns can be: prices, per cent, gross returns and differences taken for them give absurd results.

A column is no column of simple returns where a value lies below −1, where moves are typically far larger than any
market's (12 % a day, growing with the square root of the days between rows), or where it varies and never falls at
values that no deposit pays. Log returns cannot be told: they differ from simple ones by less than either varies.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["compounded", "why_not_returns"]

# Typical |r| of a day that no asset has: of thousands of stocks, funds and coins the wildest move by some 5 %.
_LARGEST_TYPICAL = 0.12
# Of few rows, each may be a crash; then a typical move must be beyond even those.
_FEW_ROWS, _LARGEST_OF_FEW, _LARGEST_OF_ONE = 30, 0.5, 5.0
# That many rows without a fall, at values above a day's, are levels.
_ROWS_WITHOUT_A_FALL, _LARGEST_INTEREST = 30, 0.02


def compounded(returns: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Simple returns over every ``length`` consecutive rows of [T, N], [T − length + 1, N]; NaN where one of them is.

    With ``length`` 1 they are the returns themselves.
    """
    if length == 1:
        return returns
    if len(returns) < length:
        return np.empty((0, returns.shape[1]))
    grown: NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(1.0 + returns, length, axis=0).prod(axis=-1)
    return grown - 1.0


def why_not_returns(returns: pd.DataFrame) -> str | None:
    """Say why a frame does not hold simple returns, with the column, the date and what to do; None where it may.

    Parameters
    ----------
    returns : DataFrame, shape (T, N)
        One column an asset; rows may be dated or not, and values missing.
    """
    values = returns.to_numpy(dtype=np.float64)
    known = np.where(np.isfinite(values), values, 0.0)
    below = known < -1.0
    if below.any():
        row, column = np.argwhere(below)[0]
        return _clause(
            returns, int(row), int(column), f"{known[row, column]:g}", "and a simple return is never below -1"
        )
    distance = np.sqrt(_days_between_rows(returns.index))
    sizes = np.abs(known)
    for column in np.flatnonzero(sizes.max(axis=0, initial=0.0) > _LARGEST_INTEREST * distance):
        moves = sizes[np.isfinite(values[:, column]), column]
        typical = float(np.median(moves))
        place, row = int(column), int(np.argmax(sizes[:, column] >= typical))
        if typical > _largest(len(moves)) * distance:
            shown = f"{known[row, column]:g}"
            return _clause(returns, row, place, shown, f"and typically moves by {typical:.3g}, which no asset does")
        if len(moves) >= _ROWS_WITHOUT_A_FALL and _are_levels(known[:, column], typical, distance):
            shown = f"{known[row, column]:g}"
            return _clause(returns, row, place, shown, f"and in {len(moves)} rows of {typical:.3g} never falls")
    return None


def _clause(returns: pd.DataFrame, row: int, column: int, value: str, reason: str) -> str:
    label = returns.index[row]
    date = f"on {label.date()}" if isinstance(label, pd.Timestamp) else f"in row {label}"
    given = returns.iloc[:, column].dropna()
    if bool((given >= 0.0).all()):
        advice = "these look like prices: take prices.pct_change().iloc[1:] (of gross returns 1 + r, subtract 1)"
    elif float(given.abs().median()) <= _LARGEST_TYPICAL:
        advice = "clean the prices first (of returns in per cent, divide all by 100)"
    else:
        advice = "divide returns in per cent by 100; of prices take prices.pct_change().iloc[1:], not their differences"
    return f"{returns.columns[column]} has {value} {date} {reason}: {advice}"


def _largest(rows: int) -> float:
    if rows >= _FEW_ROWS:
        return _LARGEST_TYPICAL
    return _LARGEST_OF_FEW if rows >= 3 else _LARGEST_OF_ONE


def _are_levels(values: NDArray[np.float64], typical: float, distance: float) -> bool:
    varies = float(np.ptp(values)) > 1e-9 * typical
    return varies and bool((values > 0.0).all()) and typical > _LARGEST_INTEREST * distance


def _days_between_rows(index: pd.Index) -> float:
    if not isinstance(index, pd.DatetimeIndex) or len(index) < 2:
        return 1.0
    days = np.diff(index.to_numpy()) / np.timedelta64(1, "D")
    return max(1.0, float(np.median(np.abs(days))))
