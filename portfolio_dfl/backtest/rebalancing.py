"""On which dates a strategy decides, told from what was known on them.

Whether today is the last session of a week, month or quarter is asked of the exchange's calendar, which is public long
before, and never of the next row of the data. (A closure decreed on short notice, such as that of 2012-10-29 in New
York, is in the calendar as well.) Without a calendar, weekdays stand for sessions. Where the last session has no row,
the next row there is decides in its place. The first session is the first row of a period. Where rows come once a
period (weekly prices, decided on weekly) every row is a decision date. So rows to come move no date up to today.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.data.frequency import RebalancingRule, parse_rule, rule_text
from portfolio_dfl.data.sessions import sessions_between
from portfolio_dfl.errors import BacktestError, DataError
from portfolio_dfl.scalars import require_choice

__all__ = ["Rebalance", "Rebalancing"]

# Days between rows, at the middle, from which on a period has no second row.
_SPARSE = {"weekly": 5.5, "monthly": 26.0, "quarterly": 80.0}
_FREQUENCIES = {"weekly": "W-SUN", "monthly": "M", "quarterly": "Q"}
# Rows further apart than this are not the sessions of an exchange.
_LONGEST_OF_DAYS = 5.0


@dataclass(frozen=True)
class Rebalancing:
    """A rule of decision dates.

    Parameters
    ----------
    rule : str, int or sequence of dates
        ``"daily"`` (every row), ``"weekly"`` (Monday to Sunday), ``"monthly"``, ``"quarterly"``; ``"every N sessions"``
        or N, counted in rows from the first decision; or the dates themselves, each a row.
    on : {"last", "first"}
        Session of the week, month or quarter.
    calendar : str, optional
        Exchange calendar, such as ``XNYS``; None takes weekdays for sessions.

    Raises
    ------
    BacktestError
        If there is no such rule.

    Examples
    --------
    >>> import pandas as pd
    >>> from portfolio_dfl import Rebalancing
    >>> rows = pd.bdate_range("2024-01-01", "2024-03-29")
    >>> [str(day.date()) for day in Rebalancing("monthly").dates(rows)]
    ['2024-01-31', '2024-02-29', '2024-03-29']
    >>> str(Rebalancing(10))
    'every 10 sessions'
    """

    rule: RebalancingRule = "daily"
    on: Literal["last", "first"] = "last"
    calendar: str | None = None

    def __post_init__(self) -> None:
        try:
            rule = parse_rule(self.rule)
        except ValueError as error:
            raise BacktestError(f"rebalance: {error}") from error
        object.__setattr__(self, "rule", rule)
        require_choice(BacktestError, "on", self.on, ("last", "first"))

    @classmethod
    def of(cls, value: Rebalance) -> Rebalancing:
        """The rule itself, or that of a name, a number or dates, with weekdays for sessions."""
        if isinstance(value, Rebalancing):
            return value
        listed = isinstance(value, Iterable) and not isinstance(value, str)
        rule: Any = tuple(value) if listed else value  # type: ignore[arg-type]
        return cls(rule)

    def __str__(self) -> str:
        return rule_text(self.rule, self.on)

    def dates(
        self,
        rows: pd.DatetimeIndex,
        start: pd.Timestamp | None = None,
        end: pd.Timestamp | None = None,
    ) -> pd.DatetimeIndex:
        """Decision dates from ``start`` to ``end``, both included, among the rows of the returns.

        Raises
        ------
        BacktestError
            If a date that is given is within the rows' span and none of them.
        DataError
            If the calendar is unknown or does not cover the rows.
        """
        begin = 0 if start is None else int(rows.searchsorted(start, side="left"))
        stop = len(rows) if end is None else int(rows.searchsorted(end, side="right"))
        if isinstance(self.rule, int):
            return rows[begin : max(stop, begin) : self.rule]
        if self.rule == "daily":
            return rows[begin:stop]
        return rows[begin:stop][self._due(rows)[begin:stop]]

    def outlook(self, rows: pd.DatetimeIndex, since: pd.Timestamp) -> tuple[bool, pd.Timestamp | None]:
        """Whether the last row is a decision date, and the next one after it; None where none can be told.

        Parameters
        ----------
        rows : DatetimeIndex
            Dates of fresh returns.
        since : Timestamp
            A decision date, from which sessions are counted.
        """
        today = rows[-1]
        if isinstance(self.rule, tuple):
            given = pd.DatetimeIndex(self.rule)
            later = given[given > today]
            return bool((given == today).any()), later[0] if len(later) else None
        apart = float(np.median(np.diff(rows.to_numpy()) / np.timedelta64(1, "D"))) if len(rows) > 1 else 1.0
        counts_rows = self.rule == "daily" or isinstance(self.rule, int)
        if counts_rows and apart > _LONGEST_OF_DAYS:  # the next rows' dates are nobody's calendar
            found = self.dates(rows, since)
            return bool((found == today).any()), None
        found, ahead = self.dates(self._with_earlier(rows, since), since), pd.DatetimeIndex(rows[:0])
        reach = 2 * self.rule + 15 if isinstance(self.rule, int) else 200
        with suppress(DataError):  # the calendar ends before; what is known of today stays
            ahead = self._sessions(today + pd.Timedelta(days=1), today + pd.Timedelta(days=reach))
        later = self.dates(pd.DatetimeIndex(self._with_earlier(rows, since).append(ahead)), since)
        later = later[later > today]
        return bool((found == today).any()), later[0] if len(later) else None

    def _with_earlier(self, rows: pd.DatetimeIndex, since: pd.Timestamp) -> pd.DatetimeIndex:
        """The rows, with the sessions from a decision before them on where these are counted."""
        if not isinstance(self.rule, int) or since >= rows[0]:
            return rows
        return pd.DatetimeIndex(self._sessions(since, rows[0] - pd.Timedelta(days=1)).append(rows))

    def _due(self, rows: pd.DatetimeIndex) -> NDArray[np.bool_]:
        """Of each row whether it is a decision date."""
        if len(rows) == 0:
            return np.ones(0, dtype=bool)
        if isinstance(self.rule, tuple):
            given = pd.DatetimeIndex(self.rule)
            inside = given[(given >= rows[0]) & (given <= rows[-1])]
            missing = inside.difference(rows)
            if len(missing):
                raise BacktestError(
                    f"rebalance names {missing[0].date()}, for which there is no return: name dates of the prices "
                    f"(the next is {rows[int(rows.searchsorted(missing[0]))].date()})"
                )
            return np.asarray(rows.isin(given))
        periods = rows.to_period(_FREQUENCIES[str(self.rule)])
        begins = np.append(True, periods[1:] != periods[:-1])
        sessions = self._sessions(periods[0].start_time, periods[-1].end_time.normalize())
        bounds = pd.Series(sessions, index=sessions.to_period(_FREQUENCIES[str(self.rule)])).groupby(level=0)
        if self.on == "first":
            first = bounds.min().reindex(periods[:1])
            begins[0] = bool((rows[:1] <= pd.DatetimeIndex(first)).all())
            return begins
        last = pd.DatetimeIndex(bounds.max().reindex(periods)).to_numpy()
        over = rows.to_numpy() >= np.where(np.isnat(last), periods.end_time.normalize().to_numpy(), last)
        over_before = np.append(False, over[:-1])
        late = begins & ~over_before
        late[0] = False  # nothing is known of the period before
        due: NDArray[np.bool_] = (over & ~(over_before & ~begins)) | late | self._sparse(rows)
        return due

    def _sparse(self, rows: pd.DatetimeIndex) -> NDArray[np.bool_]:
        """Of each row whether the rows up to it come once a period: each is then all that its period has."""
        gaps = pd.Series(np.diff(rows.to_numpy()) / np.timedelta64(1, "D"), index=rows[1:])
        return np.append(False, (gaps.expanding().median() >= _SPARSE[str(self.rule)]).to_numpy())

    def _sessions(self, first: pd.Timestamp, last: pd.Timestamp) -> pd.DatetimeIndex:
        if last < first:
            return pd.DatetimeIndex([])
        if self.calendar is None:
            return pd.bdate_range(first, last)
        return sessions_between(self.calendar, first, last)


#: What says on which dates a strategy decides.
Rebalance: TypeAlias = Rebalancing | str | int | Iterable[Any]
