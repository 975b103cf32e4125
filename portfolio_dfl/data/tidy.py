"""From a raw table to one numeric row a calendar day: what every check and policy starts from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
import pandas as pd

from portfolio_dfl.data.dates import calendar_days
from portfolio_dfl.data.flags import Flag, brief
from portfolio_dfl.data.layouts import naming_file, notes_of, wide_prices
from portfolio_dfl.data.numerals import read_numbers
from portfolio_dfl.data.sessions import exchange_zone
from portfolio_dfl.data.tickers import ticker_text
from portfolio_dfl.errors import DataError
from portfolio_dfl.wording import counted

__all__ = ["Day", "TidyPrices", "as_day", "tidy_prices"]

Day = str | dt.date
_FIRST_YEAR, _LAST_YEAR = 1800, 2200
# Tickers that a message lists.
_MOST_LISTED = 12


@dataclass(frozen=True)
class TidyPrices:
    """One float64 row of prices a date, sorted, tz-naive; nothing filled, only repeated rows left out.

    Attributes
    ----------
    prices
        [T, N]; NaN where there is no price.
    unreadable
        Texts that are no prices: one flag each. The cells are NaN in ``prices``.
    notes
        What reading, sorting and merging did.
    start, end
        Range asked for, where one was.
    """

    prices: pd.DataFrame
    unreadable: tuple[Flag, ...]
    notes: tuple[Flag, ...]
    start: pd.Timestamp | None
    end: pd.Timestamp | None


def as_day(value: Day | None, name: str) -> pd.Timestamp | None:
    """Midnight of a date given as text or date; None stays None.

    Raises
    ------
    DataError
        Not a date.
    """
    if value is None:
        return None
    try:
        stamp = pd.Timestamp(value)
    except ValueError as error:
        raise DataError(f"{name}={value!r} is not a date: write it as YYYY-MM-DD") from error
    if pd.isna(stamp) or not _FIRST_YEAR <= stamp.year <= _LAST_YEAR:
        raise DataError(f"{name}={value!r} is not a date: write it as YYYY-MM-DD")
    return stamp.tz_localize(None).normalize()


def tidy_prices(
    raw: pd.DataFrame,
    *,
    tickers: Sequence[str] | None = None,
    start: Day | None = None,
    end: Day | None = None,
    calendar: str | None = "XNYS",
) -> TidyPrices:
    """Read dates and numbers of a raw table, sort it, cut it to the range asked for, merge repeated dates.

    Parameters
    ----------
    raw
        Table in any layout that :func:`~portfolio_dfl.data.layouts.wide_prices` knows.
    tickers
        Columns to keep, in this order; all by default.
    start, end
        First and last date, both included.
    calendar
        Exchange whose time zone tells the calendar day of stamps in UTC that are not at midnight.

    Raises
    ------
    DataError
        No rows, unknown tickers, prices without a date, or two different prices of a ticker on one date.
    """
    first, last = as_day(start, "start"), as_day(end, "end")
    if first is not None and last is not None and first > last:
        raise DataError(f"start {start} lies after end {end}")
    with naming_file(raw):
        return _tidy(raw, tickers, first, last, calendar)


def _tidy(
    raw: pd.DataFrame,
    tickers: Sequence[str] | None,
    first: pd.Timestamp | None,
    last: pd.Timestamp | None,
    calendar: str | None,
) -> TidyPrices:
    wide = wide_prices(raw)
    notes = [Flag("reading", note, "note") for note in notes_of(wide)]
    wide = _select(wide, tickers)
    # The zone matters only for stamps that may carry one.
    naive = isinstance(wide.index, pd.DatetimeIndex) and wide.index.tz is None
    days, said = calendar_days(wide.index, zone=None if naive else exchange_zone(calendar))
    notes += [Flag("dates", note, "note") for note in said]
    wide, days = _drop_undated(wide, days, notes)
    _refuse_impossible(days)
    kept = np.ones(len(days), dtype=bool)
    kept &= True if first is None else (days >= first)
    kept &= True if last is None else (days <= last)
    if not kept.any():
        raise DataError(_outside(days, first, last))
    wide, days = wide[kept], days[kept].as_unit("ns")
    prices, unreadable = _to_numbers(wide.set_axis(days, axis=0))
    if not prices.index.is_monotonic_increasing:
        falling = prices.index.is_monotonic_decreasing
        notes.append(Flag("unsorted", "newest first" if falling else "dates not in order; sorted", "note"))
        prices = prices.sort_index(kind="stable")
    prices = _merge_repeated(prices, notes)
    # Dates that happen to be evenly spaced must not differ from others by a frequency attribute.
    prices.index = pd.DatetimeIndex(prices.index.to_numpy(), name="Date")
    return TidyPrices(prices.rename_axis(columns=None), unreadable, tuple(notes), first, last)


def _select(wide: pd.DataFrame, tickers: Sequence[str] | None) -> pd.DataFrame:
    """Columns asked for."""
    if tickers is None:
        return wide
    if isinstance(tickers, str):
        raise DataError(f"tickers={tickers!r} is one text: give a list of tickers, as [{tickers!r}]")
    tickers = [ticker_text(ticker) for ticker in tickers]
    if len(set(tickers)) < len(tickers):
        raise DataError(f"tickers are named twice: {', '.join(tickers)}")
    known = list(wide.columns)
    unknown = [ticker for ticker in tickers if ticker not in known]
    if unknown:
        raise DataError(_unknown(unknown, known))
    return wide[tickers]


def _unknown(unknown: Sequence[str], known: Sequence[str]) -> str:
    """All tickers that there are no prices of, each with the nearest that there is."""
    near = {ticker: get_close_matches(ticker.upper(), known, n=1) for ticker in unknown}
    if len(unknown) == 1:
        hints = [f"did you mean {match!r}?" for match in near[unknown[0]]]
    else:
        hints = [f"for {ticker!r} did you mean {match!r}?" for ticker, matches in near.items() for match in matches]
    if not all(near.values()):
        rest = len(known) - _MOST_LISTED
        hints.append(f"there are {', '.join(known[:_MOST_LISTED])}{f' and {rest} more' if rest > 0 else ''}")
    named = ", ".join(repr(ticker) for ticker in unknown)
    return f"no ticker{'s' if len(unknown) > 1 else ''} {named} in the prices: {' '.join(hints)}"


def _drop_undated(
    wide: pd.DataFrame, days: pd.DatetimeIndex, notes: list[Flag]
) -> tuple[pd.DataFrame, pd.DatetimeIndex]:
    """Leave out rows without date and prices; refuse prices without a date."""
    undated = np.asarray(days.isna())
    if undated.any():
        if wide[undated].notna().to_numpy().any():
            row = int(np.flatnonzero(undated & wide.notna().any(axis=1).to_numpy())[0]) + 1
            raise DataError(f"row {row} of the table has prices but no date: fill in its date or delete it")
        count = int(undated.sum())
        message = f"{counted(count, 'row')} without date and prices left out"
        notes.append(Flag("empty_rows", message, "note", count=count))
    if undated.all():
        raise DataError("the table has no rows with a date")
    return wide[~undated], days[~undated]


def _refuse_impossible(days: pd.DatetimeIndex) -> None:
    """No exchange has prices of other centuries: such dates are slips of the pen."""
    wrong = (days.year < _FIRST_YEAR) | (days.year > _LAST_YEAR)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(f"row {row + 1} of the table is dated {days[row]:%Y-%m-%d}: correct the date")


def _outside(days: pd.DatetimeIndex, first: pd.Timestamp | None, last: pd.Timestamp | None) -> str:
    span = f"{days.min():%Y-%m-%d} to {days.max():%Y-%m-%d}"
    start = "the beginning" if first is None else f"{first:%Y-%m-%d}"
    end = "the end" if last is None else f"{last:%Y-%m-%d}"
    return f"no prices between {start} and {end}: the source has {span}"


def _to_numbers(wide: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Flag, ...]]:
    """Float columns, and a flag for each text that is no price."""
    if all(dtype == np.float64 for dtype in wide.dtypes):
        return wide, ()
    columns: dict[str, np.ndarray] = {}
    flags: list[Flag] = []
    for ticker in wide.columns:
        numbers, bad = read_numbers(wide[ticker])
        columns[ticker] = numbers
        for row in np.flatnonzero(bad).tolist():
            text = str(wide[ticker].iloc[row])
            what = "is a percentage, not a price" if text.strip().endswith("%") else "is not a number"
            flags.append(Flag("unreadable_price", f"{text!r} {what}", ticker=ticker, date=wide.index[row]))
    return pd.DataFrame(columns, index=wide.index), tuple(flags)


def _merge_repeated(prices: pd.DataFrame, notes: list[Flag]) -> pd.DataFrame:
    """One row a date: equal or complementary rows are merged with a note, different prices are refused."""
    repeated = prices.index.duplicated(keep=False)
    if not repeated.any():
        return prices
    groups = prices[repeated].groupby(level=0)
    low, high = groups.min(), groups.max()
    conflict = (low != high) & low.notna()
    if conflict.to_numpy().any():
        flags = [
            Flag(
                "conflict",
                f"{float(low.iloc[row, column])!r} and {float(high.iloc[row, column])!r}",
                ticker=str(low.columns[column]),
                date=low.index[row],
            )
            for row, column in zip(*np.nonzero(conflict.to_numpy()), strict=True)
        ]
        raise DataError(
            f"two different prices for one date: {brief(flags)}. Correct the source, or end before it; "
            "intraday prices must be reduced to closes first"
        )
    for date, count in groups.size().items():
        message, day = f"{count} rows, equal where both have prices, became one", pd.Timestamp(str(date))
        notes.append(Flag("repeated_date", message, "note", date=day, count=int(count) - 1))
    return prices.groupby(level=0).first()
