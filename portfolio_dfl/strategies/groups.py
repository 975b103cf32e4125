"""What a column of a file says of tickers: the group of each, or a number that portfolios are exposed to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.tickers import ticker_text
from portfolio_dfl.errors import ConfigError, DataError

__all__ = ["read_exposures", "read_factors", "read_groups", "with_columns_read"]


def with_columns_read(config: StudyConfig) -> StudyConfig:
    """The configuration with what files say of tickers in place of their paths.

    They are those of ``allocation.limits`` and ``covariance.options.exposures``. A file of exposures may have more
    tickers than the study.
    """
    options = config.covariance.options
    if config.covariance.estimator == "factor" and isinstance(options.get("exposures"), str):
        read_options = {**options, "exposures": read_factors(options["exposures"])}
        config = config.model_copy(
            update={"covariance": config.covariance.model_copy(update={"options": read_options})}
        )
    limits = config.allocation.limits
    changed: dict[str, Any] = {}
    if isinstance(limits.group_of, str):
        changed["group_of"] = read_groups(limits.group_of, limits.group_column)
    exposures = {
        name: section.model_copy(update={"values": read_exposures(name, section.values, section.column)})
        for name, section in limits.exposures.items()
        if isinstance(section.values, str)
    }
    if exposures:
        changed["exposures"] = {**limits.exposures, **exposures}
    if not changed:
        return config
    read = limits.model_copy(update=changed)
    return config.model_copy(update={"allocation": config.allocation.model_copy(update={"limits": read})})


def read_groups(path: str, column: str) -> dict[str, str]:
    """Group of each ticker.

    Parameters
    ----------
    path : str
        CSV or Parquet file with a column ``ticker``, one row each.
    column : str
        Its column of groups.

    Raises
    ------
    ConfigError
        If the file cannot be read, a column is missing, or a ticker stands in two rows or has no group.
    """
    return _read_column(path, column, "allocation.limits.group_of", "allocation.limits.group_column")


def read_exposures(name: str, path: str, column: str) -> dict[str, float]:
    """A number for each ticker, see :func:`read_groups`.

    Raises
    ------
    ConfigError
        As there, and if one is no finite number.
    """
    asked = f"allocation.limits.exposures.{name}"
    return _numbers(_read_column(path, column, f"{asked}.values", f"{asked}.column"), f"{asked}.values", path, column)


def read_factors(path: str) -> dict[str, dict[str, float]]:
    """The numbers of every column but ``ticker`` of a file, by column and ticker, see :func:`read_groups`.

    Raises
    ------
    ConfigError
        As there, and if there is no other column, or what stands in one is no finite number.
    """
    asked = "covariance.options.exposures"
    columns = [name for name in _read_table(path, asked).columns if name != "ticker"]
    if not columns:
        raise ConfigError(f"{asked}: {path} has no column of a factor beside ticker")
    return {str(column): _numbers(_read_column(path, column, asked, asked), asked, path, column) for column in columns}


def _numbers(texts: dict[str, str], asked: str, path: str, column: str) -> dict[str, float]:
    numbers = {ticker: pd.to_numeric(text, errors="coerce") for ticker, text in texts.items()}
    wrong = [f"{texts[ticker]} of {ticker}" for ticker, number in numbers.items() if not np.isfinite(number)]
    if wrong:
        raise ConfigError(f"{asked}: {path} has no finite number in {column}: {', '.join(wrong)}")
    return {ticker: float(number) for ticker, number in numbers.items()}


def _read_table(path: str, asked: str) -> pd.DataFrame:
    try:
        if Path(path).suffix.lower() in (".parquet", ".pq"):
            table = pd.read_parquet(path)
        else:
            table = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True, encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # of which pandas' complaints about text are kinds
        raise ConfigError(f"{asked}: {path} cannot be read: {error}") from error
    table.columns = table.columns.str.strip()
    return table


def _read_column(path: str, column: str, asked: str, key: str) -> dict[str, str]:
    """The text of a column by ticker; ``asked`` and ``key`` are what the configuration calls file and column."""
    table = _read_table(path, asked)
    lacking = [name for name in ("ticker", column) if name not in table.columns]
    if lacking:
        raise ConfigError(
            f"{asked}: {path} has the columns {', '.join(map(str, table.columns))} and lacks {', '.join(lacking)}; "
            f"{key} names the one that is read"
        )
    try:
        tickers = [ticker_text(ticker) for ticker in table["ticker"]]
    except DataError as error:
        raise ConfigError(f"{asked}: {path}: {error}") from error
    texts = ["" if pd.isna(text) else str(text).strip() for text in table[column]]
    repeated = sorted({ticker for ticker in tickers if tickers.count(ticker) > 1})
    if repeated:
        raise ConfigError(f"{asked}: {path} has more than one row for {', '.join(repeated)}")
    empty = [ticker for ticker, text in zip(tickers, texts, strict=True) if not text]
    if empty:
        raise ConfigError(f"{asked}: {path} has no {column} for {', '.join(empty)}")
    return dict(zip(tickers, texts, strict=True))
