"""Feature tables from files and frames: wide or long, with one header or two."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from portfolio_dfl.data.dates import calendar_days, looks_like_dates
from portfolio_dfl.data.features.table import DATE, KNOWN, TICKER, FeatureTable, Missing
from portfolio_dfl.data.layouts import holds_tickers
from portfolio_dfl.data.numerals import DecimalMark, decimal_mark, read_numbers
from portfolio_dfl.data.parquet import read_parquet
from portfolio_dfl.data.tickers import ticker_text
from portfolio_dfl.errors import DataError

__all__ = ["Kind", "feature_table", "read_feature_file"]

Kind = Literal["dated", "by_asset"]

_DATES = ("date", "datetime", "day", "timestamp", "time")
_SEPARATORS = (",", ";", "\t", "|")
_SAMPLE_ROWS = 50


def read_feature_file(
    path: str | Path,
    *,
    name: str,
    tickers: Sequence[str],
    lag: int = 0,
    known_at: str | None = None,
    kind: Kind | None = None,
    columns: Sequence[str] | None = None,
    max_age: int | None = None,
    missing: Missing = "fail",
) -> FeatureTable:
    """A feature table from a CSV or Parquet file; arguments and errors as of :func:`feature_table`."""
    place = Path(path).expanduser()
    try:
        if not place.is_file():
            raise DataError(f"no file at {place}: check the path")
        if place.suffix.lower() in (".parquet", ".pq"):
            frame, mark = read_parquet(place), "."
        else:
            frame, mark = _read_text(place)
    except DataError as error:
        raise DataError(f"feature {name}: {error}") from error
    except OSError as error:
        raise DataError(f"feature {name}: {place} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # of which pandas' complaints about text are kinds
        raise DataError(f"feature {name}: {place} cannot be read as a table: {error}") from error
    return feature_table(
        frame,
        name=name,
        tickers=tickers,
        lag=lag,
        known_at=known_at,
        kind=kind,
        columns=columns,
        max_age=max_age,
        missing=missing,
        decimal="," if mark == "," else ".",
    )


def feature_table(
    frame: pd.DataFrame,
    *,
    name: str,
    tickers: Sequence[str],
    lag: int = 0,
    known_at: str | None = None,
    kind: Kind | None = None,
    columns: Sequence[str] | None = None,
    max_age: int | None = None,
    missing: Missing = "fail",
    decimal: DecimalMark = ".",
) -> FeatureTable:
    """A feature table from a frame in any of these layouts, with dates in the index or in a column.

    - One column a feature: values by date.
    - Rows of date and ticker, as two columns or a row index of two levels, and one column a feature.
    - Columns of two levels, feature and ticker in either order.
    - One column a ticker: one feature by date and ticker, called as the table is.

    Parameters
    ----------
    frame : DataFrame
    name : str
    tickers : sequence of str
        Those of the study; rows and columns of others are left out.
    lag : int
        Sessions between the close of a value's date and the close at which it was known.
    known_at : str, optional
        Column with the dates at which values became known, to which the lag is added.
    kind : {"dated", "by_asset"}, optional
        By date, or by date and ticker; read off the layout by default.
    columns : sequence of str, optional
        Features to use; all by default.
    max_age, missing
        See :class:`~portfolio_dfl.data.features.table.FeatureTable`.
    decimal : {".", ","}
        Decimal mark of texts.

    Raises
    ------
    DataError
        If dates, tickers or values cannot be read, naming the cell.

    Examples
    --------
    >>> import pandas as pd
    >>> from portfolio_dfl import feature_table
    >>> rates = pd.DataFrame({"rate": [0.052, 0.053]}, index=pd.to_datetime(["2024-01-02", "2024-01-03"]))
    >>> table = feature_table(rates, name="macro", tickers=["A", "B"], lag=1)
    >>> table.columns, table.lag
    (('rate',), 1)
    """
    try:
        rows = _plain(frame, name, tuple(tickers), known_at, kind)
        features = [column for column in rows.columns if column not in (DATE, KNOWN, TICKER)]
        if columns is not None:
            unknown = [column for column in columns if column not in features]
            if unknown:
                raise DataError(f"no column {', '.join(unknown)}; there are {', '.join(features)}")
            features = list(columns)
        keys = [key for key in (DATE, KNOWN, TICKER) if key in rows.columns]
        rows = rows[[*keys, *features]]
        if TICKER in rows.columns:
            rows = _of_tickers(rows, tickers, missing)
        for column in features:
            rows[column] = _numbers(rows, column, decimal)
        rows = rows.sort_values(keys, kind="stable").reset_index(drop=True)
    except DataError as error:
        raise DataError(f"feature {name}: {error}") from error
    return FeatureTable(name, rows, lag, max_age, missing)


def _plain(
    frame: pd.DataFrame, name: str, tickers: tuple[str, ...], known_at: str | None, kind: Kind | None
) -> pd.DataFrame:
    """Dates, dates of publication, tickers and features as columns of their own."""
    if frame.columns.nlevels > 2 or frame.index.nlevels > 2:
        raise DataError("a header or an index of more than two levels: two at most are understood")
    if frame.columns.nlevels == 2:
        if kind == "dated":
            raise DataError("columns of two levels are feature and ticker, which is by_asset and not dated")
        if known_at is not None:
            raise DataError(f"known_at {known_at}: write the table with rows of date, ticker and {known_at}")
        return _from_two_levels(frame, tickers)
    table = frame.copy()
    table.columns = pd.Index([str(column).strip() for column in frame.columns])
    table = _with_dates(table)
    if known_at is not None:
        if known_at not in table.columns:
            raise DataError(f"no column {known_at} for known_at; there are {', '.join(table.columns)}")
        known, _ = calendar_days(table.pop(known_at))
        table.insert(1, KNOWN, known)
    named = [column for column in table.columns if column not in (DATE, KNOWN)]
    if not named:
        raise DataError("there is no column of values beside the dates")
    repeated = table.columns[table.columns.duplicated()]
    if len(repeated):
        raise DataError(f"several columns are named {repeated[0]}: keep one of each")
    long = next((column for column in named if holds_tickers(column) and not _is_number(table[column])), None)
    if long is not None:
        if kind == "dated":
            raise DataError(f"the column {long} holds tickers, so that the table is by_asset and not dated")
        labels = [ticker_text(label) for label in table.pop(long)]
        table.insert(1, TICKER, labels)
        return table
    per_ticker = [column for column in named if ticker_text(column) in tickers]
    if kind == "by_asset" or (kind is None and len(per_ticker) == len(tickers)):
        keys = [key for key in (DATE, KNOWN) if key in table.columns]
        melted = table.melt(keys, per_ticker, TICKER, name)
        melted[TICKER] = [ticker_text(label) for label in melted[TICKER]]
        return melted
    return table


def _from_two_levels(frame: pd.DataFrame, tickers: tuple[str, ...]) -> pd.DataFrame:
    if not isinstance(frame.index, pd.DatetimeIndex):
        first = frame.columns[0]
        if not looks_like_dates(frame.index):
            if not looks_like_dates(frame[first]):
                raise DataError("no dates in the index or in the first column")
            frame = frame.set_index(pd.Index(frame[first])).drop(columns=[first])
    levels = [[ticker_text(str(column[level]).strip()) for column in frame.columns] for level in (0, 1)]
    shares = [np.mean([label in tickers for label in level]) for level in levels]
    if max(shares) == 0:
        raise DataError(f"neither level of the header names a ticker of {', '.join(tickers)}")
    level = int(np.argmax(shares))
    days, _ = calendar_days(frame.index)
    parts: dict[str, dict[str, pd.Series]] = {}
    for position, (ticker, feature) in enumerate(zip(levels[level], levels[1 - level], strict=True)):
        of_ticker = parts.setdefault(ticker, {})
        if feature in of_ticker:
            raise DataError(f"several columns are {feature} of {ticker}: keep one of each")
        of_ticker[feature] = frame.iloc[:, position].reset_index(drop=True)
    tables = [
        pd.DataFrame({DATE: days, TICKER: ticker, **columns}) for ticker, columns in parts.items() if ticker in tickers
    ]
    return pd.concat(tables, ignore_index=True)


def _with_dates(table: pd.DataFrame) -> pd.DataFrame:
    """The same table with a first column of days."""
    index = table.index
    if index.nlevels == 2:
        labels = [str(label or "").strip() for label in index.names]
        dated = next((level for level in (0, 1) if looks_like_dates(index.get_level_values(level))), None)
        if dated is None:
            raise DataError("neither level of the index holds dates")
        other = index.get_level_values(1 - dated)
        stamps = index.get_level_values(dated)
        table = table.reset_index(drop=True)
        table.insert(0, labels[1 - dated] if holds_tickers(labels[1 - dated]) else TICKER, list(other))
    elif isinstance(index, pd.DatetimeIndex) or (not isinstance(index, pd.RangeIndex) and looks_like_dates(index)):
        stamps, table = index, table.reset_index(drop=True)
    else:
        named = [column for column in table.columns if column.lower() in _DATES]
        column = next((name for name in [*named, *table.columns[:1]] if looks_like_dates(table[name])), None)
        if column is None:
            raise DataError("no dates in the index or in a column: name the column of dates 'date'")
        stamps, table = pd.Index(table[column]), table.drop(columns=[column]).reset_index(drop=True)
    if DATE in table.columns:
        raise DataError(f"both the index and the column {DATE} hold dates: keep one")
    days, _ = calendar_days(stamps)
    if days.isna().any():
        raise DataError(f"row {int(np.flatnonzero(days.isna())[0]) + 1} has no date")
    table.insert(0, DATE, days)
    return table


def _of_tickers(rows: pd.DataFrame, tickers: Sequence[str], missing: Missing) -> pd.DataFrame:
    mine = rows[rows[TICKER].isin(list(tickers))].copy()
    lacking = [ticker for ticker in tickers if ticker not in set(mine[TICKER])]
    if len(lacking) == len(tickers) or (lacking and missing == "fail"):
        raise DataError(f"no values of {', '.join(lacking)}; give them, or set missing: mean or zero")
    return mine


def _numbers(rows: pd.DataFrame, column: str, decimal: DecimalMark) -> np.ndarray:
    numbers, unreadable = read_numbers(rows[column], decimal)
    bad = np.flatnonzero(unreadable)
    if len(bad):
        entry = rows.iloc[int(bad[0])]
        of = f" of {entry[TICKER]}" if TICKER in rows.columns else ""
        raise DataError(f"{column}{of} on {entry[DATE].date()} is {entry[column]!r}, which is no number")
    return numbers


def _is_number(column: pd.Series) -> bool:
    return bool(pd.api.types.is_float_dtype(column.dtype))


def _read_text(path: Path) -> tuple[pd.DataFrame, DecimalMark]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig") as file:
        head = [file.readline() for _ in range(2)]
    if not head[0].strip():
        raise DataError(f"{path} is empty")
    separator = max(_SEPARATORS, key=head[0].count)
    second = [cell.strip().strip('"') for cell in head[1].strip("\r\n").split(separator)]
    two_levels = len(second) > 2 and all(cell and pd.isna(pd.to_numeric(cell, errors="coerce")) for cell in second[1:])
    two_levels = two_levels and not (second[0] and looks_like_dates([second[0]]))
    frame = pd.read_csv(
        path,
        sep=separator,
        header=[0, 1] if two_levels else 0,
        dtype=str,
        keep_default_na=False,
        skipinitialspace=True,
        encoding="utf-8-sig",
    )
    if two_levels and len(frame) and not looks_like_dates(frame.iloc[:1, 0]):
        frame = frame.iloc[1:].reset_index(drop=True)  # the name of the dates, which pandas writes below its headers
    cells = frame.iloc[:_SAMPLE_ROWS, 1:].to_numpy().ravel()
    return frame, decimal_mark(str(cell) for cell in cells)
