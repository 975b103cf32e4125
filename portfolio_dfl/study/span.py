"""What a study works on: the clean prices that its configuration names, and the dates it decides on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.local_sources import IN_MEMORY
from portfolio_dfl.errors import BacktestError, ConfigError, DataError
from portfolio_dfl.strategies.cash import known_cash, with_cash, without_cash
from portfolio_dfl.strategies.table import find_strategy
from portfolio_dfl.wording import counted

if TYPE_CHECKING:
    from portfolio_dfl.backtest.rebalancing import Rebalancing
    from portfolio_dfl.data.features import FeatureSet
    from portfolio_dfl.data.member_panel import MemberPanel
    from portfolio_dfl.data.members import Spell
    from portfolio_dfl.data.panel import PricePanel

__all__ = ["Span", "decision_span", "first_decision", "load_panel", "load_spells", "load_spreads", "rebalancing_of"]


@dataclass(frozen=True)
class Span:
    """Decision dates of a study and the returns its books need.

    Attributes
    ----------
    dates : DatetimeIndex
        Decision dates, in order.
    last_return : Timestamp
        Date at which the books end, whenever the last decision was: that of the return which a decision on the last
        date of the span would earn.
    """

    dates: pd.DatetimeIndex
    last_return: pd.Timestamp


def load_panel(
    config: StudyConfig, prices: pd.DataFrame | None = None, members: pd.DataFrame | None = None
) -> PricePanel:
    """The clean prices that a configuration names; or these, cleaned as it says; of these members, or those it names.

    Raises
    ------
    DataError
        If they cannot be read or used.
    """
    from portfolio_dfl.data.panel import PricePanel, build_panel
    from portfolio_dfl.data.sources import FrameSource, PriceSource, open_source

    section = config.data
    spells = load_spells(config, members)
    columns = section.tickers if spells is None else list(dict.fromkeys(spell.column for spell in spells))
    source: PriceSource
    if prices is None:
        source = open_source(section.source, tickers=columns, start=section.start, end=section.end)
    elif isinstance(prices, pd.DataFrame):
        source = FrameSource(prices)
    else:
        raise DataError(f"prices must be a DataFrame, not a {type(prices).__name__}; a file is named by data.source")
    if spells is not None:
        return _changing(config, source.load(), spells)
    panel = build_panel(
        source.load(),
        tickers=section.tickers,
        start=section.start,
        end=section.end,
        calendar=section.calendar,
        policies=section.policies,
    )
    if len(panel.tickers) < 2:
        raise DataError(f"a portfolio needs at least two assets; {section.source} has {', '.join(panel.tickers)}")
    return panel if known_cash(config) is None else PricePanel(with_cash(config, panel.prices), panel.report)


def load_spells(config: StudyConfig, given: pd.DataFrame | None = None) -> Sequence[Spell] | None:
    """Who is a member when, as given or as the configuration's file says; None where all are always.

    Raises
    ------
    DataError
        If the file cannot be read or used.
    """
    from portfolio_dfl.data.members import read_members

    source = config.data.members if given is None else given
    if isinstance(source, str) and source == IN_MEMORY:
        raise DataError(f"data.members is {IN_MEMORY}: they were given in Python; give them again, or name a file")
    return None if source is None else read_members(source)


def _changing(config: StudyConfig, raw: pd.DataFrame, spells: Sequence[Spell]) -> MemberPanel:
    """The clean prices of those who are members at some time, and of cash that the study makes, which always is."""
    from portfolio_dfl.data.member_panel import MemberPanel, build_member_panel
    from portfolio_dfl.data.members import Spell

    section, cash = config.data, known_cash(config)
    panel = build_member_panel(
        raw,
        spells,
        name=str(section.members),
        start=section.start,
        end=section.end,
        calendar=section.calendar,
        policies=section.policies,
    )
    if len(panel.tickers) < 2:
        raise DataError(f"a portfolio needs at least two assets; {section.members} has {', '.join(panel.tickers)}")
    if cash is None:
        return panel
    always = Spell(cash, cash, cash, panel.prices.index[0], None, None, 0, named=True)
    return MemberPanel(with_cash(config, panel.prices), panel.report, (*panel.spells, always))


def load_spreads(
    config: StudyConfig, tickers: Sequence[str], given: str | os.PathLike[str] | pd.DataFrame | None = None
) -> pd.DataFrame | None:
    """The table of bid–ask spreads that a configuration names, or the one given; None without either.

    Raises
    ------
    DataError
        If it cannot be read or used.
    """
    from portfolio_dfl.data.spreads import read_spreads

    source = config.costs.spreads if given is None else given
    if given is None and source == IN_MEMORY:
        raise DataError(f"costs.spreads is {IN_MEMORY}: they were given in Python; give them again, or name a file")
    cash = config.allocation.limits.cash
    priced = [ticker for ticker in without_cash(config, tickers) if ticker != cash]
    return None if source is None else read_spreads(source, priced, calendar=config.data.calendar)


def rebalancing_of(config: StudyConfig) -> Rebalancing:
    """On which dates a configuration decides."""
    from portfolio_dfl.backtest.rebalancing import Rebalancing

    section = config.backtest
    rule = tuple(section.rebalance) if isinstance(section.rebalance, list) else section.rebalance
    return Rebalancing(rule, section.rebalance_on, config.data.calendar)


def decision_span(config: StudyConfig, returns: pd.DataFrame, features: FeatureSet | None = None) -> Span:
    """Decision dates of ``backtest.rebalance`` from ``backtest.start`` to ``backtest.end``, as far as data allow.

    Raises
    ------
    ConfigError
        If the start is earlier than the training samples allow, no date is left, or the horizon exceeds the data.
    """
    days = pd.DatetimeIndex(returns.index)
    needed = first_decision(config, features)
    last = len(days) - 2 - config.backtest.lag
    if needed - 1 > last:
        raise ConfigError(
            f"the first decision needs {needed} returns before it and one after it, the data have {len(days)}; "
            f"most of them for {_largest_need(config)}: lower it, or use more data"
        )
    ahead = _plan_length(config)
    if any(find_strategy(name).kind == "hindsight" for name in config.backtest.strategies):
        ahead["training.realised_window"] = config.training.realised_window
    for key, length in ahead.items():
        if length > len(days):
            raise ConfigError(f"{key} of {length} rows is longer than the data, {counted(len(days), 'return')}")
    first = needed - 1
    if config.backtest.start is not None:
        first = int(days.searchsorted(pd.Timestamp(config.backtest.start)))
        if first < needed - 1:
            raise ConfigError(
                f"backtest.start {config.backtest.start} leaves {first + 1} returns where the first decision needs "
                f"{needed}; the earliest start is {days[needed - 1].date()}"
            )
    if config.backtest.end is not None:
        last = min(last, int(days.searchsorted(pd.Timestamp(config.backtest.end), side="right")) - 1)
    if first > last:
        raise ConfigError(
            f"no decision date lies between backtest.start {config.backtest.start} and backtest.end "
            f"{config.backtest.end}; the data allow {days[needed - 1].date()} to {days[-2].date()}"
        )
    rebalancing = rebalancing_of(config)
    _require_listed(config, rebalancing, days[first])
    try:
        decided = rebalancing.dates(days, days[first], days[last])
    except BacktestError as error:
        raise ConfigError(f"backtest.{error}") from error
    if len(decided) == 0:
        raise ConfigError(
            f"from {days[first].date()} to {days[last].date()} there is no decision date {rebalancing}: "
            "choose another backtest.rebalance or a longer span"
        )
    return Span(decided, days[last + 1 + config.backtest.lag])


def _require_listed(config: StudyConfig, rebalancing: Rebalancing, first: pd.Timestamp) -> None:
    """Refuse dates that the data are too short for, unless the study is told to start later."""
    if config.backtest.start is not None or not isinstance(rebalancing.rule, tuple):
        return
    early = [date for date in rebalancing.rule if pd.Timestamp(date) < first]
    if early:
        raise ConfigError(
            f"backtest.rebalance lists {early[0]}, and the first decision that the data allow is of {first.date()}: "
            f"leave {counted(len(early), 'date')} out, or set backtest.start"
        )


def first_decision(config: StudyConfig, features: FeatureSet | None = None) -> int:
    """Number of returns, the decision date's included, that the first decision of a study with these features needs."""
    from portfolio_dfl.training.samples import returns_needed

    training, window, lookback = config.training, config.covariance.window, config.forecasting.lookback
    if not _trains(config):
        return max(window, lookback) if _averages_the_past(config) else window
    return returns_needed(
        training.samples,
        lookback=lookback,
        covariance_window=window,
        horizon=config.allocation.horizon,
        realised_window=training.realised_window,
        stage=config.allocation.stage,
        reach=1 if features is None else features.reach,
    )


def _trains(config: StudyConfig) -> bool:
    return any(find_strategy(name).kind == "trained" for name in config.backtest.strategies)


def _averages_the_past(config: StudyConfig) -> bool:
    return any(find_strategy(name).averages_lookback for name in config.backtest.strategies)


def _plan_length(config: StudyConfig) -> dict[str, int]:
    """Rows that the plan reaches ahead, under the settings that say so."""
    allocation = config.allocation
    name = "allocation.horizon" if allocation.stage == 1 else "allocation.horizon · allocation.stage"
    return {name: allocation.horizon * allocation.stage}


def _largest_need(config: StudyConfig) -> str:
    """The setting that asks for the most returns before the first decision, with its value."""
    needs = {"covariance.window": config.covariance.window}
    if _trains(config) or _averages_the_past(config):
        needs["forecasting.lookback"] = config.forecasting.lookback
    if _trains(config):
        needs |= {
            "training.samples": config.training.samples,
            "training.realised_window": config.training.realised_window,
            **_plan_length(config),
        }
    key = max(needs, key=needs.__getitem__)
    return f"{key}={needs[key]}"
