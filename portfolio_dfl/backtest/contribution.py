"""Which assets a ledger's return and risk came from, to the last place: what is told adds up to the whole.

With weights ``w_t`` held through row t, asset returns ``r_t`` and wealth before costs ``V_t = V_{t−1} (1 + w_t·r_t)``:

    return of asset i   Σ_t V_{t−1} w_{t,i} r_{t,i}              adds up over assets to V_T − 1
    risk of asset i     √p · cov(w_i r_i, w·r) / std(w·r)        adds up to the volatility a year before costs

The first is what each asset earned in units of the starting wealth; the second is Euler's decomposition of the
standard deviation, taken of what was held instead of fixed weights.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from portfolio_dfl.backtest.evaluation import is_constant
from portfolio_dfl.backtest.ledger import CASH, Ledger
from portfolio_dfl.errors import BacktestError

__all__ = ["by_group", "contributions", "daily_contributions"]

#: Group of assets that no group names.
UNGROUPED = "no group"

# Rounding of a sum of products, next to a return of the row.
_EQUAL = 1e-9


def daily_contributions(ledger: Ledger, returns: pd.DataFrame) -> pd.DataFrame:
    """Weight times return, one column an asset (and cash, where it is kept); rows add up to the gross return.

    Parameters
    ----------
    ledger : Ledger
    returns : DataFrame, shape (T, N)
        Simple returns of the ledger's assets; dates beyond the ledger's are left aside.

    Raises
    ------
    BacktestError
        If returns of a day or an asset are missing, or these are not the returns that the ledger earned.
    """
    assets = list(ledger.trades.columns)
    days = ledger.daily.index
    lacking = [str(asset) for asset in assets if asset not in returns.columns]
    if lacking:
        raise BacktestError(f"returns of {', '.join(lacking)} are missing, which {ledger.name!r} holds")
    known = returns[assets].reindex(days)
    if known.isna().to_numpy().any():
        row, column = np.argwhere(known.isna().to_numpy())[0]
        raise BacktestError(f"the return of {assets[column]} on {days[row].date()} is missing, of {ledger.name!r}")
    parts = ledger.weights[assets] * known
    gross = ledger.daily["gross_return"]
    rest = gross - parts.sum(axis=1)
    if ledger.holds_cash:
        return parts.assign(**{CASH: rest})
    wrong = (rest.abs() > _EQUAL).to_numpy()
    if wrong.any():
        day = days[np.flatnonzero(wrong)[0]]
        raise BacktestError(
            f"weights times returns give {parts.loc[day].sum():.6g} on {day.date()} and {ledger.name!r} earned "
            f"{gross.loc[day]:.6g}: these are not the returns of its books"
        )
    return parts


def contributions(ledger: Ledger, returns: pd.DataFrame, *, periods_per_year: float) -> pd.DataFrame:
    """What each asset contributed: ``return`` and ``risk``, as above, beside its ``weight`` on average.

    Raises
    ------
    BacktestError
        As for :func:`daily_contributions`.
    """
    parts = daily_contributions(ledger, returns)
    gross = parts.sum(axis=1).to_numpy()
    before = np.concatenate([[1.0], np.cumprod(1.0 + gross)[:-1]])
    if len(gross) < 2 or is_constant(gross):
        risk = np.full(parts.shape[1], np.nan)
    else:
        centred = gross - gross.mean()
        covariance = centred @ (parts - parts.mean()).to_numpy() / (len(gross) - 1)
        risk = np.sqrt(periods_per_year) * covariance / gross.std(ddof=1)
    return pd.DataFrame(
        {"weight": ledger.weights.mean().to_numpy(), "return": before @ parts.to_numpy(), "risk": risk},
        index=pd.Index(parts.columns, name="asset"),
    )


def by_group(table: pd.DataFrame, groups: Mapping[str, str]) -> pd.DataFrame:
    """The table of :func:`contributions` summed over the assets of each group; others are in a group of their own."""
    names = [groups.get(str(asset), CASH if asset == CASH else UNGROUPED) for asset in table.index]
    return table.groupby(pd.Index(names, name="group"), sort=False).sum(min_count=1)
