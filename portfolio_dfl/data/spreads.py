"""Tables of bid-ask spreads: one share of the price a date and ticker, read as prices are; nothing filled in."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from portfolio_dfl.data.formats import read_prices_file
from portfolio_dfl.data.tidy import tidy_prices
from portfolio_dfl.errors import DataError

__all__ = ["read_spreads"]


def read_spreads(
    source: str | os.PathLike[str] | pd.DataFrame, tickers: list[str], *, calendar: str | None = None
) -> pd.DataFrame:
    """A table of spreads, (ask − bid) / mid, one row a date and one column a ticker; NaN where there is none.

    Parameters
    ----------
    source : path or DataFrame
        CSV or Parquet file, or a frame, with a column a ticker, or with the columns date, ticker and spread.
    tickers : list of str
        Columns to keep, in this order.
    calendar : str, optional
        Exchange whose time zone tells the day of stamps that carry one.

    Raises
    ------
    DataError
        If it cannot be read, lacks a ticker, or holds what is no number.
    """
    name = "the table" if isinstance(source, pd.DataFrame) else str(source)
    if not isinstance(source, pd.DataFrame) and not Path(source).is_file():
        raise DataError(f"no file {source} of bid-ask spreads; name a CSV or Parquet file, one column a ticker")
    raw = source if isinstance(source, pd.DataFrame) else read_prices_file(Path(source))
    lacking = [ticker for ticker in tickers if ticker not in raw.columns] if _is_wide(raw, tickers) else []
    if lacking:
        raise DataError(f"{name} has no bid-ask spreads of {', '.join(lacking)}: one column a ticker is needed")
    try:
        tidy = tidy_prices(raw, tickers=tickers, calendar=calendar)
    except DataError as error:
        raise DataError(f"{name} is no table of bid-ask spreads: {error}") from error
    for flag in tidy.unreadable:
        assert flag.date is not None
        raise DataError(f"{name}: the bid-ask spread of {flag.ticker} on {flag.date.date()} {flag.message}")
    return tidy.prices


def _is_wide(raw: pd.DataFrame, tickers: list[str]) -> bool:
    return any(ticker in raw.columns for ticker in tickers)
