"""Checks and policies in their order: tidy prices become clean ones, or reasons to refuse them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from portfolio_dfl.data.checks import bad_prices, edge_flags, gap_flags, off_calendar, stale_runs, unchanged_dates
from portfolio_dfl.data.flags import Flag, PanelReport, brief
from portfolio_dfl.data.jumps import jump_flags
from portfolio_dfl.data.policies import Policies, describe_choices
from portfolio_dfl.data.sessions import sessions_between
from portfolio_dfl.data.tidy import TidyPrices
from portfolio_dfl.wording import counted

__all__ = ["Cleaned", "clean_prices"]

# Days between rows from which on they are no sessions.
_WEEKS = 5.5
_SLACK = pd.Timedelta(days=7)


@dataclass(frozen=True)
class Cleaned:
    """Prices after all policies.

    Attributes
    ----------
    prices
        [T, N]; complete and positive if nothing failed.
    report
        Findings and what policies touched.
    failures
        Findings that a policy refused, by the name of the policy.
    """

    prices: pd.DataFrame
    report: PanelReport
    failures: dict[str, tuple[Flag, ...]]

    def refusal(self) -> str:
        """Why the prices cannot be used, in one line, with the policies that would do something about it."""
        parts = [
            f"{name} ({len(flags)}): {brief(flags)} [policies: {describe_choices(name)}]"
            for name, flags in self.failures.items()
        ]
        return "the prices cannot be used as they are. " + " | ".join(parts) + self._of_longer_periods()

    def _of_longer_periods(self) -> str:
        """What to do where rows are no sessions, which come a day apart."""
        rows = self.prices.index[self.prices.notna().any(axis=1)]
        apart = float(np.median(np.diff(rows.to_numpy()) / np.timedelta64(1, "D"))) if len(rows) > 2 else 1.0
        if apart < _WEEKS or not {"gaps", "off_calendar"} & self.failures.keys():
            return ""
        return f" | rows are {apart:.3g} days apart: prices of weeks or months need data.calendar: null"


def clean_prices(
    tidy: TidyPrices, policies: Policies, calendar: str | None, *, idle: pd.DataFrame | None = None
) -> Cleaned:
    """Run all checks in order and apply the policy of each; failing policies are collected, not raised.

    Parameters
    ----------
    tidy
        Sorted numeric prices.
    policies
        What to do about each kind of defect.
    calendar
        Exchange calendar; None takes the dates found as all there are.
    idle
        [T, N] bool: cells of which nothing is asked, of tickers that come and go. They may start late and end early.
    """
    work = _Work(tidy, policies, calendar, idle)
    jumps_drop = policies.jumps == "drop_ticker"
    order: list[Callable[[], None]] = [
        work.drop_empty_rows,
        work.check_calendar,
        work.check_bad_prices,
        work.check_empty,
        work.check_stale,
        # A ticker that is dropped for its jumps must not first shorten the panel for the others.
        *([work.check_jumps] if jumps_drop else []),
        *([] if idle is not None else [work.check_end, work.check_start]),
        work.check_gaps,
        *([] if jumps_drop else [work.check_jumps]),
        work.require_complete,
    ]
    for step in order:
        step()
        if work.prices.shape[1] == 0 or len(work.prices) == 0:
            work.nothing_left()
            break
    work.prices.index = pd.DatetimeIndex(work.prices.index.to_numpy(), name="Date")
    report = PanelReport((*tidy.notes, *work.flags), work.touched, tuple(work.dropped))
    return Cleaned(work.prices, report, {name: tuple(flags) for name, flags in work.failures.items()})


class _Work:
    """Prices on their way through the checks."""

    def __init__(
        self, tidy: TidyPrices, policies: Policies, calendar: str | None, idle: pd.DataFrame | None = None
    ) -> None:
        self.prices = tidy.prices
        self.tidy = tidy
        self.policies = policies
        self.calendar = calendar
        self.flags: list[Flag] = []
        self.touched: dict[str, int] = {}
        self.failures: dict[str, list[Flag]] = {}
        self.dropped: list[str] = []
        self.idle = idle
        none = pd.DataFrame(False, index=self.prices.index, columns=self.prices.columns)
        self.excused = none if idle is None else idle.copy()

    # -- steps ---------------------------------------------------------------------------------------

    def drop_empty_rows(self) -> None:
        """Rows without any price before the first, after the last, and on days without a session."""
        filled = self.prices.notna().any(axis=1).to_numpy()
        if not filled.any():
            return
        rows = np.arange(len(filled))
        first, last = np.flatnonzero(filled)[[0, -1]]
        outside = ~filled & ((rows < first) | (rows > last))
        if self.calendar is not None:
            listed = sessions_between(self.calendar, self.prices.index[0], self.prices.index[-1])
            outside |= ~filled & ~self.prices.index.isin(listed)
        places = {
            "before the first price": rows < first,
            "after the last price": rows > last,
            "on days without a session": (rows > first) & (rows < last),
        }
        for place, here in places.items():
            dates = self.prices.index[outside & here]
            if len(dates):
                message = f"{counted(len(dates), 'row')} without any price {place} left out"
                self.flags.append(Flag("empty_rows", message, "note", date=dates[0], last=dates[-1], count=len(dates)))
        self._keep_rows(~outside)

    def check_calendar(self) -> None:
        """Prices on days on which the exchange is closed."""
        if self.calendar is None:
            return
        listed = sessions_between(self.calendar, self.prices.index[0], self.prices.index[-1])
        flags = off_calendar(self.prices, listed, self.calendar)
        extra = ~self.prices.index.isin(listed)
        if self._decide("off_calendar", flags) == "drop_dates" and flags:
            self._touch("off_calendar", int(self.prices[extra].notna().to_numpy().sum()))
        self._keep_rows(~extra)

    def check_bad_prices(self) -> None:
        """Zero, negative, infinite and unreadable prices; they are missing for all later checks."""
        known = set(self.prices.index)
        unreadable = [flag for flag in self.tidy.unreadable if flag.date in known]
        flags = [*unreadable, *bad_prices(self.prices)]
        choice = self._decide("bad_prices", flags)
        if choice == "drop_ticker":
            self._drop("bad_prices", flags)
        values = self.prices.to_numpy()
        bad = np.isinf(values) | (values <= 0)
        self.prices = self.prices.mask(bad)
        # Unreadable cells are missing already; only these findings know where they were.
        rows = self.prices.index.get_indexer(pd.Index([flag.date for flag in unreadable]))
        columns = self.prices.columns.get_indexer(pd.Index([flag.ticker for flag in unreadable]))
        there = (rows >= 0) & (columns >= 0)
        bad[rows[there], columns[there]] = True
        if choice == "as_missing" and flags:
            self._touch("bad_prices", int(bad.sum()))
        else:
            self.excused |= bad

    def check_empty(self) -> None:
        """Tickers without any price."""
        empty = self.prices.columns[self.prices.isna().all()]
        flags = [Flag("empty", "no price at all", ticker=str(ticker), count=len(self.prices)) for ticker in empty]
        if self._decide("empty", flags) == "drop_ticker":
            self._drop("empty", flags)
        else:
            self._forget([str(ticker) for ticker in empty])

    def check_stale(self) -> None:
        """Long unchanged runs, and dates on which nothing moved."""
        self.flags.extend(unchanged_dates(self.prices))
        flags = stale_runs(self.prices)
        choice = self._decide("stale", flags)
        if choice == "drop_ticker":
            self._drop("stale", flags)
        elif choice == "as_missing" and flags:
            prices = self.prices.copy()
            for flag in flags:
                run = prices.loc[flag.date : flag.last, flag.ticker].index
                # The real price is the last one of a run that was copied back, the first one otherwise.
                prices.loc[run[:-1] if flag.kind == "constant_start" else run[1:], flag.ticker] = np.nan
            self._touch("stale", int((prices.isna() & self.prices.notna()).to_numpy().sum()))
            self.prices = prices

    def check_end(self) -> None:
        """Tickers that end early, measured by the range asked for, else by the panel."""
        self._trim()
        _, early = edge_flags(self.prices, *self._expected_range())
        choice = self._decide("early_end", early)
        if choice == "drop_ticker":
            self._drop("early_end", early)
        elif choice == "end_earlier" and early:
            after = self.prices.index > self.prices.notna()[::-1].idxmax().min()
            self._touch("early_end", int(self.prices[after].notna().to_numpy().sum()))
            self._keep_rows(~after)

    def check_start(self) -> None:
        """Tickers that start late, measured by the range asked for, else by the panel."""
        self._trim()
        late, _ = edge_flags(self.prices, *self._expected_range())
        choice = self._decide("late_start", late)
        if choice == "drop_ticker":
            self._drop("late_start", late)
        elif choice == "start_later" and late:
            before = self.prices.index < self.prices.notna().idxmax().max()
            self._touch("late_start", int(self.prices[before].notna().to_numpy().sum()))
            self._keep_rows(~before)

    def check_gaps(self) -> None:
        """Missing sessions and missing prices between two prices."""
        self._trim()
        if self.calendar is not None:
            listed = sessions_between(self.calendar, self.prices.index[0], self.prices.index[-1])
            index = self.prices.index.union(listed)
            self.prices = self.prices.reindex(index)
            self.excused = self.excused.reindex(index, fill_value=False)
        flags = gap_flags(self.prices, self.calendar, self.excused)
        choice = self._decide("gaps", flags)
        if not flags or choice == "fail":
            return
        if choice == "drop_ticker":
            self._drop("gaps", flags)
        elif choice == "drop_dates":
            holes = np.asarray(self._holes().any(axis=1) | self.prices.isna().to_numpy().all(axis=1))
            self._touch("gaps", int(holes.sum()) * self.prices.shape[1])
            self._keep_rows(~holes)
        else:
            filled = self.prices.ffill(limit=self.policies.fill_limit)
            if self.idle is not None:  # nothing follows a last price
                filled = filled.where(self.prices.bfill().notna())
            self._touch("gaps", int((self.prices.isna() & filled.notna()).to_numpy().sum()))
            self.prices = filled

    def check_jumps(self) -> None:
        """Moves that look like unadjusted splits or bad ticks."""
        found = jump_flags(self.prices, self.policies.confirmed)
        self.flags.extend(flag for flag in found if flag.severity != "problem")
        flags = [flag for flag in found if flag.severity == "problem"]
        if self._decide("jumps", flags) == "drop_ticker":
            self._drop("jumps", flags)

    def require_complete(self) -> None:
        """What a policy could not repair: gaps longer than may be filled, sessions no ticker has."""
        if self.failures or not self.prices.isna().to_numpy().any():
            return
        if self.idle is not None:
            left = gap_flags(self.prices, self.calendar, self.excused)
            if not left:
                return
        else:
            left = gap_flags(self.prices, self.calendar)
            left += [flag for flags in edge_flags(self.prices, *self._expected_range()) for flag in flags]
        self.failures["gaps"] = [
            replace(flag, message=f"{flag.message}, still there after gaps={self.policies.gaps}") for flag in left
        ]

    def nothing_left(self) -> None:
        """Policies took everything away."""
        if not self.failures:
            flag = Flag("empty", f"no prices are left (dropped: {', '.join(self.dropped) or 'all dates'})")
            self.failures["empty"] = [flag]

    def _holes(self) -> np.ndarray:
        """Missing prices, of tickers that come and go those between two of theirs that are asked for."""
        missing = self.prices.isna().to_numpy()
        if self.idle is None:
            return missing
        inside = (self.prices.ffill().notna() & self.prices.bfill().notna()).to_numpy()
        return np.asarray(missing & inside & ~self.excused.to_numpy())

    # -- what steps share ----------------------------------------------------------------------------

    def _expected_range(self) -> tuple[pd.Timestamp, pd.Timestamp]:
        """Dates on which every ticker should start and end."""
        first, last = self.prices.index[0], self.prices.index[-1]
        start, end = self.tidy.start, self.tidy.end
        if self.calendar is not None:
            if start is not None:
                before = sessions_between(self.calendar, start, first)
                first = before[0] if len(before) else first
            if end is not None:
                after = sessions_between(self.calendar, last, end)
                last = after[-1] if len(after) else last
            return first, last
        # Without a calendar, a range asked for that starts within a week of the prices is met.
        first = start if start is not None and first - start > _SLACK else first
        return first, end if end is not None and end - last > _SLACK else last

    def _decide(self, name: str, flags: Sequence[Flag]) -> str:
        """Record findings; the policy's choice for them."""
        choice = str(getattr(self.policies, name)).partition(":")[0]
        self.flags.extend(flags)
        if flags and choice == "fail":
            self.failures[name] = list(flags)
        if flags and choice == "accept":
            self._touch(name, 0)
        return choice

    def _touch(self, name: str, cells: int) -> None:
        policy = f"{name}={getattr(self.policies, name)}"
        self.touched[policy] = self.touched.get(policy, 0) + cells

    def _drop(self, name: str, flags: Sequence[Flag]) -> None:
        """Take the tickers of these findings out, by the policy of this name."""
        named = {flag.ticker for flag in flags}
        gone = [str(ticker) for ticker in self.prices.columns if ticker in named]
        if gone:
            self._touch(name, int(self.prices[gone].notna().to_numpy().sum()))
            self.dropped.extend(gone)
            self._forget(gone)

    def _forget(self, tickers: Sequence[str]) -> None:
        self.prices = self.prices.drop(columns=list(tickers))
        self.excused = self.excused.drop(columns=list(tickers))

    def _trim(self) -> None:
        """Rows at the edges that only a dropped ticker had prices on."""
        filled = np.flatnonzero(self.prices.notna().any(axis=1).to_numpy())
        if len(filled):
            rows = np.arange(len(self.prices))
            self._keep_rows((rows >= filled[0]) & (rows <= filled[-1]))

    def _keep_rows(self, rows: np.ndarray) -> None:
        if not rows.all():
            self.prices, self.excused = self.prices[rows], self.excused[rows]
