"""How many rows a year of returns has: read off its dates, in one place, for everything that annualises.

The number follows from the time that passes between rows, not from how many rows there are:

1. **Days** (rows up to 6 days apart). Weekdays on which rows hardly ever fall are closed. A week of five open days has
   252 a year, as exchanges with their holidays do; a week of seven has 365, and any other of k days 365 k / 7. Where
   rows leave out more open days than holidays explain (every second session, say), they are counted over the time
   that passed.
2. **Longer rhythms**: 52 weeks, 26 fortnights, 13 times four weeks, 12 months, 6 times two months, 4 quarters, 2
   half-years, 1 year.
3. Anything else, rows within a day among them, is refused: ``periods_per_year`` then says it.

In fewer than 20 gaps a holiday or two would weigh too much: they are judged by the middle one, and without a row on a
weekend they are days of a week of five. A single row is one too, or of a week of seven where it falls on a weekend.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.errors import BacktestError
from portfolio_dfl.wording.periods import period_noun

__all__ = ["periods_per_year_of", "resolved_periods_per_year", "row_noun"]

# Gaps that many times the middle one are holes in the data, not its rhythm.
_HOLE = 2.5
_LONGEST_WEEKEND = 4.0
# Up to here a rhythm is one of days; a row a week is 7 days apart but for holidays.
_LONGEST_OF_DAYS, _LONGEST_OF_FEW_DAYS = 6.4, 5.0
_FEW_GAPS, _MANY_GAPS = 20, 250
# Open days a row that holidays explain: a Golden Week weighs much in a month, 12 % is more than any exchange's year.
_HOLIDAYS_OF_FEW, _HOLIDAYS_OF_MANY = 1.5, 1.12
# A weekday is open where rows fall on it this often, next to the weekday with most: holidays like Mondays.
_OPEN = 0.25
# Shortest and longest distance in days, rows a year.
_LONGER = (
    (5.0, 8.2, 52.0),
    (12.6, 14.8, 26.0),
    (27.99, 28.01, 13.0),
    (27.0, 33.5, 12.0),
    (57.0, 64.0, 6.0),
    (88.0, 94.5, 4.0),
    (176.0, 190.0, 2.0),
    (355.0, 376.0, 1.0),
)
_SATURDAY = 5


def periods_per_year_of(dates: pd.Index[pd.Timestamp]) -> float:
    """Rows a year, read off the distances of dates; the rules stand at the top of this module.

    Parameters
    ----------
    dates : DatetimeIndex
        Strictly increasing.

    Returns
    -------
    float
        252 for the sessions of an exchange, 365 for seven days a week, 52 weekly, 12 monthly, 4 quarterly.

    Raises
    ------
    BacktestError
        If the dates have another rhythm.
    """
    index = pd.DatetimeIndex(dates)
    gaps = np.diff(index.to_numpy()) / np.timedelta64(1, "D")
    if len(gaps) == 0:
        return 365.0 if len(index) and index[0].day_of_week >= _SATURDAY else 252.0
    middle = float(np.median(gaps))
    few = len(gaps) < _FEW_GAPS
    regular = gaps[gaps <= _HOLE * max(middle, _LONGEST_WEEKEND)]
    typical = middle if few else float(regular.mean())
    if middle >= 1.0 and typical <= (_LONGEST_OF_FEW_DAYS if few else _LONGEST_OF_DAYS):
        return _days_a_year(index, gaps, few)
    exact = few and len(gaps) < 3  # February alone has four weeks
    for shortest, longest, count in _LONGER:
        if middle >= 5.0 and shortest <= typical <= longest and not (count == 13.0 and exact):
            return count
    raise BacktestError(
        f"dates {typical:.3g} days apart are of no rhythm that is known (days, weeks, months, quarters): "
        "give periods_per_year, in a study evaluation.periods_per_year"
    )


def resolved_periods_per_year(given: float | None, dates: pd.Index[pd.Timestamp]) -> float:
    """The number given, or the one that the dates tell.

    Raises
    ------
    BacktestError
        If the number is not positive and finite, or none is given and the dates have no known rhythm.
    """
    if given is None:
        return periods_per_year_of(dates)
    if not (np.isfinite(given) and given > 0.0):
        raise BacktestError(f"periods_per_year must be positive and finite, got {given}")
    return float(given)


def row_noun(dates: pd.Index[pd.Timestamp]) -> str:
    """What a row of these dates is called: a day, a week, a month; a period where they have no known rhythm."""
    try:
        return period_noun(periods_per_year_of(dates))
    except BacktestError:
        return "period"


def _days_a_year(index: pd.DatetimeIndex, gaps: NDArray[np.float64], few: bool) -> float:
    """Rows a year of dates that are days apart."""
    on_weekends = bool((index.day_of_week >= _SATURDAY).any())
    if few and not on_weekends:
        return 252.0
    is_open = _open_weekdays(index)
    count = int(is_open.sum())
    year = 252.0 if count == 5 else 365.0 * count / 7.0
    if few:
        return year
    days = index.to_numpy().astype("datetime64[D]")
    passed = np.busday_count(days[:-1], days[1:], weekmask=[bool(each) for each in is_open])
    stride = max(1.0, float(passed[gaps <= _HOLE * _LONGEST_WEEKEND].mean()))
    holidays = _HOLIDAYS_OF_MANY if len(gaps) >= _MANY_GAPS else _HOLIDAYS_OF_FEW
    return year if stride <= holidays else 365.25 * count / 7.0 / stride


def _open_weekdays(index: pd.DatetimeIndex) -> NDArray[np.bool_]:
    """Which weekdays, Monday first, have rows as a rule; one that the span does not reach is open with the weekend."""
    passed = np.bincount(pd.date_range(index[0].normalize(), index[-1].normalize()).day_of_week, minlength=7)
    share = np.bincount(index.day_of_week, minlength=7) / np.maximum(passed, 1)
    is_open: NDArray[np.bool_] = (passed == 0) | (share >= _OPEN * share.max())
    return is_open
