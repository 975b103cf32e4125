"""Look at features before a study uses them: coverage, first dates, staleness, jumps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from portfolio_dfl.data.features.collection import FeatureSet
from portfolio_dfl.notebook import PrintedResult

__all__ = ["FeatureReport", "check_features"]

# Distance of a change from the usual ones, in their median size, beyond which it is shown as a jump.
_JUMP = 25.0


@dataclass(frozen=True)
class FeatureReport(PrintedResult):
    """What features look like at the sessions of a study; ``print`` it.

    Attributes
    ----------
    table : DataFrame
        One row a feature and column, for by-asset ones one a ticker too: first date on which a value is known, share
        of the sessions from there on with a value (``coverage``) and of all sessions, the oldest value used in
        sessions, and the number and date of the largest jumps.
    failures : tuple of str
        Features with values missing after their first complete date, which their policy refuses.
    """

    table: pd.DataFrame
    failures: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """Whether no policy refuses a value."""
        return not self.failures

    def __str__(self) -> str:
        return self.table.to_string(index=False)


def check_features(features: FeatureSet, returns: pd.DataFrame) -> FeatureReport:
    """Everything that :class:`FeatureReport` shows of features at the dates of returns [T, N]; nothing is refused."""
    rows, failures = [], []
    for feature in features.features:
        values, age = feature.known(returns, len(returns))
        for asset in range(values.shape[1]):
            for column, name in enumerate(feature.columns):
                mine, old = values[:, asset, column], age[:, asset, column]
                rows.append(
                    {
                        "feature": f"{feature.name}.{name}",
                        "ticker": str(returns.columns[asset]) if feature.by_asset else "",
                        **_summary(mine, old, pd.DatetimeIndex(returns.index)),
                    }
                )
        lacking = np.isnan(values).reshape(len(values), -1).max(axis=1, initial=False)
        # Before all values are known for the first time a study cannot start, which is no defect of theirs.
        if feature.missing == "fail" and (lacking.all() or lacking[int(np.argmin(lacking)) :].any()):
            failures.append(feature.name)
    return FeatureReport(pd.DataFrame(rows), tuple(failures))


def _summary(values: np.ndarray, age: np.ndarray, dates: pd.DatetimeIndex) -> dict[str, object]:
    known = ~np.isnan(values)
    if not known.any():
        return {
            "first": pd.NaT,
            "coverage": 0.0,
            "all_sessions": 0.0,
            "oldest": 0,
            "jumps": 0,
            "largest_jump": pd.NaT,
        }
    first = int(np.argmax(known))
    changes = np.abs(np.diff(values[first:]))
    moved = changes[changes > 0]
    usual = float(np.median(moved)) if len(moved) else 0.0
    jumps = np.flatnonzero(changes > _JUMP * usual) if usual > 0 else np.empty(0, int)
    largest = dates[first + 1 + int(jumps[np.argmax(changes[jumps])])] if len(jumps) else pd.NaT
    return {
        "first": dates[first].date(),
        "coverage": round(float(known[first:].mean()), 4),
        "all_sessions": round(float(known.mean()), 4),
        "oldest": int(age[known].max()),
        "jumps": len(jumps),
        "largest_jump": largest if largest is pd.NaT else largest.date(),
    }
