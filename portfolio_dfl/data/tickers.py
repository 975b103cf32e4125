"""Tickers are text, whatever they look like: 000001, 1E5, TRUE and NA are names, not data."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd

from portfolio_dfl.errors import DataError

__all__ = ["ticker_text"]

_WAY_OUT = "read the table with its identifiers as text, as pandas does with dtype=str and keep_default_na=False"


def ticker_text(label: object) -> str:
    """Text of a ticker as a column name, a cell or an argument holds it.

    Whole numbers are taken as they are written. What can only be an identifier that was read as data is refused,
    because the text it had is lost.

    Raises
    ------
    DataError
        A truth value, a number with decimals, a missing value or a date; or a text with characters that do not
        print.
    """
    if isinstance(label, str):
        text = label.strip()
        hidden = next((letter for letter in text if not letter.isprintable()), None)
        if hidden is not None:
            raise DataError(f"ticker {text!r} holds the character {hidden!r}, which does not print: rename it")
        return text
    kind = None
    if isinstance(label, bool | np.bool_):
        kind = "a truth value"
    elif label is None or label is pd.NA or label is pd.NaT or (isinstance(label, float) and np.isnan(label)):
        kind = "a missing value"
    elif isinstance(label, float | np.floating):
        kind = "a number with decimals"
    elif isinstance(label, dt.date | np.datetime64):
        kind = "a date"
    if kind is not None:
        raise DataError(f"a ticker was read as {kind}, {label}: {_WAY_OUT}")
    return str(label).strip()
