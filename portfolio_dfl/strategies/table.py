"""The table of strategies: name, label, look, kind and builder of each in one place.

A new strategy is one more entry of :data:`TABLE`, beside a builder if it needs one of its own. The module imports
nothing heavy, for configurations learn the names from it as the package is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING
from zlib import crc32

from portfolio_dfl.config.names import Kind, announce, given_name
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.execution.parts import is_own, own_name

if TYPE_CHECKING:
    import pandas as pd

    from portfolio_dfl.backtest import Policy
    from portfolio_dfl.risk import CovarianceEstimate, CovarianceEstimator
    from portfolio_dfl.risk.covariance import FloatArray
    from portfolio_dfl.strategies.setting import StrategySetting
    from portfolio_dfl.training.policies import PredictOptimisePolicy

__all__ = [
    "TABLE",
    "Appearance",
    "Lane",
    "Strategy",
    "appearance",
    "build_policy",
    "build_trained_policy",
    "by_strategy",
    "find_strategy",
    "lanes",
]


@dataclass(frozen=True)
class Appearance:
    """How one strategy is named and drawn in every figure.

    Attributes
    ----------
    label : str
        In tables and figures.
    colour, dash, width
        Of its line.
    main : bool
        Whether studies are about it: tables set it off.
    ceiling : bool
        Whether it is out of scale with real strategies, for it knew the future.
    """

    label: str
    colour: str
    dash: str = "solid"
    width: float = 1.4
    main: bool = False
    ceiling: bool = False


#: Makes a policy from what a study's strategies are built from, the lane, and all returns of the walk, which are for
#: strategies in hindsight alone.
Builder = Callable[["StrategySetting", "Lane", "pd.DataFrame | None"], "Policy"]


@dataclass(frozen=True)
class Strategy:
    """One entry of the table.

    Attributes
    ----------
    name : str
        In configurations, files and records.
    kind : {"trained", "rule", "hindsight"}
        Whether it learns, is a rule that learns nothing, or looks at returns that were not known.
    look : Appearance
    build : callable
        (setting, lane, returns) to a policy that is not trained yet.
    averages_lookback : bool
        Whether a rule needs ``forecasting.lookback`` returns before its first decision.
    never_trades : bool
        Whether it holds what it bought first: what the break-even cost of holding is taken against.
    compared : bool
        Whether ``compare`` runs it unasked. Each strategy more is one trial more in the deflated Sharpe ratios of all,
        so that one that joins the table later would change the numbers of comparisons made before.
    """

    name: str
    kind: Kind
    look: Appearance
    build: Builder
    averages_lookback: bool = False
    never_trades: bool = False
    compared: bool = True


@dataclass(frozen=True)
class Lane:
    """One path through the backtest: a strategy, and for a trained one a seed.

    Attributes
    ----------
    strategy : str
        As in the configuration.
    seed : int or None
        None for a rule that learns nothing.
    label : str
        Name in tables and figures; the seed is part of it only where there are several.
    """

    strategy: str
    seed: int | None
    label: str

    @property
    def slug(self) -> str:
        """Name for files and MLflow runs."""
        if self.seed is not None:
            return f"{self.strategy}-seed{self.seed}"
        return (given_name(self.strategy) or self.strategy).replace(":", ".").replace(" ", "_")

    @property
    def strategy_label(self) -> str:
        """Name in tables that hold one row a strategy, whatever its seeds."""
        return find_strategy(self.strategy).look.label

    @property
    def look(self) -> Appearance:
        """How it is named and drawn; seeds of one strategy share all but the name."""
        return replace(find_strategy(self.strategy).look, label=self.label)

    @property
    def trained(self) -> bool:
        """Whether it learns."""
        return self.seed is not None

    @property
    def foresight(self) -> bool:
        """Whether it looks at returns to come: a ceiling, not a strategy."""
        return find_strategy(self.strategy).kind == "hindsight"

    @property
    def never_trades(self) -> bool:
        """Whether it holds what it bought first."""
        return find_strategy(self.strategy).never_trades


def lanes(strategies: Sequence[str], seeds: Sequence[int]) -> tuple[Lane, ...]:
    """All paths of a study, in the order of its strategies; a trained one has a path for each seed."""
    found = []
    for name in strategies:
        entry = find_strategy(name)
        for seed in seeds if entry.kind == "trained" else [None]:
            several = seed is not None and len(seeds) > 1
            found.append(Lane(name, seed, appearance(name, seed if several else None).label))
    for what in ("label", "slug"):
        called = [getattr(lane, what).lower() for lane in found]
        twins = [lane.strategy for lane, name in zip(found, called, strict=True) if called.count(name) > 1]
        if twins:
            raise ConfigError(f"strategies {' and '.join(twins)} would have one name in tables and files: rename one")
    return tuple(found)


def by_strategy(paths: Sequence[Lane]) -> dict[str, list[Lane]]:
    """The paths of each strategy, one a seed, by the strategy's name in tables."""
    groups: dict[str, list[Lane]] = {}
    for lane in paths:
        groups.setdefault(lane.strategy_label, []).append(lane)
    return groups


