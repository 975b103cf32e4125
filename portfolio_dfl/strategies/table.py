"""From a configuration to strategies: what each name in ``backtest.strategies`` stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.report.figures import appearance

if TYPE_CHECKING:
    from portfolio_dfl.allocation.limits import Limit
    from portfolio_dfl.backtest import Policy
    from portfolio_dfl.risk import CovarianceEstimator
    from portfolio_dfl.training.policies import PredictOptimisePolicy

__all__ = [
    "Lane",
    "build_estimator",
    "build_limits",
    "build_policy",
    "build_trained_policy",
    "by_strategy",
    "lanes",
]

TRAINED = ("decision_focused", "two_stage")


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
        return self.strategy if self.seed is None else f"{self.strategy}-seed{self.seed}"

    @property
    def strategy_label(self) -> str:
        """Name in tables that hold one row a strategy, whatever its seeds."""
        return appearance(self.strategy).label

    @property
    def trained(self) -> bool:
        """Whether it learns."""
        return self.seed is not None

    @property
    def foresight(self) -> bool:
        """Whether it looks at returns to come: a ceiling, not a strategy."""
        return self.strategy == "perfect_foresight"


def lanes(config: StudyConfig) -> list[Lane]:
    """All paths of a study, in the order of the configuration."""
    seeds = config.training.seeds
    found = []
    for strategy in config.backtest.strategies:
        if strategy in TRAINED:
            for seed in seeds:
                label = appearance(strategy, seed if len(seeds) > 1 else None).label
                found.append(Lane(strategy, seed, label))
        else:
            found.append(Lane(strategy, None, appearance(strategy).label))
    return found


def by_strategy(paths: Sequence[Lane]) -> dict[str, list[Lane]]:
    """The paths of each strategy, one a seed, by the strategy's name in tables."""
    groups: dict[str, list[Lane]] = {}
    for lane in paths:
        groups.setdefault(lane.strategy_label, []).append(lane)
    return groups


def build_policy(config: StudyConfig, lane: Lane, returns: pd.DataFrame) -> Policy:
    """A fresh policy; ``returns`` are looked at beyond the decision date by perfect foresight alone."""
    from portfolio_dfl.backtest import baselines
    from portfolio_dfl.risk import RollingCovariance

    if lane.trained:
        return build_trained_policy(config, lane, returns.shape[1])
    allocation, name, estimator = config.allocation, lane.label, build_estimator(config)
    plan: dict[str, Any] = {
        "horizon": allocation.horizon,
        "risk_aversion": allocation.risk_aversion,
        "turnover_limit": np.inf if allocation.turnover_limit is None else allocation.turnover_limit,
        "limits": build_limits(config, returns.shape[1]),
        "transaction_cost": allocation.transaction_cost,
        "solver": allocation.solver,
    }
    match lane.strategy:
        case "equal_weight":
            return baselines.EqualWeight(name=name)
        case "buy_and_hold":
            return baselines.BuyAndHold(name=name)
        case "minimum_variance":
            return baselines.MinimumVariance(estimator, name=name, **plan)
        case "risk_parity":
            largest = 1.0 if allocation.max_weight is None else allocation.max_weight
            return baselines.RiskParity(
                estimator, turnover_limit=allocation.first_turnover_limit, max_weight=largest, name=name
            )
        case "historical_mean_variance":
            return baselines.HistoricalMeanVariance(
                estimator, mean_window=config.forecasting.lookback, name=name, **plan
            )
        case "perfect_foresight":
            realised = RollingCovariance(config.training.realised_window, ridge=0.0)
            return baselines.PerfectForesight(returns, realised, name=name, **plan)
        case unknown:
            raise ConfigError(f"no strategy is named {unknown!r}")


def build_trained_policy(config: StudyConfig, lane: Lane, n_assets: int) -> PredictOptimisePolicy:
    """A policy that predicts and optimises, not yet trained."""
    from dxpp_core.solvers import find_solver
    from portfolio_dfl.allocation import MultiPeriodMeanVariance
    from portfolio_dfl.forecasting import PredictorSpec
    from portfolio_dfl.training.losses import build_loss
    from portfolio_dfl.training.policies import DecisionFocusedPolicy, TwoStagePolicy
    from portfolio_dfl.training.settings import TrainingSettings

    training, allocation, forecasting = config.training, config.allocation, config.forecasting
    if allocation.solver != "auto":
        find_solver(allocation.solver)  # an unknown one is refused now, not after the training
    two_stage = lane.strategy == "two_stage"
    settings = TrainingSettings(
        loss=build_loss(training.loss, training.loss_options),
        method=training.two_stage if two_stage else "gradient",
        initialise=training.initialise,
        ridge=training.ridge,
        epochs=training.epochs,
        batch_size=training.batch_size,
        learning_rate=training.learning_rate,
        weight_decay=training.weight_decay,
        gradient_clip=training.gradient_clip,
        validation_samples=training.validation_samples,
        patience=training.patience,
    )
    layer = MultiPeriodMeanVariance(
        n_assets=n_assets,
        horizon=allocation.horizon,
        risk_aversion=allocation.risk_aversion,
        turnover_limit=allocation.turnover_limit,
        transaction_cost=allocation.transaction_cost,
        limits=build_limits(config, n_assets),
        solver=allocation.solver,
    )
    make = TwoStagePolicy if two_stage else DecisionFocusedPolicy
    return make(
        layer,
        build_estimator(config),
        predictor=PredictorSpec(forecasting.predictor, forecasting.options, forecasting.scaled),
        lookback=forecasting.lookback,
        realised_window=training.realised_window,
        samples=training.samples,
        expanding=training.expanding,
        settings=settings,
        seed=lane.seed or 0,
        warm_start=training.warm_start,
        risk_scaling=training.risk_scaling and not two_stage,
        name=lane.label,
    )


def build_limits(config: StudyConfig, n_assets: int) -> list[Limit]:
    """Limits of weights that plans obey beside long only.

    Raises
    ------
    ConfigError
        If no portfolio of so many assets is fully invested within them.
    """
    from portfolio_dfl.allocation.limits import BoxLimits

    largest = config.allocation.max_weight
    if largest is None:
        return []
    if n_assets * largest < 1.0 - 1e-12:
        raise ConfigError(
            f"allocation.max_weight={largest:g} leaves {n_assets} assets with {n_assets * largest:.4g} of the wealth "
            f"at most; raise it to {1.0 / n_assets:.4g} or more, use more data.tickers, or set it to null"
        )
    return [BoxLimits(0.0, largest)]


def build_estimator(config: StudyConfig) -> CovarianceEstimator:
    """The covariance estimator that the configuration names."""
    from portfolio_dfl.risk import OAS, EWMACovariance, LedoitWolf, RollingCovariance

    section = config.covariance
    if section.estimator == "ewma":
        return EWMACovariance(section.window, section.halflife, section.ridge)
    if section.estimator == "ledoit_wolf":
        return LedoitWolf(section.window)
    if section.estimator == "oas":
        return OAS(section.window)
    return RollingCovariance(section.window, section.ridge)
