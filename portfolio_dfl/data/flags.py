"""What a check has to say about prices: a flag names ticker, date, kind of defect and the facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from portfolio_dfl.wording import counted

__all__ = ["Flag", "PanelReport", "Severity", "brief", "day"]

Severity = Literal["problem", "warning", "note"]


def day(stamp: pd.Timestamp) -> str:
    """Date as ``YYYY-MM-DD``."""
    return f"{stamp:%Y-%m-%d}"


@dataclass(frozen=True)
class Flag:
    """One finding.

    Attributes
    ----------
    kind
        Name of the defect, such as ``gap`` or ``split_suspect``.
    message
        The facts in words, without ticker and date.
    severity
        ``problem``: a policy must say what to do; ``warning``: look at it; ``note``: handled, nothing lost.
    ticker
        Ticker concerned; None for the whole panel.
    date, last
        First and last date concerned; ``last`` is None for a single date.
    count
        Cells or dates concerned.
    """

    kind: str
    message: str
    severity: Severity = "problem"
    ticker: str | None = None
    date: pd.Timestamp | None = None
    last: pd.Timestamp | None = None
    count: int = 1

    @property
    def place(self) -> str:
        """Ticker and dates in words."""
        words = [self.ticker] if self.ticker is not None else []
        if self.date is not None:
            until = f"..{day(self.last)}" if self.last is not None and self.last != self.date else ""
            words.append(day(self.date) + until)
        return " ".join(words)

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


@dataclass(frozen=True)
class PanelReport:
    """What was found in prices, and what the policies did about it.

    Attributes
    ----------
    flags
        All findings, in the order of the checks.
    touched
        Cells (ticker-days) that each policy filled, emptied or left out, by ``policy=choice``.
    dropped_tickers
        Tickers that a policy took out.
    """

    flags: tuple[Flag, ...] = ()
    touched: Mapping[str, int] = field(default_factory=dict)
    dropped_tickers: tuple[str, ...] = ()

    def of_kind(self, *kinds: str) -> tuple[Flag, ...]:
        """Findings of these kinds."""
        return tuple(flag for flag in self.flags if flag.kind in kinds)

    @property
    def problems(self) -> tuple[Flag, ...]:
        """Findings that needed a policy."""
        return tuple(flag for flag in self.flags if flag.severity == "problem")

    def to_frame(self) -> pd.DataFrame:
        """One row a finding: kind, severity, ticker, date, last, count, message."""
        columns = ["kind", "severity", "ticker", "date", "last", "count", "message"]
        rows = [[getattr(flag, column) for column in columns] for flag in self.flags]
        return pd.DataFrame(rows, columns=columns)

    def text(self, most: int = 8) -> str:
        """Findings grouped by kind, at most ``most`` of each, then what the policies touched."""
        lines = []
        for kind in dict.fromkeys(flag.kind for flag in self.flags):
            flags = self.of_kind(kind)
            lines.append(f"{kind} ({flags[0].severity}, {len(flags)})")
            lines.extend(f"  {flag}" for flag in flags[:most])
            if len(flags) > most:
                lines.append(f"  ... and {len(flags) - most} more")
        lines.extend(
            f"policy {policy} touched {counted(count, 'cell', thousands=True)}"
            for policy, count in self.touched.items()
        )
        if self.dropped_tickers:
            lines.append(f"tickers left out: {', '.join(self.dropped_tickers)}")
        return "\n".join(lines) if lines else "nothing to report"

    def __str__(self) -> str:
        return self.text()


def brief(flags: Sequence[Flag] | Iterable[Flag], most: int = 3) -> str:
    """The first findings in one line."""
    flags = list(flags)
    more = f" and {len(flags) - most} more" if len(flags) > most else ""
    return "; ".join(str(flag) for flag in flags[:most]) + more
