"""What the strategies of a study are built from: a configuration's names and numbers, resolved once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError

if TYPE_CHECKING:
    from portfolio_dfl.allocation import MultiPeriodMeanVariance
    from portfolio_dfl.allocation.limits import Limit
    from portfolio_dfl.forecasting import PredictorSpec
    from portfolio_dfl.risk import CovarianceEstimator
    from portfolio_dfl.training.settings import TrainingSettings

__all__ = ["StrategySetting", "TrainedSetting", "build_estimator", "build_limits", "resolve_setting"]


@dataclass(frozen=True)
class TrainedSetting:
    """What trained strategies are built from beside the rest; the attributes are arguments of
    :class:`~portfolio_dfl.training.policies.PredictOptimisePolicy`.
    """

    predictor: PredictorSpec
    samples: int
    expanding: bool
    settings: TrainingSettings
    warm_start: bool
    risk_scaling: bool


@dataclass(frozen=True)
class StrategySetting:
    """What every strategy of a study is built from; picklable.

    Attributes
    ----------
    n_assets : int
    covariance : CovarianceEstimator
        Of the portfolio problem, from returns up to the decision.
    horizon, risk_aversion, turnover_limit, transaction_cost, limits, solver
        Of the portfolio problem, see :class:`~portfolio_dfl.allocation.MultiPeriodMeanVariance`.
    max_weight : float or None
        Largest weight, which is among the limits too.
    lookback : int
        Trading days of returns that a forecast sees.
    realised_window : int
        Trading days of the covariance realised after a decision.
    two_stage_method : {"gradient", "least_squares"}
        How the two-stage strategy minimises squared error.
    trained : TrainedSetting or None
        None where no strategy learns.
    """

    n_assets: int
    covariance: CovarianceEstimator
    horizon: int
    risk_aversion: float
    turnover_limit: float | list[float] | None
    transaction_cost: float
    limits: Sequence[Limit]
    max_weight: float | None
    solver: str
    lookback: int
    realised_window: int
    two_stage_method: Literal["gradient", "least_squares"]
    trained: TrainedSetting | None

    @property
    def first_turnover_limit(self) -> float:
        """τ of the stage that is traded; infinite where there is none."""
        limits = self.turnover_limit
        if limits is None:
            return float("inf")
        return limits[0] if isinstance(limits, list) else limits

    def layer(self) -> MultiPeriodMeanVariance:
        """The portfolio problem that trained strategies learn through and decide with."""
        from portfolio_dfl.allocation import MultiPeriodMeanVariance

        return MultiPeriodMeanVariance(
            n_assets=self.n_assets,
            horizon=self.horizon,
            risk_aversion=self.risk_aversion,
            turnover_limit=self.turnover_limit,
            transaction_cost=self.transaction_cost,
            limits=self.limits,
            solver=self.solver,
        )

    def plan(self) -> dict[str, Any]:
        """The same problem as arguments of rules that plan."""
        return {
            "horizon": self.horizon,
            "risk_aversion": self.risk_aversion,
            "turnover_limit": np.inf if self.turnover_limit is None else self.turnover_limit,
            "limits": self.limits,
            "transaction_cost": self.transaction_cost,
            "solver": self.solver,
        }

    def training(self) -> dict[str, Any]:
        """Arguments of a trained strategy's policy beside the layer and the covariance."""
        if self.trained is None:
            raise TypeError("this setting was resolved for strategies that do not learn")
        return {
            **vars(self.trained),
            "lookback": self.lookback,
            "realised_window": self.realised_window,
        }


def resolve_setting(config: StudyConfig, n_assets: int, *, trained: bool) -> StrategySetting:
    """What a configuration says of its strategies, as the objects that it names.

    Parameters
    ----------
    config : StudyConfig
    n_assets : int
    trained : bool
        Whether any of them learns; otherwise what training alone needs is not looked at.

    Raises
    ------
    PortfolioError, QPError
        If a name is unknown or values contradict each other.
    """
    allocation = config.allocation
    part = _trained(config) if trained else None
    return StrategySetting(
        n_assets=n_assets,
        covariance=build_estimator(config),
        horizon=allocation.horizon,
        risk_aversion=allocation.risk_aversion,
        turnover_limit=allocation.turnover_limit,
        transaction_cost=allocation.transaction_cost,
        limits=build_limits(config, n_assets),
        max_weight=allocation.max_weight,
        solver=allocation.solver,
        lookback=config.forecasting.lookback,
        realised_window=config.training.realised_window,
        two_stage_method=config.training.two_stage,
        trained=part,
    )


def _trained(config: StudyConfig) -> TrainedSetting:
    from dxpp_core import find_solver
    from portfolio_dfl.forecasting import PredictorSpec
    from portfolio_dfl.training.losses import build_loss
    from portfolio_dfl.training.settings import TrainingSettings

    training, forecasting = config.training, config.forecasting
    if config.allocation.solver != "auto":
        find_solver(config.allocation.solver)  # an unknown one is refused now, not after the training
    settings = TrainingSettings(
        loss=build_loss(training.loss, training.loss_options),
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
    return TrainedSetting(
        predictor=PredictorSpec(forecasting.predictor, forecasting.options, forecasting.scaled),
        samples=training.samples,
        expanding=training.expanding,
        settings=settings,
        warm_start=training.warm_start,
        risk_scaling=training.risk_scaling,
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
