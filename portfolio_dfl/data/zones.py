"""Calendar days of stamps that are moments: the day that clocks showed where the prices were made."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd

__all__ = ["days_of_moments", "is_universal"]

# Where exchanges are, one zone for each way of changing clocks; the first is taken where several fit alike.
_ZONES = (
    "UTC",
    "America/New_York",
    "Europe/London",
    "Europe/Berlin",
    "Europe/Athens",
    "Asia/Tokyo",
    "Asia/Hong_Kong",
    "Asia/Kolkata",
    "Australia/Sydney",
    "Pacific/Auckland",
    "Europe/Moscow",
    "Asia/Dubai",
    "Asia/Karachi",
    "Asia/Dhaka",
    "Asia/Bangkok",
    "Asia/Jerusalem",
    "America/Chicago",
    "America/Sao_Paulo",
)
_MIDNIGHT, _NEW_YORK_CLOSE = 0, 16 * 60


def is_universal(zone: dt.tzinfo) -> bool:
    """Whether a zone is UTC, in any of its names: stamps in it tell moments and nobody's own time."""
    return zone.utcoffset(None) == dt.timedelta(0)


def days_of_moments(moments: pd.DatetimeIndex, zone: str | None) -> tuple[pd.DatetimeIndex, str]:
    """Tz-naive calendar day of each moment, and what was assumed to find it.

    Parameters
    ----------
    moments
        In UTC, [T]; NaT allowed.
    zone
        Time zone of the exchange. Without one, that of a well-known exchange is taken in which the fewest of
        the days are weekends and all stamps show the same time, best of all midnight.
    """
    clocks = moments.tz_localize(None)
    at_midnight = np.asarray((clocks == clocks.normalize()) | clocks.isna())
    if at_midnight.all():
        return clocks.normalize(), "midnights in UTC, taken for the calendar days they are written as"
    if zone is not None:
        local = moments.tz_convert(zone).tz_localize(None).normalize()
        # Exchanges of several zones in one UTC index: midnight stays what it is, stamp by stamp.
        days = pd.DatetimeIndex(np.where(at_midnight, clocks.normalize(), local))
        return days, f"stamps in UTC with other times than midnight became calendar days in {zone}, the exchange's zone"
    best = min(_ZONES, key=lambda name: _misfit(moments, name))
    return moments.tz_convert(best).tz_localize(None).normalize(), (
        f"stamps in UTC and no exchange calendar to say whose: taken for days in {best}, whose clocks and weekdays "
        "fit best; name the calendar if that is wrong"
    )


def _misfit(moments: pd.DatetimeIndex, zone: str) -> tuple[int, int, bool]:
    """Days that are weekends, different times of day, and whether these are no close and no midnight."""
    local = moments[moments.notna()].tz_convert(zone)
    times = np.unique(local.hour * 60 + local.minute)
    usual = (_MIDNIGHT, _NEW_YORK_CLOSE) if zone == "America/New_York" else (_MIDNIGHT,)
    return int((local.day_of_week >= 5).sum()), len(times), not np.isin(times, usual).all()
