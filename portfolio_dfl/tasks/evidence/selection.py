"""Choosing on the first part of a span, and how much of a choice among so many is luck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from portfolio_dfl.backtest.overfitting import probability_of_overfitting
from portfolio_dfl.backtest.rhythm import periods_per_year_of
from portfolio_dfl.tasks.evidence.studies import finished_study

if TYPE_CHECKING:
    from portfolio_dfl.config.study import StudyConfig
    from portfolio_dfl.study.sweep import SweepResult
    from portfolio_dfl.tasks.evidence.universes import Universe

__all__ = ["Selection", "select"]


@dataclass(frozen=True)
class Selection:
    """What the first part of a span said.

    Attributes
    ----------
    focused, two_stage : SweepResult
        All trials of the two searches.
    as_frozen : bool
        Whether both came to what the configurations chosen say.
    equal_weight : float
        Utility a year of equal weight on the same days.
    spa : float
        p-value of the test for superior predictive ability of all trials of both searches over equal weight
        (Hansen 2005, consistent), by the loss λ/2 r² − r of net returns r.
    overfitting : float
        Probability of backtest overfitting of the decision-focused trials.
    """

    focused: SweepResult
    two_stage: SweepResult
    as_frozen: bool
    equal_weight: float
    spa: float
    overfitting: float

    @property
    def sharpes(self) -> list[float]:
        """Sharpe ratios a year of all decision-focused trials."""
        returns = self.focused.returns
        per_year = periods_per_year_of(pd.DatetimeIndex(returns.index))
        return [float(value) for value in np.sqrt(per_year) * returns.mean() / returns.std(ddof=1)]


def select(universe: Universe, *, replications: int = 1000) -> Selection:
    """Run both searches of a universe, or take them from where they stopped."""
    from portfolio_dfl.study.sweep import run_sweep

    focused, two_stage = run_sweep(universe.search), run_sweep(universe.two_stage_search)
    held = finished_study(
        universe.search.override(
            [
                "name=selection",
                "backtest.strategies=[equal_weight]",
                f"backtest.start={focused.start.date()}",
                f"backtest.end={focused.end.date()}",
                "evaluation.bootstrap=0",
            ]
        )
    )
    benchmark = held.ledgers["Equal weight"].net_returns.reindex(focused.returns.index)
    trials = pd.concat([focused.returns, two_stage.returns], axis=1)
    kept = benchmark.notna()  # books of a study end with its last decision, those of a search a row after it
    return Selection(
        focused,
        two_stage,
        _agree(universe.chosen, focused) and _agree(universe.two_stage_chosen, two_stage),
        float(held.metrics["utility"]["Equal weight"]),
        _superior(benchmark[kept], trials[kept], focused.risk_aversion, replications),
        probability_of_overfitting(focused.returns),
    )


def _agree(chosen: StudyConfig, found: SweepResult) -> bool:
    """Whether the values searched are in the best of the search what they are in the chosen configuration."""
    return all(_value(chosen, key) == _value(found.best, key) for key in found.best.sweep.space)


def _value(config: StudyConfig, key: str) -> Any:
    found: Any = config.plain()
    for part in key.split("."):
        found = found[part]
    return found


def _superior(benchmark: pd.Series[float], trials: pd.DataFrame, risk_aversion: float, replications: int) -> float:
    from arch.bootstrap import SPA

    def loss(returns: Any) -> Any:
        return 0.5 * risk_aversion * np.square(returns) - returns

    test = SPA(loss(benchmark.to_numpy()), loss(trials.to_numpy()), reps=replications, bootstrap="stationary", seed=0)
    test.compute()
    return float(test.pvalues["consistent"])
