"""Numbers as people write them: decimal commas, thousand marks, currency signs, percent strings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import numpy as np
import pandas as pd

__all__ = ["DecimalMark", "decimal_mark", "is_blank", "read_numbers"]

DecimalMark = Literal[".", ","]

_BLANK = frozenset({"", "-", "–", "—", ".", "na", "n/a", "#n/a", "nan", "none", "null", "nat", "<na>"})
_CURRENCY = r"(?:[$€£¥₹₩₽₺₫฿]|R\$|(?:USD|EUR|GBP|GBX|JPY|CHF|CAD|AUD|BRL|CNY|HKD|INR|SEK|NOK|DKK)\b)"
_SPACES = r"[\s\u00a0\u2009\u202f'’]"
_UNIT = re.compile(rf"^{_CURRENCY}|{_CURRENCY}$|[%KMB]$|{_SPACES}", re.IGNORECASE)
_COMMA_DECIMAL = re.compile(
    r"^[+-]?(?:\d*,(?:\d{1,2}|\d{4,})|0,\d{3}|\d{4,},\d+|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,})$"
)
_DOT_DECIMAL = re.compile(
    r"^[+-]?(?:\d*\.(?:\d{1,2}|\d{4,})|0\.\d{3}|\d{4,}\.\d+|\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,})$"
)


def is_blank(text: str) -> bool:
    """Whether a cell says in words or signs that it holds nothing."""
    return text.strip().lower() in _BLANK


def decimal_mark(cells: Iterable[str]) -> DecimalMark:
    """Decimal mark that the cells of a table use.

    ``1,234.50`` and ``82.69`` speak for a point, ``1.234,50`` and ``82,69`` for a comma; ``118.135`` says
    nothing alone, which is why all columns of a table are asked together. Without evidence it is a point.

    Parameters
    ----------
    cells
        Texts of any columns; what is not a number is ignored.
    """
    votes = {".": 0, ",": 0}
    for cell in cells:
        text = _UNIT.sub("", _UNIT.sub("", cell.strip()))
        if _COMMA_DECIMAL.match(text):
            votes[","] += 1
        elif _DOT_DECIMAL.match(text):
            votes["."] += 1
    return "," if votes[","] > votes["."] else "."


def read_numbers(column: pd.Series, decimal: DecimalMark = ".") -> tuple[np.ndarray, np.ndarray]:
    """Numbers of a column of texts, numbers, or both.

    Parameters
    ----------
    column
        Values as found, [T].
    decimal
        Decimal mark of the texts; the other of point and comma, spaces and apostrophes part thousands.

    Returns
    -------
    tuple of ndarray
        The numbers (float64, NaN where there is none), [T]; and where a text could not be read as a price,
        [T] bool. Percent strings are not prices and count as unreadable.
    """
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return column.to_numpy(np.float64, na_value=np.nan), np.zeros(len(column), dtype=bool)
    texts = column.astype("str").fillna("").str.strip()
    blank = texts.str.lower().isin(_BLANK)
    bare = texts.str.replace(rf"^{_CURRENCY}|{_CURRENCY}$", "", regex=True, flags=re.IGNORECASE)
    bare = bare.str.replace(_SPACES, "", regex=True)
    if decimal == ",":
        local = bare.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    else:
        local = bare.str.replace(",", "", regex=False)
    if column.dtype == object:
        # Cells that are numbers already were turned into text with a point, whatever the table's own mark.
        local = local.where(~column.map(lambda cell: isinstance(cell, int | float | np.number)), texts)
    numbers = pd.to_numeric(local.mask(blank), errors="coerce").to_numpy(np.float64, na_value=np.nan)
    return numbers, np.isnan(numbers) & ~blank.to_numpy(bool)
