"""One training window as a pure function: a task in, a trained window out, anywhere and in any order.

The outcome depends on the task alone: the seed is derived from the task's seed and date, arithmetic runs on
one thread, nothing global is read or left behind, and the threads of a process take turns. So windows can be
spread over processes, resumed, and repeated bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import joblib
import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dxpp_core.errors import QPError
from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.errors import AllocationError, PortfolioError, TrainingError
from portfolio_dfl.forecasting import InputsPredictor, PredictorSpec, ScaledPredictor, fit_least_squares
from portfolio_dfl.forecasting.ensemble import member_seed
from portfolio_dfl.risk import LearnedCovarianceScaling
from portfolio_dfl.risk.factor_path import covariance_parts
from portfolio_dfl.training.decision import DecisionModel
from portfolio_dfl.training.ensembles import ensemble_state, mean_course, mean_health, member_state
from portfolio_dfl.training.fitting import fit_by_gradient
from portfolio_dfl.training.health import GradientHealth
from portfolio_dfl.training.reproducible import reproducible
from portfolio_dfl.training.samples import Samples
from portfolio_dfl.training.settings import TrainingSettings

__all__ = [
    "TrainedWindow",
    "TrainingSettings",
    "WindowTask",
    "build_model",
    "load_state",
    "train_window",
    "window_seed",
]

# What may go wrong with the numbers of one window; mistakes in the settings are not among them and are
# raised.
_WINDOW_FAILURES = (PortfolioError, QPError, np.linalg.LinAlgError)


@dataclass(frozen=True, eq=False)
class WindowTask:
    """Everything that decides the outcome of one window's training; picklable.

    Attributes
    ----------
    date : Timestamp
        Decision date t at whose close training happens.
    samples : Samples
        Those to learn from; their labels must all be complete at `date`.
    predictor : PredictorSpec
    layer : MultiPeriodMeanVariance
        The portfolio problem; its parameters are not trained.
    settings : TrainingSettings
    seed : int
        Of the study; the window's own seed follows from it and the date.
    risk_scaling : bool
        Learn a `LearnedCovarianceScaling` beside the predictor.
    initial_state : mapping or None
        Parameters to start from (warm start), as in `TrainedWindow.state`.
    """

    date: pd.Timestamp
    samples: Samples
    predictor: PredictorSpec
    layer: MultiPeriodMeanVariance
    settings: TrainingSettings
    seed: int = 0
    risk_scaling: bool = False
    initial_state: Mapping[str, Tensor] | None = None

    def __post_init__(self) -> None:
        known = self.samples.label_end <= self.date
        if len(known) == 0 or not known.all():
            raise TrainingError(
                f"{int((~known).sum())} of {len(known)} samples have labels that are not complete at "
                f"{self.date.date()}; train on Samples.usable_at(date)"
            )

    @property
    def key(self) -> str:
        """Digest of the task's content, the same in every process: equal keys mean equal outcomes."""
        samples = self.samples
        arrays = [
            np.ascontiguousarray(part.numpy())
            for part in (
                samples.features,
                samples.future_returns,
                *covariance_parts(samples.realised_covariance),
                *covariance_parts(samples.covariance),
                *(part for part in (samples.dated, samples.by_asset) if part is not None),
            )
        ]
        if samples.cost is not None:
            arrays.append(np.ascontiguousarray(samples.cost.numpy()))
        state = {name: value.numpy() for name, value in sorted((self.initial_state or {}).items())}
        described = (self.predictor.describe(), repr(self.layer), repr(self.settings), self.risk_scaling)
        stage = () if samples.stage == 1 else (samples.stage,)  # keys of old runs know of none
        smoothing = (self.settings.smoothing, self.settings.smoothing_schedule)
        smoothed = () if smoothing[0] is None else (repr(smoothing),)  # nor of this
        newer = (self.settings.learned, self.settings.schedule, self.settings.sample_halflife)
        more = () if newer == ((), "constant", None) else newer
        return str(joblib.hash((self.date.isoformat(), arrays, state, described, self.seed, *stage, *smoothed, *more)))

    def build_model(self) -> DecisionModel:
        """The untrained decision model of this task, one of an ensemble."""
        samples = self.samples
        return build_model(
            self.predictor,
            self.layer,
            samples.lookback,
            self.risk_scaling,
            samples.stage,
            n_dated=samples.n_dated,
            n_by_asset=samples.n_by_asset,
            learned=self.settings.learned,
        )


