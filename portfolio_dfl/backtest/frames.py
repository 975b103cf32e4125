"""What a frame of returns must be before a backtest reads it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.backtest.leaving import open_through
from portfolio_dfl.data.returns import why_not_returns
from portfolio_dfl.errors import BacktestError

__all__ = ["equal_weights", "require_fully_invested", "require_net_returns", "require_returns"]

# Weights of a numerical solver sum to 1 up to its accuracy; further away they are not a portfolio.
BUDGET_TOLERANCE = 1e-6


def require_returns(
    returns: pd.DataFrame, may_hold: NDArray[np.bool_] | None = None, *, total_losses: bool = False
) -> None:
    """Raise BacktestError unless this is a wide frame of finite simple returns above −1 in order of date.

    Prices, returns in per cent and the like are refused, see :mod:`portfolio_dfl.data.returns`. Where it is said which
    assets may be held at each close, [T, N], returns are asked for of those that may be held at the close before, and
    one that is held no longer at the next may have lost everything; with ``total_losses`` any may.
    """
    if not isinstance(returns.index, pd.DatetimeIndex):
        raise BacktestError(f"returns must be indexed by date, not by a {type(returns.index).__name__}")
    if not (returns.index.is_monotonic_increasing and returns.index.is_unique):
        raise BacktestError("returns must have strictly increasing dates: sort them, drop repeats")
    if not returns.columns.is_unique:
        repeated = returns.columns[returns.columns.duplicated()].tolist()
        raise BacktestError(f"returns have more than one column named {repeated[0]}: one column an asset")
    if returns.shape[1] == 0:
        raise BacktestError("returns have no columns: one column an asset is needed")
    values = returns.to_numpy(dtype=np.float64)
    everywhere = np.ones(values.shape, dtype=np.bool_)
    through, stays = (everywhere, everywhere) if may_hold is None else (open_through(may_hold), may_hold)
    # What a delisting returned is no typical move.
    reason = why_not_returns(returns if may_hold is None else returns.where(through & stays))
    if reason is not None:
        raise BacktestError(f"not simple returns: {reason}")
    bad = ~np.isfinite(values) | (values <= -1.0)
    bad &= through & ~((values == -1.0) & (total_losses | ~stays))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise BacktestError(
            f"{returns.columns[column]} returned {values[row, column]} on {returns.index[row].date()}: "
            "simple returns are finite and above -1; clean the prices first"
        )


def require_net_returns(net_returns: pd.Series[float]) -> None:
    """Raise BacktestError where these are prices, per cent or wealth rather than simple returns; missing ones pass."""
    reason = why_not_returns(net_returns.to_frame(net_returns.name or "net return"))
    if reason is not None:
        raise BacktestError(f"not simple returns: {reason}")


def require_fully_invested(weights: NDArray[np.float64], what: str) -> None:
    """Raise BacktestError unless the weights are finite and sum to 1."""
    if not np.isfinite(weights).all():
        raise BacktestError(f"{what} hold values that are not finite: {weights.tolist()}")
    total = float(weights.sum())
    if abs(total - 1.0) > BUDGET_TOLERANCE:
        raise BacktestError(
            f"{what} sum to {total:.9g}, not to 1: normalise them, or say what the cash left over earns"
        )


def equal_weights(n_assets: int) -> NDArray[np.float64]:
    """1/N in every asset."""
    return np.full(n_assets, 1.0 / n_assets)
