"""One wide frame of prices from the many layouts that price tables come in.

Recognised: one column a ticker; columns open, high, low, close, adjusted close of one ticker; both shapes of
Yahoo downloads (field over ticker and ticker over field), also flattened to texts; and long tables of date,
ticker, price.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pandas as pd

from portfolio_dfl.data.dates import looks_like_dates
from portfolio_dfl.data.numerals import DecimalMark, is_blank, read_numbers
from portfolio_dfl.data.tickers import ticker_text
from portfolio_dfl.errors import DataError

__all__ = ["FILE", "holds_tickers", "naming_file", "notes_of", "wide_prices"]

_ADJUSTED = ("adj close", "adjusted close", "adjclose", "close adj", "adj close price")
_PLAIN = (
    *("close", "close last", "closing price", "price", "prc", "last", "last price", "px last", "settle"),
    *(
        "nav",
        "último",
        "ultimo",
        "fechamento",
        "zuletzt",
        "schlusskurs",
        "schluss",
        "cierre",
        "dernier",
        "clôture",
    ),
)
_OTHER_FIELDS = (
    *("open", "high", "low", "volume", "vol", "change", "change %", "chg %", "chg%", "var%", "var %"),
    *("abertura", "máxima", "mínima", "eröffn", "hoch", "tief", "apertura", "máximo", "mínimo", "vwap"),
    *("dividends", "dividend", "dividend amount", "stock splits", "split coefficient", "capital gains"),
    *("repaired?", "adjusted", "trades", "turnover", "currency", "ret", "return", "shrout"),
)
_DATES = ("date", "data", "datum", "fecha", "day", "datetime", "timestamp", "time", "caldt", "trade date")
_TICKERS = ("ticker", "symbol", "tic", "asset", "instrument", "code", "name", "permno", "isin")
_TUPLE = re.compile(r"^\(\s*['\"](.*?)['\"]\s*,\s*['\"](.*?)['\"]\s*\)$")
_NOTES = "notes"
#: Where the ``attrs`` of a frame keep the name of the file it was read from.
FILE = "file"


def notes_of(frame: pd.DataFrame) -> list[str]:
    """What the readers of a frame had to decide, kept in its ``attrs``."""
    return list(frame.attrs.get(_NOTES, []))


@contextmanager
def naming_file(frame: pd.DataFrame) -> Iterator[None]:
    """Let errors of the block begin with the file that a frame was read from, where it was read from one."""
    try:
        yield
    except DataError as error:
        if FILE not in frame.attrs:
            raise
        raise DataError(f"{frame.attrs[FILE]}: {error}") from error


def wide_prices(
    frame: pd.DataFrame,
    *,
    ticker: str | None = None,
    price: str | None = None,
    decimal: DecimalMark = ".",
) -> pd.DataFrame:
    """Bring a price table of any known layout to one column a ticker; dates stay as found, in the index.

    Adjusted closes are taken where there are any, else closes, with a note. Rows are neither dropped nor
    sorted, cells that cannot be read stay as they are for the checks to name. A frame that is wide already
    comes back equal, so that the function may be applied twice.

    Parameters
    ----------
    frame
        Table as read; dates in the index or in a column.
    ticker
        Name of the only ticker, for tables that do not say it.
    price
        Field to use instead of the adjusted close or close.
    decimal
        Decimal mark of cells that are texts.

    Raises
    ------
    DataError
        No dates, no prices, or columns that contradict each other.
    """
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"prices must be a DataFrame, not {type(frame).__name__}: use series.to_frame('TICKER')")
    notes = notes_of(frame)
    table = _drop_fillers(_dates_to_index(frame, notes), notes)
    if table.shape[1] == 0:
        raise DataError("the table has dates but no column of prices")
    long = _long_columns(table, price)
    if long is not None:
        wide = _from_long(table, *long, notes, asked_for=price is not None)
    else:
        pairs = _field_ticker_pairs(table.columns)
        wide = (
            _from_pairs(table, pairs, ticker, price, notes)
            if pairs is not None
            else _from_single_header(table, ticker, price, notes)
        )
    wide = wide.set_axis([ticker_text(column) for column in wide.columns], axis=1)
    repeated = wide.columns[wide.columns.duplicated()].unique()
    if len(repeated):
        if "" in repeated:
            raise DataError("several columns have no name: complete the header")
        raise DataError(f"several columns are named {', '.join(map(repr, repeated[:5]))}: keep one of each")
    wide = _numbers_where_readable(wide, decimal)
    wide.attrs = {_NOTES: notes}
    return wide


def _numbers_where_readable(wide: pd.DataFrame, decimal: DecimalMark) -> pd.DataFrame:
    """Float columns, except that a column keeps the texts that are no numbers."""
    if all(dtype == np.float64 for dtype in wide.dtypes):
        return wide.copy()
    columns: dict[str, np.ndarray] = {}
    for name in wide.columns:
        numbers, unreadable = read_numbers(wide[name], decimal)
        if unreadable.any():
            mixed = numbers.astype(object)
            mixed[unreadable] = wide[name].to_numpy(object)[unreadable]
            columns[name] = mixed
        else:
            columns[name] = numbers
    return pd.DataFrame(columns, index=wide.index)


def holds_tickers(name: Hashable) -> bool:
    """Whether a column of this name holds the tickers of a long table."""
    return _plain_name(name) in _TICKERS


def _plain_name(name: Hashable) -> str:
    """Column name without case, numbering and punctuation that vendors add."""
    text = re.sub(r"^\d+\.\s*", "", str(name).strip().lower()).rstrip("*")
    return re.sub(r"[\s_./\-]+", " ", text).strip()


def _whole_name(name: Hashable) -> str:
    """Name of a column of one or two levels, as one text; empty if it has none."""
    parts = [_part(part) for part in (name if isinstance(name, tuple) else (name,))]
    return " ".join(part for part in parts if part and not part.lower().startswith("unnamed"))


def _part(name: Hashable) -> str:
    """Text of one cell of a header; empty where there is none."""
    if isinstance(name, str):
        return name.strip()
    return "" if name is None or name is pd.NA or name != name else ticker_text(name)


def _is_blank_column(column: pd.Series) -> bool:
    if pd.api.types.is_numeric_dtype(column.dtype):
        return bool(column.isna().all())
    return all(is_blank(text) for text in column.dropna().astype("str").unique())


def _is_counter(column: pd.Series) -> bool:
    values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    return len(values) > 1 and bool((np.diff(values) == 1).all())


def _dates_to_index(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Move the column of dates to the index, unless the index holds them."""
    if isinstance(frame.index, pd.MultiIndex):
        frame = frame.reset_index()
    elif isinstance(frame.index, pd.DatetimeIndex) or (
        not isinstance(frame.index, pd.RangeIndex) and looks_like_dates(frame.index)
    ):
        return frame
    names = [_plain_name(_whole_name(column)) for column in frame.columns]
    named = [position for position, name in enumerate(names) if name in _DATES]
    for position in [*named, *range(min(3, len(names)))]:
        if looks_like_dates(frame.iloc[:, position]):
            rest = [other for other in range(len(names)) if other != position]
            table = frame.iloc[:, rest].set_axis(pd.Index(frame.iloc[:, position]), axis=0)
            if names[position] not in _DATES:
                notes.append(f"column {_whole_name(frame.columns[position])!r} holds the dates")
            return table
    raise DataError(
        f"no dates in the index or in a column (columns: {', '.join(map(str, frame.columns[:6]))}): "
        "name the column of dates 'Date'"
    )


