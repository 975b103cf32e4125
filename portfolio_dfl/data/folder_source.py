"""A folder with one price file a ticker, and price sources of the user's own."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from portfolio_dfl.data.formats import is_prices_file
from portfolio_dfl.data.layouts import notes_of
from portfolio_dfl.data.local_sources import FileSource
from portfolio_dfl.errors import DataError
from portfolio_dfl.execution.parts import asking, build_part, find_part

__all__ = ["FolderSource", "OwnSource", "price_files"]

_ENDINGS = {".csv", ".txt", ".tsv", ".dat", ".parquet", ".pq", ".gz", ".bz2", ".xz"}


def price_files(folder: Path) -> list[Path]:
    """The price files of a folder, sorted by name."""
    return sorted(path for path in folder.iterdir() if is_prices_file(path) and not path.name.startswith("."))


@dataclass(frozen=True)
class FolderSource:
    """A folder of CSV or Parquet files, each with the dates and prices of the ticker that it is named after.

    Attributes
    ----------
    path
        Of the folder.
    """

    path: str | Path

    @property
    def name(self) -> str:
        """Name of the folder."""
        return Path(self.path).name

    def describe(self) -> dict[str, str]:
        """Path, and number of files."""
        return {"source": "folder", "path": str(self.path), "files": str(len(price_files(Path(self.path))))}

    def load(self) -> pd.DataFrame:
        """One column a file, over the dates of all of them.

        Raises
        ------
        DataError
            If a file cannot be read or holds several tickers, or two files are of one ticker.
        """
        columns: dict[str, pd.Series[float]] = {}
        notes: list[str] = []
        for file in price_files(Path(self.path)):
            ticker = _ticker_of(file)
            wide = FileSource(file, ticker=ticker).load()
            if wide.shape[1] != 1:
                raise DataError(
                    f"{file.name} holds {wide.shape[1]} tickers ({', '.join(map(str, wide.columns[:3]))}, ...): in a "
                    "folder one file is one ticker; name the file itself as the source"
                )
            if ticker in columns:
                raise DataError(f"{self.name} holds two files of {ticker}: remove one")
            if not wide.index.is_unique:
                raise DataError(f"{file.name} has a date twice, {wide.index[wide.index.duplicated()][0]}: correct it")
            columns[ticker] = wide.iloc[:, 0]
            notes += [f"{file.name}: {note}" for note in notes_of(wide)]
        frame = pd.concat(columns, axis=1, sort=True)
        frame.attrs = {"notes": notes}
        return frame


@dataclass(frozen=True)
class OwnSource:
    """A source ``package.module:Name``: a class with ``load()``, or a function, that gives a frame of prices.

    Raises
    ------
    DataError
        If it cannot be imported, or fails, or gives no frame.
    """

    name: str

    def describe(self) -> dict[str, str]:
        """Its own description where it has one."""
        described = getattr(self._made(), "describe", None)
        return {"source": self.name, **(described() if callable(described) else {})}

    def load(self) -> pd.DataFrame:
        """Wide frame of adjusted closes: one row a date, one column a ticker."""
        made = self._made()
        with asking("source", self.name, DataError):
            frame = made() if inspect.isfunction(made) else made.load()
        if not isinstance(frame, pd.DataFrame):
            raise DataError(f"source {self.name!r} gave a {type(frame).__name__}; a DataFrame of prices is needed")
        return frame

    def _made(self) -> Any:
        found = find_part("source", self.name, {}, DataError)
        return build_part("source", self.name, found, {}, DataError, takes=[], method="load")


def _ticker_of(file: Path) -> str:
    name = file.name
    while Path(name).suffix.lower() in _ENDINGS:
        name = Path(name).stem
    return name
