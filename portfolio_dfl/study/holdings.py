"""What is held, read as weights, as amounts of money, or as shares beside cash."""

from __future__ import annotations

import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from portfolio_dfl.data.tickers import ticker_text
from portfolio_dfl.errors import DataError

__all__ = ["CASH", "Holdings", "HoldingsLike", "parse_holdings", "read_holdings"]

#: What a line of cash is called where no asset has that name.
CASH = "cash"
_AMOUNTS = ("weight", "value", "shares")

HoldingsLike = str | os.PathLike[str] | pd.Series | pd.DataFrame


@dataclass(frozen=True)
class Holdings:
    """What is held before a decision.

    Attributes
    ----------
    weights : Series [N]
        Shares of wealth by ticker; they sum to 1 but for ``cash``.
    cash : float
        Share of wealth that no ticker holds.
    wealth : float or None
        In money, cash included, where amounts or shares were given.
    shares : Series [N] or None
        Numbers of shares, where these were given.
    """

    weights: pd.Series[float]
    cash: float = 0.0
    wealth: float | None = None
    shares: pd.Series[float] | None = None


def read_holdings(holdings: HoldingsLike | None, tickers: list[str]) -> pd.Series[float]:
    """Weights held, in the order of the tickers, see :func:`parse_holdings`."""
    return parse_holdings(holdings, tickers).weights


def parse_holdings(
    holdings: HoldingsLike | None,
    tickers: list[str],
    *,
    prices: pd.Series[float] | None = None,
    short: Sequence[str] = (),
    cash: str | None = None,
) -> Holdings:
    """What is held, in the order of the tickers.

    Parameters
    ----------
    holdings : path, Series or DataFrame, optional
        A CSV file, or a frame, with a column ``ticker`` and a column ``weight``, ``value`` (an amount of money) or
        ``shares``; weights and amounts also as a Series by ticker. A line ``cash`` is an amount of money beside
        values and shares, a share of wealth beside weights. All is divided by its sum. Equal weights by default.
    tickers : list of str
        Of the strategy; one that is not named is not held.
    prices : Series, optional
        Of one share, by ticker: needed for shares.
    short : sequence of str
        Tickers that may be held short.
    cash : str, optional
        Ticker of the strategy that is cash: a line ``cash`` is of it.

    Raises
    ------
    DataError
        If the file cannot be read, a ticker is unknown or named twice, something is held short that may not be, or
        nothing is held.
    """
    if holdings is None:
        return Holdings(pd.Series(1.0 / len(tickers), index=tickers))
    kind, held = _amounts(holdings)
    held = held.set_axis([ticker_text(ticker) for ticker in held.index])
    held = held.set_axis([_cash_line(ticker, tickers, cash) for ticker in held.index])
    unknown = [ticker for ticker in held.index if ticker not in tickers and ticker != CASH]
    if unknown:
        bare = {ticker.lstrip("0"): ticker for ticker in tickers}
        lost = any(bare.get(ticker, ticker) != ticker for ticker in unknown)
        hint = ": a spreadsheet may have dropped leading zeros" if lost else ""
        raise DataError(f"holdings name {', '.join(unknown)}; the strategy knows {', '.join(tickers)}{hint}")
    if not held.index.is_unique:
        raise DataError("holdings name a ticker twice: add its rows up")
    loose = 0.0 if CASH in tickers else float(held.get(CASH, 0.0))
    numbers = held.reindex(tickers).fillna(0.0).astype(np.float64)
    values = numbers
    if kind == "shares":
        if prices is None:
            raise DataError("holdings in shares need prices: give weights or values here")
        values = numbers * prices[tickers].where(np.array([ticker != cash for ticker in tickers]), 1.0)
    _require_allowed(values, short)
    wealth = float(values.sum()) + loose
    if not np.isfinite(wealth) or not wealth > 0.0:
        raise DataError(f"holdings are worth {wealth:g} in all: they must be finite, and more than their debts")
    return Holdings(
        weights=values / wealth,
        cash=loose / wealth,
        wealth=None if kind == "weight" else wealth,
        shares=numbers if kind == "shares" else None,
    )


def _cash_line(ticker: str, tickers: list[str], cash: str | None) -> str:
    if ticker in tickers or ticker.lower() != CASH:
        return ticker
    return CASH if cash is None else cash


def _require_allowed(values: pd.Series[float], short: Sequence[str]) -> None:
    """Raise DataError unless all is finite, something is held, and what is held short may be."""
    if not np.isfinite(values).all():
        raise DataError("holdings must be finite")
    sold = [ticker for ticker, value in values.items() if value < 0.0 and ticker not in short]
    if (sold and not short) or (values == 0.0).all():
        raise DataError("holdings must be finite, not negative, and not all zero: the strategy is long only")
    if sold:
        raise DataError(f"holdings are short of {', '.join(map(str, sold))}, which the study's limits do not allow")


def _amounts(holdings: HoldingsLike) -> tuple[str, pd.Series[float]]:
    """What the numbers are, and the numbers by ticker as they were given."""
    if isinstance(holdings, pd.Series):
        return "weight", holdings
    if isinstance(holdings, pd.DataFrame):
        table = holdings if "ticker" in holdings.columns else holdings.rename_axis("ticker").reset_index()
        return _columns(table.astype(str), "the frame of holdings")
    return _columns(_read_file(Path(holdings)), str(holdings))


def _read_file(path: Path) -> pd.DataFrame:
    try:
        if not path.is_file():
            raise DataError(f"no holdings file {path}; write a CSV with the columns ticker and weight")
        with path.open("rb") as file:
            wide = file.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE)  # as spreadsheets write what they call Unicode text
        encoding = "utf-16" if wide else "utf-8-sig"
        return pd.read_csv(path, dtype=str, skipinitialspace=True, keep_default_na=False, encoding=encoding)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    except DataError:
        raise
    except ValueError as error:  # of which pandas' and Python's own complaints about text are kinds
        raise DataError(f"{path} is not readable as CSV: {error}; write the columns ticker and weight") from error


def _columns(table: pd.DataFrame, name: str) -> tuple[str, pd.Series[float]]:
    table = table.set_axis(table.columns.str.strip(), axis=1)
    amounts = [column for column in _AMOUNTS if column in table.columns]
    if "ticker" not in table.columns or not amounts:
        columns = ", ".join(table.columns)
        raise DataError(f"{name} has the columns {columns}; ticker and weight (or value, or shares) are needed")
    if {"value", "shares"} <= set(amounts):
        raise DataError(f"{name} has both value and shares: leave out one of the columns")
    if table.empty:
        raise DataError(f"{name} has no row; write one for each ticker held")
    tickers, texts = table["ticker"].fillna("").str.strip(), table[amounts[0]]
    numbers = pd.to_numeric(texts, errors="coerce")
    for row in table.index[(tickers == "") | numbers.isna()]:
        raise DataError(f"{name}, line {row + 2}: {tickers[row]} {texts[row]} is not a ticker and a number")
    return amounts[0], pd.Series(numbers.to_numpy(dtype=np.float64), index=tickers)
