"""Calendar days from dates as files write them: many formats, time zones, offsets that change with summer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from portfolio_dfl.data.zones import days_of_moments, is_universal
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
# Behind a time, or with a colon behind a date: 01-02-2020 ends in no offset.
_OFFSET = r"(:\d{2}(?:\.\d+)?)\s?(?:[+-]\d{2}(?::?\d{2})?|Z|UTC|GMT)$|^(\d{4}-\d{2}-\d{2})(?:[+-]\d{2}:\d{2}|Z)$"
_HELD = r"\1\2"
_UNIVERSAL = r"(?:[+-]00(?::?00)?|Z|UTC|GMT)$"
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
    if _are_epochs(texts):
        return True
    texts = texts[texts != ""].str.replace(_OFFSET, _HELD, regex=True)
    if texts.empty or pd.to_numeric(texts, errors="coerce").between(-1e7, 1e7).any():
        return False
    return max(_parse(texts, form).notna().mean() for form in _FORMATS) >= 0.9


def calendar_days(
    stamps: pd.Index | pd.Series, *, zone: str | None = None, date_format: str | None = None
) -> tuple[pd.DatetimeIndex, list[str]]:
    """Tz-naive calendar day of each stamp.

    A stamp with a zone or offset of its own is of the day that its own clock shows. Moments in UTC and epoch
    numbers show nobody's clock: midnights stay their days (yet 04:00 UTC is midnight in New York), others are
    of the day in the exchange's zone, see :func:`~portfolio_dfl.data.zones.days_of_moments`. Without any zone,
    the date that is written is the day.

    Parameters
    ----------
    stamps
        Datetimes (naive, aware, or with offsets that vary), dates, texts, ``YYYYMMDD`` or epoch numbers.
    zone
        Time zone of the exchange, for moments in UTC; None where it is not known.
    date_format
        :func:`time.strptime` format of texts; found from the values if not given.

    Returns
    -------
    tuple
        The days, [T], NaT where a stamp is empty; and notes about what was converted and assumed.

    Raises
    ------
    DataError
        Stamps that are no dates, that mix formats, or that fit day-first and month-first alike.
    """
    stamps = pd.Index(stamps)
    if isinstance(stamps, pd.DatetimeIndex):
        if stamps.tz is None:
            return _at_midnight(stamps)
        if is_universal(stamps.tz):
            return _from_moments(stamps.tz_convert("UTC"), zone)
        return _from_clocks(stamps.tz_localize(None), str(stamps.tz))
    if pd.api.types.is_integer_dtype(stamps.dtype):
        return _from_integers(pd.Series(stamps), zone)
    if pd.api.types.is_float_dtype(stamps.dtype):
        raise DataError(f"the dates are numbers such as {stamps[0]!r}: put a column or index of dates first")
    codes, unique = pd.factorize(stamps)
    days, notes = _from_objects(pd.Index(unique), zone, date_format)
    taken = days.take(np.where(codes < 0, 0, codes))
    return pd.DatetimeIndex(taken.where(codes >= 0)), notes


def _from_objects(unique: pd.Index, zone: str | None, date_format: str | None) -> tuple[pd.DatetimeIndex, list[str]]:
    """Days of texts, dates and datetimes."""
    if len(unique) == 0:
        return pd.DatetimeIndex([]), []
    if isinstance(unique[0], dt.date):
        moments = [pd.Timestamp(stamp) for stamp in unique]
        if all(moment.tzinfo is None for moment in moments):
            return _at_midnight(pd.DatetimeIndex(moments))
        if any(moment.tzinfo is None for moment in moments):
            raise DataError("some dates carry a time zone and some do not: give all of them one, or none")
        if all(is_universal(moment.tz) for moment in moments if moment.tz is not None):
            return _from_moments(pd.DatetimeIndex([moment.tz_convert("UTC") for moment in moments]), zone)
        return _from_clocks(pd.DatetimeIndex([moment.tz_localize(None) for moment in moments]))
    texts = pd.Series(unique.astype("str")).str.strip()
    texts = texts.where(texts != "")
    if _are_epochs(texts):
        return _from_integers(texts.astype("int64"), zone)
    bare = texts.str.replace(_OFFSET, _HELD, regex=True)
    with_offset = (bare != texts) & texts.notna()
    if not with_offset.any():
        return _at_midnight(pd.DatetimeIndex(_read_texts(texts, date_format)))
    if (~with_offset & texts.notna()).any():
        raise DataError("some dates carry a time zone and some do not: give all of them one, or none")
    clocks = pd.DatetimeIndex(_read_texts(bare, date_format))
    if texts.dropna().str.contains(_UNIVERSAL, regex=True).all():
        return _from_moments(clocks.tz_localize("UTC"), zone)
    return _from_clocks(clocks)


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


def _from_integers(series: pd.Series, zone: str | None) -> tuple[pd.DatetimeIndex, list[str]]:
    """Days of ``YYYYMMDD`` or epoch numbers."""
    if series.between(19000101, 21001231).all():
        return pd.DatetimeIndex(_read_texts(series.astype("str"), "%Y%m%d")), []
    unit = _epoch_unit(series)
    if unit is None:
        raise DataError(f"the dates are numbers such as {series[0]!r}: put a column or index of dates first")
    days, notes = _from_moments(pd.DatetimeIndex(pd.to_datetime(series, unit=unit, utc=True)), zone)
    return days, [f"dates are epoch numbers in {unit}, read as UTC", *notes]


def _are_epochs(texts: pd.Series) -> bool:
    """Whether all texts are epoch numbers; with ten digits or more, for nine are an identifier's too."""
    digits = len(texts) > 0 and bool(texts.str.fullmatch(r"\d{9,19}").fillna(False).all())
    return digits and texts.str.len().max() >= 10 and _epoch_unit(texts.astype("int64")) is not None


def _epoch_unit(series: pd.Series) -> Any:
    for unit, low, high in _EPOCH_UNITS:
        if series.between(low, high).all():
            return unit
    return None


def _from_moments(moments: pd.DatetimeIndex, zone: str | None) -> tuple[pd.DatetimeIndex, list[str]]:
    """Days of stamps in UTC."""
    days, assumed = days_of_moments(moments, zone)
    return days, [assumed]


def _from_clocks(clocks: pd.DatetimeIndex, zone: str = "offset of its own") -> tuple[pd.DatetimeIndex, list[str]]:
    """Days of stamps that carry a zone, given what their own clocks show."""
    return clocks.normalize(), [f"time zones dropped: the day of each stamp is that of its own clock ({zone})"]


def _at_midnight(stamps: pd.DatetimeIndex) -> tuple[pd.DatetimeIndex, list[str]]:
    """Days of naive stamps."""
    days = stamps.normalize()
    late = np.asarray(days != stamps) & stamps.notna()
    if not late.any():
        return days, []
    notes = ["times of day dropped: stamps without a time zone are taken for local time, the day is the one written"]
    weekends = int((late & (stamps.day_of_week >= 5)).sum())
    if weekends:
        notes.append(
            f"{weekends} of these stamps lie on weekends: if the times are UTC, write their offset, as in +00:00"
        )
    return days, notes
