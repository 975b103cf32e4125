"""Every figure of a report by name: what the page shows, what becomes a picture, and what a notebook asks for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import pandas as pd

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.report import attribution, distribution, holdings, months, paths
from portfolio_dfl.report.canvas import Lines
from portfolio_dfl.report.differences import differences
from portfolio_dfl.report.looks import looks_of
from portfolio_dfl.report.reported import ReportedStudy, benchmark_of, main_of, real_lanes, rows_a_month
from portfolio_dfl.report.windows import window_charts
from portfolio_dfl.strategies.table import Appearance, Lane

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from portfolio_dfl.backtest import Ledger

__all__ = ["Gallery", "Rolling", "Side"]

Side = Literal["gross", "net", "long", "short"]
Rolling = Literal["sharpe", "volatility", "beta"]


class Gallery:
    """Figures of a study's report, a method each; all are plotly figures.

    Where a figure is of one strategy, ``strategy`` is its label in the tables; unasked it is the one that the study is
    about, or the first.
    """

    def __init__(self, study: ReportedStudy) -> None:
        self._study = study

    def __repr__(self) -> str:
        return f"figures: {', '.join(name for name in dir(self) if not name.startswith('_'))}"

    def wealth(self, *, log: bool | None = None) -> go.Figure:
        """Wealth of one unit, after costs; ``log``: the scale, by default logarithmic once wealth spans 3 times."""
        return paths.wealth(self._wealth, log=log)

    def drawdown(self) -> go.Figure:
        """How far wealth stands below its highest level so far."""
        return paths.drawdown(self._wealth)

    def months(self, strategy: str | None = None) -> go.Figure:
        """Net returns of months by years."""
        from portfolio_dfl.backtest.tearsheet import calendar_returns

        return months.months_by_years(calendar_returns(self._book(strategy).net_returns))

    def years(self) -> go.Figure:
        """Net returns of calendar years, a bar a strategy."""
        from portfolio_dfl.backtest.tearsheet import annual_returns

        found = {label: (look, annual_returns(book.net_returns)) for label, look, book in self._real()}
        return months.years(found)

    def histogram(self) -> go.Figure:
        """How often net returns of each size came."""
        return distribution.histogram(self._lines("net_return"))

    def rolling(self, statistic: Rolling = "sharpe", *, rows: int | None = None) -> go.Figure:
        """Sharpe ratio, volatility, or beta to the benchmark, over the past half year or as many ``rows``."""
        lines = self._rolling(rows or self.rolling_rows)[statistic]
        if not lines:
            raise TrackingError("there is no strategy beside the benchmark whose beta could be shown")
        return paths.level(lines, share=statistic == "volatility", zero=statistic == "sharpe")

    def weights(self, strategy: str | None = None) -> go.Figure:
        """Weights through time, stacked; of many assets the ten largest and the rest."""
        frame = self._shown_weights[self._label(strategy)]
        return holdings.weights_over_time(frame, holdings.key_of(self._shown_weights.values()))

    def groups(self, strategy: str | None = None) -> go.Figure:
        """Weights through time, by group."""
        if not self._study.groups:
            raise TrackingError("the study has no groups; allocation.limits.groups or group_of names them")
        return holdings.weights_over_time(self._grouped[self._label(strategy)], self.groups_key)

    def holdings(self) -> go.Figure:
        """Effective number of holdings through time: as many equal ones would be as concentrated."""
        from portfolio_dfl.backtest.tearsheet import effective_holdings

        return paths.level({label: (look, effective_holdings(book)) for label, look, book in self._real()})

    def exposure(self, side: Side = "gross") -> go.Figure:
        """Long, short, net or gross exposure through time, cash left out."""
        from portfolio_dfl.backtest.tearsheet import exposure

        lines = {label: (look, exposure(book)[side]) for label, look, book in self._real()}
        return paths.level(lines, share=True)

    def return_contributions(self, strategy: str | None = None, *, by_group: bool = False) -> go.Figure:
        """What each asset or group added to the return before costs, in units of the starting wealth."""
        table = self.contributions(strategy, by_group=by_group)
        return attribution.contribution_bars(table["return"], "contribution to return")

    def risk_contributions(self, strategy: str | None = None, *, by_group: bool = False) -> go.Figure:
        """What each asset or group added to the volatility a year before costs."""
        table = self.contributions(strategy, by_group=by_group)
        return attribution.contribution_bars(table["risk"], "contribution to volatility")

    def turnover(self) -> go.Figure:
        """Turnover, averaged over the past month."""
        return paths.turnover(self._lines("turnover", real=False), rows_a_month(self._study))

    def costs(self) -> go.Figure:
        """Costs paid so far."""
        return paths.cumulative_cost(self._lines("cost", real=False))

    def differences(self) -> dict[str, go.Figure]:
        """Differences to the reference with their intervals, by what is compared."""
        return dict(differences(self._study))

    def windows(self) -> dict[str, go.Figure]:
        """Every number of the retrainings that is drawn, by its name."""
        return {name: figure for name, _, figure in window_charts(self._study)}

    def contributions(self, strategy: str | None = None, *, by_group: bool = False) -> pd.DataFrame:
        """The numbers of the figures of contributions, of many assets the ten largest and the rest.

        Raises
        ------
        TrackingError
            If the prices of the study are gone.
        """
        from portfolio_dfl.backtest.contribution import by_group as summed
        from portfolio_dfl.backtest.contribution import contributions

        returns = self._study.returns
        if returns is None:
            raise TrackingError("the prices of this study are gone, and with them what each asset contributed")
        per_year = self._study.periods_per_year
        table = contributions(self._book(strategy), returns, periods_per_year=per_year).rename(index=str)
        if by_group:
            table = summed(table, self._study.groups)
        return attribution.largest_contributions(table)

    @property
    def rolling_rows(self) -> int:
        """Rows that rolling statistics look back over: half a year, of short studies a third of all."""
        days = len(next(iter(self._study.ledgers.values())).daily)
        return max(3, min(round(self._study.periods_per_year / 2.0), days // 3))

    @property
    def varies_exposure(self) -> bool:
        """Whether any strategy is ever short, levered, or holds cash."""
        from portfolio_dfl.backtest.tearsheet import exposure

        return any(
            bool((exposure(book)[["long", "net"]] - 1.0).abs().gt(1e-6).any(axis=None)) for _, _, book in self._real()
        )

    @property
    def weights_key(self) -> dict[str, str]:
        """Colours of what the charts of weights show."""
        return holdings.key_of(self._shown_weights.values())

    def named(self) -> Iterator[tuple[str, go.Figure]]:
        """All figures of the report with names for files."""
        study = self._study
        main = main_of(study).label
        yield "wealth", self.wealth()
        yield "drawdown", self.drawdown()
        yield f"months {main}", self.months()
        yield "years", self.years()
        yield "histogram", self.histogram()
        for statistic in self.rolling_shown:
            yield f"rolling {statistic}", self.rolling(statistic)
        for lane in study.lanes:
            yield f"weights {lane.label}", self.weights(lane.label)
        if study.groups:
            for lane in study.lanes:
                yield f"groups {lane.label}", self.groups(lane.label)
        yield "holdings", self.holdings()
        if self.varies_exposure:
            for side in ("gross", "net", "long", "short"):
                yield f"exposure {side}", self.exposure(side)
        if study.returns is not None:
            for grouped in (False, True) if study.groups else (False,):
                end = " by group" if grouped else ""
                yield f"contribution to return{end}", self.return_contributions(by_group=grouped)
                yield f"contribution to risk{end}", self.risk_contributions(by_group=grouped)
        yield "turnover", self.turnover()
        yield "costs", self.costs()
        for measure, figure in differences(study):
            yield f"difference in {measure}", figure
        for heading, _, figure in window_charts(study):
            yield heading, figure

    @property
    def rolling_shown(self) -> list[Rolling]:
        """Rolling statistics that there is a line of."""
        names: tuple[Rolling, ...] = ("sharpe", "volatility", "beta")
        return [name for name in names if self._rolling(self.rolling_rows)[name]]

    @cached_property
    def _looks(self) -> dict[str, Appearance]:
        return looks_of(self._study.lanes)

    @cached_property
    def _wealth(self) -> Lines:
        return {label: (look, paths.wealth_from_start(book.daily)) for label, look, book in self._real()}

    @cached_property
    def _shown_weights(self) -> dict[str, pd.DataFrame]:
        return holdings.largest_and_rest({lane.label: self._weights(lane) for lane in self._study.lanes})

    @cached_property
    def _grouped(self) -> dict[str, pd.DataFrame]:
        groups = self._study.groups
        by_group = {lane.label: holdings.by_group(self._weights(lane), groups) for lane in self._study.lanes}
        return holdings.largest_and_rest(by_group)

    @property
    def groups_key(self) -> dict[str, str]:
        """Colours of what the charts of groups show."""
        return holdings.key_of(self._grouped.values())

    def _weights(self, lane: Lane) -> pd.DataFrame:
        return self._study.ledgers[lane.label].weights

    def _real(self) -> Iterator[tuple[str, Appearance, Ledger]]:
        for lane in real_lanes(self._study):
            yield lane.label, self._looks[lane.label], self._study.ledgers[lane.label]

    def _lines(self, column: str, *, real: bool = True) -> Lines:
        shown = real_lanes(self._study) if real else self._study.lanes
        return {lane.label: (self._looks[lane.label], self._study.ledgers[lane.label].daily[column]) for lane in shown}

    def _rolling(self, rows: int) -> dict[str, Lines]:
        from portfolio_dfl.backtest.tearsheet import rolling_statistics

        study, benchmark = self._study, benchmark_of(self._study)
        found: dict[str, dict[str, tuple[Appearance, pd.Series]]] = {"sharpe": {}, "volatility": {}, "beta": {}}
        against = None if benchmark is None else study.ledgers[benchmark.label].net_returns
        for label, look, book in self._real():
            table = rolling_statistics(
                book.net_returns,
                against,
                rows,
                periods_per_year=study.periods_per_year,
                risk_free=study.risk_free,
            )
            for name in table.columns:
                if name != "beta" or benchmark is None or label != benchmark.label:
                    found[str(name)][label] = (look, table[name].iloc[rows - 1 :])
        return dict(found)

    def _label(self, strategy: str | None) -> str:
        if strategy is None:
            return main_of(self._study).label
        if strategy not in self._study.ledgers:
            raise TrackingError(f"no strategy is labelled {strategy!r}; there are {', '.join(self._study.ledgers)}")
        return strategy

    def _book(self, strategy: str | None) -> Ledger:
        return self._study.ledgers[self._label(strategy)]
