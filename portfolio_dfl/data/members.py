"""Who belongs to a universe when: a file of spells of membership, refused where it contradicts itself.

A row says that a ticker is a member from one date to another, both included; without a second date it still is one.
What is one security is told by the column of the prices that it is read from:

- rows without a ``column`` are each a security of their own. A ticker that stands in several of them was reused: the
  prices of its column are cut at the spells, and no spell sees a price of another;
- rows that name one ``column`` are spells of one security, which may leave and come back, and has all prices of that
  column.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from portfolio_dfl.data.flags import day
from portfolio_dfl.data.parquet import read_parquet
from portfolio_dfl.data.tickers import ticker_text
from portfolio_dfl.errors import DataError

__all__ = ["Spell", "read_members", "rows_to_spells", "spell_rows"]

_NEEDED = ("ticker", "from", "to")
_OPTIONAL = ("delisting_return", "column")


@dataclass(frozen=True)
class Spell:
    """One time of membership.

    Attributes
    ----------
    asset : str
        Name of the security in a study: its ``column``, or its ticker, or ``TICKER@YYYY-MM-DD`` of a reused ticker.
    ticker, column : str
        In the file of members, and of the prices.
    first, last : Timestamp
        First and last date of membership, included; ``last`` is None for one that has not ended.
    delisting_return : float or None
        Return of the session after the last, in place of a price of that session; None: sold at that price where there
        is one, else at the last price.
    line : int
        Where it is written.
    named : bool
        Whether the column is said, so that all its prices are this security's.
    """

    asset: str
    ticker: str
    column: str
    first: pd.Timestamp
    last: pd.Timestamp | None
    delisting_return: float | None
    line: int
    named: bool = False

    def __str__(self) -> str:
        return f"line {self.line}, {self.ticker} from {day(self.first)}"


def read_members(source: str | os.PathLike[str] | pd.DataFrame) -> tuple[Spell, ...]:
    """The spells of a file of members, in its order.

    Parameters
    ----------
    source : path or DataFrame
        CSV or Parquet file, or a frame, with the columns ``ticker``, ``from``, ``to`` (dates as YYYY-MM-DD; an empty
        ``to`` is of a member that is one still), and as far as wanted ``delisting_return`` (−1 is a total loss) and
        ``column`` (of the prices). Other columns are not looked at.

    Raises
    ------
    DataError
        If it cannot be read, or a row cannot be meant, naming line, ticker and date: no date, an end before the
        beginning, a delisting return without an end, spells of one ticker or security that overlap.
    """
    name = "the table of members" if isinstance(source, pd.DataFrame) else str(source)
    table, first_line = _table(source, name)
    _require_columns(list(table.columns), name)
    found = [_spell(row, line, name) for row, line in _rows(table, first_line)]
    if not found:
        raise DataError(f"{name} names no member: one row a ticker with from and to is needed")
    return _named(found, name)


def _named(spells: Sequence[Spell], name: str) -> tuple[Spell, ...]:
    """The spells with the names of their securities, once none contradicts another."""
    _refuse_overlaps(spells, name)
    columns = {spell.column for spell in spells if spell.named}
    count: dict[str, int] = {}
    for spell in spells:
        if spell.named:
            continue
        if spell.column in columns:
            other = next(one for one in spells if one.named and one.column == spell.column)
            raise DataError(
                f"{name}: {spell} is read from the column {spell.column}, which {other} names: name it in both lines "
                "if they are one security, or give one of them another column"
            )
        count[spell.column] = count.get(spell.column, 0) + 1
    named = [replace(spell, asset=_asset(spell, count)) for spell in spells]
    _refuse_return_after_delisting(named, name)
    return tuple(named)


def spell_rows(spells: Sequence[Spell]) -> pd.DataFrame:
    """Spells as a table, a row each, that :func:`rows_to_spells` reads back."""
    return pd.DataFrame(
        {
            "asset": [spell.asset for spell in spells],
            "ticker": [spell.ticker for spell in spells],
            "column": [spell.column for spell in spells],
            "first": pd.DatetimeIndex([spell.first for spell in spells]),
            "last": pd.DatetimeIndex([spell.last for spell in spells]),
            "delisting_return": np.array([spell.delisting_return for spell in spells], dtype=np.float64),
            "line": [spell.line for spell in spells],
            "named": [spell.named for spell in spells],
        }
    )


def rows_to_spells(rows: pd.DataFrame) -> tuple[Spell, ...]:
    """Spells of a table that :func:`spell_rows` made."""
    return tuple(
        Spell(
            row["asset"],
            row["ticker"],
            row["column"],
            pd.Timestamp(row["first"]),
            None if pd.isna(row["last"]) else pd.Timestamp(row["last"]),
            None if np.isnan(row["delisting_return"]) else float(row["delisting_return"]),
            int(row["line"]),
            bool(row["named"]),
        )
        for row in rows.to_dict("records")
    )


def _table(source: str | os.PathLike[str] | pd.DataFrame, name: str) -> tuple[pd.DataFrame, int]:
    """A table of whatever was written, and the line of its first row."""
    if isinstance(source, pd.DataFrame):
        return source, 1
    path = Path(source)
    if not path.is_file():
        raise DataError(f"no file {name} of members; name a CSV or Parquet file with the columns {', '.join(_NEEDED)}")
    if path.suffix.lower() == ".parquet":
        return read_parquet(path), 1
    try:
        # Tickers are text, NA and 000001 too; empty lines count, so that messages name the line that an editor shows.
        table = pd.read_csv(path, dtype=str, keep_default_na=False, skip_blank_lines=False, encoding="utf-8-sig")
    except (ValueError, OSError) as error:  # of parsing and of encoding too
        raise DataError(f"{name} is no table of members: {error}") from error
    return table.rename(columns=str.strip), 2


def _require_columns(columns: Sequence[str], name: str) -> None:
    known = [*_NEEDED, *_OPTIONAL]
    lacking = [column for column in _NEEDED if column not in columns]
    if lacking:
        raise DataError(
            f"{name} has no column {', '.join(lacking)}; it has {', '.join(map(str, columns))}, and "
            f"{', '.join(_NEEDED)} are needed, {' and '.join(_OPTIONAL)} may be there"
        )
    for column in map(str, columns):
        near = [] if column in known else get_close_matches(column, _OPTIONAL, n=1, cutoff=0.75)
        if near:
            raise DataError(f"{name} has a column {column}: did you mean {near[0]}?")


def _rows(table: pd.DataFrame, first_line: int) -> Iterator[tuple[dict[str, object], int]]:
    """Rows that are not empty, each with its line."""
    columns = [column for column in (*_NEEDED, *_OPTIONAL) if column in table.columns]
    for number, values in enumerate(zip(*(table[column].tolist() for column in columns), strict=True)):
        row = {column: None if _is_empty(value) else value for column, value in zip(columns, values, strict=True)}
        if any(value is not None for value in row.values()):
            yield row, first_line + number


def _is_empty(value: object) -> bool:
    return value is None or value is pd.NaT or value is pd.NA or value != value or not str(value).strip()


def _spell(row: Mapping[str, object], line: int, name: str) -> Spell:
    where = f"{name}, line {line}"
    if row["ticker"] is None:
        raise DataError(f"{where}: no ticker")
    try:
        ticker = ticker_text(row["ticker"])
        column = row.get("column")
        read_from = ticker if column is None else ticker_text(column)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    if row["from"] is None:
        raise DataError(f"{where}: {ticker} has no date from; write YYYY-MM-DD")
    first = _date(row["from"], f"{where}: from of {ticker}")
    last = None if row["to"] is None else _date(row["to"], f"{where}: to of {ticker}")
    if last is not None and last < first:
        raise DataError(f"{where}: {ticker} is a member from {day(first)} to {day(last)}, which ends before it begins")
    given = row.get("delisting_return")
    lost = None if given is None else _return(given, f"{where}: delisting_return of {ticker}")
    if lost is not None and last is None:
        raise DataError(f"{where}: {ticker} has a delisting return of {lost:g} and no date to: write its last date")
    return Spell(read_from, ticker, read_from, first, last, lost, line, named=column is not None)


def _date(value: object, what: str) -> pd.Timestamp:
    text = str(value).strip().removesuffix(" 00:00:00")  # as a frame writes dates of days
    found = pd.to_datetime(text, format="%Y-%m-%d", errors="coerce")
    if pd.isna(found):
        raise DataError(f"{what}, {text!r}, is no date: write YYYY-MM-DD")
    return pd.Timestamp(found)


def _return(value: object, what: str) -> float:
    try:
        number = float(str(value))
    except ValueError as error:
        raise DataError(f"{what}, {value!r}, is no number: -0.3 is a loss of 30 %") from error
    if not -1.0 <= number < float("inf"):
        raise DataError(f"{what} is {number:g}: a return is finite and at least -1, the total loss")
    return number


def _refuse_overlaps(spells: Sequence[Spell], name: str) -> None:
    """No security is a member twice at a time, and no ticker is two securities at a time."""
    for what in ("column", "ticker"):
        by_date = sorted(spells, key=lambda spell: (getattr(spell, what), spell.first))
        for one, other in pairwise(by_date):
            if getattr(one, what) != getattr(other, what) or (one.last is not None and one.last < other.first):
                continue
            until = "which has no end" if one.last is None else f"to {day(one.last)}"
            raise DataError(f"{name}: {other} (included) overlaps {one}, {until}: end the one before the other begins")


def _asset(spell: Spell, count: Mapping[str, int]) -> str:
    if spell.named or count[spell.column] == 1:
        return spell.column
    return f"{spell.ticker}@{day(spell.first)}"


def _refuse_return_after_delisting(spells: Sequence[Spell], name: str) -> None:
    for gone in spells:
        if gone.delisting_return is None:
            continue
        back = next((one for one in spells if one.asset == gone.asset and one.first > gone.first), None)
        if back is not None:
            raise DataError(
                f"{name}: {gone} has a delisting return, and {back} is the same security: give them columns of "
                "their own"
            )
