"""A scikit-learn estimator of the whole chain, for skfolio's cross-validation, pipelines and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from skfolio.optimization import BaseOptimization
from sklearn.utils.validation import validate_data

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.allocation.limits import Limit
from portfolio_dfl.errors import TrainingError
from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.forecasting.build import PredictorFactory
from portfolio_dfl.risk import CovarianceEstimator, RollingCovariance
from portfolio_dfl.training.losses import Loss, build_loss
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.settings import TrainingSettings
from portfolio_dfl.training.window import TrainedWindow

__all__ = ["DecisionFocusedPortfolio"]


class DecisionFocusedPortfolio(BaseOptimization):
    """Train a predictor through the portfolio problem, then decide: an skfolio portfolio optimiser.

    ``fit(X)`` trains on the samples whose labels are complete at the last row of X and decides at that
    close, with `previous_weights` as the weights held (equal weights if None). ``predict(X)`` evaluates the
    weights on other returns, as for every skfolio optimiser.

    The decision depends on the weights held, so that `cross_val_predict` runs the folds in order and hands
    them on. Give ``portfolio_params={"weight_drift": True}`` to hand on drifted weights, which are the ones
    really held.

    Parameters
    ----------
    horizon : int
        Days H planned ahead.
    risk_aversion : float
        λ.
    turnover_limit : float, sequence of float, or None
        τ, largest ‖w_s − w_{s−1}‖₁, for all stages or for each; None for no limit.
    transaction_cost : float
        c, cost of trading one unit that the plan counts.
    limits : sequence of Limit
        Of weights, see `portfolio_dfl.allocation.limits`.
    solver : str
        Of the portfolio problem.
    covariance : CovarianceEstimator, optional
        The paper's rolling covariance over 20 days by default.
    predictor : str or callable
        See `PredictorSpec`.
    predictor_options : mapping, optional
    lookback : int
        Days of returns the predictor sees.
    scaled : bool
        Standardise with scales fitted in the training window.
    samples : int
        Newest samples to train on.
    expanding : bool
        Train on all samples, at least `samples`.
    realised_window : int
        Days of the realised covariance in the loss.
    loss : str, mapping or callable
        See `build_loss`.
    method, initialise, ridge, epochs, batch_size, learning_rate, weight_decay, gradient_clip
        See `TrainingSettings`.
    validation_samples, patience
        Of early stopping, see `TrainingSettings`.
    risk_scaling : bool
        Learn a `LearnedCovarianceScaling` of the covariance beside the predictor.
    seed : int
    portfolio_params, fallback, previous_weights, raise_on_failure
        As in skfolio: what `predict` passes on, and what happens if training fails.

    Attributes
    ----------
    weights_ : ndarray [N]
        Decided at the close of the last row of X.
    expected_returns_ : ndarray [H, N]
        Forecasts that led to them.
    window_ : TrainedWindow
        The training on record.
    policy_ : PredictOptimisePolicy
        Decides at later dates too: ``policy_.decide(returns, held)``.
    """

    def __init__(
        self,
        *,
        horizon: int = 5,
        risk_aversion: float = 10.0,
        turnover_limit: float | Sequence[float] | None = 0.2,
        transaction_cost: float = 0.0,
        limits: Sequence[Limit] = (),
        solver: str = "auto",
        covariance: CovarianceEstimator | None = None,
        predictor: str | PredictorFactory = "linear",
        predictor_options: Mapping[str, Any] | None = None,
        lookback: int = 120,
        scaled: bool = True,
        samples: int = 120,
        expanding: bool = False,
        realised_window: int = 20,
        loss: str | Mapping[str, float | Sequence[float]] | Loss = "decision",
        method: Literal["gradient", "least_squares"] = "gradient",
        initialise: Literal["fresh", "least_squares"] = "fresh",
        ridge: float = 100.0,
        epochs: int = 20,
        batch_size: int | None = None,
        learning_rate: float = 1e-4,
        weight_decay: float = 0.0,
        gradient_clip: float | None = None,
        validation_samples: int = 0,
        patience: int = 5,
        risk_scaling: bool = False,
        seed: int = 0,
        portfolio_params: dict[str, Any] | None = None,
        fallback: Any = None,
        previous_weights: Any = None,
        raise_on_failure: bool = True,
    ) -> None:
        super().__init__(
            portfolio_params=portfolio_params,
            fallback=fallback,
            previous_weights=previous_weights,
            raise_on_failure=raise_on_failure,
        )
        self.horizon = horizon
        self.risk_aversion = risk_aversion
        self.turnover_limit = turnover_limit
        self.transaction_cost = transaction_cost
        self.limits = limits
        self.solver = solver
        self.covariance = covariance
        self.predictor = predictor
        self.predictor_options = predictor_options
        self.lookback = lookback
        self.scaled = scaled
        self.samples = samples
        self.expanding = expanding
        self.realised_window = realised_window
        self.loss = loss
        self.method = method
        self.initialise = initialise
        self.ridge = ridge
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.gradient_clip = gradient_clip
        self.validation_samples = validation_samples
        self.patience = patience
        self.risk_scaling = risk_scaling
        self.seed = seed

    @property
    def needs_previous_weights(self) -> bool:
        """The turnover limit ties every decision to the weights held: folds must run in order."""
        return True

    def fit(self, X: ArrayLike, y: None = None) -> DecisionFocusedPortfolio:
        """Train on simple returns X [T, N] and decide at the close of its last row.

        Raises
        ------
        DataError
            If X is too short or holds missing returns.
        TrainingError
            If training fails numerically; see skfolio's `fallback` and `raise_on_failure` for ways on.
        """
        validate_data(self, X, skip_check_array=True)
        history = _dated(X)
        n_assets = history.shape[1]
        held = np.full(n_assets, 1.0 / n_assets)
        if self.previous_weights is not None:
            held = np.asarray(self._clean_previous_weights(n_assets), dtype=np.float64)
        self.policy_ = self._policy(n_assets)
        self.policy_.fit(history)
        decided = self.policy_.decide(history, held)
        if decided is None:
            raise TrainingError("the trained window places no orders")
        self.window_: TrainedWindow = self.policy_.windows[-1]
        self.expected_returns_: NDArray[np.float64] = self.policy_.forecasts[history.index[-1]]
        self.weights_ = decided
        return self

    def _policy(self, n_assets: int) -> PredictOptimisePolicy:
        layer = MultiPeriodMeanVariance(
            n_assets=n_assets,
            horizon=self.horizon,
            risk_aversion=self.risk_aversion,
            turnover_limit=self.turnover_limit,
            transaction_cost=self.transaction_cost,
            limits=self.limits,
            solver=self.solver,
        )
        settings = TrainingSettings(
            loss=build_loss(self.loss) if isinstance(self.loss, str | Mapping) else self.loss,
            method=self.method,
            initialise=self.initialise,
            ridge=self.ridge,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            gradient_clip=self.gradient_clip,
            validation_samples=self.validation_samples,
            patience=self.patience,
        )
        return PredictOptimisePolicy(
            layer,
            RollingCovariance() if self.covariance is None else self.covariance,
            predictor=PredictorSpec(self.predictor, self.predictor_options or {}, self.scaled),
            lookback=self.lookback,
            realised_window=self.realised_window,
            samples=self.samples,
            expanding=self.expanding,
            settings=settings,
            seed=self.seed,
            risk_scaling=self.risk_scaling,
            name=type(self).__name__,
        )


def _dated(X: ArrayLike) -> pd.DataFrame:
    """Returns as a frame with dates; rows without dates get consecutive days, which only seed the window."""
    if isinstance(X, pd.DataFrame) and isinstance(X.index, pd.DatetimeIndex):
        return X
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X, dtype=np.float64))
    return frame.set_axis(pd.date_range("1970-01-01", periods=len(frame)), axis=0)
