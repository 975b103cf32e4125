"""What the strategies of a study are built from: a configuration's names and numbers, resolved once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.strategies.cash import known_cash, without_cash
from portfolio_dfl.strategies.limits import build_limits, starting_weights

if TYPE_CHECKING:
    import pandas as pd

    from portfolio_dfl.allocation import Costs, MultiPeriodMeanVariance
    from portfolio_dfl.allocation.limits import Limit
    from portfolio_dfl.data.features import FeatureSet
    from portfolio_dfl.forecasting import PredictorSpec
    from portfolio_dfl.risk import CovarianceEstimator
    from portfolio_dfl.training.settings import TrainingSettings

__all__ = ["StrategySetting", "TrainedSetting", "build_costs", "build_estimator", "resolve_setting"]


@dataclass(frozen=True)
class TrainedSetting:
    """What trained strategies are built from beside the rest; the attributes are arguments of
    :class:`~portfolio_dfl.training.policies.PredictOptimisePolicy`.
    """

    predictor: PredictorSpec
    features: FeatureSet | None
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
    assets : tuple of str
        Tickers.
    covariance : CovarianceEstimator
        Of the portfolio problem, from returns up to the decision.
    stage : int
        Trading days of one stage of the plan.
    costs : Costs
        Of trading and holding, that the portfolio problem counts and the books charge.
    horizon, risk_aversion, turnover_limit, limits, solver
        Of the portfolio problem, see :class:`~portfolio_dfl.allocation.MultiPeriodMeanVariance`.
    start : tuple of N floats, or None
        Weights that trainings and backtests start from; None for equal ones.
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
    strategy_options : mapping
        Arguments of own strategies by name.
    given_policies : mapping of str to bytes
        Policies that were given in Python, see :func:`~portfolio_dfl.strategies.own.freeze_policies`.
    riskless : int or None
        Place of the cash that the study makes from a rate.
    """

    assets: tuple[str, ...]
    covariance: CovarianceEstimator
    horizon: int
    stage: int
    risk_aversion: float
    turnover_limit: float | list[float] | None
    costs: Costs
    limits: Sequence[Limit]
    start: tuple[float, ...] | None
    max_weight: float | None
    solver: str
    lookback: int
    realised_window: int
    two_stage_method: Literal["gradient", "least_squares"]
    trained: TrainedSetting | None
    strategy_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    given_policies: Mapping[str, bytes] = field(default_factory=dict)
    riskless: int | None = None

    @property
    def n_assets(self) -> int:
        """N."""
        return len(self.assets)

    @property
    def first_turnover_limit(self) -> float:
        """τ of the stage that is traded; infinite where there is none."""
        limits = self.turnover_limit
        if limits is None:
            return float("inf")
        return limits[0] if isinstance(limits, list) else limits

    def realised(self) -> CovarianceEstimator:
        """Of the covariance realised after a decision, which judges it; in parts where plans are made by parts."""
        from portfolio_dfl.risk import RollingCovariance
        from portfolio_dfl.risk.factor_path import RealisedFactors, in_parts

        if in_parts(self.covariance, len(self.assets)):
            return RealisedFactors(self.realised_window)
        return RollingCovariance(self.realised_window, ridge=0.0)

    def layer(self) -> MultiPeriodMeanVariance:
        """The portfolio problem that trained strategies learn through and decide with."""
        from portfolio_dfl.allocation import MultiPeriodMeanVariance

        return MultiPeriodMeanVariance(
            n_assets=self.n_assets,
            horizon=self.horizon,
            risk_aversion=self.risk_aversion,
            turnover_limit=self.turnover_limit,
            limits=self.limits,
            solver=self.solver,
            assets=self.assets,
            initial_weights=self.start,
            **self.costs.plan_terms(self.assets),
        )

    def plan(self) -> dict[str, Any]:
        """The same problem as arguments of rules that plan."""
        return {
            "horizon": self.horizon,
            "stage": self.stage,
            "risk_aversion": self.risk_aversion,
            "turnover_limit": np.inf if self.turnover_limit is None else self.turnover_limit,
            "limits": self.limits,
            "costs": self.costs,
            "solver": self.solver,
            "assets": self.assets,
        }

    def training(self) -> dict[str, Any]:
        """Arguments of a trained strategy's policy beside the layer and the covariance."""
        if self.trained is None:
            raise TypeError("this setting was resolved for strategies that do not learn")
        return {
            **vars(self.trained),
            "lookback": self.lookback,
            "realised_window": self.realised_window,
            "stage": self.stage,
            "costs": self.costs,
        }


