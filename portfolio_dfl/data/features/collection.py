"""All features of a study: their names, how far they reach back, and their rows for a decision or a training."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from portfolio_dfl.data.features.table import Missing, Values
from portfolio_dfl.errors import DataError

__all__ = ["Feature", "FeatureRows", "FeatureSet"]


class Feature(Protocol):
    """One or several columns of values by date, or by date and ticker, as they were known at each session."""

    @property
    def name(self) -> str:
        """In messages and names of columns."""

    @property
    def by_asset(self) -> bool:
        """Whether there is a value a ticker."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its columns."""

    @property
    def reach(self) -> int:
        """Number of returns that a value of one date needs."""

    @property
    def missing(self) -> Missing:
        """What is done where no value is known."""

    def known(self, returns: pd.DataFrame, last: int) -> tuple[Values, np.ndarray]:
        """Values [last, N or 1, F] known at the last sessions, NaN for none, and sessions since they became known."""


class FeatureRows(NamedTuple):
    """Values known at the closes of consecutive sessions: ``dated`` [T, F] and ``by_asset`` [T, N, F]."""

    dated: Values
    by_asset: Values


@dataclass(frozen=True)
class FeatureSet:
    """Features in their order; picklable.

    Attributes
    ----------
    features : sequence of Feature
        Tables, built-in ones, and those of the user's own.
    """

    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        names = [feature.name for feature in self.features]
        if not names or len(set(names)) < len(names):
            raise DataError(f"features need different names, one at least; got {', '.join(names) or 'none'}")

    @property
    def reach(self) -> int:
        """Number of returns that values of one date need."""
        return max(feature.reach for feature in self.features)

    @property
    def dated_names(self) -> tuple[str, ...]:
        """Names of the columns by date, F of them."""
        return self._names(by_asset=False)

    @property
    def by_asset_names(self) -> tuple[str, ...]:
        """Names of the columns by date and ticker, F of them."""
        return self._names(by_asset=True)

    @property
    def leaves_gaps(self) -> tuple[str, ...]:
        """Names of features whose missing values the training window's mean stands for."""
        return tuple(feature.name for feature in self.features if feature.missing == "mean")

    @property
    def sha256(self) -> str:
        """Hash of all tables with their names; what is made from returns is not in it."""
        digest = hashlib.sha256()
        for feature in self.features:
            digest.update(f"{feature.name}={getattr(feature, 'sha256', '')};".encode())
        return digest.hexdigest()

    def _names(self, *, by_asset: bool) -> tuple[str, ...]:
        mine = [feature for feature in self.features if feature.by_asset == by_asset]
        return tuple(f"{feature.name}.{column}" for feature in mine for column in feature.columns)

    def rows(self, returns: pd.DataFrame, last: int) -> FeatureRows:
        """What was known at the closes of the last sessions.

        Parameters
        ----------
        returns : DataFrame [T, N]
            Simple returns up to the decision: nothing after their last date is looked at.
        last : int
            Sessions asked for, at most T.

        Returns
        -------
        FeatureRows
            NaN only where a feature says that the mean stands for missing values.

        Raises
        ------
        DataError
            If a value is missing that must not be, naming feature, column, ticker and date.
        """
        if not 0 < last <= len(returns):
            raise DataError(f"features of {last} sessions are asked for, and there are {len(returns)}")
        dated, by_asset = [np.empty((last, 1, 0))], [np.empty((last, returns.shape[1], 0))]
        for feature in self.features:
            values, age = feature.known(returns, last)
            if feature.missing == "zero":
                values = np.where(np.isnan(values), 0.0, values)
            elif feature.missing == "fail":
                _require_known(feature, values, age, returns, last)
            (by_asset if feature.by_asset else dated).append(values)
        return FeatureRows(np.concatenate(dated, axis=2)[:, 0], np.concatenate(by_asset, axis=2))


def _require_known(feature: Feature, values: Values, age: np.ndarray, returns: pd.DataFrame, last: int) -> None:
    lacking = np.argwhere(np.isnan(values))
    if len(lacking) == 0:
        return
    row, asset, column = lacking[0]
    dates = returns.index[len(returns) - last :]
    of = f" of {returns.columns[asset]}" if feature.by_asset else ""
    old = int(age[row, asset, column])
    why = "was not known yet" if old < 0 else f"was {old} sessions old, more than its max_age"
    complete = ~np.isnan(values).any(axis=(1, 2))
    gaps = np.flatnonzero(~complete)
    way = (
        f"from {dates[gaps[-1] + 1].date()} on nothing is missing: start later, "
        if gaps[-1] + 1 < last
        else "give newer values, allow a larger max_age, "
    )
    raise DataError(
        f"feature {feature.name}: {feature.columns[column]}{of} {why} on {dates[row].date()}, and "
        f"{len(lacking) - 1} more values are missing up to {dates[gaps[-1]].date()}; {way}or set missing: mean or zero"
    )
