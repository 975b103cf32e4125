"""What a report reads of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import pandas as pd

from portfolio_dfl.strategies.table import Lane
from portfolio_dfl.wording.periods import period_noun

if TYPE_CHECKING:
    from portfolio_dfl.backtest import Ledger

__all__ = ["ReportedStudy", "benchmark_of", "main_of", "period_of", "real_lanes", "rows_a_month"]


class ReportedStudy(Protocol):
    """What a page and its figures read of a study's result, :class:`~portfolio_dfl.study.result.StudyResult`."""

    @property
    def lanes(self) -> Sequence[Lane]:
        """The strategies, in the order of the table."""

    @property
    def ledgers(self) -> Mapping[str, Ledger]:
        """Books of each, by label."""

    @property
    def metrics(self) -> pd.DataFrame:
        """One row a strategy."""

    @property
    def costs(self) -> pd.DataFrame:
        """The metrics at several cost levels, rows (label, cost rate)."""

    @property
    def scores(self) -> pd.DataFrame:
        """One row a strategy, columns of :data:`~portfolio_dfl.backtest.evaluation.SCORES`."""

    @property
    def comparison(self) -> pd.DataFrame | None:
        """Paired differences, rows (strategy, statistic)."""

    @property
    def windows(self) -> pd.DataFrame:
        """One row a retraining: strategy, seed, window, date, failed (message or empty), held (as text), numbers."""

    @property
    def failures(self) -> pd.DataFrame:
        """Decisions that failed and held what was held: strategy, date, what, message, held."""

    @property
    def flags(self) -> pd.DataFrame:
        """What was found in the data."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Versions, hashes and places, shown at the end."""

    @property
    def periods_per_year(self) -> float:
        """Rows a year of the ledgers."""

    @property
    def risk_free(self) -> float:
        """Risk-free rate a year of the statistics."""

    @property
    def reference(self) -> str:
        """Strategy that differences are taken against, by its name in the configuration."""

    @property
    def returns(self) -> pd.DataFrame | None:
        """Simple returns of the assets on the days of the ledgers; None where the prices are gone."""

    @property
    def groups(self) -> Mapping[str, str]:
        """Group of each asset that has one."""


def real_lanes(study: ReportedStudy) -> list[Lane]:
    """Strategies on one scale: wealth in hindsight grows a thousandfold, and every real one would be flat below it."""
    return [lane for lane in study.lanes if not lane.look.ceiling] or list(study.lanes)


def main_of(study: ReportedStudy) -> Lane:
    """The strategy that a figure for one shows unasked: the one that the study is about, or the first."""
    real = real_lanes(study)
    return next((lane for lane in real if lane.look.main), real[0])


def benchmark_of(study: ReportedStudy) -> Lane | None:
    """What strategies are held against: equal weights where the study has them, or else its reference, or nothing."""
    for name in ("equal_weight", study.reference):
        for lane in study.lanes:
            if lane.strategy == name:
                return lane
    return None


def period_of(study: ReportedStudy) -> str:
    """What a row of the ledgers is called: a day, a week, a month; or a period, where it has no name."""
    return period_noun(study.periods_per_year)


def rows_a_month(study: ReportedStudy) -> int:
    """Rows of the ledgers that make a month: what is drawn day by day is smoothed over them."""
    return max(1, round(study.periods_per_year / 12.0))
