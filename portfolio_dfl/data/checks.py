"""Detectors: each looks at prices in one way and answers with flags; none changes anything.

Thresholds were set on 458 US funds and stocks, 2011-2024, whose prices are adjusted: there, the longest
unchanged run has four sessions, and large genuine moves are spread evenly over ratios.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from portfolio_dfl.data.flags import Flag, day

__all__ = [
    "bad_prices",
    "edge_flags",
    "gap_flags",
    "off_calendar",
    "runs_of",
    "stale_runs",
    "unchanged_dates",
]

STALE_SESSIONS = 10
_STRAY_ROWS = 5
_LONG_GAP = 20
_MANY = 5


def runs_of(mask: np.ndarray) -> list[tuple[int, int]]:
    """First and last position of each run of True, [T] bool."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def off_calendar(prices: pd.DataFrame, sessions: pd.DatetimeIndex, calendar: str) -> list[Flag]:
    """Prices on days on which the exchange does not trade."""
    extra = ~prices.index.isin(sessions)
    return [
        Flag(
            "off_calendar",
            f"{date:%A}, no session of {calendar}, but {int(count)} price{'s' if count > 1 else ''}",
            date=date,
            count=int(count),
        )
        for date, count in prices[extra].notna().sum(axis=1).items()
        if isinstance(date, pd.Timestamp) and count > 0
    ]


def bad_prices(prices: pd.DataFrame) -> list[Flag]:
    """Zero, negative and infinite prices."""
    values = prices.to_numpy()
    with np.errstate(invalid="ignore"):
        bad = (values <= 0) | np.isinf(values)
    flags = []
    for column in np.flatnonzero(bad.any(axis=0)).tolist():
        for first, last in runs_of(bad[:, column]):
            value = values[first, column]
            what = "infinite" if np.isinf(value) else "zero" if value == 0 else "negative"
            flags.append(
                Flag(
                    "bad_price",
                    f"{what} price {value:g}",
                    ticker=str(prices.columns[column]),
                    date=prices.index[first],
                    last=prices.index[last],
                    count=last - first + 1,
                )
            )
    return flags


def stale_runs(prices: pd.DataFrame) -> list[Flag]:
    """Runs of one price too long for chance.

    A run of k unchanged sessions is flagged from ten on, if runs that long are not to be expected from how
    often the ticker's price stays unchanged otherwise (fewer than one in a thousand such histories). A run at
    the start of a ticker looks like its first price copied back to before it existed.
    """
    flags = []
    values = prices.to_numpy()
    for column in range(values.shape[1]):
        rows = np.flatnonzero(~np.isnan(values[:, column]))
        own = values[rows, column]
        if len(own) <= STALE_SESSIONS:
            continue
        unchanged = np.diff(own) == 0
        if unchanged.sum() < STALE_SESSIONS:
            continue
        for first, last in runs_of(unchanged):
            length = last - first + 1
            if length < STALE_SESSIONS:
                continue
            usual = (unchanged.sum() - length + 1) / (len(unchanged) - length + 2)
            if len(unchanged) * usual**length > 1e-3:
                continue
            at_start = first == 0
            what = "looks like the first price copied back" if at_start else "looks stale"
            flags.append(
                Flag(
                    "constant_start" if at_start else "stale_run",
                    f"{own[first]:g} unchanged over {length} sessions: {what}",
                    ticker=str(prices.columns[column]),
                    date=prices.index[rows[first]],
                    last=prices.index[rows[last + 1]],
                    count=length,
                )
            )
    return flags


def unchanged_dates(prices: pd.DataFrame) -> list[Flag]:
    """Dates on which none of five tickers or more has moved: prices of the day before, copied forward."""
    values = prices.to_numpy()
    both = ~np.isnan(values[1:]) & ~np.isnan(values[:-1])
    same = ((values[1:] == values[:-1]) | ~both).all(axis=1) & (both.sum(axis=1) >= _MANY)
    return [
        Flag(
            "unchanged_date",
            f"none of {int(both[row].sum())} prices differs from the day before: copied forward?",
            "warning",
            date=prices.index[row + 1],
        )
        for row in np.flatnonzero(same).tolist()
    ]


def edge_flags(prices: pd.DataFrame, first: pd.Timestamp, last: pd.Timestamp) -> tuple[list[Flag], list[Flag]]:
    """Tickers that start after ``first`` or stop before ``last``; tickers without prices are not judged."""
    late, early = [], []
    present = prices.notna().to_numpy()
    for column in np.flatnonzero(present.any(axis=0)).tolist():
        ticker = str(prices.columns[column])
        rows = np.flatnonzero(present[:, column])
        begins, ends = prices.index[rows[0]], prices.index[rows[-1]]
        if begins > first:
            count = int((prices.index < begins).sum())
            message = f"first price on {day(begins)}, the panel starts on {day(first)}"
            late.append(Flag("late_start", message, ticker=ticker, date=begins, count=count))
        if ends < last:
            count = int((prices.index > ends).sum())
            message = f"last price on {day(ends)}, the panel ends on {day(last)}"
            early.append(Flag("early_end", message, ticker=ticker, date=ends, count=count))
    return late, early


def gap_flags(prices: pd.DataFrame, calendar: str | None, excused: pd.DataFrame | None = None) -> list[Flag]:
    """Missing prices between the first and the last price of a ticker, on dates that are in the frame.

    Parameters
    ----------
    prices
        [T, N], one row a session, also where no ticker has a price.
    calendar
        Name for the message; None where rows are simply the dates found.
    excused
        [T, N] bool: cells reported elsewhere.
    """
    flags = []
    missing = prices.isna().to_numpy()
    known = ~missing
    empty = np.asarray(missing.all(axis=1))

    def counted(count: int) -> str:
        plural = "s" if count > 1 else ""
        return f"{count} session{plural} of {calendar}" if calendar is not None else f"{count} date{plural}"

    for first, last in runs_of(empty):
        count = last - first + 1
        message = f"{counted(count)} without any price"
        before = int(known[:first].any(axis=1).sum())
        if count >= _LONG_GAP and before <= _STRAY_ROWS and last + 1 < len(prices):
            rows, them = ("row lies", "it") if before == 1 else ("rows lie", "them")
            message += f"; only {before} {rows} before: start={day(prices.index[last + 1])} leaves {them} out"
        flags.append(Flag("missing_session", message, date=prices.index[first], last=prices.index[last], count=count))
    inside = np.logical_or.accumulate(known, axis=0) & np.logical_or.accumulate(known[::-1], axis=0)[::-1]
    gaps = missing & inside & ~empty[:, None]
    if excused is not None:
        gaps &= ~excused.to_numpy()
    for column in np.flatnonzero(gaps.any(axis=0)).tolist():
        for first, last in runs_of(gaps[:, column]):
            count = last - first + 1
            flags.append(
                Flag(
                    "gap",
                    f"{counted(count)} missing between two prices",
                    ticker=str(prices.columns[column]),
                    date=prices.index[first],
                    last=prices.index[last],
                    count=count,
                )
            )
    return flags
