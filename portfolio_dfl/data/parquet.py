"""Parquet files, one at a time: pyarrow changes the warning filters of the whole process while it makes a frame."""

from __future__ import annotations

import os
from typing import IO

import pandas as pd

from portfolio_dfl.execution.process import alone

__all__ = ["parquet_bytes", "read_parquet"]


def read_parquet(source: str | os.PathLike[str] | IO[bytes]) -> pd.DataFrame:
    """The frame in a file; errors as of ``pandas.read_parquet``."""
    with alone():
        return pd.read_parquet(source)


def parquet_bytes(frame: pd.DataFrame) -> bytes:
    """The content of a file that holds a frame."""
    with alone():
        return frame.to_parquet()
