"""Metrics of the user's own in a study: tried before its work starts, and kept apart from it where they fail later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError, PortfolioError

if TYPE_CHECKING:
    from portfolio_dfl.backtest import Ledger
    from portfolio_dfl.backtest.own_metric import OwnMetric

__all__ = ["TakenDown", "build_metrics", "try_metrics"]

# What tables are read by.
_KEYS = ("strategy", "cost_rate")


def build_metrics(config: StudyConfig) -> dict[str, OwnMetric]:
    """The metrics that a configuration names, by their columns.

    Raises
    ------
    ConfigError
        If two have one name, or one has that of a metric of ours.
    BacktestError
        If one cannot be imported, or its options or signature do not fit.
    """
    from portfolio_dfl.backtest.evaluation import METRICS
    from portfolio_dfl.backtest.own_metric import OwnMetric

    found: dict[str, OwnMetric] = {}
    for part in config.evaluation.metrics:
        metric = OwnMetric(part.name, part.options)
        taken = metric.column in METRICS or metric.column in _KEYS
        if taken or metric.column in found:
            whose = "of ours" if taken else f"that {found[metric.column].name} has too"
            raise ConfigError(f"evaluation.metrics: {part.name} has the name of a column {whose}; rename one")
        found[metric.column] = metric
    return found


def try_metrics(metrics: dict[str, OwnMetric], book: Callable[[], Ledger]) -> None:
    """Ask each for one ledger, such as that of a portfolio that is bought and held.

    Raises
    ------
    BacktestError
        If one fails, or gives no number.
    """
    if metrics:
        held = book()
        for metric in metrics.values():
            metric(held)


class TakenDown:
    """A metric that gives NaN where it fails, and says of which strategy and why in :attr:`failures`."""

    def __init__(self, metric: OwnMetric) -> None:
        self._metric = metric
        self.failures: dict[str, str] = {}

    def __call__(self, ledger: Ledger) -> float:
        try:
            return self._metric(ledger)
        except PortfolioError as error:
            self.failures.setdefault(ledger.name, str(error))
            return float("nan")

    def rows(self) -> pd.DataFrame:
        """The failures as rows of those of a study."""
        count = len(self.failures)
        return pd.DataFrame(
            {
                "date": [pd.NaT] * count,
                "what": ["metric"] * count,
                "message": list(self.failures.values()),
                "strategy": list(self.failures),
                "held": [""] * count,
            }
        )
