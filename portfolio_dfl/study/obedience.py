"""How the books of a study keep to the limits of its configuration: in words, for a reader of its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.config.limits import LimitsConfig
from portfolio_dfl.strategies.limits import build_limits, starting_weights
from portfolio_dfl.strategies.table import Lane
from portfolio_dfl.wording import counted

if TYPE_CHECKING:
    from portfolio_dfl.allocation.limits import Limits
    from portfolio_dfl.backtest import Ledger
    from portfolio_dfl.config.sections import AllocationConfig

__all__ = ["limit_remarks"]

# What a decision may be off by.
_TOLERANCE = 1e-8
# Start weights that a sentence lists.
_MOST_SHOWN = 8


def limit_remarks(
    allocation: AllocationConfig,
    lanes: Sequence[Lane],
    ledgers: Mapping[str, Ledger],
    tickers: Sequence[str],
    covariances: Callable[[pd.Timestamp], NDArray[np.float64] | None],
) -> list[str]:
    """Where studies with limits by ticker start, if not from equal weights, and who breaks which limit, and how far.

    Weights are looked at as they were after each trade: prices may carry them further. A strategy that never trades is
    looked at on every day. The tracking error is that of the covariance known the day before; of trades that were
    carried out a day late, decided by another, it is left out.

    Parameters
    ----------
    allocation : AllocationConfig
    lanes : sequence of Lane
    ledgers : mapping of label to Ledger
    tickers : sequence of str
        The assets.
    covariances : callable
        The covariance [N, N] of a stage that was known before a day, or None; asked where a tracking error is limited.
    """
    from portfolio_dfl.allocation.compliance import violations
    from portfolio_dfl.allocation.limits import Limits

    if allocation.limits == LimitsConfig():
        return []
    limits = build_limits(allocation, tickers)
    found = []
    start = starting_weights(allocation, limits, tickers)
    if start is not None:
        weights = pd.Series(start, index=list(tickers))
        largest = weights[weights.abs() > 5e-4].nlargest(_MOST_SHOWN)
        listed = ", ".join(f"{ticker} {weight:.1%}" for ticker, weight in largest.items())
        rest = int((weights.abs() > 5e-4).sum()) - len(largest)
        found.append(
            "allocation.repair: every strategy and training starts from the nearest weights within the limits, "
            f"{listed}{f' and {rest} more' if rest else ''}."
        )
    collected = Limits.collect(len(tickers), limits, tickers)
    for lane in lanes:
        book = ledgers[lane.label]
        days = book.weights.index if lane.never_trades else book.daily.index[book.daily["orders"] > 0]
        held = book.weights.loc[days, list(tickers)].to_numpy(dtype=np.float64)
        trades = book.trades.loc[days, list(tickers)].to_numpy(dtype=np.float64)
        if not len(days):
            continue
        # A trade that was carried out a day late was limited when it was decided, from other weights.
        before = None if lane.never_trades or book.lag else held - trades
        broken = violations(collected, held, before, turnover_limit=allocation.first_turnover_limit)
        if collected.tracking_error is not None and not book.lag:
            broken |= _tracking(collected, held, (covariances(day) for day in days))
        worst = {label: float(amount.max()) for label, amount in broken.items() if amount.max() > _TOLERANCE}
        if worst:
            label = max(worst, key=lambda name: worst[name])
            date = days[int(broken[label].argmax())]
            others = f", and {counted(len(worst) - 1, 'more limit')} by less" if len(worst) > 1 else ""
            found.append(
                f"{lane.label} does not keep to allocation.limits: it breaks {label} by up to {worst[label]:.2g}, on "
                f"{date:%Y-%m-%d}{others}."
            )
    return found


def _tracking(
    limits: Limits, held: NDArray[np.float64], covariances: Iterable[NDArray[np.float64] | None]
) -> dict[str, NDArray[np.float64]]:
    """By how much the portfolio of each day breaks the tracking error, where its covariance is known."""
    from portfolio_dfl.allocation.compliance import violations

    beyond = np.zeros(len(held))
    for row, covariance in enumerate(covariances):
        if covariance is not None:
            broken = violations(limits, held[row : row + 1], covariance=covariance[None])
            beyond[row] = broken.get("tracking error", np.zeros(1))[0]
    return {"tracking error": beyond}
