"""A study's plan: its configuration resolved once into what the stages work with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.member_panel import MemberPanel
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.execution.own_sources import OwnSources
from portfolio_dfl.strategies.features import Tables, build_features, with_tables
from portfolio_dfl.strategies.members import MemberSettings, resolve_members
from portfolio_dfl.strategies.setting import StrategySetting, build_costs, resolve_setting
from portfolio_dfl.strategies.table import TABLE, Lane, build_policy, build_trained_policy, lanes
from portfolio_dfl.study.metrics import build_metrics, try_metrics
from portfolio_dfl.study.replicates import find_replicates
from portfolio_dfl.study.span import Span, decision_span, first_decision, load_panel, load_spreads

if TYPE_CHECKING:
    from portfolio_dfl.allocation import Costs
    from portfolio_dfl.backtest import Ledger
    from portfolio_dfl.backtest.own_metric import OwnMetric
    from portfolio_dfl.config.sections import EvaluationConfig, ExecutionConfig
    from portfolio_dfl.data.features import FeatureSet
    from portfolio_dfl.data.panel import PricePanel
    from portfolio_dfl.training.policies import PredictOptimisePolicy

__all__ = ["LedgerRule", "StudyPlan", "periods_per_year", "resolve_plan", "try_own_losses"]


@dataclass(frozen=True)
class LedgerRule:
    """How the books of every strategy are kept; see :func:`~portfolio_dfl.backtest.run_ledger`."""

    costs: Costs
    lag: Literal[0, 1]
    members: pd.DataFrame | None = None

    @classmethod
    def of(cls, config: StudyConfig, costs: Costs, members: pd.DataFrame | None = None) -> LedgerRule:
        """The rule of a configuration; of a universe that changes with its members."""
        return cls(costs, config.backtest.lag, members)

    def keep(
        self,
        targets: pd.DataFrame,
        returns: pd.DataFrame,
        name: str = "",
        *,
        start: Sequence[float] | None = None,
    ) -> Ledger:
        """The books of target weights at these returns, opened with the weights ``start``, or equal ones."""
        from portfolio_dfl.backtest import run_ledger

        opened = None if start is None else np.array(start)
        return run_ledger(
            targets, returns, costs=self.costs, lag=self.lag, initial=opened, members=self.members, name=name
        )


@dataclass(frozen=True, eq=False)
class StudyPlan:
    """Everything that a study does, before it does any of it.

    Attributes
    ----------
    config : StudyConfig
        As it is put on record; the stages take nothing else from it.
    panel : PricePanel
    span : Span
    lanes : sequence of Lane
    setting : StrategySetting
        What the strategies are built from; of a universe that changes, those of the first.
    policies : mapping of Lane to PredictOptimisePolicy
        The trained strategies, not yet trained: what the tasks of their windows are made with, see :meth:`planner`.
    retrain_every : int
        Decision dates from one retraining to the next.
    ledger : LedgerRule
    evaluation : EvaluationConfig
    periods_per_year : float
        Rows a year that everything is annualised by.
    execution : ExecutionConfig
        Where the study runs, which changes no number.
    sources : OwnSources
        Of the user's own parts, kept with the run.
    originals : mapping of Lane to Lane
        For every lane whose seed changes nothing, the lane of its strategy whose windows and walk are its own too.
    metrics : mapping of str to OwnMetric
        Of the user's own, by the columns that they fill.
    changing : MemberSettings or None
        The universes of a study whose members change.
    """

    config: StudyConfig
    panel: PricePanel
    span: Span
    lanes: tuple[Lane, ...]
    setting: StrategySetting
    policies: Mapping[Lane, PredictOptimisePolicy]
    retrain_every: int
    ledger: LedgerRule
    evaluation: EvaluationConfig
    periods_per_year: float
    execution: ExecutionConfig
    sources: OwnSources = field(default_factory=lambda: OwnSources({}, {}))
    originals: Mapping[Lane, Lane] = field(default_factory=dict)
    metrics: Mapping[str, OwnMetric] = field(default_factory=dict)
    changing: MemberSettings | None = None

    @property
    def retrainings(self) -> pd.DatetimeIndex:
        """Dates on which strategies learn."""
        from portfolio_dfl.training.walk_forward import retraining_dates

        return retraining_dates(self.span.dates, self.retrain_every) if self.changing is None else self.changing.reviews

    @property
    def start(self) -> tuple[float, ...] | None:
        """Weights [N] that walks and books start from; None for equal ones."""
        return self.setting.start if self.changing is None else self.changing.start

    def planner(self, lane: Lane, date: pd.Timestamp) -> tuple[PredictOptimisePolicy, pd.DataFrame]:
        """What the task of a window of that date is made with: a policy and the history that it learns from."""
        if self.changing is None:
            return self.policies[lane], self.returns.loc[:date]
        universe = self.changing.at(date)
        history = universe.history(self.returns.loc[:date])
        if universe.assets == self.setting.assets:
            return self.policies[lane], history
        return build_trained_policy(self.changing.settings[universe.assets], lane), history

    @property
    def every_row(self) -> bool:
        """Whether every row of the returns within the span is a decision date."""
        return self.config.backtest.rebalance == "daily"

    @property
    def features(self) -> FeatureSet | None:
        """What predictors see beside returns."""
        return None if self.setting.trained is None else self.setting.trained.features

    @property
    def returns(self) -> pd.DataFrame:
        """Simple returns of the panel, [T, N]."""
        return self.panel.returns


def resolve_plan(
    config: StudyConfig,
    panel: PricePanel | None = None,
    *,
    spreads: pd.DataFrame | None = None,
    tables: Tables | None = None,
    execution: ExecutionConfig | None = None,
    sources: OwnSources | None = None,
    given: Mapping[str, bytes] | None = None,
) -> StudyPlan:
    """The plan of a configuration; settings that contradict each other are heard of here.

    Parameters
    ----------
    config : StudyConfig
    panel : PricePanel, optional
        Clean prices; by default those that the configuration names are loaded.
    spreads : DataFrame, optional
        Bid–ask spreads by date and ticker; by default the table that the configuration names is read.
    tables : mapping, optional
        Tables of features by name; by default those that the configuration names are read.
    execution : ExecutionConfig, optional
        Where the study runs, if not where the configuration says.
    sources : OwnSources, optional
        Of the user's own parts, installed.
    given : mapping of str to bytes, optional
        Policies that were given in Python.

    Raises
    ------
    PortfolioError, QPError
        If the prices, the span or a setting cannot be used.
    """
    panel = load_panel(config) if panel is None else panel
    returns = panel.returns
    config = with_tables(config, tables)
    paths = lanes(config.backtest.strategies, config.training.seeds)
    trained = any(lane.trained for lane in paths)
    features = build_features(config, list(panel.tickers), tables) if trained else None
    span = decision_span(config, returns, features)
    spreads = load_spreads(config, panel.tickers) if spreads is None else spreads
    yearly = periods_per_year(config, returns)
    changing = None
    if isinstance(panel, MemberPanel):
        if config.training.warm_start:
            raise ConfigError("training.warm_start goes on from other assets where data.members change: leave out one")
        changing = resolve_members(
            config,
            panel,
            span.dates,
            needed=first_decision(config, features),
            trained=trained,
            spreads=spreads,
            features=features,
            periods_per_year=yearly,
            given=given or {},
        )
        setting, first = changing.settings[changing.universes[0].assets], changing.universes[0].history(returns)
        costs = build_costs(config, spreads, yearly)
        costs.check(panel.tickers)
        _require_spreads_of_members(config, costs, panel, changing, span, trained=trained)
    else:
        setting = resolve_setting(
            config, list(panel.tickers), trained=trained, spreads=spreads, features=features, periods_per_year=yearly
        )
        _require_spreads(config, setting, returns, span, trained=trained)
        setting, first = replace(setting, given_policies=dict(given or {})), returns
        costs = setting.costs
    _try_own_strategies(config, setting, paths)
    policies = {lane: build_trained_policy(setting, lane) for lane in paths if lane.trained}
    if changing is None:
        _require_features(policies, returns.loc[: span.dates[0]], returns.loc[: span.dates[-1]])
    elif policies:
        changing.require_features(next(iter(policies.values())), returns, span.dates)
    first = first.loc[: span.dates[0]]
    try_own_losses(policies, first)
    rule, metrics = LedgerRule.of(config, costs, None if changing is None else changing.members), build_metrics(config)
    start = setting.start if changing is None else changing.start
    try_metrics(metrics, lambda: _held(rule, start, returns.loc[: span.last_return], span))
    return StudyPlan(
        config=config,
        panel=panel,
        span=span,
        lanes=paths,
        setting=setting,
        policies=policies,
        retrain_every=config.training.retrain_every,
        ledger=rule,
        evaluation=config.evaluation,
        periods_per_year=yearly,
        execution=config.execution if execution is None else execution,
        sources=sources or OwnSources({}, {}),
        originals=find_replicates(policies, first),
        metrics=metrics,
        changing=changing,
    )


def _held(rule: LedgerRule, start: Sequence[float] | None, returns: pd.DataFrame, span: Span) -> Ledger:
    """The books of what a study starts with, bought at its first decision and held."""
    n_assets = returns.shape[1]
    weights = np.full(n_assets, 1.0 / n_assets) if start is None else np.array(start)
    bought = pd.DataFrame([weights], index=span.dates[:1], columns=returns.columns)
    return rule.keep(bought, returns, "what is bought and held", start=start)


def _require_features(policies: Mapping[Lane, PredictOptimisePolicy], first: pd.DataFrame, last: pd.DataFrame) -> None:
    """Raise DataError, before anything is trained, unless every training and decision finds its features."""
    for policy in list(policies.values())[:1]:
        if policy.features is not None:
            needed = policy.days_of_features(first) + len(last) - len(first)
            policy.features.rows(policy.forecast_assets(last), needed)


def _try_own_strategies(config: StudyConfig, setting: StrategySetting, paths: Sequence[Lane]) -> None:
    """Make policies of the user's own once: one that cannot be made is heard of now."""
    own = [lane for lane in paths if lane.strategy not in TABLE]
    for lane in own:
        build_policy(setting, lane)
    lost = sorted(set(config.backtest.strategy_options) - {lane.strategy for lane in own})
    if lost:
        raise ConfigError(
            f"backtest.strategy_options names {', '.join(lost)}, and the strategies of your own are "
            f"{', '.join(lane.strategy for lane in own) or 'none'}"
        )


