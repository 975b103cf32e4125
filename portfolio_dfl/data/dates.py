"""Calendar days from dates as files write them: many formats, time zones, offsets that change with summer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from portfolio_dfl.errors import DataError

__all__ = ["calendar_days", "looks_like_dates"]

# Tried in this order; day-first and month-first are told apart by the values, never guessed.
_FORMATS = (
    "%Y-%m-%d",
    "ISO8601",
    "%Y%m%d",
    "%Y/%m/%d",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%d %B %Y",
    "%a %b %d %Y",
    "%m/%d/%y",
    "%d/%m/%y",
    "%d.%m.%y",
    "%Y-%m-%d %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
)
_RIVALS = (("%d/%m/%Y", "%m/%d/%Y"), ("%d-%m-%Y", "%m-%d-%Y"), ("%d/%m/%y", "%m/%d/%y"))
_OFFSET = r"\s?(?:[+-]\d{2}:?\d{2}|Z|UTC)$"
_EPOCH_UNITS = (("s", 1e8, 1e10), ("ms", 1e11, 1e13), ("us", 1e14, 1e16), ("ns", 1e17, 1e19))


def looks_like_dates(values: Sequence[object] | pd.Index | pd.Series) -> bool:
    """Whether at least nine tenths of the non-empty values can be read as dates; counters 0, 1, 2 cannot."""
    series = pd.Series(list(values[:200]) if not isinstance(values, pd.Series) else values.iloc[:200])
    series = series.dropna()
    if series.empty:
        return False
    if pd.api.types.is_datetime64_any_dtype(series.dtype):
        return True
    if pd.api.types.is_float_dtype(series.dtype) or pd.api.types.is_bool_dtype(series.dtype):
        return False
    if pd.api.types.is_integer_dtype(series.dtype):
        return bool(series.between(19000101, 21001231).all()) or _epoch_unit(series) is not None
    if isinstance(series.iloc[0], dt.date):
        return True
    texts = series.astype("str").str.strip()
    texts = texts[texts != ""].str.replace(_OFFSET, "", regex=True)
    if texts.empty or pd.to_numeric(texts, errors="coerce").between(-1e7, 1e7).any():
        return False
    return max(_parse(texts, form).notna().mean() for form in _FORMATS) >= 0.9


def calendar_days(
    stamps: pd.Index | pd.Series, *, zone: str = "America/New_York", date_format: str | None = None
) -> tuple[pd.DatetimeIndex, list[str]]:
    """Tz-naive calendar day of each stamp.

    A stamp at midnight of its own clock stays that calendar day, whatever its zone or offset. Where clocks
    show other times (04:00 UTC is midnight in New York), the day is the one in the exchange's zone.

    Parameters
    ----------
    stamps
        Datetimes (naive, aware, or with offsets that vary), dates, texts, ``YYYYMMDD`` or epoch numbers.
    zone
        Time zone of the exchange.
    date_format
        :func:`time.strptime` format of texts; found from the values if not given.

    Returns
    -------
    tuple
        The days, [T], NaT where a stamp is empty; and notes about what was converted.

    Raises
    ------
    DataError
        Stamps that are no dates, that mix formats, or that fit day-first and month-first alike.
    """
    stamps = pd.Index(stamps)
    if isinstance(stamps, pd.DatetimeIndex):
        if stamps.tz is None:
            return _at_midnight(stamps)
        return _from_clocks(stamps.tz_localize(None), stamps.tz_convert("UTC"), zone)
    if pd.api.types.is_integer_dtype(stamps.dtype):
        return _from_integers(pd.Series(stamps))
    if pd.api.types.is_float_dtype(stamps.dtype):
        raise DataError(f"the dates are numbers such as {stamps[0]!r}: put a column or index of dates first")
    codes, unique = pd.factorize(stamps)
    days, notes = _from_objects(pd.Index(unique), zone, date_format)
    taken = days.take(np.where(codes < 0, 0, codes))
    return pd.DatetimeIndex(taken.where(codes >= 0)), notes


def _from_objects(unique: pd.Index, zone: str, date_format: str | None) -> tuple[pd.DatetimeIndex, list[str]]:
    """Days of texts, dates and datetimes."""
    if len(unique) == 0:
        return pd.DatetimeIndex([]), []
    if isinstance(unique[0], dt.date):
        moments = [pd.Timestamp(stamp) for stamp in unique]
        if all(moment.tzinfo is None for moment in moments):
            return _at_midnight(pd.DatetimeIndex(moments))
        if any(moment.tzinfo is None for moment in moments):
            raise DataError("some dates carry a time zone and some do not: give all of them one, or none")
        clocks = pd.DatetimeIndex([moment.replace(tzinfo=None) for moment in moments])
        return _from_clocks(clocks, pd.DatetimeIndex([m.tz_convert("UTC") for m in moments]), zone)
    texts = pd.Series(unique.astype("str")).str.strip()
    texts = texts.where(texts != "")
    with_offset = texts.str.contains(_OFFSET, regex=True, na=False) & texts.str.contains(":", na=False)
    if not with_offset.any():
        return _at_midnight(pd.DatetimeIndex(_read_texts(texts, date_format)))
    if (~with_offset & texts.notna()).any():
        raise DataError("some dates carry a time zone and some do not: give all of them one, or none")
    clocks = pd.DatetimeIndex(_read_texts(texts.str.replace(_OFFSET, "", regex=True), date_format))
    return _from_clocks(clocks, pd.DatetimeIndex(pd.to_datetime(pd.Index(texts), utc=True, format="ISO8601")), zone)


def _read_texts(texts: pd.Series, date_format: str | None) -> pd.Series:
    """Datetimes of texts in one format."""
    known = texts.dropna()
    if date_format is not None:
        parsed = _parse(texts, date_format)
        if parsed[known.index].isna().any():
            bad = known[parsed[known.index].isna()].iloc[0]
            raise DataError(f"date {bad!r} does not fit the format {date_format!r}")
        return parsed
    best, most = "", -1
    fits: dict[str, pd.Series] = {}
    for form in _FORMATS:
        parsed = _parse(texts, form)
        count = int(parsed.notna().sum())
        if count == len(known):
            fits[form] = parsed
            if form in ("%Y-%m-%d", "ISO8601"):
                break
        if count > most:
            best, most = form, count
    if not fits:
        bad = known[_parse(known, best).isna()].iloc[0]
        raise DataError(f"cannot read {bad!r} as a date like the others: correct it, or write every date as 2020-01-31")
    for one, other in _RIVALS:
        if one in fits and other in fits and not fits[one].equals(fits[other]):
            raise DataError(
                f"dates such as {known.iloc[0]!r} fit day first and month first: write every date as 2020-01-31, "
                f"or in Python use calendar_days with date_format={one!r} or {other!r}"
            )
    return next(iter(fits.values()))


def _parse(texts: pd.Series, form: str) -> pd.Series:
    parsed: pd.Series = pd.to_datetime(texts, format=form, errors="coerce")
    return parsed


def _from_integers(series: pd.Series) -> tuple[pd.DatetimeIndex, list[str]]:
    """Days of ``YYYYMMDD`` or epoch numbers."""
    if series.between(19000101, 21001231).all():
        return pd.DatetimeIndex(_read_texts(series.astype("str"), "%Y%m%d")), []
    unit = _epoch_unit(series)
    if unit is None:
        raise DataError(f"the dates are numbers such as {series[0]!r}: put a column or index of dates first")
    days, notes = _at_midnight(pd.DatetimeIndex(pd.to_datetime(series, unit=unit)))
    return days, [f"dates are epoch numbers in {unit}, read as UTC", *notes]


def _epoch_unit(series: pd.Series) -> Any:
    for unit, low, high in _EPOCH_UNITS:
        if series.between(low, high).all():
            return unit
    return None


def _from_clocks(clocks: pd.DatetimeIndex, moments: pd.DatetimeIndex, zone: str) -> tuple[pd.DatetimeIndex, list[str]]:
    """Days of aware stamps, given what their own clocks show and which moments they are."""
    midnight = np.asarray((clocks == clocks.normalize()) | clocks.isna())
    if midnight.all():
        return clocks.normalize(), ["time zones dropped: midnight of each clock is its calendar day"]
    local = moments.tz_convert(zone).tz_localize(None).normalize()
    # Exchanges of several zones in one UTC index: midnight stays what it is, stamp by stamp.
    days = pd.DatetimeIndex(np.where(midnight, clocks.normalize(), local))
    return days, [f"stamps with other times than midnight became calendar days in {zone}"]


def _at_midnight(stamps: pd.DatetimeIndex) -> tuple[pd.DatetimeIndex, list[str]]:
    """Days of naive stamps."""
    days = stamps.normalize()
    notes = [] if (days == stamps)[stamps.notna()].all() else ["times of day dropped"]
    return days, notes
