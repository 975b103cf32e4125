"""What a clean price panel is, and the one function that makes one."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from portfolio_dfl.errors import DataError

__all__ = ["PanelReport", "PricePanel", "build_panel"]

Day = str | dt.date


@dataclass(frozen=True)
class PanelReport:
    """What was found in the prices and what the policies did about it."""

    flags: tuple[str, ...] = ()
    touched: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PricePanel:
    """Clean adjusted closes: float64, positive, finite; tz-naive, strictly increasing, unique dates."""

    prices: pd.DataFrame
    report: PanelReport = field(default_factory=PanelReport)

    @property
    def tickers(self) -> tuple[str, ...]:
        """Column names."""
        return tuple(str(column) for column in self.prices.columns)

    @cached_property
    def returns(self) -> pd.DataFrame:
        """Simple returns, [T-1, N]; row t is close t-1 to close t."""
        return self.prices.pct_change(fill_method=None).iloc[1:]

    @cached_property
    def sha256(self) -> str:
        """Hash of dates, tickers and prices."""
        digest = hashlib.sha256("\n".join(self.tickers).encode())
        digest.update(self.prices.index.strftime("%Y-%m-%d").str.cat(sep="\n").encode())
        digest.update(np.ascontiguousarray(self.prices.to_numpy(np.float64), dtype="<f8").tobytes())
        return digest.hexdigest()


def build_panel(
    raw: pd.DataFrame,
    *,
    tickers: Sequence[str] | None = None,
    start: Day | None = None,
    end: Day | None = None,
    calendar: str | None = "XNYS",
    policies: Mapping[str, object] | None = None,
) -> PricePanel:
    """Make a clean panel of the tickers from ``start`` to ``end``, both included."""
    prices = raw if tickers is None else raw[list(tickers)]
    prices = prices.astype(np.float64).loc[
        None if start is None else pd.Timestamp(start) : None if end is None else pd.Timestamp(end)
    ]
    if not np.isfinite(prices.to_numpy()).all() or (prices.to_numpy() <= 0).any():
        raise DataError("the prices hold missing, non-finite or non-positive values")
    return PricePanel(prices)
