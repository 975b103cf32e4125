"""Whether a difference between strategies is more than luck: paired stationary bootstrap.

A strategy may be there several times, once a seed. Its statistic is then the mean over its seeds, so that no
seed is picked; rows are resampled, all seeds of both strategies with the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.backtest.evaluation import is_constant, per_period_rate, require_same_days
from portfolio_dfl.backtest.ledger import Ledger
from portfolio_dfl.backtest.rhythm import resolved_periods_per_year, row_noun
from portfolio_dfl.errors import BacktestError

__all__ = [
    "Bootstrap",
    "Interval",
    "compare",
    "comparison_table",
    "paired_interval",
]

FloatArray = NDArray[np.float64]

# Below this a block bootstrap resamples the same few rows over and over.
_FEWEST = 10


@dataclass(frozen=True)
class Bootstrap:
    """How rows of returns are resampled: stationary bootstrap of Politis and Romano (1994), percentile intervals.

    Parameters
    ----------
    level : float
        Coverage aimed at, in (0, 1).
    replications : int
        Number of resamples, at least 100.
    block_length : int, optional
        Expected length of a block in rows; by default the choice of Politis and White (2004), corrected by
        Patton, Politis and White (2009), for the differences row by row.
    seed : int
        Seed of the resampling: the same seed gives the same interval.
    """

    level: float = 0.95
    replications: int = 1000
    block_length: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise BacktestError(f"the level of an interval must be between 0 and 1, got {self.level}")
        if self.replications < 100:
            raise BacktestError(f"an interval needs at least 100 replications, got {self.replications}")
        if self.block_length is not None and self.block_length < 1:
            raise BacktestError(f"block_length must be at least 1 row, got {self.block_length}")


@dataclass(frozen=True)
class Interval:
    """A difference between two strategies with its interval.

    Attributes
    ----------
    statistic : str
        What is compared: "sharpe", "utility", "regret", ...
    estimate : float
        First strategy minus second, on the rows as they were; NaN where it does not exist.
    low, high : float
        Ends of the interval.
    level : float
        Coverage aimed at.
    block_length : int
        Expected length of the blocks in rows.
    replications : int
        Number of resamples.
    """

    statistic: str
    estimate: float
    low: float
    high: float
    level: float
    block_length: int
    replications: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the difference is told from none at this level; False where it does not exist."""
        return self.low > 0.0 or self.high < 0.0


def paired_interval(
    first: pd.Series[float] | pd.DataFrame,
    second: pd.Series[float] | pd.DataFrame,
    statistics: Mapping[str, Callable[[FloatArray], float]],
    *,
    bootstrap: Bootstrap | None = None,
) -> list[Interval]:
    """Intervals of ``statistic(first) − statistic(second)``, both resampled with the same rows.

    Parameters
    ----------
    first, second : Series or DataFrame
        One value a row, the same dates; the columns of a frame are seeds, whose statistics are averaged.
    statistics : mapping of name to callable
        Each takes the values of a series [T] to a number.
    bootstrap : Bootstrap, optional
        How to resample; its defaults if not given.

    Returns
    -------
    list of Interval
        One a statistic, in order.

    Raises
    ------
    BacktestError
        If the dates differ, values are not finite, or there are fewer than 10 rows.
    """
    from arch.bootstrap import StationaryBootstrap

    settings = bootstrap or Bootstrap()
    a, b = _paired_values(first, second)
    functions = list(statistics.values())

    def differences(x: FloatArray, y: FloatArray) -> FloatArray:
        return np.array([_over_columns(function, x) - _over_columns(function, y) for function in functions])

    block = settings.block_length or _block_length(a.mean(axis=1) - b.mean(axis=1))
    resampler = StationaryBootstrap(block, a, b, seed=settings.seed)
    low, high = resampler.conf_int(differences, reps=settings.replications, method="percentile", size=settings.level)
    return [
        Interval(name, float(value), float(lower), float(upper), settings.level, block, settings.replications)
        for name, value, lower, upper in zip(statistics, differences(a, b), low, high, strict=True)
    ]


