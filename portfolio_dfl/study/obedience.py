"""How the books of a study keep to the limits of its configuration: in words, for a reader of its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.config.limits import LimitsConfig
from portfolio_dfl.strategies.limits import build_limits, starting_weights
from portfolio_dfl.strategies.members import among
from portfolio_dfl.strategies.table import Lane
from portfolio_dfl.wording import counted

if TYPE_CHECKING:
    from portfolio_dfl.allocation.limits import Limits
    from portfolio_dfl.backtest import Ledger
    from portfolio_dfl.config.sections import AllocationConfig
    from portfolio_dfl.config.study import StudyConfig
    from portfolio_dfl.data.panel import PricePanel

__all__ = ["Limited", "limit_remarks", "limited_books", "seen_covariances"]

# What a decision may be off by.
_TOLERANCE = 1e-8
# Start weights that a sentence lists.
_MOST_SHOWN = 8


@dataclass(frozen=True)
class Limited:
    """Books under limits of weights.

    Attributes
    ----------
    allocation : AllocationConfig
    tickers : sequence of str
        The assets.
    ledgers : mapping of label to Ledger
    """

    allocation: AllocationConfig
    tickers: Sequence[str]
    ledgers: Mapping[str, Ledger]


def limited_books(
    config: StudyConfig,
    ledgers: Mapping[str, Ledger],
    universes: pd.DataFrame | None,
    panel: Callable[[], PricePanel],
) -> list[Limited]:
    """The books of a study with their limits, of each universe where members change.

    ``universes`` as in :class:`~portfolio_dfl.study.result.StudyResult`; ``panel`` reads the study's prices, and is
    asked where members change.
    """
    from portfolio_dfl.backtest.universes import books_of, rows_to_universes
    from portfolio_dfl.data.member_panel import MemberPanel

    assets = list(next(iter(ledgers.values())).trades.columns)
    if universes is None or config.allocation.limits == LimitsConfig():
        return [Limited(config.allocation, assets, ledgers)]
    priced = panel()
    assert isinstance(priced, MemberPanel)
    found = rows_to_universes(universes)
    parts: list[dict[str, Ledger]] = [{} for _ in found]
    for label, book in ledgers.items():
        for part, (_, mine) in zip(parts, books_of(book, found, priced.members), strict=True):
            part[label] = mine
    return [
        Limited(among(config, universe.assets).allocation, universe.assets, part)
        for universe, part in zip(found, parts, strict=True)
    ]


def seen_covariances(
    config: StudyConfig, returns: pd.DataFrame
) -> Callable[[pd.Timestamp], NDArray[np.float64] | None]:
    """Covariance of a stage that plans saw on the day before, by the day that opens with their trades."""
    from portfolio_dfl.strategies.setting import build_estimator

    estimate = build_estimator(config, list(returns.columns))

    def before(date: pd.Timestamp) -> NDArray[np.float64] | None:
        known = returns.to_numpy(dtype=np.float64)[: int(returns.index.searchsorted(date))]
        covariance: NDArray[np.float64] = estimate(known[-estimate.window :]) * config.allocation.stage
        return covariance

    return before


def limit_remarks(
    parts: Sequence[Limited],
    lanes: Sequence[Lane],
    covariances: Callable[[pd.Timestamp], NDArray[np.float64] | None],
) -> list[str]:
    """Where studies with limits by ticker start, if not from equal weights, and who breaks which limit, and how far.

    Weights are looked at as they were after each trade: prices may carry them further. A strategy that never trades is
    looked at on every day. The tracking error is that of the covariance known the day before; of trades that were
    carried out a day late, decided by another, it is left out.

    Parameters
    ----------
    parts : sequence of Limited
        The books of the study; where its universe changes, one for each after the other.
    lanes : sequence of Lane
    covariances : callable
        The covariance [N, N] of a stage that was known before a day, or None; asked where a tracking error is limited.
    """
    if parts[0].allocation.limits == LimitsConfig():
        return []
    found = _start(parts[0])
    for lane in lanes:
        worst: dict[str, tuple[float, pd.Timestamp]] = {}
        for part in parts:
            for label, (amount, date) in _broken(part, lane, covariances).items():
                if amount > worst.get(label, (_TOLERANCE, date))[0]:
                    worst[label] = amount, date
        if worst:
            label = max(worst, key=lambda name: worst[name][0])
            amount, date = worst[label]
            others = f", and {counted(len(worst) - 1, 'more limit')} by less" if len(worst) > 1 else ""
            found.append(
                f"{lane.label} does not keep to allocation.limits: it breaks {label} by up to {amount:.2g}, on "
                f"{date:%Y-%m-%d}{others}."
            )
    return found


def _start(part: Limited) -> list[str]:
    """Where a study starts that does not start from equal weights."""
    start = starting_weights(part.allocation, build_limits(part.allocation, part.tickers), part.tickers)
    if start is None:
        return []
    weights = pd.Series(start, index=list(part.tickers))
    largest = weights[weights.abs() > 5e-4].nlargest(_MOST_SHOWN)
    listed = ", ".join(f"{ticker} {weight:.1%}" for ticker, weight in largest.items())
    rest = int((weights.abs() > 5e-4).sum()) - len(largest)
    return [
        "allocation.repair: every strategy and training starts from the nearest weights within the limits, "
        f"{listed}{f' and {rest} more' if rest else ''}."
    ]


def _broken(
    part: Limited, lane: Lane, covariances: Callable[[pd.Timestamp], NDArray[np.float64] | None]
) -> dict[str, tuple[float, pd.Timestamp]]:
    """By how much a strategy broke each limit, and the day on which it was most."""
    from portfolio_dfl.allocation.compliance import violations
    from portfolio_dfl.allocation.limits import Limits

    allocation, tickers, book = part.allocation, list(part.tickers), part.ledgers[lane.label]
    collected = Limits.collect(len(tickers), build_limits(allocation, tickers), tickers)
    days = book.weights.index if lane.never_trades else book.daily.index[book.daily["orders"] > 0]
    held = book.weights.loc[days, tickers].to_numpy(dtype=np.float64)
    trades = book.trades.loc[days, tickers].to_numpy(dtype=np.float64)
    if not len(days):
        return {}
    # A trade that was carried out a day late was limited when it was decided, from other weights.
    before = None if lane.never_trades or book.lag else held - trades
    broken = violations(collected, held, before, turnover_limit=allocation.first_turnover_limit)
    if collected.tracking_error is not None and not book.lag:
        broken |= _tracking(collected, held, (covariances(day) for day in days))
    return {label: (float(amount.max()), days[int(amount.argmax())]) for label, amount in broken.items()}


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
