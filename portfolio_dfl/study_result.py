"""What a study found, as an object that shows itself in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from portfolio_dfl.config import StudyConfig
from portfolio_dfl.tracking.figures import appearance
from portfolio_dfl.tracking.tables import metrics_table, metrics_text

if TYPE_CHECKING:
    from portfolio_dfl.backtest import Ledger
    from portfolio_dfl.strategies import Lane

__all__ = ["StudyResult"]


@dataclass(frozen=True)
class StudyResult:
    """Everything a study found.

    Attributes
    ----------
    config : StudyConfig
    lanes : sequence of Lane
        The strategies, one entry a seed for trained ones.
    ledgers : mapping of label to Ledger
        Books of each.
    metrics : DataFrame
        One row a strategy; all after costs.
    costs : DataFrame
        The metrics again at several cost levels, rows (strategy, cost rate).
    comparison : DataFrame or None
        Differences to the reference with intervals, rows (strategy, statistic).
    regrets : mapping of label to Series
        Regret by day against the best decision in hindsight.
    windows : DataFrame
        One row a retraining of each trained strategy.
    failures : DataFrame
        Decisions that failed and held what was held.
    flags : DataFrame
        What was found in the data.
    facts : mapping
        Where the result comes from: data, commit, versions.
    folder, report : Path
        The run's folder and its page.
    store, run_id : str
        MLflow's tracking URI and the parent run.
    """

    config: StudyConfig
    lanes: tuple[Lane, ...]
    ledgers: Mapping[str, Ledger]
    metrics: pd.DataFrame
    costs: pd.DataFrame
    comparison: pd.DataFrame | None
    regrets: Mapping[str, pd.Series[float]]
    windows: pd.DataFrame
    failures: pd.DataFrame
    flags: pd.DataFrame
    facts: Mapping[str, str]
    folder: Path
    report: Path
    store: str
    run_id: str

    @property
    def failed_windows(self) -> pd.DataFrame:
        """Retrainings without an outcome."""
        return self.windows[self.windows["failed"] != ""] if len(self.windows) else self.windows

    @property
    def weights(self) -> dict[str, pd.DataFrame]:
        """Weights held through each day, by strategy."""
        return {label: book.weights for label, book in self.ledgers.items()}

    def __str__(self) -> str:
        days = next(iter(self.ledgers.values())).daily.index
        lines = [
            f"{self.config.name}: {len(days)} days, {days[0]:%Y-%m-%d} to {days[-1]:%Y-%m-%d}, after costs of "
            f"{self.config.backtest.cost_rate * 1e4:g} bp",
            "",
            metrics_text(self.metrics),
            "",
        ]
        if len(self.failed_windows):
            lines.append(f"{len(self.failed_windows)} of {len(self.windows)} retrainings failed; see the report")
        lines += [f"report  {self.report}", f"MLflow  {self.store}", f"run     {self.folder}"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        looks = {lane.label: appearance(lane.strategy) for lane in self.lanes}
        return f"<p><b>{self.config.name}</b>, report at {self.report}</p>{metrics_table(self.metrics, looks)}"
