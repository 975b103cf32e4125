"""Trading days of exchanges, from the library ``exchange_calendars``."""

from __future__ import annotations

from functools import lru_cache

import pandas as pd

from portfolio_dfl.errors import DataError
from portfolio_dfl.execution.process import ignored_warnings

__all__ = ["best_calendar", "exchange_zone", "sessions_between"]

_COMMON = ("XNYS", "XLON", "XETR", "XTKS", "XHKG", "XSHG", "BVMF", "XTSE", "XASX", "XBOM", "24/5", "24/7")


def exchange_zone(calendar: str | None) -> str | None:
    """Time zone of a calendar; None where there is none.

    Raises
    ------
    DataError
        Unknown calendar.
    """
    if calendar is None:
        return None
    return _open(calendar, pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-31"))[1]


def sessions_between(calendar: str, first: pd.Timestamp, last: pd.Timestamp) -> pd.DatetimeIndex:
    """Days between two dates, both included, on which the exchange trades; tz-naive.

    Parameters
    ----------
    calendar
        Name known to ``exchange_calendars``, such as ``XNYS``, ``XLON`` or ``24/7``.
    first, last
        Dates.

    Raises
    ------
    DataError
        Unknown calendar, or dates that it does not cover.
    """
    whole = pd.Timestamp(first.year, 1, 1), pd.Timestamp(last.year, 12, 31)
    try:
        listed = _open(calendar, *whole)[0]
    except DataError:
        # Whole years make one calendar serve many questions, but may lie outside of what it covers.
        listed = _open(calendar, first, last)[0]
    return listed[(listed >= first) & (listed <= last)]


def best_calendar(days: pd.DatetimeIndex, than: str) -> str | None:
    """Well-known calendar whose sessions fit these days clearly better than ``than``; None if none does."""
    days = days.unique()
    scores = {}
    for name in dict.fromkeys((than, *_COMMON)):
        try:
            listed = sessions_between(name, days.min(), days.max())
        except DataError:
            continue
        scores[name] = len(days.intersection(listed)) / max(len(days.union(listed)), 1)
    best = max(scores, key=lambda name: scores[name])
    return best if best != than and scores[best] > scores.get(than, 0.0) + 0.005 else None


@lru_cache(maxsize=64)
def _open(calendar: str, first: pd.Timestamp, last: pd.Timestamp) -> tuple[pd.DatetimeIndex, str]:
    """Sessions and time zone of a calendar."""
    import exchange_calendars
    from exchange_calendars.errors import CalendarError, InvalidCalendarName, NoSessionsError

    try:
        # The library has its own quarrel with new versions of pandas.
        with ignored_warnings(category=DeprecationWarning):
            opened = exchange_calendars.get_calendar(calendar, start=first, end=last)
    except NoSessionsError:
        return pd.DatetimeIndex([]), ""
    except InvalidCalendarName as error:
        raise DataError(
            f"no exchange calendar is named {calendar!r}: use a name that exchange_calendars knows, such as "
            "XNYS, XLON or 24/7, or null for none"
        ) from error
    except (CalendarError, ValueError) as error:
        raise DataError(
            f"calendar {calendar} does not cover {first:%Y-%m-%d} to {last:%Y-%m-%d}: shorten the range, or "
            "use calendar null"
        ) from error
    return pd.DatetimeIndex(opened.sessions).tz_localize(None).as_unit("ns"), str(opened.tz)
