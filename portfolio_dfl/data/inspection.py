"""Look at prices without refusing them: everything the checks find, and whether a study could use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from portfolio_dfl.data.cleaning import Cleaned, clean_prices
from portfolio_dfl.data.flags import Flag, PanelReport
from portfolio_dfl.data.policies import Policies, describe_choices
from portfolio_dfl.data.sessions import best_calendar
from portfolio_dfl.data.sources import FileSource, open_source
from portfolio_dfl.data.tidy import Day, TidyPrices, tidy_prices
from portfolio_dfl.notebook import PrintedResult
from portfolio_dfl.wording import counted

__all__ = ["CheckReport", "check_file", "check_prices"]


@dataclass(frozen=True)
class CheckReport(PrintedResult):
    """Outcome of a check; ``print`` it, or use :meth:`text`.

    Attributes
    ----------
    name
        What was checked.
    prices
        Tidy prices as found, before any policy, [T, N] with NaN.
    report
        All findings.
    failures
        Findings that the policies refuse, by the name of the policy.
    """

    name: str
    prices: pd.DataFrame
    report: PanelReport
    failures: Mapping[str, tuple[Flag, ...]]

    @property
    def usable(self) -> bool:
        """Whether a panel can be built from these prices with the policies given."""
        return not self.failures

    def completeness(self) -> pd.DataFrame:
        """One row a ticker: first and last date with a price, prices, missing inside, share of all dates."""
        return completeness(self.prices)

    def text(self, most: int = 8) -> str:
        """The report as text, at most ``most`` findings of a kind."""
        index = self.prices.index
        head = (
            f"{self.name}: {counted(self.prices.shape[1], 'ticker')}, "
            f"{counted(len(index), 'date')}, {index[0]:%Y-%m-%d} to {index[-1]:%Y-%m-%d}"
        )
        if self.usable:
            verdict = "usable with these policies"
        else:
            ways = "; ".join(describe_choices(name) for name in self.failures)
            verdict = f"not usable as it is. Policies that deal with it: {ways}"
        return "\n".join([head, self.report.text(most), verdict])

    def __str__(self) -> str:
        return self.text()


def completeness(prices: pd.DataFrame) -> pd.DataFrame:
    """One row a ticker: first and last date with a price, prices, missing between, share of all dates."""
    present = prices.notna()
    count = present.sum()
    first = present.idxmax().where(count > 0)
    last = present[::-1].idxmax().where(count > 0)
    start = np.argmax(present.to_numpy(), axis=0)
    stop = len(prices) - 1 - np.argmax(present.to_numpy()[::-1], axis=0)
    inside = np.where(count > 0, stop - start + 1 - count, 0)
    return pd.DataFrame(
        {
            "first": first,
            "last": last,
            "prices": count,
            "missing_inside": inside,
            "share": count / max(len(prices), 1),
        }
    ).rename_axis("ticker")


def check_prices(
    raw: pd.DataFrame,
    *,
    name: str = "prices",
    tickers: Sequence[str] | None = None,
    start: Day | None = None,
    end: Day | None = None,
    calendar: str | None = "XNYS",
    policies: Policies | Mapping[str, object] | None = None,
) -> CheckReport:
    """Run every check on prices and report; only prices that cannot be read at all are an error.

    Parameters
    ----------
    raw, tickers, start, end, calendar, policies
        As for :func:`~portfolio_dfl.data.panel.build_panel`.
    name
        Title of the report.

    Raises
    ------
    DataError
        No dates, no prices, conflicting rows of one date, unknown tickers or policies, an empty range.
    """
    chosen = Policies.of(policies)
    tidy = tidy_prices(raw, tickers=tickers, start=start, end=end, calendar=calendar)
    cleaned = clean_prices(tidy, chosen, calendar)
    flags = (*cleaned.report.flags, *_calendar_hint(tidy, cleaned, calendar))
    report = PanelReport(flags, cleaned.report.touched, cleaned.report.dropped_tickers)
    return CheckReport(name, tidy.prices, report, cleaned.failures)


def check_file(
    path: str | Path,
    *,
    ticker: str | None = None,
    tickers: Sequence[str] | None = None,
    start: Day | None = None,
    end: Day | None = None,
    calendar: str | None = "XNYS",
    policies: Policies | Mapping[str, object] | None = None,
) -> CheckReport:
    """Read a CSV or Parquet file, or a snapshot, and run every check on it.

    Parameters
    ----------
    path
        Of the file; or anything else that :func:`~portfolio_dfl.data.sources.open_source` finds offline: the folder
        or name of a snapshot, ``embedded``.
    ticker
        Name of the only ticker, where the file does not say it; by default from the file name.
    tickers, start, end, calendar, policies
        As for :func:`~portfolio_dfl.data.panel.build_panel`.

    Raises
    ------
    DataError
        A file that cannot be read as prices.
    """
    source = FileSource(path, ticker=ticker) if Path(path).is_file() else open_source(path)
    raw = source.load()
    return check_prices(
        raw,
        name=source.name,
        tickers=tickers,
        start=start,
        end=end,
        calendar=calendar,
        policies=policies,
    )


def _calendar_hint(tidy: TidyPrices, cleaned: Cleaned, calendar: str | None) -> list[Flag]:
    """A better calendar where this one does not fit, and a word on prices that are not daily."""
    days = pd.DatetimeIndex(tidy.prices.index[tidy.prices.notna().any(axis=1)])
    if len(days) < 20:
        return []
    hints = []
    spacing = int(np.median(np.diff(days.to_numpy().astype("datetime64[D]").astype(np.int64))))
    if spacing > 3:
        message = f"dates lie {spacing} days apart: these are not daily prices"
        return [Flag("not_daily", message, "warning", date=days[0], last=days[-1])]
    misfits = cleaned.report.of_kind("off_calendar", "missing_session")
    if calendar is not None and len(misfits) > 5:
        better = best_calendar(days, calendar)
        if better is not None:
            message = f"the dates fit calendar {better} better than {calendar}"
            hints.append(Flag("calendar", message, "warning"))
    return hints
