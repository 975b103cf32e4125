"""The frames of a study's result by name, for a notebook to list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pandas as pd

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.report.reported import ReportedStudy, benchmark_of, main_of
from portfolio_dfl.strategies.table import Lane

__all__ = ["Framed", "Frames"]


class Framed(ReportedStudy, Protocol):
    """What frames are taken from: a result, with what its report does not read."""

    @property
    def seeds(self) -> pd.DataFrame:
        """Median and range of the metrics over seeds."""

    @property
    def regrets(self) -> Mapping[str, pd.Series[float]]:
        """Regret by day, by label."""

    @property
    def covariances(self) -> pd.DataFrame:
        """Shrinkage and ridge of each decision's covariance."""


class Frames:
    """Frames of a result, a method each; ``strategy`` is a label of the tables, unasked the study's main one."""

    def __init__(self, result: Framed) -> None:
        self._result = result

    def __repr__(self) -> str:
        return f"frames: {', '.join(name for name in dir(self) if not name.startswith('_'))}"

    def metrics(self) -> pd.DataFrame:
        """One row a strategy, after costs."""
        return self._result.metrics

    def costs(self) -> pd.DataFrame:
        """The metrics at several cost levels."""
        return self._result.costs

    def scores(self) -> pd.DataFrame:
        """Forecasts, decisions, and what survives costs, one row a strategy."""
        return self._result.scores

    def seeds(self) -> pd.DataFrame:
        """Median and range of the metrics over seeds."""
        return self._result.seeds

    def comparison(self) -> pd.DataFrame:
        """Differences to the reference with intervals; empty where none were computed."""
        found = self._result.comparison
        return pd.DataFrame() if found is None else found

    def tear_sheet(self) -> pd.DataFrame:
        """Statistics of :func:`~portfolio_dfl.backtest.tearsheet.tear_sheet`, one row a strategy."""
        from portfolio_dfl.backtest.tearsheet import tear_sheet_table

        result, benchmark = self._result, benchmark_of(self._result)
        return tear_sheet_table(
            result.ledgers.values(),
            None if benchmark is None else result.ledgers[benchmark.label],
            periods_per_year=result.periods_per_year,
            risk_free=result.risk_free,
        )

    def months(self, strategy: str | None = None) -> pd.DataFrame:
        """Net returns, a row a year, columns 1 to 12 and ``year``."""
        from portfolio_dfl.backtest.tearsheet import calendar_returns

        return calendar_returns(self._result.ledgers[self._lane(strategy).label].net_returns)

    def drawdowns(self, strategy: str | None = None, count: int = 5) -> pd.DataFrame:
        """The worst drawdowns with their dates."""
        from portfolio_dfl.backtest.tearsheet import drawdown_episodes

        return drawdown_episodes(self._result.ledgers[self._lane(strategy).label].net_returns, count)

    def contributions(self, strategy: str | None = None) -> pd.DataFrame:
        """What each asset contributed to return and risk, before costs.

        Raises
        ------
        TrackingError
            If the prices of the study are gone.
        """
        from portfolio_dfl.backtest.contribution import contributions

        result = self._result
        if result.returns is None:
            raise TrackingError("the prices of this study are gone, and with them what each asset contributed")
        book = result.ledgers[self._lane(strategy).label]
        return contributions(book, result.returns, periods_per_year=result.periods_per_year)

    def wealth(self) -> pd.DataFrame:
        """Wealth at the end of each row, a column a strategy."""
        return self._daily("wealth")

    def net_returns(self) -> pd.DataFrame:
        """Returns after costs, a column a strategy."""
        return self._daily("net_return")

    def turnover(self) -> pd.DataFrame:
        """‖trade‖₁ of each row, a column a strategy."""
        return self._daily("turnover")

    def weights(self, strategy: str | None = None) -> pd.DataFrame:
        """Weights held through each row."""
        return self._result.ledgers[self._lane(strategy).label].weights

    def trades(self, strategy: str | None = None) -> pd.DataFrame:
        """Signed change of each weight by the trade that opens the row."""
        return self._result.ledgers[self._lane(strategy).label].trades

    def regrets(self) -> pd.DataFrame:
        """Regret against the best decision in hindsight, a column a strategy."""
        return pd.DataFrame(dict(self._result.regrets))

    def covariances(self) -> pd.DataFrame:
        """Shrinkage and ridge of each decision's covariance."""
        return self._result.covariances

    def windows(self) -> pd.DataFrame:
        """One row a retraining."""
        return self._result.windows

    def failures(self) -> pd.DataFrame:
        """Decisions that failed."""
        return self._result.failures

    def data_flags(self) -> pd.DataFrame:
        """What was found in the data."""
        return self._result.flags

    def _daily(self, column: str) -> pd.DataFrame:
        return pd.DataFrame({label: book.daily[column] for label, book in self._result.ledgers.items()})

    def _lane(self, strategy: str | None) -> Lane:
        if strategy is None:
            return main_of(self._result)
        for lane in self._result.lanes:
            if lane.label == strategy:
                return lane
        known = ", ".join(lane.label for lane in self._result.lanes)
        raise TrackingError(f"no strategy is labelled {strategy!r}; there are {known}")
