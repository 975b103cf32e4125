"""Where prices come from: each source answers with the wide frame it found, not yet cleaned."""

from __future__ import annotations

import http.client
import logging
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pandas as pd

from portfolio_dfl.data.folder_source import FolderSource, OwnSource, price_files
from portfolio_dfl.data.layouts import notes_of, wide_prices
from portfolio_dfl.data.local_sources import EMBEDDED, IN_MEMORY, EmbeddedSource, FileSource, FrameSource
from portfolio_dfl.data.snapshot import SNAPSHOTS, SnapshotSource, is_snapshot, snapshot_folders
from portfolio_dfl.data.tidy import Day, as_day
from portfolio_dfl.errors import DataError
from portfolio_dfl.execution.parts import is_own
from portfolio_dfl.execution.process import ignored_warnings

__all__ = [
    "NAMED_SOURCES",
    "EmbeddedSource",
    "FileSource",
    "FrameSource",
    "PriceSource",
    "YahooSource",
    "locate_source",
    "open_source",
    "yahoo_prices",
]

#: Words that :func:`open_source` takes for a source, so that no snapshot can have them as its name.
NAMED_SOURCES = (*EMBEDDED, "yahoo", IN_MEMORY)

_YAHOO = "https://query2.finance.yahoo.com"


@runtime_checkable
class PriceSource(Protocol):
    """Anything that can answer with adjusted closes."""

    @property
    def name(self) -> str:
        """Short name of the source, for messages and manifests."""
        ...

    def describe(self) -> dict[str, str]:
        """Everything needed to ask the same question again."""
        ...

    def load(self) -> pd.DataFrame:
        """Wide frame of adjusted closes as found: one row a date, one column a ticker; not yet cleaned."""
        ...


@dataclass(frozen=True)
class YahooSource:
    """Adjusted closes from Yahoo Finance through the library ``yfinance``.

    Attributes
    ----------
    tickers
        Yahoo's symbols.
    start, end
        First and last date, both included (the library's own end date is exclusive).
    auto_adjust
        True takes closes that the library adjusted for splits and dividends; False takes Yahoo's field
        ``Adj Close``. The two agree up to rounding.
    batch
        Tickers in one request.
    timeout
        Seconds until a request is given up.

    Raises
    ------
    DataError
        No tickers, or dates out of order.
    """

    tickers: tuple[str, ...]
    start: Day
    end: Day | None = None
    auto_adjust: bool = True
    batch: int = 50
    timeout: float = 8.0
    name: str = "yahoo"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tickers", tuple(ticker.strip().upper() for ticker in self.tickers))
        if not self.tickers or not all(self.tickers):
            raise DataError("yahoo needs tickers: name at least one, such as SPY")
        if len(set(self.tickers)) < len(self.tickers):
            raise DataError(f"tickers are named twice: {', '.join(self.tickers)}")
        first, last = as_day(self.start, "start"), as_day(self.end, "end")
        if first is None:
            raise DataError("yahoo needs a start date, such as 2011-01-01")
        if last is not None and first > last:
            raise DataError(f"start {self.start} lies after end {self.end}")
        if self.batch < 1 or self.timeout <= 0:
            raise DataError(f"batch {self.batch} and timeout {self.timeout} must be positive")

    def describe(self) -> dict[str, str]:
        """Arguments of the request, and version of the library."""
        import yfinance

        return {
            "source": "yahoo",
            "tickers": " ".join(self.tickers),
            "start": str(self.start),
            "end": str(self.end) if self.end is not None else "latest",
            "auto_adjust": str(self.auto_adjust),
            "library": f"yfinance {yfinance.__version__}",
        }

    def request(self, tickers: Sequence[str]) -> dict[str, Any]:
        """Arguments of ``yfinance.download`` for some tickers; nothing is left to its defaults."""
        last = as_day(self.end, "end")
        return {
            "tickers": list(tickers),
            "start": str(self.start),
            # The library leaves its end date out.
            "end": None if last is None else f"{last + pd.Timedelta(days=1):%Y-%m-%d}",
            "auto_adjust": self.auto_adjust,
            "multi_level_index": True,
            "group_by": "column",
            "ignore_tz": True,
            "actions": False,
            "keepna": True,
            "progress": False,
            "threads": True,
            "timeout": self.timeout,
        }

    def load(self) -> pd.DataFrame:
        """Download all tickers, batch by batch.

        Raises
        ------
        DataError
            No connection, or tickers without any price; nothing is returned in part.
        """
        if not _answers(_YAHOO, self.timeout):
            raise DataError(_unreachable(self.tickers))
        parts = []
        for first in range(0, len(self.tickers), self.batch):
            tickers = self.tickers[first : first + self.batch]
            answer, complaints = self._download(tickers)
            parts.append(yahoo_prices(answer, tickers, complaints, auto_adjust=self.auto_adjust))
        frame = pd.concat(parts, axis=1).sort_index() if len(parts) > 1 else parts[0]
        frame.attrs = {"notes": list(dict.fromkeys(note for part in parts for note in notes_of(part)))}
        return frame

    def _download(self, tickers: Sequence[str]) -> tuple[pd.DataFrame | None, list[str]]:
        """Answer of the library and what it logged."""
        import yfinance

        # The library warns about its own use of pandas. One download at a time: its log is one for all threads.
        with ignored_warnings(), _listening("yfinance") as complaints:
            answer = yfinance.download(**self.request(tickers))
        return answer, complaints


