"""Groups of tickers from a column of a file."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.tickers import ticker_text
from portfolio_dfl.errors import ConfigError, DataError

__all__ = ["read_groups", "with_groups_read"]


def with_groups_read(config: StudyConfig) -> StudyConfig:
    """The configuration with what the file of ``allocation.limits.group_of`` says in place of its path."""
    limits = config.allocation.limits
    if not isinstance(limits.group_of, str):
        return config
    read = limits.model_copy(update={"group_of": read_groups(limits.group_of, limits.group_column)})
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
    asked = "allocation.limits.group_of"
    try:
        if Path(path).suffix.lower() in (".parquet", ".pq"):
            table = pd.read_parquet(path)
        else:
            table = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True, encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # of which pandas' complaints about text are kinds
        raise ConfigError(f"{asked}: {path} cannot be read: {error}") from error
    table.columns = table.columns.str.strip()
    lacking = [name for name in ("ticker", column) if name not in table.columns]
    if lacking:
        raise ConfigError(
            f"{asked}: {path} has the columns {', '.join(map(str, table.columns))} and lacks {', '.join(lacking)}; "
            "allocation.limits.group_column names that of the groups"
        )
    try:
        tickers = [ticker_text(ticker) for ticker in table["ticker"]]
    except DataError as error:
        raise ConfigError(f"{asked}: {path}: {error}") from error
    groups = ["" if pd.isna(group) else str(group).strip() for group in table[column]]
    repeated = sorted({ticker for ticker in tickers if tickers.count(ticker) > 1})
    if repeated:
        raise ConfigError(f"{asked}: {path} has more than one row for {', '.join(repeated)}")
    empty = [ticker for ticker, group in zip(tickers, groups, strict=True) if not group]
    if empty:
        raise ConfigError(f"{asked}: {path} has no {column} for {', '.join(empty)}")
    return dict(zip(tickers, groups, strict=True))
