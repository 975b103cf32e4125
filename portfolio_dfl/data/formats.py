"""Price files: CSV with any separator, decimal mark, encoding and header, and Parquet."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from portfolio_dfl.data.dates import looks_like_dates
from portfolio_dfl.data.layouts import FILE, holds_tickers, wide_prices
from portfolio_dfl.data.numerals import DecimalMark, decimal_mark
from portfolio_dfl.data.parquet import read_parquet
from portfolio_dfl.errors import DataError

__all__ = ["is_prices_file", "read_prices_file", "ticker_of"]

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_PARQUET = {".parquet", ".pq"}
_TEXT = {".csv", ".txt", ".tsv", ".dat", ""}
_SEPARATORS = (";", "\t", "|", ",")
# What pandas takes for missing by default.
_MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
_HEAD_LINES = 60
_SAMPLE_LINES = 400
_SAMPLE_CELLS = 4000


@dataclass(frozen=True)
class _Layout:
    """How a text file is written."""

    encoding: str
    separator: str
    decimal: DecimalMark
    header: list[list[str]]
    skip: int
    date_position: int
    width: int


def is_prices_file(path: Path) -> bool:
    """Whether a file is of a kind that :func:`read_prices_file` reads, by its name."""
    kinds = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _OPENERS]
    return path.is_file() and bool(kinds) and kinds[-1] in _TEXT | _PARQUET


def ticker_of(path: Path) -> str:
    """Name for the only ticker of a file: the last upper-case word of the file name, else its stem."""
    stem = path.name.split(".")[0] or path.name
    words = [word for word in stem.replace("-", "_").replace(" ", "_").split("_") if word]
    upper = [word for word in words if word.isupper() and len(word) <= 6]
    return upper[-1] if upper else stem


def read_prices_file(
    path: str | Path,
    *,
    ticker: str | None = None,
    price: str | None = None,
    separator: str | None = None,
    decimal: DecimalMark | None = None,
) -> pd.DataFrame:
    """Read prices from a CSV or Parquet file in any layout that :func:`wide_prices` knows.

    Separator, decimal mark, encoding and header are found from the file; what is given is obeyed.

    Parameters
    ----------
    path
        ``.csv``, ``.txt``, ``.tsv`` (also ``.gz``, ``.bz2``, ``.xz``) or ``.parquet``.
    ticker
        Name of the only ticker; by default from the file name.
    price
        Field to use instead of the adjusted close or close.
    separator, decimal
        Of a text file.

    Returns
    -------
    DataFrame
        One column a ticker, dates as found in the index; ``attrs["notes"]`` says what had to be decided,
        ``attrs["file"]`` is the file's name, for errors found later.

    Raises
    ------
    DataError
        No such file, an unknown kind of file, or one without dates or prices.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"no price file at {path}: check the path")
    try:
        frame, mark = _read(path, separator, decimal)
        wide = wide_prices(frame, ticker=ticker or ticker_of(path), price=price, decimal=mark)
    except DataError as error:
        raise DataError(f"{path.name}: {error}") from error
    wide.attrs[FILE] = path.name
    return wide


def _read(path: Path, separator: str | None, decimal: DecimalMark | None) -> tuple[pd.DataFrame, DecimalMark]:
    suffixes = [suffix.lower() for suffix in path.suffixes] or [""]
    if suffixes[-1] in _PARQUET:
        try:
            return read_parquet(path), "."
        except (ValueError, OSError) as error:
            raise DataError("not a readable Parquet file") from error
    kind = suffixes[-2] if suffixes[-1] in _OPENERS and len(suffixes) > 1 else suffixes[-1]
    if kind not in _TEXT and suffixes[-1] not in _OPENERS:
        raise DataError(f"files of kind {kind!r} are not understood: save the prices as CSV or Parquet")
    layout = _detect(path, _OPENERS.get(suffixes[-1], open), separator, decimal)
    return _read_text(path, layout), layout.decimal