def resolve_setting(
    config: StudyConfig,
    assets: Sequence[str],
    *,
    trained: bool,
    spreads: pd.DataFrame | None = None,
    features: FeatureSet | None = None,
    periods_per_year: float | None = None,
) -> StrategySetting:
    """What a configuration says of its strategies, as the objects that it names.

    Parameters
    ----------
    config : StudyConfig
    assets : sequence of str
        Tickers.
    trained : bool
        Whether any of them learns; otherwise what training alone needs is not looked at.
    spreads : DataFrame, optional
        Bid–ask spreads by date and ticker, where the configuration names a table of them.
    features : FeatureSet, optional
        What predictors see beside returns, see :func:`~portfolio_dfl.strategies.features.build_features`.
    periods_per_year : float, optional
        Rows a year, where the configuration does not say; 252 by default. Fees and interest of a stage follow from it.

    Raises
    ------
    PortfolioError, QPError
        If a name is unknown or values contradict each other.
    """
    from portfolio_dfl.risk.build import try_covariance

    allocation = config.allocation
    costs = build_costs(config, spreads, periods_per_year)
    part = _trained(config, assets, features, costs.stage_years) if trained else None
    limits = build_limits(allocation, assets)
    covariance, cash = build_estimator(config, assets), known_cash(config)
    try_covariance(covariance, len(assets))
    costs.check(assets)
    return StrategySetting(
        assets=tuple(assets),
        covariance=covariance,
        horizon=allocation.horizon,
        stage=allocation.stage,
        risk_aversion=allocation.risk_aversion,
        turnover_limit=allocation.turnover_limit,
        costs=costs,
        limits=limits,
        start=starting_weights(allocation, limits, assets),
        max_weight=allocation.max_weight,
        solver=allocation.solver,
        lookback=config.forecasting.lookback,
        realised_window=config.training.realised_window,
        two_stage_method=config.training.two_stage,
        trained=part,
        strategy_options=config.backtest.strategy_options,
        riskless=None if cash is None else list(assets).index(cash),
    )


def _trained(
    config: StudyConfig, assets: Sequence[str], features: FeatureSet | None, stage_years: float
) -> TrainedSetting:
    from dxpp_core import find_solver
    from portfolio_dfl.allocation.smoothing import Smoothing
    from portfolio_dfl.forecasting import KnownReturn, PredictorSpec, PriorSpec
    from portfolio_dfl.training.losses import build_loss
    from portfolio_dfl.training.settings import TrainingSettings

    training, forecasting = config.training, config.forecasting
    smoothing = training.smoothing
    smoothed = Smoothing(smoothing.way, smoothing.strength, smoothing.samples)
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
        smoothing=smoothed if training.gradient == "smoothed" else None,
        smoothing_schedule=smoothing.schedule,
        learned=tuple(training.learned),
        schedule=training.schedule,
        sample_halflife=training.sample_halflife,
    )
    cash, rate, stage = known_cash(config), config.costs.cash_rate, config.allocation.stage
    known = None
    if cash is not None and rate is not None:
        known = KnownReturn(list(assets).index(cash), (1.0 + rate * stage_years / stage) ** stage - 1.0)
    return TrainedSetting(
        predictor=PredictorSpec(
            forecasting.predictor,
            forecasting.options,
            forecasting.scaled,
            PriorSpec(forecasting.prior, forecasting.prior_options).of_assets(without_cash(config, assets)),
            forecasting.ensemble,
            known,
        ),
        features=features,
        samples=training.samples,
        expanding=training.expanding,
        settings=settings,
        warm_start=training.warm_start,
        risk_scaling=training.risk_scaling,
    )


def build_costs(
    config: StudyConfig, spreads: pd.DataFrame | None = None, periods_per_year: float | None = None
) -> Costs:
    """What trading and holding cost, in the plan and in the books; ``spreads`` are the table that it names.

    The plan's stages are ``allocation.stage`` rows of the prices long, of which ``evaluation.periods_per_year``, or
    else ``periods_per_year``, or else 252, are a year.
    """
    from portfolio_dfl.allocation.costs import Costs

    section, books = config.costs, config.backtest
    return Costs(
        rate=books.cost_rate if section.rate is None else section.rate,
        planned_rate=config.allocation.transaction_cost if section.rate is None else None,
        spreads=spreads,
        impact=section.impact,
        typical_trade=section.typical_trade,
        fixed=books.fixed_cost if section.fixed is None else section.fixed,
        borrow_rate=section.borrow_rate,
        in_plan=section.in_plan,
        cash=config.allocation.limits.cash,
        stage_years=config.allocation.stage / (config.evaluation.periods_per_year or periods_per_year or 252.0),
    )


def build_estimator(config: StudyConfig, assets: Sequence[str] = ()) -> CovarianceEstimator:
    """The covariance estimator that the configuration names; cash at a known rate, if among the assets, has no risk."""
    from portfolio_dfl.risk.build import build_covariance
    from portfolio_dfl.risk.riskless import BesideRiskless

    section, cash = config.covariance, known_cash(config)
    options = dict(section.options)
    if section.estimator == "factor" and "exposures" in options:
        options["exposures"] = _aligned(options["exposures"], [asset for asset in assets if asset != cash])
    estimator = build_covariance(
        section.estimator,
        window=section.window,
        ridge=section.ridge,
        halflife=section.halflife,
        options=options,
    )
    return estimator if cash is None else BesideRiskless(estimator, list(assets).index(cash))


def _aligned(exposures: Any, assets: Sequence[str]) -> np.ndarray:
    """Exposures by factor and ticker as an array [N, K], for a factor model."""
    asked = "covariance.options.exposures"
    if not isinstance(exposures, Mapping) or not all(isinstance(values, Mapping) for values in exposures.values()):
        raise ConfigError(f"{asked} is a file, or {{factor: {{ticker: number}}}}; it is {exposures!r}")
    for name, values in exposures.items():
        lacking = [asset for asset in assets if asset not in values]
        if lacking:
            raise ConfigError(f"{asked}.{name} has no number for {', '.join(lacking)}: give one to each ticker")
        odd = [f"{values[asset]!r} of {asset}" for asset in assets if not isinstance(values[asset], int | float)]
        if odd:
            raise ConfigError(f"{asked}.{name} has {', '.join(odd)}: a number is needed")
    return np.array([[float(values[asset]) for values in exposures.values()] for asset in assets])
