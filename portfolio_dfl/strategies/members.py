"""What a study is made of where its universe changes: the settings of every universe, each of its assets alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from portfolio_dfl.config.limits import OTHERS, GroupConfig, LimitsConfig
from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import BacktestError, ConfigError, PortfolioError
from portfolio_dfl.strategies.features import build_features
from portfolio_dfl.strategies.limits import require_known
from portfolio_dfl.strategies.setting import StrategySetting, resolve_setting
from portfolio_dfl.strategies.table import TABLE, Lane, build_policy

if TYPE_CHECKING:
    from portfolio_dfl.backtest import Policy
    from portfolio_dfl.backtest.universes import AmongMembers, Universe
    from portfolio_dfl.data.features import FeatureSet
    from portfolio_dfl.data.member_panel import MemberPanel
    from portfolio_dfl.training.policies import PredictOptimisePolicy
    from portfolio_dfl.training.window import TrainedWindow

__all__ = ["MemberSettings", "among", "resolve_members"]


@dataclass(frozen=True, eq=False)
class MemberSettings:
    """The universes of a study; picklable.

    Attributes
    ----------
    members : DataFrame of bool, shape (T, N)
        Whether an asset is a member at the close of a date.
    universes : sequence of Universe
        In order of date.
    settings : mapping of assets to StrategySetting
        What strategies are built from in each.
    columns : mapping of str to str
        Column of the prices that each asset is read from.
    """

    members: pd.DataFrame
    universes: tuple[Universe, ...]
    settings: Mapping[tuple[str, ...], StrategySetting]
    columns: Mapping[str, str]

    @property
    def reviews(self) -> pd.DatetimeIndex:
        """Dates on which universes are made up and strategies learn."""
        return pd.DatetimeIndex([universe.since for universe in self.universes])

    @property
    def start(self) -> tuple[float, ...]:
        """Weights [N] that walks and books start from: those of the first universe."""
        setting = self.settings[self.universes[0].assets]
        weights = pd.Series(0.0, index=self.members.columns)
        weights[list(setting.assets)] = 1.0 / setting.n_assets if setting.start is None else np.array(setting.start)
        return tuple(weights)

    def at(self, date: pd.Timestamp) -> Universe:
        """The universe of a date; before the first, the first."""
        return self.universes[max(int(self.reviews.searchsorted(date, side="right")) - 1, 0)]

    def setting_at(self, date: pd.Timestamp) -> StrategySetting:
        """The setting of the universe of a date."""
        return self.settings[self.at(date).assets]

    def spans(self) -> list[tuple[Universe, pd.Timestamp]]:
        """Every universe with the date on which the next is made up; the last with the end of time."""
        ends = [*self.reviews[1:], pd.Timestamp.max]
        return list(zip(self.universes, ends, strict=True))

    def require_features(self, policy: PredictOptimisePolicy, returns: pd.DataFrame, dates: pd.DatetimeIndex) -> None:
        """Raise DataError unless every training and decision on these dates finds its features.

        Parameters
        ----------
        policy : PredictOptimisePolicy
            Any of the study, which tells how many days a training sees features of.
        returns : DataFrame, shape (T, N)
        dates : DatetimeIndex
            Of the decisions.
        """
        for universe, until in self.spans():
            trained = self.settings[universe.assets].trained
            if trained is None or trained.features is None:
                return
            history = universe.history(returns.loc[: dates[dates < until][-1]])
            first = history.loc[: universe.since]
            known = trained.predictor.known
            forecast = history if known is None else history.drop(columns=history.columns[known.place])
            trained.features.rows(forecast, policy.days_of_features(first) + len(history) - len(first))

    def policy(self, lane: Lane, returns: pd.DataFrame, windows: Sequence[TrainedWindow] = ()) -> AmongMembers:
        """A strategy among the members of each date, with windows that were trained before.

        Returns [T, N] are looked ahead in by hindsight alone.
        """
        from portfolio_dfl.backtest.universes import AmongMembers
        from portfolio_dfl.training.policies import PredictOptimisePolicy

        earned = returns.fillna(0.0)
        one: list[Policy] = []

        def build(assets: tuple[str, ...]) -> Policy:
            setting = self.settings[assets]
            if one:
                return one[0]
            policy = build_policy(setting, lane, earned[list(assets)])
            if isinstance(policy, PredictOptimisePolicy):
                policy.adopt(windows)
            if lane.never_trades or lane.strategy not in TABLE:  # goes on with what it remembers
                one.append(policy)
            return policy

        return AmongMembers(lane.label, self.universes, build)


def resolve_members(
    config: StudyConfig,
    panel: MemberPanel,
    decisions: pd.DatetimeIndex,
    *,
    needed: int,
    trained: bool,
    spreads: pd.DataFrame | None,
    features: FeatureSet | None,
    periods_per_year: float,
    given: Mapping[str, bytes],
) -> MemberSettings:
    """The universes of a study and their settings.

    Parameters
    ----------
    config : StudyConfig
    panel : MemberPanel
    decisions : DatetimeIndex
        Dates on which is decided.
    needed : int
        Number of returns that an asset must have before it may be held.
    trained, spreads, features, periods_per_year
        As for :func:`~portfolio_dfl.strategies.setting.resolve_setting`, of all assets.
    given : mapping of str to bytes
        Policies that were given in Python.

    Raises
    ------
    ConfigError
        If a universe has too few assets, or its assets cannot keep to the limits, naming its date.
    """
    from portfolio_dfl.backtest.universes import universes
    from portfolio_dfl.data.features import FeatureTable

    require_known(config.allocation.limits, panel.tickers)
    try:
        found = universes(panel.returns, panel.members, decisions, every=config.training.retrain_every, needed=needed)
    except BacktestError as error:
        raise ConfigError(f"data.members: {error}") from error
    tables = {} if features is None else {one.name: one for one in features.features if isinstance(one, FeatureTable)}
    settings: dict[tuple[str, ...], StrategySetting] = {}
    for universe in found:
        if universe.assets in settings:
            continue
        try:
            own = among(config, universe.assets)
            setting = resolve_setting(
                own,
                universe.assets,
                trained=trained,
                spreads=spreads,
                features=build_features(own, universe.assets, tables) if features is not None else None,
                periods_per_year=periods_per_year,
            )
            settings[universe.assets] = replace(setting, given_policies=dict(given))
        except PortfolioError as error:
            raise type(error)(
                f"of the {len(universe.assets)} members that may be held from {universe.since.date()} on: {error}"
            ) from error
    return MemberSettings(panel.members, found, settings, {spell.asset: spell.column for spell in panel.spells})


def among(config: StudyConfig, assets: Sequence[str]) -> StudyConfig:
    """The configuration of a study of some of its assets alone: what names others by ticker leaves them out.

    Raises
    ------
    ConfigError
        If what it needs is not among them: its cash, its benchmark, all members of a group with a least weight.
    """
    limits = config.allocation.limits
    if limits.cash is not None and limits.cash not in assets:
        raise ConfigError(f"allocation.limits.cash, {limits.cash}, is not among them")
    named = [] if limits.benchmark is None else [limits.benchmark.ticker, *(limits.benchmark.weights or {})]
    lacking = [ticker for ticker in named if ticker is not None and ticker not in assets]
    if lacking:
        raise ConfigError(f"allocation.limits.benchmark holds {', '.join(lacking)}, not among them")
    changed: dict[str, Any] = {
        key: _of(getattr(limits, key), assets) for key in ("min_weight", "max_weight", "max_trade", "group_of")
    }
    changed["groups"] = _groups(limits, assets)
    changed["exposures"] = {
        name: section.model_copy(update={"values": _of(section.values, assets)})
        for name, section in limits.exposures.items()
    }
    changed["no_trade"] = [ticker for ticker in limits.no_trade if ticker in assets]
    if limits.benchmark is not None:
        changed["benchmark"] = limits.benchmark.model_copy(update={"band": _of(limits.benchmark.band, assets)})
    costs = {key: _of(getattr(config.costs, key), assets) for key in ("rate", "impact", "borrow_rate")}
    allocation = config.allocation.model_copy(update={"limits": limits.model_copy(update=changed)})
    return config.model_copy(
        update={
            "data": config.data.model_copy(update={"members": None}),
            "allocation": allocation,
            "costs": config.costs.model_copy(update=costs),
        }
    ).beside(config.home)


def _groups(limits: LimitsConfig, assets: Sequence[str]) -> dict[str, GroupConfig]:
    """Groups with those of their members that are there; without any, their most is kept to by itself."""
    belongs = limits.group_of if isinstance(limits.group_of, dict) else {}
    found = {}
    for name, group in limits.groups.items():
        if name == OTHERS:
            found[name] = group
            continue
        own = [ticker for ticker in assets if belongs.get(ticker) == name] if group.tickers is None else group.tickers
        mine = [ticker for ticker in own if ticker in assets]
        if mine:
            found[name] = group.model_copy(update={"tickers": None if group.tickers is None else mine})
        elif group.min is not None and group.min > 0.0:
            raise ConfigError(f"none of the group {name} is among them, and its least weight is {group.min:g}")
    return found


def _of(value: Any, assets: Sequence[str]) -> Any:
    """A mapping by ticker without the tickers of others; anything else as it is."""
    if not isinstance(value, Mapping):
        return value
    return {ticker: one for ticker, one in value.items() if ticker in assets or ticker == OTHERS}