@dataclass(frozen=True, eq=False)
class TrainedWindow:
    """Outcome of one window: parameters, or why there are none; and what happened on the way.

    Attributes
    ----------
    date, key
        Of the task.
    state : dict or None
        The decision model's parameters and scales without the layer's; None for a failed window.
    failure : str or None
        Why training failed.
    first_sample, last_sample, last_label_end : Timestamp
        Span of the samples given, and the date of the newest return any of their labels used.
    n_training, n_validation : int
        Samples on either side.
    losses, validation_losses : tuple of float
        By epoch.
    health : GradientHealth
    seconds : float
        Wall time.
    """

    date: pd.Timestamp
    key: str
    state: dict[str, Tensor] | None
    failure: str | None
    first_sample: pd.Timestamp
    last_sample: pd.Timestamp
    last_label_end: pd.Timestamp
    n_training: int
    n_validation: int
    losses: tuple[float, ...] = ()
    validation_losses: tuple[float, ...] = ()
    health: GradientHealth = field(default_factory=GradientHealth)
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether the window has no parameters."""
        return self.state is None


def train_window(task: WindowTask) -> TrainedWindow:
    """Train one window with a fresh predictor and Trainer; numerical failures are recorded, not raised.

    Raises
    ------
    TrainingError, DataError
        If the settings cannot work for any window: an unusable predictor, a validation slice that leaves
        nothing.
    """
    started = time.perf_counter()
    if task.predictor.ensemble > 1:
        return replace(_train_ensemble(task), seconds=time.perf_counter() - started)
    settings, samples = task.settings, task.samples
    training, validation = samples, None
    if settings.validation_samples and settings.method == "gradient":
        training, validation = samples.split_validation(settings.validation_samples)
    blank = TrainedWindow(
        date=task.date,
        key=task.key,
        state=None,
        failure=None,
        first_sample=samples.dates[0],
        last_sample=samples.dates[-1],
        last_label_end=samples.label_end.max(),
        n_training=len(training),
        n_validation=0 if validation is None else len(validation),
    )
    with reproducible(window_seed(task.seed, task.date)):
        model = task.build_model()
        try:
            _start(model, task, training)
            fitted = blank
            if settings.method == "gradient":
                course = fit_by_gradient(model, training, validation, settings)
                fitted = replace(
                    blank,
                    losses=course.losses,
                    validation_losses=course.validation_losses,
                    health=course.health,
                )
            fitted = replace(fitted, state=_state_of(model))
        except _WINDOW_FAILURES as error:
            health = GradientHealth(layer_failures=int(isinstance(error, AllocationError | QPError)))
            fitted = replace(blank, failure=f"{type(error).__name__}: {error}", health=health)
    return replace(fitted, seconds=time.perf_counter() - started)


def _train_ensemble(task: WindowTask) -> TrainedWindow:
    """Every member as a window of its own, from its own seed; one that fails fails them all."""
    members = [
        train_window(
            replace(
                task,
                predictor=task.predictor.member(),
                seed=member_seed(task.seed, member),
                initial_state=None if task.initial_state is None else member_state(task.initial_state, member),
            )
        )
        for member in range(task.predictor.ensemble)
    ]
    failed = next((member for member in members if member.failed), None)
    if failed is not None:
        return replace(failed, key=task.key)
    return replace(
        members[0],
        key=task.key,
        state=ensemble_state([member.state or {} for member in members]),
        losses=mean_course([member.losses for member in members]),
        validation_losses=mean_course([member.validation_losses for member in members]),
        health=mean_health([member.health for member in members]),
    )


def build_model(
    predictor: PredictorSpec,
    layer: MultiPeriodMeanVariance,
    lookback: int,
    risk_scaling: bool = False,
    stage: int = 1,
    *,
    n_dated: int = 0,
    n_by_asset: int = 0,
    learned: Sequence[str] = (),
) -> DecisionModel:
    """An untrained decision model for the layer's assets and horizon, with stages of that many days, and features.

    It is one of an ensemble.
    """
    n_assets, horizon = layer.n_assets, layer.horizon
    if risk_scaling and predictor.ensemble > 1:
        raise TrainingError("risk_scaling learns one scale and an ensemble has several: use one of the two")
    if learned and predictor.ensemble > 1:
        raise TrainingError(
            f"one factor of {', '.join(learned)} is learned and an ensemble has several: use one of the two"
        )
    scaling = LearnedCovarianceScaling(n_assets) if risk_scaling else None
    forecast = n_assets - (predictor.known is not None)
    forecasting = predictor.build(forecast, lookback, horizon, stage, n_dated=n_dated, n_by_asset=n_by_asset)
    prior = predictor.prior.build(forecast, lookback, stage)
    return DecisionModel(forecasting, layer, scaling, prior, predictor.known, learned)


def load_state(model: DecisionModel, state: Mapping[str, Tensor]) -> None:
    """Put a window's parameters into a model of the same task."""
    missing, unexpected = model.load_state_dict(dict(state), strict=False)
    wrong = [name for name in missing if not name.startswith("layer.")] + list(unexpected)
    if wrong:
        raise TrainingError(f"parameters do not belong to this predictor: {', '.join(wrong)} do not match")


def _start(model: DecisionModel, task: WindowTask, training: Samples) -> None:
    """Initial values and scales, from the training samples alone."""
    settings, predictor, inputs = task.settings, model.predictor, model.seen(training.inputs)
    if task.initial_state is not None:
        load_state(model, task.initial_state)
    if isinstance(predictor, ScaledPredictor | InputsPredictor):
        predictor.fit_scales(inputs)  # type: ignore[arg-type]
    closed_form = settings.method == "least_squares" or settings.initialise == "least_squares"
    if closed_form and (task.initial_state is None or settings.method == "least_squares"):
        targets = training.future_returns if model.known is None else model.known.without(training.future_returns)
        if model.prior is not None:
            with torch.no_grad():
                targets = targets - model.expected(training.inputs, training.covariance)
        fit_least_squares(predictor, inputs, targets, ridge=settings.ridge, shares=settings.shares(len(training)))


def _state_of(model: DecisionModel) -> dict[str, Tensor]:
    state = model.state_dict()
    return {name: value.detach().clone() for name, value in state.items() if not name.startswith("layer.")}


def window_seed(seed: int, date: pd.Timestamp) -> int:
    """Seed of the window of a date."""
    return int(np.random.SeedSequence([seed, date.toordinal()]).generate_state(1)[0])