def find_strategy(name: str) -> Strategy:
    """The entry of a strategy.

    Raises
    ------
    ConfigError
        If there is none of that name.
    """
    if name in TABLE:
        return TABLE[name]
    if is_own(name) or given_name(name) is not None:
        return Strategy(name, "rule", appearance(name), _own)
    raise ConfigError(
        f"no strategy is named {name!r}; there are {', '.join(TABLE)}, and 'package.module:Name' for your own"
    )


def appearance(strategy: str, seed: int | None = None) -> Appearance:
    """Look of a strategy, of a stranger too; seeds of one strategy share its colour."""
    if strategy in TABLE:
        look = TABLE[strategy].look
    else:
        colour = _SPARE[crc32(strategy.encode()) % len(_SPARE)]
        own = given_name(strategy) or (own_name(strategy) if is_own(strategy) else None)
        look = Appearance(own or strategy.replace("_", " ").capitalize(), colour, width=1.6)
    return look if seed is None else replace(look, label=f"{look.label}, seed {seed}")


def build_policy(setting: StrategySetting, lane: Lane, returns: pd.DataFrame | None = None) -> Policy:
    """A fresh policy; ``returns`` are looked at beyond the decision date in hindsight alone, which needs them."""
    return find_strategy(lane.strategy).build(setting, lane, returns)


def build_trained_policy(setting: StrategySetting, lane: Lane) -> PredictOptimisePolicy:
    """A policy that predicts and optimises, not yet trained."""
    from portfolio_dfl.training.policies import PredictOptimisePolicy

    policy = build_policy(setting, lane)
    if not isinstance(policy, PredictOptimisePolicy):
        raise TypeError(f"strategy {lane.strategy} is in the table as one that learns, and its policy is not")
    return policy


def _decision_focused(setting: StrategySetting, lane: Lane, returns: pd.DataFrame | None) -> Policy:
    from portfolio_dfl.training.policies import DecisionFocusedPolicy

    return DecisionFocusedPolicy(
        setting.layer(), setting.covariance, seed=lane.seed or 0, name=lane.label, **setting.training()
    )


def _two_stage(setting: StrategySetting, lane: Lane, returns: pd.DataFrame | None) -> Policy:
    from portfolio_dfl.training.policies import TwoStagePolicy

    options = setting.training()
    # Squared error tells nothing of risk and costs; what the forecasts are multiplied by is the predictor's own there.
    options["settings"] = replace(options["settings"], method=setting.two_stage_method, learned=())
    options["risk_scaling"] = False
    return TwoStagePolicy(setting.layer(), setting.covariance, seed=lane.seed or 0, name=lane.label, **options)


def _equal_weight(setting: StrategySetting, lane: Lane, returns: pd.DataFrame | None) -> Policy:
    from portfolio_dfl.backtest.baselines import EqualWeight

    return EqualWeight(name=lane.label)


def _buy_and_hold(setting: StrategySetting, lane: Lane, returns: pd.DataFrame | None) -> Policy:
    from portfolio_dfl.backtest.baselines import BuyAndHold

    return BuyAndHold(name=lane.label)


def _minimum_variance(setting: StrategySetting, lane: Lane, returns: pd.DataFrame | None) -> Policy:
    from portfolio_dfl.backtest.baselines import MinimumVariance

    return MinimumVariance(setting.covariance, name=lane.label, **setting.plan())


