"""Trained strategies for the backtest and for live use: predict, then optimise, retrained along the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from portfolio_dfl.allocation import Costs, MultiPeriodMeanVariance
from portfolio_dfl.data.features.collection import FeatureSet
from portfolio_dfl.data.returns import why_not_returns
from portfolio_dfl.errors import DataError, TrainingError
from portfolio_dfl.forecasting import EnsemblePredictor, Inputs, PredictorSpec
from portfolio_dfl.forecasting.ensemble import member_seed
from portfolio_dfl.risk import CovarianceEstimator, FactorCovariance, covariance_path
from portfolio_dfl.risk.factor_path import FactorEstimator, estimate_now, factor_path, in_parts
from portfolio_dfl.scalars import require_whole
from portfolio_dfl.training.decision import DecisionModel
from portfolio_dfl.training.losses import MeanSquaredError, charged_by_books
from portfolio_dfl.training.reproducible import reproducible
from portfolio_dfl.training.samples import build_samples, returns_needed
from portfolio_dfl.training.settings import TrainingSettings
from portfolio_dfl.training.window import (
    TrainedWindow,
    WindowTask,
    build_model,
    load_state,
    train_window,
    window_seed,
)

__all__ = ["DecisionFocusedPolicy", "PredictOptimisePolicy", "TwoStagePolicy"]

FloatArray = NDArray[np.float64]


class PredictOptimisePolicy:
    """A predictor and a portfolio layer, retrained on the newest samples whose labels are complete.

    Fits the backtest's `Policy` protocol. The decision of a date is the first stage of ``model(features,
    covariance, held)``, the very function that training differentiates. A window whose training fails is
    recorded and raises `TrainingError` from `fit`; until the next retraining the policy then places no
    orders, so that the portfolio it holds drifts. The next window starts afresh, or from the last window
    that did not fail.

    Parameters
    ----------
    layer : MultiPeriodMeanVariance
        The portfolio problem; it sets N, H and λ.
    covariance : CovarianceEstimator
        Of the layer's covariance, from returns up to the decision date.
    predictor : PredictorSpec
    features : FeatureSet, optional
        What the predictor sees beside returns.
    lookback : int
        Days of returns, and of features, the predictor sees.
    realised_window : int
        Days whose returns make the realised covariance of the loss; with the layer's horizon it sets the
        embargo.
    stage : int
        Days of one stage of the plan: forecasts are of the returns compounded over each stage, covariances
        of one stage's return are `stage` times those of a day's.
    samples : int
        Samples a training uses; with ``expanding`` the least number, and all that are usable are used.
    expanding : bool
        Learn from the whole past instead of the newest `samples`.
    settings : TrainingSettings
    seed : int
    warm_start : bool
        Start from the last trained window's parameters instead of fresh ones.
    risk_scaling : bool
        Learn a `LearnedCovarianceScaling` of the layer's covariance beside the predictor.
    costs : Costs, optional
        Whose bid–ask spreads by date the plan counts; all else that it counts is in the layer.
    name : str
        Of the strategy, in tables.

    Attributes
    ----------
    windows : list of TrainedWindow
        Those used, in order of `fit`, failed ones included.
    forecasts : dict
        Expected returns [H, N] by decision date, as the layer saw them.
    returns_needed : int
        Number of returns, the decision date's included, that the first training needs.
    """

    def __init__(
        self,
        layer: MultiPeriodMeanVariance,
        covariance: CovarianceEstimator,
        *,
        predictor: PredictorSpec | None = None,
        features: FeatureSet | None = None,
        lookback: int = 120,
        realised_window: int = 20,
        stage: int = 1,
        samples: int = 120,
        expanding: bool = False,
        settings: TrainingSettings | None = None,
        seed: int = 0,
        warm_start: bool = False,
        risk_scaling: bool = False,
        costs: Costs | None = None,
        name: str = "predict_optimise",
    ) -> None:
        for what, count, least in (
            ("lookback", lookback, 1),
            ("realised_window", realised_window, 2),
            ("stage", stage, 1),
            ("samples", samples, 1),
            ("seed", seed, 0),
        ):
            require_whole(TrainingError, what, count, least)
        self.layer = layer
        self.covariance = covariance
        self.predictor = PredictorSpec() if predictor is None else predictor
        self.features = features
        self.lookback = lookback
        self.realised_window = realised_window
        self.stage = stage
        self.samples = samples
        self.expanding = expanding
        self.settings = TrainingSettings() if settings is None else settings
        self.seed = seed
        self.warm_start = warm_start
        self.risk_scaling = risk_scaling
        self.costs = Costs() if costs is None else costs
        self.name = name
        self.windows: list[TrainedWindow] = []
        self.forecasts: dict[pd.Timestamp, FloatArray] = {}
        self.horizon = layer.horizon
        self.returns_needed = returns_needed(
            samples,
            lookback=lookback,
            covariance_window=covariance.window,
            horizon=self.horizon,
            realised_window=realised_window,
            stage=stage,
            reach=1 if features is None else features.reach,
        )
        if features is not None and features.leaves_gaps and not self.predictor.scaled:
            raise TrainingError(
                f"features {', '.join(features.leaves_gaps)} take the mean for what is missing, which is known to "
                "scaled predictors alone: scale, or set missing: zero"
            )
        charged = bool((torch.as_tensor(layer.transaction_cost) > 0.0).any()) or self.costs.spreads is not None
        if "transaction_cost" in self.settings.learned and not charged:
            raise TrainingError("the plan counts no transaction cost whose factor could be learned")
        smoothing = self.settings.smoothing
        if smoothing is not None and smoothing.way != "perturbation" and in_parts(covariance, layer.n_assets):
            raise TrainingError(
                f"plans under factor risk are not smoothed by {smoothing.way}: take way='perturbation' "
                "(training.smoothing.way), or another covariance"
            )
        self._build()  # a predictor that cannot be built is a mistake to hear of now, not a failed window
        self._adopted: dict[str, TrainedWindow] = {}
        self._model: DecisionModel | None = None
        self._last_state: dict[str, torch.Tensor] | None = None

    @property
    def returns_to_decide(self) -> int:
        """Number of returns, the decision date's included, that a decision needs."""
        reach = 1 if self.features is None else self.features.reach
        return max(self.lookback + reach - 1, self.covariance.window)

    def days_of_features(self, history: pd.DataFrame) -> int:
        """Number of the newest days of a history that the samples of its last date see features of."""
        used = len(history) if self.expanding else self.returns_needed
        return used - (self.returns_to_decide - self.lookback)

    def _build(self, date: pd.Timestamp | None = None) -> DecisionModel:
        """A fresh model; whatever it draws beside its parameters is what the window of that date drew."""
        model, *others = [self._member(date, member) for member in range(self.predictor.ensemble)]
        if others:
            model.predictor = EnsemblePredictor([member.predictor for member in (model, *others)])
        return model

    def _member(self, date: pd.Timestamp | None, member: int) -> DecisionModel:
        seed = member_seed(self.seed, member)
        with reproducible(seed if date is None else window_seed(seed, date)):
            sees = self.features
            return build_model(
                self.predictor,
                self.layer,
                self.lookback,
                self.risk_scaling,
                self.stage,
                n_dated=0 if sees is None else len(sees.dated_names),
                n_by_asset=0 if sees is None else len(sees.by_asset_names),
                learned=self.settings.learned,
            )

    def task(self, history: pd.DataFrame) -> WindowTask:
        """The training of the last date of `history` [T, N], from returns up to that date.

        Raises
        ------
        DataError
            If the history is too short for the samples asked for, or holds no simple returns.
        """
        date = history.index[-1]
        if len(history) < self.returns_needed:
            raise DataError(
                f"training on {self.samples} samples needs {self.returns_needed} returns, and only "
                f"{len(history)} end by {date.date()}; start later, or use fewer samples or days of lookback"
            )
        reason = why_not_returns(history)
        if reason is not None:
            raise DataError(f"not simple returns: {reason}")
        recent = history if self.expanding else history.iloc[-self.returns_needed :]
        with reproducible(self.seed):  # digests of estimates would differ with the number of threads
            path = self._estimated(recent)
            rows = None
            if self.features is not None:
                rows = self.features.rows(self.forecast_assets(history), self.days_of_features(history))
            samples = build_samples(
                recent,
                lookback=self.lookback,
                horizon=self.horizon,
                realised_window=self.realised_window,
                covariance=(path[0], path[1]),
                stage=self.stage,
                features=rows,
            )
        samples = samples.usable_at(date).newest(None if self.expanding else self.samples)
        return WindowTask(
            date=date,
            samples=replace(samples, cost=self._cost(samples.dates, history)),
            predictor=self.predictor,
            layer=self.layer,
            settings=self._charged(history),
            seed=self.seed,
            risk_scaling=self.risk_scaling,
            initial_state=self._last_state if self.warm_start else None,
        )

    def _estimated(self, returns: pd.DataFrame) -> tuple[pd.DatetimeIndex, FloatArray | FactorCovariance]:
        if in_parts(self.covariance, returns.shape[1]):
            assert isinstance(self.covariance, FactorEstimator)
            return factor_path(returns, self.covariance)
        return covariance_path(returns, self.covariance)

    def _charged(self, history: pd.DataFrame) -> TrainingSettings:
        """The settings, their loss told what the books charge if it asks."""
        loss = charged_by_books(self.settings.loss, self.costs, list(history.columns))
        return self.settings if loss is self.settings.loss else replace(self.settings, loss=loss)

    def forecast_assets(self, history: pd.DataFrame) -> pd.DataFrame:
        """The returns of assets that are forecast: without one that is known beforehand."""
        known = self.predictor.known
        return history if known is None else history.drop(columns=history.columns[known.place])

    def _cost(self, dates: pd.DatetimeIndex, history: pd.DataFrame) -> torch.Tensor | None:
        """Cost of a unit traded at each of these dates [B, N], where it is another on each."""
        rates = self.costs.plan_rates(dates, list(history.columns))
        return None if rates is None else torch.from_numpy(rates)

    def adopt(self, windows: Iterable[TrainedWindow]) -> None:
        """Take windows trained elsewhere; `fit` uses one only where its task is the very same."""
        self._adopted.update({window.key: window for window in windows})

    def fit(self, history: pd.DataFrame) -> None:
        """Train on returns up to the last date of `history`, or take the adopted window of the same task.

        Raises
        ------
        TrainingError
            If the window failed; it is on record in `windows`.
        """
        task = self.task(history)
        window = self._adopted.get(task.key) if self._adopted else None
        if window is None:
            window = train_window(task)
        self.use(window)
        if window.failed:
            raise TrainingError(f"training at {window.date.date()} failed: {window.failure}")

    def use(self, window: TrainedWindow) -> None:
        """Decide with a trained window's parameters from now on, or place no orders if it failed."""
        self.windows.append(window)
        self._model = None
        if window.state is not None:
            model = self._build(window.date)
            load_state(model, window.state)
            self._model = model.eval()
            self._last_state = window.state

    def decide(self, history: pd.DataFrame, held: FloatArray) -> FloatArray | None:
        """Target weights [N] at the last close of `history` [T, N], given the weights held [N].

        Returns None, which places no order, while the newest window is a failed one.

        Raises
        ------
        TrainingError
            If nothing was trained yet, or the history is shorter than the predictor's window.
        """
        if not self.windows:
            raise TrainingError(f"{self.name} has not been trained: call fit first")
        if self._model is None:
            return None
        values = history.to_numpy(dtype=np.float64)
        if len(values) < self.returns_to_decide:
            raise TrainingError(f"a decision needs {self.returns_to_decide} returns, there are {len(values)}")
        features: Tensor | Inputs = torch.from_numpy(values[-self.lookback :].copy()).unsqueeze(0)
        if self.features is not None:
            known = self.features.rows(self.forecast_assets(history), self.lookback)
            features = Inputs(
                Inputs.of(features).returns, *(torch.from_numpy(part.copy()).unsqueeze(0) for part in known)
            )
        window = values[-self.covariance.window :]
        covariance = estimate_now(self.covariance, window, self.stage)
        model = self._model
        today = pd.DatetimeIndex([history.index[-1]])
        with torch.no_grad():
            batch = covariance.expand(1) if isinstance(covariance, FactorCovariance) else covariance.unsqueeze(0)
            forecasts = model.forecast(features, batch)
            self.forecasts[history.index[-1]] = forecasts[0].numpy()
            plan = model.plan(
                forecasts,
                batch,
                torch.from_numpy(held).unsqueeze(0),
                today,
                self._cost(today, history),
            )
        weights: FloatArray = plan[0, 0].numpy()
        return weights


class DecisionFocusedPolicy(PredictOptimisePolicy):
    """Trained through the portfolio layer on a loss of decisions; the paper's decision loss by default."""

    def __init__(
        self,
        layer: MultiPeriodMeanVariance,
        covariance: CovarianceEstimator,
        *,
        name: str = "decision_focused",
        **options: Any,
    ) -> None:
        super().__init__(layer, covariance, name=name, **options)


class TwoStagePolicy(PredictOptimisePolicy):
    """The same predictor trained on squared error, deciding through the same layer.

    Takes the options of `PredictOptimisePolicy`; the settings' loss is replaced by `MeanSquaredError`, all
    else stays equal, so that a comparison differs in the loss alone. ``settings.method = "least_squares"``
    gives the closed form.
    """

    def __init__(
        self,
        layer: MultiPeriodMeanVariance,
        covariance: CovarianceEstimator,
        *,
        name: str = "two_stage",
        **options: Any,
    ) -> None:
        super().__init__(layer, covariance, name=name, **options)
        self.settings = replace(self.settings, loss=MeanSquaredError())
