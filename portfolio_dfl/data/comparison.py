"""What changed between two downloads of the same prices, beyond the drift that adjusted histories have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from portfolio_dfl.data.flags import day
from portfolio_dfl.wording import counted

__all__ = ["TOLERANCE", "Comparison", "compare_prices"]

#: Largest difference of a simple return that counts as drift: repeated downloads of adjusted closes differ by
#: about 1e-5 in level, while the smallest dividend worth the name moves a return by several 1e-4.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Comparison:
    """Difference of two price histories.

    Returns are compared rather than prices: each new dividend rescales the whole adjusted history of a ticker
    before it, which changes no return.

    Attributes
    ----------
    changed
        One row a return that differs beyond the tolerance: ticker, date, old, new (simple returns, NaN where
        there was no price), difference.
    drift
        Largest difference of a return within the tolerance.
    added_dates, removed_dates, added_tickers, removed_tickers
        What only the new and only the old prices have.
    """

    changed: pd.DataFrame
    drift: float
    added_dates: pd.DatetimeIndex
    removed_dates: pd.DatetimeIndex
    added_tickers: tuple[str, ...]
    removed_tickers: tuple[str, ...]

    @property
    def rewrites_history(self) -> bool:
        """Whether anything that was known has changed or gone, so that a study's results may change."""
        return bool(len(self.changed) or len(self.removed_dates) or self.removed_tickers)

    @property
    def same(self) -> bool:
        """Whether the two differ by drift at most."""
        return not (self.rewrites_history or len(self.added_dates) or self.added_tickers)

    def text(self, most: int = 10) -> str:
        """What changed, at most ``most`` returns in full."""
        lines = []
        for what, dates in (("new", self.added_dates), ("missing", self.removed_dates)):
            if len(dates):
                lines.append(f"{len(dates)} {what} dates, {day(dates[0])} to {day(dates[-1])}")
        for what, tickers in (("new", self.added_tickers), ("missing", self.removed_tickers)):
            if tickers:
                lines.append(f"{what} tickers: {', '.join(tickers)}")
        if len(self.changed):
            lines.append(f"{counted(len(self.changed), 'return')} changed")
            lines.extend(
                f"  {ticker} {date:%Y-%m-%d}: {100 * old:.4f} % became {100 * new:.4f} %"
                for ticker, date, old, new in zip(
                    *(self.changed[name].head(most) for name in ("ticker", "date", "old", "new")), strict=True
                )
            )
            if len(self.changed) > most:
                lines.append(f"  ... and {len(self.changed) - most} more")
        lines.append(f"largest drift of the other returns {self.drift:.1e}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def compare_prices(old: pd.DataFrame, new: pd.DataFrame, *, tolerance: float = TOLERANCE) -> Comparison:
    """Compare two price histories by their returns on common dates and tickers.

    Parameters
    ----------
    old, new
        Tidy prices, [T, N] by date; NaN allowed.
    tolerance
        Largest difference of a simple return that counts as drift.

    Returns
    -------
    Comparison
        Largest changes first.
    """
    dates = old.index.intersection(new.index)
    tickers = [ticker for ticker in old.columns if ticker in new.columns]
    before, after = _returns(old, dates, tickers), _returns(new, dates, tickers)
    gap = np.abs(after - before)
    beyond = (gap > tolerance) | (np.isnan(before) != np.isnan(after))
    rows, columns = np.nonzero(beyond)
    changed = pd.DataFrame(
        {
            "ticker": [tickers[column] for column in columns],
            "date": dates[rows],
            "old": before[rows, columns],
            "new": after[rows, columns],
            "difference": after[rows, columns] - before[rows, columns],
        }
    )
    order = changed["difference"].abs().fillna(np.inf).sort_values(ascending=False, kind="stable").index
    within = gap[~beyond & ~np.isnan(gap)]
    return Comparison(
        changed=changed.loc[order].reset_index(drop=True),
        drift=float(within.max()) if within.size else 0.0,
        added_dates=pd.DatetimeIndex(new.index.difference(old.index)),
        removed_dates=pd.DatetimeIndex(old.index.difference(new.index)),
        added_tickers=tuple(str(ticker) for ticker in new.columns if ticker not in old.columns),
        removed_tickers=tuple(str(ticker) for ticker in old.columns if ticker not in new.columns),
    )


def _returns(prices: pd.DataFrame, dates: pd.Index, tickers: list[str]) -> np.ndarray:
    """Simple returns between neighbouring common dates, [T, N]; the first row is NaN."""
    values = prices.loc[dates, tickers].to_numpy(np.float64)
    returns = np.full_like(values, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        returns[1:] = values[1:] / values[:-1] - 1.0
    return returns
