"""A table of feature values with the dates on which they were known, and what of it is known at each session."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.errors import DataError
from portfolio_dfl.scalars import require_choice, require_whole

__all__ = ["DATE", "KNOWN", "TICKER", "FeatureTable", "Missing", "Values"]

#: Columns of a table in its plain form, beside those of its features.
DATE, KNOWN, TICKER = "date", "known_at", "ticker"

Missing = Literal["fail", "mean", "zero"]
Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Values by date, or by date and ticker, and when each was known.

    Made by :func:`~portfolio_dfl.data.features.reading.feature_table`, which reads the layouts that tables come in.

    Parameters
    ----------
    name : str
        Of the table, in messages.
    rows : DataFrame
        Plain form: a column ``date``; ``known_at`` where dates of publication are given; ``ticker`` where values are
        by asset; and a float64 column a feature, NaN where there is no value.
    lag : int
        Sessions that pass after the close of ``date`` (of ``known_at``, if given) before a value may be used; at 0 a
        decision at that close uses it.
    max_age : int or None
        Sessions for which a value may be used after it became known; older ones are missing. None: for ever.
    missing : {"fail", "mean", "zero"}
        What is done where no value is known: refuse, take the training window's mean, or take the number 0.

    Raises
    ------
    DataError
        If the rows are no such table, or a value was known before its own date.
    """

    name: str
    rows: pd.DataFrame
    lag: int = 0
    max_age: int | None = None
    missing: Missing = "fail"

    def __post_init__(self) -> None:
        self._require_lag()
        if self.max_age is not None:
            require_whole(DataError, f"max_age of feature {self.name}", self.max_age, 0)
        require_choice(DataError, f"missing of feature {self.name}", self.missing, ("fail", "mean", "zero"))
        if DATE not in self.rows.columns or not self.columns:
            raise DataError(f"feature {self.name}: a table needs dates and a column of values at least")
        if self.rows.empty:
            raise DataError(f"feature {self.name}: the table has no row")
        values = self.rows[list(self.columns)].to_numpy(np.float64)
        infinite = np.argwhere(np.isinf(values))
        if len(infinite):
            row, column = infinite[0]
            raise DataError(f"{self._cell(int(row), self.columns[column])} is infinite: correct it or leave it empty")
        if KNOWN in self.rows.columns:
            known = self.rows[KNOWN]
            for row in np.flatnonzero((known.isna() | (known < self.rows[DATE])).to_numpy()):
                said = "is missing" if pd.isna(known.iloc[row]) else f"of {known.iloc[row].date()} lies before it"
                raise DataError(
                    f"{self._cell(int(row), None)}: {KNOWN} {said}; a value cannot be known before its own date"
                )
        keys = [key for key in (DATE, KNOWN, TICKER) if key in self.rows.columns]
        repeated = np.flatnonzero(self.rows.duplicated(keys).to_numpy())
        if len(repeated):
            raise DataError(f"{self._cell(int(repeated[0]), None)} stands in two rows: keep one of them")

    def _require_lag(self) -> None:
        require_whole(DataError, f"lag of feature {self.name}", self.lag, 0)

    def _cell(self, row: int, column: str | None) -> str:
        entry = self.rows.iloc[row]
        of = f" of {entry[TICKER]}" if TICKER in self.rows.columns else ""
        return f"feature {self.name}: {column or 'the row'}{of} on {entry[DATE].date()}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its features."""
        return tuple(str(name) for name in self.rows.columns if name not in (DATE, KNOWN, TICKER))

    @property
    def by_asset(self) -> bool:
        """Whether values are by ticker too."""
        return TICKER in self.rows.columns

    @property
    def reach(self) -> int:
        """Number of returns that a value of one date needs: one, for it is made from none."""
        return 1

    @cached_property
    def sha256(self) -> str:
        """Hash of the rows, whatever they are stored as."""
        rows = self.rows
        digest = hashlib.sha256("\x1f".join(map(str, rows.columns)).encode())
        for name in rows.columns:
            if name in (DATE, KNOWN):
                digest.update(rows[name].to_numpy().astype("datetime64[D]").astype("<i8").tobytes())
            elif name == TICKER:
                digest.update("\x1f".join(rows[name]).encode())
            else:
                numbers = rows[name].to_numpy(np.float64)
                digest.update((np.where(np.isnan(numbers), np.float64("nan"), numbers) + 0.0).astype("<f8").tobytes())
        return digest.hexdigest()

    def known(self, returns: pd.DataFrame, last: int) -> tuple[Values, NDArray[np.int64]]:
        """What was known at the closes of the last sessions.

        Parameters
        ----------
        returns : DataFrame [T, N]
            Its dates are the sessions, its columns the tickers.
        last : int
            Number of sessions asked for.

        Returns
        -------
        tuple of arrays
            Values [last, N, F] (N = 1 by date alone), NaN where none was known or it was too old; and sessions since
            each became known, [last, N, F], −1 where none was.
        """
        sessions = pd.DatetimeIndex(returns.index)
        events = self._events(tuple(map(str, returns.columns)) if self.by_asset else (None,))
        became = _positions(events.known, sessions) + self.lag
        asked = np.arange(len(sessions) - last, len(sessions))
        row = np.searchsorted(became, asked, side="right") - 1
        shape = (last, *events.newest.shape[1:])
        values, age = np.full(shape, np.nan), np.full(shape, -1, dtype=np.int64)
        seen = row >= 0
        values[seen] = events.newest[row[seen]]
        since = events.since[row[seen]]
        age[seen] = np.where(since >= 0, asked[seen, None, None] - became[since], -1)
        if self.max_age is not None:
            values[age > self.max_age] = np.nan
        return values, age

    def _events(self, tickers: tuple[str | None, ...]) -> _Events:
        cache: dict[tuple[str | None, ...], _Events] = self.__dict__.setdefault("_cache", {})
        if tickers not in cache:
            cache.clear()
            cache[tickers] = _collect(self.rows, self.columns, tickers)
        return cache[tickers]

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_cache"}


