"""Features of the user's own: a function of returns, held to what was known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from portfolio_dfl.data.features.reading import feature_table
from portfolio_dfl.data.features.table import FeatureTable, Missing, Values
from portfolio_dfl.errors import DataError
from portfolio_dfl.execution.parts import asking
from portfolio_dfl.scalars import require_whole

__all__ = ["OwnFeature"]

# Returns that a function is tried on.
_ROWS = 60


@dataclass(frozen=True)
class OwnFeature:
    """A feature that a function makes of the returns up to a decision, which is all that it is ever given.

    Parameters
    ----------
    name : str
        Of the feature, in messages.
    function : callable
        ``function(returns, **options)`` takes simple returns [T, N] with dates and tickers, and gives a frame of the
        same dates: one column a feature, one a ticker, or columns of two levels, feature and ticker.
    tickers : sequence of str
    options : mapping
        Other arguments of the function.
    reach : int
        Number of returns that a value needs; before, values may be missing.
    missing : {"fail", "mean", "zero"}
        As for :class:`~portfolio_dfl.data.features.table.FeatureTable`.

    Raises
    ------
    DataError
        If the function fails or gives no such frame, or if values of a date change where later returns are left out;
        both are tried on returns drawn at random.
    """

    name: str
    function: Callable[..., Any]
    tickers: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    reach: int = 1
    missing: Missing = "fail"

    def __post_init__(self) -> None:
        require_whole(DataError, f"reach of feature {self.name}", self.reach, 1)
        returns = _specimen(self.tickers, 2 * self.reach + _ROWS)
        whole = self._table(returns)
        object.__setattr__(self, "by_asset", whole.by_asset)
        object.__setattr__(self, "columns", whole.columns)
        after, _ = whole.known(returns, len(returns))
        for stop in (self.reach + _ROWS // 2, len(returns) - 1):
            values, _ = self._table(returns.iloc[:stop]).known(returns.iloc[:stop], 1)
            if not np.array_equal(values[0], after[stop - 1], equal_nan=True):
                raise DataError(
                    f"feature {self.name} looks ahead: its values of a date change where later returns are left out; "
                    "use returns up to the date alone"
                )

    by_asset: bool = field(init=False, default=False)
    columns: tuple[str, ...] = field(init=False, default=())

    def known(self, returns: pd.DataFrame, last: int) -> tuple[Values, np.ndarray]:
        """Values at the closes of the last sessions, as of a table."""
        return self._table(returns).known(returns, last)

    def _table(self, returns: pd.DataFrame) -> FeatureTable:
        with asking("feature", self.name, DataError):
            found = self.function(returns.copy(), **self.options)
        if not isinstance(found, pd.DataFrame) or not found.index.equals(returns.index):
            raise DataError(
                f"feature {self.name}: its function must give a frame with the dates of the returns, "
                f"not {type(found).__name__}"
            )
        return feature_table(found, name=self.name, tickers=list(map(str, returns.columns)), lag=0, max_age=0)


def _specimen(tickers: tuple[str, ...], rows: int) -> pd.DataFrame:
    """Returns to try a function on."""
    drawn = np.random.default_rng(0).normal(0.0, 0.01, (rows, len(tickers)))
    return pd.DataFrame(drawn, index=pd.bdate_range("2020-01-01", periods=rows, name="Date"), columns=list(tickers))