def _risk_parity(setting: StrategySetting, lane: Lane, returns: pd.DataFrame | None) -> Policy:
    from portfolio_dfl.backtest.baselines import RiskParity

    largest = 1.0 if setting.max_weight is None else setting.max_weight
    return RiskParity(
        setting.covariance,
        turnover_limit=setting.first_turnover_limit,
        max_weight=largest,
        name=lane.label,
        riskless=setting.riskless,
    )


@dataclass(frozen=True)
class _Uncorrelated:
    """What an estimator says of variances alone: every correlation is taken to be zero."""

    estimator: CovarianceEstimator

    @property
    def window(self) -> int:
        return self.estimator.window

    def __call__(self, returns_window: FloatArray) -> FloatArray:
        covariance: FloatArray = self.estimate_many(returns_window[None]).covariance[0]
        return covariance

    def estimate_many(self, windows: FloatArray) -> CovarianceEstimate:
        import numpy as np

        found = self.estimator.estimate_many(windows)
        return found._replace(covariance=found.covariance * np.eye(found.covariance.shape[-1]))


def _inverse_volatility(setting: StrategySetting, lane: Lane, returns: pd.DataFrame | None) -> Policy:
    """Weights ∝ 1/σ: where nothing correlates, every asset then contributes the same risk."""
    from portfolio_dfl.backtest.baselines import RiskParity

    largest = 1.0 if setting.max_weight is None else setting.max_weight
    return RiskParity(
        _Uncorrelated(setting.covariance),
        turnover_limit=setting.first_turnover_limit,
        max_weight=largest,
        name=lane.label,
        riskless=setting.riskless,
    )


def _historical_mean_variance(setting: StrategySetting, lane: Lane, returns: pd.DataFrame | None) -> Policy:
    from portfolio_dfl.backtest.baselines import HistoricalMeanVariance

    return HistoricalMeanVariance(setting.covariance, mean_window=setting.lookback, name=lane.label, **setting.plan())


def _perfect_foresight(setting: StrategySetting, lane: Lane, returns: pd.DataFrame | None) -> Policy:
    from portfolio_dfl.backtest.baselines import PerfectForesight

    if returns is None:
        raise TypeError(f"{lane.label} needs the returns that it looks ahead in")
    return PerfectForesight(returns, setting.realised(), name=lane.label, **setting.plan())


def _own(setting: StrategySetting, lane: Lane, returns: pd.DataFrame | None) -> Policy:
    from portfolio_dfl.strategies.own import build_own_policy

    return build_own_policy(
        lane.strategy, lane.label, setting.strategy_options.get(lane.strategy, {}), setting.given_policies
    )


_SPARE = ["#b0467b", "#3c9bb5", "#7c8c2b", "#5f62b8"]

_ENTRIES = (
    Strategy(
        "decision_focused",
        "trained",
        Appearance("Decision-focused", "#16528e", width=2.6, main=True),
        _decision_focused,
    ),
    Strategy("two_stage", "trained", Appearance("Two-stage", "#d1602f", width=1.9), _two_stage),
    Strategy("equal_weight", "rule", Appearance("Equal weight", "#7b8088"), _equal_weight),
    Strategy(
        "buy_and_hold",
        "rule",
        Appearance("Buy and hold", "#a7a197", "dash", 1.6),
        _buy_and_hold,
        never_trades=True,
    ),
    Strategy("minimum_variance", "rule", Appearance("Minimum variance", "#2d8a6b"), _minimum_variance),
    Strategy("risk_parity", "rule", Appearance("Risk parity", "#8c64a8"), _risk_parity),
    Strategy(
        "inverse_volatility",
        "rule",
        Appearance("Inverse volatility", "#a0708f"),
        _inverse_volatility,
        compared=False,
    ),
    Strategy(
        "historical_mean_variance",
        "rule",
        Appearance("Historical mean-variance", "#b98b1d"),
        _historical_mean_variance,
        averages_lookback=True,
    ),
    Strategy(
        "perfect_foresight",
        "hindsight",
        Appearance("Perfect foresight (ceiling)", "#23262b", "dot", ceiling=True),
        _perfect_foresight,
    ),
)

#: Every strategy by name, in the order of tables that show all.
TABLE: Mapping[str, Strategy] = MappingProxyType({entry.name: entry for entry in _ENTRIES})

for _entry in _ENTRIES:
    announce(_entry.name, _entry.kind)