@dataclass(frozen=True)
class _Events:
    """What was known from each date on at which anything became known.

    Attributes
    ----------
    known : DatetimeIndex [K]
    newest : array [K, N, F]
        Newest value known; NaN where none is.
    since : array [K, N, F]
        Position in `known` at which it became so, −1 where there is none.
    """

    known: pd.DatetimeIndex
    newest: Values
    since: NDArray[np.int64]


def _collect(rows: pd.DataFrame, columns: Sequence[str], tickers: tuple[str | None, ...]) -> _Events:
    by_known = rows[KNOWN if KNOWN in rows.columns else DATE]
    known = pd.DatetimeIndex(np.unique(by_known.to_numpy()))
    at = known.get_indexer(pd.Index(by_known))
    dates = rows[DATE].to_numpy()
    order = np.lexsort((dates, at))
    owner = np.zeros(len(rows), dtype=np.int64)
    if TICKER in rows.columns:
        owner = pd.Index(tickers).get_indexer(pd.Index(rows[TICKER]))
    values = np.full((len(known), len(tickers), len(columns)), np.nan)
    since = np.full(values.shape, -1, dtype=np.int64)
    numbers = rows[list(columns)].to_numpy(np.float64)
    for asset in range(len(tickers)):
        mine = order[owner[order] == asset]
        for column in range(len(columns)):
            filled = mine[~np.isnan(numbers[mine, column])]
            if len(filled) == 0:
                continue
            # A value about an earlier date that becomes known later, such as a revision, is not the newest one.
            newest = dates[filled] >= np.maximum.accumulate(dates[filled])
            filled = filled[newest]
            values[at[filled], asset, column] = numbers[filled, column]
            since[at[filled], asset, column] = at[filled]
    since = np.maximum.accumulate(since, axis=0)
    taken = np.take_along_axis(values, np.maximum(since, 0), axis=0)
    return _Events(known, np.where(since >= 0, taken, np.nan), since)


def _positions(known: pd.DatetimeIndex, sessions: pd.DatetimeIndex) -> NDArray[np.int64]:
    """Position of the first session that is not before each date; weekdays count before the first session."""
    positions = sessions.searchsorted(known, side="left").astype(np.int64)
    early = np.flatnonzero(known < sessions[0])
    if len(early):
        days = known[early].to_numpy().astype("datetime64[D]")
        positions[early] = -np.busday_count(days, sessions[0].to_datetime64().astype("datetime64[D]"))
    return positions