def compare(
    first: Sequence[Ledger],
    second: Sequence[Ledger],
    *,
    risk_aversion: float = 10.0,
    risk_free: float = 0.0,
    periods_per_year: float | None = None,
    regrets: tuple[pd.DataFrame, pd.DataFrame] | None = None,
    bootstrap: Bootstrap | None = None,
) -> list[Interval]:
    """Differences between two strategies, first minus second, with paired bootstrap intervals.

    Parameters
    ----------
    first, second : sequence of Ledger
        Books over the same dates, one a seed.
    risk_aversion : float
        λ of the utility ``mean − λ/2 variance`` a year.
    risk_free, periods_per_year : float
        As in :func:`~portfolio_dfl.backtest.evaluation.performance`.
    regrets : pair of DataFrame, optional
        Regret of every decision of both strategies (see :mod:`portfolio_dfl.backtest.regret`), one column a
        seed, the same dates; their means are compared, and less is better.
    bootstrap : Bootstrap, optional
        How to resample.

    Returns
    -------
    list of Interval
        "sharpe" and "utility" of net returns, and "regret" where regrets are given.
    """
    require_same_days([*first, *second])
    days = first[0].daily.index
    per_year = resolved_periods_per_year(periods_per_year, days)
    rate = per_period_rate(risk_free, per_year)

    def sharpe(values: FloatArray) -> float:
        if is_constant(values):
            return math.nan
        return float(math.sqrt(per_year) * (values.mean() - rate) / values.std(ddof=1))

    def utility(values: FloatArray) -> float:
        return float(per_year * (values.mean() - 0.5 * risk_aversion * values.var(ddof=1)))

    intervals = paired_interval(
        _net_returns(first), _net_returns(second), {"sharpe": sharpe, "utility": utility}, bootstrap=bootstrap
    )
    if regrets is not None:
        intervals += paired_interval(*regrets, {"regret": lambda values: float(values.mean())}, bootstrap=bootstrap)
    return intervals


def comparison_table(
    strategies: Mapping[str, Sequence[Ledger]],
    reference: str,
    *,
    risk_aversion: float = 10.0,
    risk_free: float = 0.0,
    periods_per_year: float | None = None,
    regrets: Mapping[str, pd.DataFrame] | None = None,
    bootstrap: Bootstrap | None = None,
) -> pd.DataFrame:
    """Every strategy against one of them: rows (strategy, statistic), columns of :class:`Interval`.

    Parameters
    ----------
    strategies : mapping of name to sequence of Ledger
        Books over the same dates, one a seed.
    reference : str
        Name of the strategy that the others are compared with.
    regrets : mapping of name to DataFrame, optional
        Regret of every decision, one column a seed, for the strategies that have it; the reference's is
        needed for any to be compared. Two strategies are compared on the days that both have, if they are
        10 or more.
    risk_aversion, risk_free, periods_per_year, bootstrap
        As in :func:`compare`.
    """
    if reference not in strategies:
        raise BacktestError(f"no strategy is named {reference!r}; there are {sorted(strategies)}")
    regrets = regrets or {}
    rows = []
    for name, books in strategies.items():
        if name == reference:
            continue
        pair = _on_common_days(regrets.get(name), regrets.get(reference))
        rows += [
            {"strategy": name, **vars(interval), "excludes_zero": interval.excludes_zero}
            for interval in compare(
                books,
                strategies[reference],
                risk_aversion=risk_aversion,
                risk_free=risk_free,
                periods_per_year=periods_per_year,
                regrets=pair,
                bootstrap=bootstrap,
            )
        ]
    columns = ["strategy", *Interval.__dataclass_fields__, "excludes_zero"]
    return pd.DataFrame(rows, columns=columns).set_index(["strategy", "statistic"])


def _on_common_days(
    first: pd.DataFrame | None, second: pd.DataFrame | None
) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    if first is None or second is None:
        return None
    days = first.index.intersection(second.index)
    return (first.loc[days], second.loc[days]) if len(days) >= _FEWEST else None


def _net_returns(books: Sequence[Ledger]) -> pd.DataFrame:
    return pd.concat([book.net_returns for book in books], axis=1)


def _over_columns(statistic: Callable[[FloatArray], float], values: FloatArray) -> float:
    """Mean over seeds of a statistic of each column of values [T, S]."""
    return float(np.mean([statistic(column) for column in values.T]))


def _paired_values(
    first: pd.Series[float] | pd.DataFrame, second: pd.Series[float] | pd.DataFrame
) -> tuple[FloatArray, FloatArray]:
    """Values [T, seeds] of two strategies that are known to be of the same days."""
    if not first.index.equals(second.index):
        raise BacktestError(f"a paired comparison needs the same dates; got {len(first)} and {len(second)} that differ")
    if len(first) < _FEWEST:
        word = row_noun(first.index)
        raise BacktestError(f"an interval needs at least {_FEWEST} {word}s, there are {len(first)}")
    a, b = (np.asarray(each, dtype=np.float64).reshape(len(first), -1) for each in (first, second))
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise BacktestError("a paired comparison needs finite values on every date: drop dates that lack one")
    return a, b


def _block_length(differences: FloatArray) -> int:
    """Automatic expected block length in rows; 1 where the differences do not vary."""
    from arch.bootstrap import optimal_block_length

    if is_constant(differences):
        return 1
    length = float(optimal_block_length(differences)["stationary"].iloc[0])
    return max(1, math.ceil(length)) if math.isfinite(length) else 1
