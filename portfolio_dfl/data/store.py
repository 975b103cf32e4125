"""Fetch prices into snapshots, list them, and show one as a page: what the command line's ``data`` verbs call.

``fetch_snapshot`` serves ``data fetch``, ``list_snapshots`` serves ``data list``, ``show_snapshot`` serves
``data show``, and :func:`portfolio_dfl.data.inspection.check_file` serves ``data check``. Each answers with a
result that prints as text (``str(result)``); each raises ``DataError`` with a finished message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from portfolio_dfl.data.comparison import TOLERANCE, Comparison, compare_prices
from portfolio_dfl.data.inspection import CheckReport, check_prices, completeness
from portfolio_dfl.data.page import write_page
from portfolio_dfl.data.snapshot import SNAPSHOTS, Snapshot, freeze, open_snapshot, snapshot_folders
from portfolio_dfl.data.sources import NAMED_SOURCES, PriceSource, open_source
from portfolio_dfl.data.tidy import Day
from portfolio_dfl.errors import DataError
from portfolio_dfl.notebook import PrintedResult

__all__ = [
    "FetchResult",
    "SnapshotList",
    "fetch_snapshot",
    "list_snapshots",
    "show_snapshot",
]


@dataclass(frozen=True)
class FetchResult(PrintedResult):
    """What fetching led to.

    Attributes
    ----------
    snapshot
        The version written, or the one that was there and is the same.
    check
        Findings in the prices fetched, before any policy.
    comparison
        What changed against the version that was current; None for a new snapshot.
    current
        Whether the snapshot now stands for what was fetched. False where history was rewritten and the
        changes were not accepted: the new version lies beside the old one.
    """

    snapshot: Snapshot
    check: CheckReport
    comparison: Comparison | None
    current: bool

    def text(self) -> str:
        """What was fetched, what the checks found, what changed."""
        lines = [self.snapshot.text(), self.check.text()]
        if self.comparison is not None:
            if self.comparison.same:
                lines.append("nothing changed beyond drift: the version that was there stays")
            lines.append(self.comparison.text())
        if not self.current:
            lines.append(
                "known prices changed, so the snapshot still stands for its old version: fetch again with "
                "--accept-changes (in Python accept_changes) to take the new one, or name this version"
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True)
class SnapshotList(PrintedResult):
    """Snapshots of a folder.

    Attributes
    ----------
    folder
        Where they lie.
    snapshots
        Current version of each, by name.
    broken
        Why a folder that looks like a snapshot cannot be read.
    """

    folder: Path
    snapshots: tuple[Snapshot, ...]
    broken: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """One row a snapshot: name, version, tickers, dates, first, last, fetched_at, source."""
        fields = ("tickers", "dates", "first", "last", "fetched_at")
        return pd.DataFrame(
            [
                {
                    "name": snapshot.name,
                    "version": snapshot.version,
                    **{field: snapshot.manifest[field] for field in fields},
                    "source": snapshot.manifest["arguments"].get("source", ""),
                }
                for snapshot in self.snapshots
            ]
        )

    def text(self) -> str:
        """Table of the snapshots."""
        if not self.snapshots and not self.broken:
            return f"no snapshots in {self.folder}: make one with 'portfolio-dfl data fetch'"
        table = [self.to_frame().to_string(index=False)] if self.snapshots else []
        return "\n".join([*table, *self.broken])

    def __str__(self) -> str:
        return self.text()


def fetch_snapshot(
    source: PriceSource | str,
    name: str,
    *,
    folder: str | Path = SNAPSHOTS,
    tickers: Sequence[str] | None = None,
    start: Day | None = None,
    end: Day | None = None,
    calendar: str | None = "XNYS",
    accept_changes: bool = False,
    tolerance: float = TOLERANCE,
) -> FetchResult:
    """Load prices from a source, check them, and freeze them as they are.

    Prices are frozen before any policy, gaps and all: policies belong to the study that uses them. What cannot
    be read as prices is not frozen. A snapshot of this name is compared first: within tolerance it stays as it
    is; with more dates or tickers the new version becomes current; where known returns changed, or dates or
    tickers are gone, the new version is written beside it and becomes current only with ``accept_changes``.

    Parameters
    ----------
    source
        A source, or a name for :func:`~portfolio_dfl.data.sources.open_source`.
    name
        Of the snapshot.
    folder
        Where snapshots lie.
    tickers, start, end
        What to ask for, both dates included.
    calendar
        Exchange calendar of the checks; None for none.
    accept_changes
        Let a rewritten history become current.
    tolerance
        Largest difference of a return that counts as drift.

    Raises
    ------
    DataError
        A name that is a source's, a source that cannot be reached or read (nothing is written then), or a folder
        that cannot be written.
    """
    if name in NAMED_SOURCES:
        raise DataError(f"{name} names a source, not a snapshot: call the snapshot otherwise")
    if isinstance(source, str):
        source = open_source(source, tickers=tickers, start=start, end=end)
    raw = source.load()
    check = check_prices(raw, name=source.name, tickers=tickers, start=start, end=end, calendar=calendar)
    unreadable = check.report.of_kind("unreadable_price")
    if unreadable:
        raise DataError(f"{source.name} holds cells that are no prices, such as {unreadable[0]}: correct it first")
    old = _existing(name, Path(folder))
    comparison = None if old is None else compare_prices(old.prices, check.prices, tolerance=tolerance)
    if old is not None and comparison is not None and comparison.same:
        return FetchResult(old, check, comparison, current=True)
    current = accept_changes or comparison is None or not comparison.rewrites_history
    wanted = {"tickers": " ".join(tickers or ()), "start": str(start or ""), "end": str(end or "")}
    snapshot = freeze(
        check.prices,
        name,
        folder=folder,
        arguments={**{key: value for key, value in wanted.items() if value}, **source.describe()},
        report=check.report,
        completeness=completeness(check.prices),
        make_current=current,
    )
    return FetchResult(snapshot, check, comparison, current)


def list_snapshots(folder: str | Path = SNAPSHOTS) -> SnapshotList:
    """Snapshots of a folder, with those that cannot be read named rather than hidden.

    Raises
    ------
    DataError
        If there is no such folder; the one where snapshots lie by default may still be to come.
    """
    root = Path(folder)
    if not root.is_dir() and (root.exists() or root != SNAPSHOTS):
        raise DataError(f"{root} is {'a file, no' if root.exists() else 'not a'} folder: name that of the snapshots")
    snapshots, broken = [], []
    for path in snapshot_folders(folder):
        try:
            snapshots.append(open_snapshot(path))
        except DataError as error:
            broken.append(f"{path.name}: {error}")
    return SnapshotList(Path(folder), tuple(snapshots), tuple(broken))


def show_snapshot(
    name: str | Path,
    *,
    folder: str | Path = SNAPSHOTS,
    output: str | Path | None = None,
    calendar: str | None = "XNYS",
) -> Path:
    """Write a page that shows prices, returns, gaps and findings; it opens in any browser without network.

    Parameters
    ----------
    name
        Of a snapshot (``etf7`` or ``etf7@version``), or anything that
        :func:`~portfolio_dfl.data.sources.open_source` knows: a path, ``embedded``.
    folder
        Where snapshots lie.
    output
        Path of the page; by default ``<name>.html`` in ``folder``.
    calendar
        Exchange calendar of the checks; None for none.

    Returns
    -------
    Path
        Of the page.

    Raises
    ------
    DataError
        No such snapshot or file, or prices that cannot be read.
    """
    word, _, version = str(name).partition("@")
    if (Path(folder) / word / (version or "current")).exists():
        snapshot = open_snapshot(str(name), folder)
        raw, title, facts = snapshot.prices, f"{snapshot.name}@{snapshot.version}", dict(snapshot.manifest)
    else:
        source = open_source(name)
        raw, title, facts = source.load(), source.name, {"arguments": source.describe()}
    check = check_prices(raw, name=title, calendar=calendar)
    target = Path(output) if output is not None else Path(folder) / f"{title.replace('@', '-')}.html"
    return write_page(check, target, title=title, facts=facts)


def _existing(name: str, folder: Path) -> Snapshot | None:
    """Current version of a snapshot, if there is one."""
    return open_snapshot(name, folder) if (folder / name / "current").is_file() else None