def _answers(url: str, limit: float) -> bool:
    """Whether a server answers anything within so many seconds, name lookup and proxies included.

    The library itself asks several times for each ticker, which takes minutes on a network that drops packets.
    """
    answered = threading.Event()

    def knock() -> None:
        try:
            urllib.request.urlopen(url, timeout=limit).close()
        except urllib.error.HTTPError:
            # A refusal is an answer.
            pass
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ssl.SSLError):
                return
        except (OSError, http.client.HTTPException):
            return
        answered.set()

    knocking = threading.Thread(target=knock, daemon=True)
    knocking.start()
    knocking.join(limit)
    return answered.is_set()


def _unreachable(tickers: Sequence[str]) -> str:
    return (
        f"Yahoo could not be reached for {_named(tickers)}: check the network or proxy, or work offline with a "
        "snapshot, a CSV or Parquet file, or the embedded sample (data.source: embedded)"
    )


def _named(tickers: Sequence[str], most: int = 10) -> str:
    return ", ".join(tickers[:most]) + (f" and {len(tickers) - most} more" if len(tickers) > most else "")


@contextmanager
def _listening(name: str) -> Iterator[list[str]]:
    """Keep what a library logs instead of printing it."""
    messages: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, handler = logging.getLogger(name), Keep()
    before = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [handler], False
    try:
        yield messages
    finally:
        logger.handlers, logger.propagate = before


def yahoo_prices(
    answer: pd.DataFrame | None,
    tickers: Sequence[str],
    complaints: Sequence[str] = (),
    *,
    auto_adjust: bool = True,
) -> pd.DataFrame:
    """Adjusted closes of an answer of ``yfinance.download``, in either of its column shapes.

    Parameters
    ----------
    answer
        As downloaded; the library answers with an empty frame where it could not reach Yahoo.
    tickers
        Asked for, in this order.
    complaints
        What the library logged.
    auto_adjust
        Whether the library has adjusted the closes; otherwise Yahoo's field ``Adj Close`` is read.

    Raises
    ------
    DataError
        No connection, or tickers without any price, named.
    """
    only = tickers[0] if len(tickers) == 1 else None
    wide = pd.DataFrame()
    if answer is not None and not answer.empty:
        wide = wide_prices(answer, ticker=only, price="Close" if auto_adjust else "Adj Close")
    missing = [ticker for ticker in tickers if ticker not in wide or wide[ticker].isna().all()]
    if not missing:
        return wide[list(tickers)]
    said = " ".join(complaints)
    if any(word in said for word in ("curl:", "resolve host", "Connection", "DNSError", "Timeout", "timed out")):
        raise DataError(_unreachable(missing))
    if "RateLimit" in said or "Too Many Requests" in said:
        raise DataError(f"Yahoo refused {_named(missing)} for too many requests: wait some minutes, or ask for less")
    raise DataError(
        f"Yahoo has no prices for {_named(missing)}: check the symbols and the dates, or leave them out of the tickers"
    )


def open_source(
    source: str | Path,
    *,
    tickers: Sequence[str] | None = None,
    start: Day | None = None,
    end: Day | None = None,
) -> PriceSource:
    """Source that a configuration names.

    Parameters
    ----------
    source
        ``embedded`` or ``skfolio-factors``, ``skfolio-sp500``; ``yahoo``; the path of a CSV or Parquet file; or a
        snapshot: the path of its folder or of one of its versions, or its name (``etf7``, ``etf7@version``) in the
        folder where snapshots lie by default; a folder of one price file a ticker; or ``package.module:Name``.
    tickers, start, end
        What to ask Yahoo for; the other sources are cut by
        :func:`~portfolio_dfl.data.panel.build_panel`.

    Raises
    ------
    DataError
        A name that is neither, a folder that is no snapshot, or ``yahoo`` without tickers and start.
    """
    word = str(source)
    if word in EMBEDDED:
        return EmbeddedSource(word)
    if word == "yahoo":
        if not tickers or start is None:
            raise DataError("source yahoo needs tickers and a start date")
        return YahooSource(tuple(tickers), start, end)
    if word == IN_MEMORY:
        raise DataError(
            f"source {IN_MEMORY} stands for prices that were given in Python, which are not kept: give them again "
            "(prices=frame), or name a file"
        )
    place = locate_source(word)
    if place is None and is_own(word):
        return OwnSource(word)
    if place is None:
        raise DataError(
            f"no price source {word!r}: give embedded, yahoo, or the path of a CSV or Parquet file, or of a snapshot"
        )
    if place.is_file():
        return FileSource(place)
    if not is_snapshot(place):
        if price_files(place) and not snapshot_folders(place):
            return FolderSource(place)
        raise DataError(_no_source(place))
    return SnapshotSource(place)


def locate_source(word: str) -> Path | None:
    """File or folder that the name of a source stands for; None where it stands for none."""
    if word in NAMED_SOURCES:
        return None
    path = Path(word).expanduser()
    try:
        snapshots = [place for place in (path, SNAPSHOTS.joinpath(*word.split("@", 1))) if is_snapshot(place)]
        return next(iter(snapshots), path if path.exists() else None)
    except OSError as error:  # as for a name that is too long
        raise DataError(f"no price source {word[:80]!r}: {error.strerror}") from error


def _no_source(folder: Path) -> str:
    """What a folder is that is no snapshot and holds no prices, and what to name instead."""
    snapshots = [path.name for path in snapshot_folders(folder)]
    if snapshots:
        return f"{folder} is a folder of snapshots: name one of them, as {folder / snapshots[0]}"
    return f"{folder} is a folder and no snapshot: name a CSV or Parquet file, or make one with 'data fetch'"
