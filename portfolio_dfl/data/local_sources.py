"""Sources that need no network: the embedded sample, files, and frames in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from portfolio_dfl.data.formats import read_prices_file
from portfolio_dfl.data.layouts import wide_prices
from portfolio_dfl.data.numerals import DecimalMark
from portfolio_dfl.errors import DataError

__all__ = ["EMBEDDED", "IN_MEMORY", "EmbeddedSource", "FileSource", "FrameSource"]

# What loads each sample.
_LOADERS = {"skfolio-factors": "load_factors_dataset", "skfolio-sp500": "load_sp500_dataset"}
_DEFAULT = "skfolio-factors"
#: Names of the embedded samples, the first standing for the second.
EMBEDDED = ("embedded", *_LOADERS)
#: Stands for prices that were given in Python.
IN_MEMORY = "dataframe"


@dataclass(frozen=True)
class EmbeddedSource:
    """Real prices that come with an installed library, so that nothing is downloaded.

    ``skfolio-factors``: five factor ETFs (MTUM, QUAL, SIZE, USMV, VLUE), daily, 2014-01-02 to 2022-12-28,
    adjusted closes, from :func:`skfolio.datasets.load_factors_dataset`; ``embedded`` is another name of it.
    ``skfolio-sp500``: twenty companies of the S&P 500 that are large today, daily, 1990-01-02 to 2022-12-28, adjusted
    closes, from :func:`skfolio.datasets.load_sp500_dataset`.

    Raises
    ------
    DataError
        Unknown sample.
    """

    name: str = _DEFAULT

    def __post_init__(self) -> None:
        if self.name not in EMBEDDED:
            raise DataError(f"no embedded sample is named {self.name!r}: there are {', '.join(_LOADERS)}")
        object.__setattr__(self, "name", _DEFAULT if self.name == "embedded" else self.name)

    def describe(self) -> dict[str, str]:
        """Sample, and version of the library that holds it."""
        import skfolio

        return {"source": self.name, "library": f"skfolio {skfolio.__version__}"}

    def load(self) -> pd.DataFrame:
        """Read the sample from the installed library."""
        import skfolio.datasets

        frame: pd.DataFrame = getattr(skfolio.datasets, _LOADERS[self.name])()
        return frame


@dataclass(frozen=True)
class FileSource:
    """A CSV or Parquet file, in any layout that :func:`~portfolio_dfl.data.formats.read_prices_file` knows.

    Attributes
    ----------
    path
        Of the file.
    ticker
        Name of the only ticker, where the file does not say it; by default from the file name.
    price
        Field to use instead of the adjusted close or close.
    separator, decimal
        Of a text file; found from the file by default.
    """

    path: str | Path
    ticker: str | None = None
    price: str | None = None
    separator: str | None = None
    decimal: DecimalMark | None = None

    @property
    def name(self) -> str:
        """File name."""
        return Path(self.path).name

    def describe(self) -> dict[str, str]:
        """Path, and the arguments that are set."""
        given = {key: getattr(self, key) for key in ("ticker", "price", "separator", "decimal")}
        return {
            "source": "file",
            "path": str(self.path),
            **{key: str(value) for key, value in given.items() if value is not None},
        }

    def load(self) -> pd.DataFrame:
        """Read the file."""
        return read_prices_file(
            self.path,
            ticker=self.ticker,
            price=self.price,
            separator=self.separator,
            decimal=self.decimal,
        )


@dataclass(frozen=True)
class FrameSource:
    """A frame that is already in memory, for notebooks: any layout :func:`wide_prices` knows.

    Attributes
    ----------
    frame
        Prices; it is copied, never changed.
    name
        For messages and manifests.
    ticker
        Name of the only ticker, where the columns are its fields.
    """

    frame: pd.DataFrame
    name: str = "frame"
    ticker: str | None = None

    def describe(self) -> dict[str, str]:
        """Name and size."""
        return {"source": self.name, "shape": f"{self.frame.shape[0]} x {self.frame.shape[1]}"}

    def load(self) -> pd.DataFrame:
        """Bring the frame to one column a ticker."""
        return wide_prices(self.frame, ticker=self.ticker)
