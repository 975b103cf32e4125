"""Where prices come from: each source answers with the wide frame it found, not yet cleaned."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pandas as pd

from portfolio_dfl.errors import DataError

__all__ = ["EmbeddedSource", "FileSource", "FrameSource", "PriceSource", "open_source"]

Day = str | dt.date


class PriceSource(Protocol):
    """Anything that can answer with adjusted closes."""

    @property
    def name(self) -> str:
        """Short name of the source, for messages and manifests."""
        ...

    def describe(self) -> dict[str, str]:
        """Everything needed to ask the same question again."""
        ...

    def load(self) -> pd.DataFrame:
        """Wide frame of adjusted closes as found: one row a date, one column a ticker; not yet cleaned."""
        ...


@dataclass(frozen=True)
class EmbeddedSource:
    """Real prices that come with an installed library, so that nothing is downloaded.

    ``skfolio-factors``: five factor ETFs (MTUM, QUAL, SIZE, USMV, VLUE), daily, 2014-01-02 to 2022-12-28,
    adjusted closes, from :func:`skfolio.datasets.load_factors_dataset`.
    """

    name: str = "skfolio-factors"

    def describe(self) -> dict[str, str]:
        """Name of the sample."""
        return {"source": self.name}

    def load(self) -> pd.DataFrame:
        """Read the sample from the installed library."""
        from skfolio.datasets import load_factors_dataset

        frame: pd.DataFrame = load_factors_dataset()
        return frame


@dataclass(frozen=True)
class FileSource:
    """A CSV or Parquet file."""

    path: str | Path

    @property
    def name(self) -> str:
        """File name."""
        return Path(self.path).name

    def describe(self) -> dict[str, str]:
        """Path of the file."""
        return {"source": "file", "path": str(self.path)}

    def load(self) -> pd.DataFrame:
        """Read the file."""
        path = Path(self.path)
        if not path.is_file():
            raise DataError(f"no price file at {path}: check the path")
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        return pd.read_csv(path, index_col=0, parse_dates=True)


@dataclass(frozen=True)
class FrameSource:
    """A frame that is already in memory, for notebooks."""

    frame: pd.DataFrame
    name: str = "frame"

    def describe(self) -> dict[str, str]:
        """Name and size."""
        return {"source": self.name, "shape": f"{self.frame.shape[0]} x {self.frame.shape[1]}"}

    def load(self) -> pd.DataFrame:
        """Return a copy of the frame."""
        return self.frame.copy()


def open_source(
    source: str | Path,
    *,
    tickers: Sequence[str] | None = None,
    start: Day | None = None,
    end: Day | None = None,
) -> PriceSource:
    """Source that a configuration names: ``embedded``, ``skfolio-factors``, or the path of a file."""
    if str(source) in ("embedded", "skfolio-factors"):
        return EmbeddedSource()
    return FileSource(source)