def _drop_fillers(table: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Leave out row counters and columns without name and content."""
    keep, left_out = [], []
    for position, column in enumerate(table.columns):
        name = _whole_name(column).lower()
        nameless = name in ("", "index", "level 0", "level_0", "price ticker")
        if nameless and (_is_blank_column(table.iloc[:, position]) or _is_counter(table.iloc[:, position])):
            left_out.append(str(position + 1))
        else:
            keep.append(position)
    if not left_out:
        return table
    notes.append(f"columns without a name left out, counters or empty: {', '.join(left_out)}")
    return table.iloc[:, keep]


def _long_columns(table: pd.DataFrame, price: str | None) -> tuple[int, int] | None:
    """Positions of the tickers and of the prices in a long table; None where the table is not long."""
    if isinstance(table.columns, pd.MultiIndex):
        return None
    names = [_plain_name(column) for column in table.columns]
    tickers = [position for position, name in enumerate(names) if name in _TICKERS]
    if not tickers or _is_price_column(table.iloc[:, tickers[0]]):
        return None
    chosen = _chosen_field(names, price)
    others = [position for position in range(len(names)) if position not in tickers]
    if chosen is None and len(others) == 1:
        return tickers[0], others[0]
    return None if chosen is None else (tickers[0], names.index(chosen))


def _is_price_column(column: pd.Series) -> bool:
    """Whether a column named like those of tickers holds the prices of a ticker of that name.

    Tickers may be digits; but with one row a date, only one ticker can be in a long table.
    """
    if pd.api.types.is_float_dtype(column.dtype):
        if column.index.is_unique:
            return True
        raise DataError(f"the tickers in column {column.name!r} were read as numbers with decimals: read them as text")
    several = bool((column != column.iloc[0]).any()) if len(column) else False
    return several and column.index.is_unique and not read_numbers(column)[1].any()


def _chosen_field(names: Sequence[str], price: str | None) -> str | None:
    """Field to use: the one asked for, else an adjusted close, else a close."""
    wanted = (_plain_name(price),) if price is not None else (*_ADJUSTED, *_PLAIN)
    return next((field for field in wanted if field in names), None)


def _say_which(field: str, notes: list[str]) -> None:
    if field not in _ADJUSTED:
        notes.append(f"no adjusted close in the table: {field!r} is used and taken to be adjusted")


def _from_long(table: pd.DataFrame, ticker: int, price: int, notes: list[str], *, asked_for: bool) -> pd.DataFrame:
    """Pivot date, ticker, price; a second price for one date and ticker becomes a second row of that date."""
    rows, dates = pd.factorize(table.index)
    labels = table.iloc[:, ticker]
    if (rows < 0).any() or labels.isna().any() or (labels.astype("str").str.strip() == "").any():
        raise DataError(
            "rows of the long table lack their date or their ticker: fill them in or delete them; a ticker NA must be "
            "read as text, as pandas does with keep_default_na=False"
        )
    if pd.api.types.is_integer_dtype(labels.dtype):
        notes.append("tickers were read as whole numbers: zeros before them, if there were any, are lost")
    codes, found = pd.factorize(labels)
    texts = [ticker_text(label) for label in found]
    same, tickers = pd.factorize(np.array(texts, dtype=object))
    columns = same[codes]
    values = table.iloc[:, price].to_numpy()
    first = ~pd.Series(rows * len(tickers) + columns).duplicated().to_numpy()
    kind = np.float64 if np.issubdtype(values.dtype, np.number) else object
    cells = np.full((len(dates) + int((~first).sum()), len(tickers)), np.nan, dtype=kind)
    cells[rows[first], columns[first]] = values[first]
    cells[np.arange(len(dates), len(cells)), columns[~first]] = values[~first]
    name = _plain_name(table.columns[price])
    if not asked_for:
        _say_which(name, notes)
    index = pd.Index(dates).append(pd.Index(table.index[~first]))
    return pd.DataFrame(cells, index=index, columns=list(tickers))


def _field_ticker_pairs(columns: pd.Index) -> list[tuple[str, str]] | None:
    """Field and ticker of each column where the header says both; None for a header of one line."""
    fields = {*_ADJUSTED, *_PLAIN, *_OTHER_FIELDS}
    if isinstance(columns, pd.MultiIndex):
        if columns.nlevels != 2:
            raise DataError(f"the header has {columns.nlevels} levels: two at most are understood")
        pairs = [(_whole_name(one), _whole_name(other)) for one, other in columns]
    else:
        texts = [_TUPLE.match(str(column)) for column in columns]
        split = [re.match(r"^(.+?)[_|]([^_|]+)$", str(column)) for column in columns]
        if all(texts):
            pairs = [(text[1], text[2]) for text in texts if text]
        elif all(split):
            pairs = [(text[1], text[2]) for text in split if text]
        else:
            return None
    shares = [np.mean([_plain_name(pair[level]) in fields for pair in pairs]) for level in (0, 1)]
    if max(shares) < 0.5:
        if not isinstance(columns, pd.MultiIndex):
            return None
        return [("close", second or first) for first, second in pairs]
    level = int(np.argmax(shares))
    return [(_plain_name(pair[level]), pair[1 - level]) for pair in pairs]


def _from_pairs(
    table: pd.DataFrame,
    pairs: list[tuple[str, str]],
    ticker: str | None,
    price: str | None,
    notes: list[str],
) -> pd.DataFrame:
    """Prices of each ticker from a header of field and ticker."""
    tickers = list(dict.fromkeys(name for _, name in pairs if name)) or ([ticker] if ticker else [])
    if any(not name for _, name in pairs):
        if len(tickers) != 1:
            raise DataError("columns of several tickers lack the ticker in their header: complete the header")
        notes.append(f"header cells without a ticker belong to {tickers[0]}")
        pairs = [(field, name or tickers[0]) for field, name in pairs]
    wanted = (_plain_name(price),) if price is not None else (*_ADJUSTED, *_PLAIN)
    for field in wanted:
        if all((field, name) in pairs for name in tickers):
            if price is None:
                _say_which(field, notes)
            repeated = [name for name in tickers if pairs.count((field, name)) > 1]
            if repeated:
                raise DataError(f"several columns are {field} of {repeated[0]}, or lack their ticker: see the header")
            positions = [pairs.index((field, name)) for name in tickers]
            return table.iloc[:, positions].set_axis(tickers, axis=1)
    found = ", ".join(sorted({field for field, _ in pairs}))
    raise DataError(
        f"no price field that every ticker has (fields: {found}): give each a column Close, "
        "or name the field in Python with FileSource(path, price=...)"
    )


def _from_single_header(table: pd.DataFrame, ticker: str | None, price: str | None, notes: list[str]) -> pd.DataFrame:
    """Prices from a header of one line: fields of one ticker, or one column a ticker."""
    names = [_plain_name(column) for column in table.columns]
    field = _chosen_field(names, price)
    if price is not None and field is None:
        raise DataError(f"no column {price!r} among {', '.join(map(str, table.columns[:8]))}")
    known = np.mean([name in {*_ADJUSTED, *_PLAIN, *_OTHER_FIELDS} for name in names])
    if field is None or (price is None and known < 0.5):
        if ticker is not None and table.shape[1] == 1:
            return table.set_axis([ticker], axis=1)
        return table
    if ticker is None:
        raise DataError(f"the table holds {', '.join(names[:6])} of one ticker: name it with ticker='...'")
    if price is None:
        _say_which(field, notes)
    return table.iloc[:, [names.index(field)]].set_axis([ticker], axis=1)