def try_own_losses(policies: Mapping[Lane, PredictOptimisePolicy], history: pd.DataFrame) -> None:
    """Ask losses of the user's own once, at the first retraining: one that does not fit is heard of now."""
    if not policies:
        return
    from portfolio_dfl.training.trial import has_own_loss, try_loss

    planner = next((policy for policy in policies.values() if has_own_loss(policy.settings.loss)), None)
    if planner is not None:
        try_loss(planner.task(history))


def _require_spreads(
    config: StudyConfig, setting: StrategySetting, returns: pd.DataFrame, span: Span, *, trained: bool
) -> None:
    """Raise DataError, before anything is trained, unless spreads are known on every date that asks for them.

    The books ask on the dates of execution, the plan on those of the decisions and of the samples learned from.
    """
    if setting.costs.spreads is None:
        return
    dates = pd.DatetimeIndex(returns.index)
    first, last = (int(dates.searchsorted(date)) for date in (span.dates[0], span.last_return))
    if trained and setting.costs.in_plan:
        seen = max(config.forecasting.lookback, config.covariance.window)
        first = seen - 1 if config.training.expanding else first - (first_decision(config) - seen)
    setting.costs.spreads_on(dates[first:last], setting.assets)


def _require_spreads_of_members(
    config: StudyConfig, costs: Costs, panel: MemberPanel, changing: MemberSettings, span: Span, *, trained: bool
) -> None:
    """Raise DataError, before anything is trained, unless spreads are known of members when trades can ask for them.

    They are asked of what is sold on the session after its last, too, unless all of it was lost.
    """
    if costs.spreads is None:
        return
    from portfolio_dfl.backtest.leaving import open_through

    members, returns = panel.members.iloc[1:].to_numpy(), panel.returns
    dates = pd.DatetimeIndex(returns.index)
    where = members | (open_through(members) & (returns.to_numpy() > -1.0))
    first, last = (int(dates.searchsorted(date)) for date in (span.dates[0], span.last_return))
    where[:first], where[last:] = False, False
    if trained and costs.in_plan:
        seen = max(config.forecasting.lookback, config.covariance.window)
        for universe in changing.universes:
            row = int(dates.searchsorted(universe.since))
            earliest = int(dates.searchsorted(universe.begins)) + seen - 1
            begin = earliest if config.training.expanding else row - (first_decision(config) - seen)
            where[begin : row + 1, returns.columns.isin(universe.assets)] = True
    costs.spreads_on(dates, list(panel.tickers), where)


def periods_per_year(config: StudyConfig, returns: pd.DataFrame) -> float:
    """Rows a year that everything of a study is annualised by, as set or as the dates of all its returns tell.

    Raises
    ------
    BacktestError
        If it is not set and the dates have no known rhythm.
    """
    from portfolio_dfl.backtest.rhythm import resolved_periods_per_year

    return resolved_periods_per_year(config.evaluation.periods_per_year, returns.index)