def _detect(
    path: Path,
    opener: Callable[..., Any],
    separator: str | None,
    decimal: DecimalMark | None,
) -> _Layout:
    """Find out from its first lines how a text file is written."""
    encoding, text = _first_lines(path, opener)
    lines = text.splitlines()
    if not any(line.strip() for line in lines):
        raise DataError("the file is empty")
    widest = max(lines[:_HEAD_LINES], key=lambda line: max(line.count(mark) for mark in _SEPARATORS))
    header_line = next(line for line in lines if line.strip())
    sep = separator or _separator(header_line if any(m in header_line for m in _SEPARATORS) else widest)
    reader = csv.reader(StringIO(text), delimiter=sep)
    # Cells may hold line breaks: lines are counted by the reader.
    starts, table = [0], []
    for row in reader:
        table.append(row)
        starts.append(reader.line_num)
    first, position = _first_date(table)
    if position < 0:
        raise DataError(
            f"no date in the first {min(len(table), _HEAD_LINES)} lines (read with separator {sep!r}): "
            "is this a table of prices by date?"
        )
    header, rows, skip = table[:first], table[first:], starts[first]
    cells = [cell for row in rows for k, cell in enumerate(row) if k != position]
    cells = cells[:: 1 + len(cells) // _SAMPLE_CELLS]
    width = max(len(row) for row in [*_title_rows(header), *rows])
    return _Layout(encoding, sep, decimal or decimal_mark(cells), _title_rows(header), skip, position, width)


def _first_lines(path: Path, opener: Callable[..., Any]) -> tuple[str, str]:
    """Encoding and first lines of a file."""
    try:
        with opener(path, "rb") as stream:
            raw = b"".join(line for _, line in zip(range(_SAMPLE_LINES), stream, strict=False))
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise DataError("the file cannot be unpacked") from error
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16", raw.decode("utf-16", errors="ignore")
    if b"\x00" in raw:
        raise DataError("not a text file: save the prices as CSV or Parquet")
    try:
        return "utf-8-sig", raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "cp1252", raw.decode("cp1252", errors="replace")


def _separator(line: str) -> str:
    bare = "".join(part for k, part in enumerate(line.split('"')) if k % 2 == 0)
    best = max(_SEPARATORS, key=bare.count)
    if bare.count(best) == 0:
        raise DataError(
            f"no separator in the header {line[:60]!r}: write a comma, semicolon, tab or | between the columns, "
            "or name another in Python with FileSource(path, separator=...)"
        )
    return best


def _first_date(table: Sequence[list[str]]) -> tuple[int, int]:
    """Row and position of the first date that has dates below it; of the first date where none has; else -1.

    A ticker may look like a date, in a header and in a long table.
    """
    first = (-1, -1)
    tickers: set[int] = set()
    for number, row in enumerate(table[: _HEAD_LINES + 1]):
        dated = [k for k, cell in enumerate(row[:3]) if _is_date(cell)]
        # The dates of a header of two lines stand below the word Ticker too.
        for position in [k for k in dated if k not in tickers] or dated:
            below = [other[position] for other in table[number + 1 : number + 11] if len(other) > position]
            below = [cell for cell in below if cell.strip()]
            if not below or looks_like_dates(pd.Series(below)):
                return number, position
            first = first if first[0] >= 0 else (number, position)
        tickers |= {k for k, cell in enumerate(row) if holds_tickers(cell)}
    return first


def _is_date(cell: str) -> bool:
    return len(cell.strip()) >= 6 and looks_like_dates(pd.Series([cell]))


def _title_rows(header: Sequence[list[str]]) -> list[list[str]]:
    """Header lines that name columns: not empty ones, not a title, not the lone name of the index."""
    filled = [row for row in header if any(cell.strip() for cell in row)]
    titles = [row for row in filled if sum(bool(cell.strip()) for cell in row) > 1]
    return titles or filled[-1:]


def _ticker_positions(layout: _Layout) -> list[int]:
    """Columns of a long table that hold identifiers."""
    if len(layout.header) != 1:
        return []
    return [k for k, name in enumerate(layout.header[0]) if k != layout.date_position and holds_tickers(name)]


def _read_text(path: Path, layout: _Layout) -> pd.DataFrame:
    """Read the body of a text file and put its header on top."""
    texts = [layout.date_position, *_ticker_positions(layout)]
    options: dict[str, Any] = {
        "sep": layout.separator,
        "decimal": layout.decimal,
        "thousands": "." if layout.decimal == "," else ",",
        "header": None,
        "names": list(range(layout.width)),
        "index_col": False,
        "skiprows": layout.skip,
        # As text, or a decimal comma would turn 23.08.2023 into the number 23082023, and 000001 would be 1.
        "dtype": dict.fromkeys(texts, "str"),
        # A ticker may be NA.
        "keep_default_na": False,
        "na_values": {k: _MISSING for k in range(layout.width) if k not in texts[1:]},
        "encoding": layout.encoding,
        "low_memory": False,
    }
    try:
        body: pd.DataFrame = pd.read_csv(path, **options)
    except UnicodeDecodeError:
        body = pd.read_csv(path, **{**options, "encoding": "cp1252"})
    except pd.errors.ParserError as error:
        raise DataError(f"lines of unequal length: {str(error).strip().splitlines()[-1]}") from error
    dates = pd.Index(body[layout.date_position]).rename(None)
    body = body.drop(columns=[layout.date_position]).set_axis(dates, axis=0)
    if not layout.header:
        if body.shape[1] != 1:
            raise DataError("no header names the columns: add a first line with the tickers")
        return body.set_axis(["close"], axis=1)
    if len(layout.header) > 2:
        raise DataError(f"{len(layout.header)} header lines: two at most (field and ticker) are understood")
    rows = [[*row, *[""] * (layout.width - len(row))] for row in layout.header]
    for row in rows:
        del row[layout.date_position]
    names = rows[0] if len(rows) == 1 else pd.MultiIndex.from_arrays(rows)
    return body.set_axis(names, axis=1)
