"""A scikit-learn estimator of the whole chain, for skfolio's cross-validation, pipelines and comparisons."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from skfolio.optimization import BaseOptimization
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.allocation.costs import Costs
from portfolio_dfl.allocation.limits import Limit
from portfolio_dfl.allocation.smoothing import Smoothing
from portfolio_dfl.data.features.collection import FeatureSet
from portfolio_dfl.data.returns import why_not_returns
from portfolio_dfl.errors import DataError, TrainingError
from portfolio_dfl.forecasting import PredictorSpec, PriorSpec
from portfolio_dfl.forecasting.build import PredictorFactory
from portfolio_dfl.risk import CovarianceEstimator, RollingCovariance
from portfolio_dfl.training.learned_factors import Learnable
from portfolio_dfl.training.losses import Loss, build_loss
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.settings import TrainingSettings
from portfolio_dfl.training.starving import starving_warning
from portfolio_dfl.training.window import TrainedWindow

__all__ = ["DecisionFocusedPortfolio"]


class DecisionFocusedPortfolio(BaseOptimization):
    """Train a predictor through the portfolio problem, then decide: an skfolio portfolio optimiser.

    ``fit(X)`` trains on the samples whose labels are complete at the last row of X and decides at that
    close, with `previous_weights` as the weights held (equal weights if None). ``predict(X)`` evaluates the
    weights on other returns, as for every skfolio optimiser.

    Weights held are aligned by name with the columns of X. Where a step before this one dropped or changed assets
    (skfolio's `SelectKExtremes`, `DropCorrelated`), those that are held and not in X count as sold, and what they
    brought as spread over the others held, in proportion (equally where none is left), before the turnover limit
    counts. That needs names: call ``set_output(transform="pandas")`` on a pipeline with such a step.

    The decision depends on the weights held, so that `cross_val_predict` runs the folds in order and hands
    them on. Give ``portfolio_params={"weight_drift": True}`` to hand on drifted weights, which are the ones
    really held.

    Parameters
    ----------
    horizon : int
        Stages H planned ahead.
    stage : int
        Rows of X, such as trading days, that one stage of the plan lasts.
    risk_aversion : float
        λ.
    turnover_limit : float, sequence of float, or None
        τ, largest ‖w_s − w_{s−1}‖₁, for all stages or for each; None for no limit.
    transaction_cost : float
        c, cost of trading one unit that the plan counts.
    costs : Costs, optional
        In place of `transaction_cost`: rates by name of the columns of X, spreads by date, impact and borrow rates,
        which the plan counts as a study's does. Its `stage_years` is the length of one stage.
    limits : sequence of Limit
        Of weights, see `portfolio_dfl.allocation.limits`. They see the columns of X, those that are left of a
        pre-selection: a limit of your own finds its assets in ``limits.assets``.
    solver : str
        Of the portfolio problem.
    covariance : CovarianceEstimator, optional
        The paper's rolling covariance over 20 days by default.
    predictor : str or callable
        See `PredictorSpec`.
    predictor_options : mapping, optional
    features : FeatureSet, optional
        What the predictor sees beside returns; X then has dates, and the tickers that tables were read with.
    prior : str
        What forecasts are added to, see `PriorSpec`.
    prior_options : mapping, optional
    ensemble : int
        Predictors that are trained apart; their mean forecasts.
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
    smoothing, smoothing_schedule, schedule, sample_halflife, learned
        See `TrainingSettings`.
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

    Examples
    --------
    >>> from portfolio_dfl import DecisionFocusedPortfolio, open_source
    >>> returns = open_source("embedded").load().pct_change().loc["2018"]
    >>> model = DecisionFocusedPortfolio(horizon=2, lookback=10, samples=30, realised_window=5, epochs=2)
    >>> model.fit(returns).weights_.round(3).shape
    (5,)
    """

    def __init__(
        self,
        *,
        horizon: int = 5,
        stage: int = 1,
        risk_aversion: float = 10.0,
        turnover_limit: float | Sequence[float] | None = 0.2,
        transaction_cost: float = 0.0,
        costs: Costs | None = None,
        limits: Sequence[Limit] = (),
        solver: str = "auto",
        covariance: CovarianceEstimator | None = None,
        predictor: str | PredictorFactory = "linear",
        predictor_options: Mapping[str, Any] | None = None,
        features: FeatureSet | None = None,
        prior: str = "zero",
        prior_options: Mapping[str, Any] | None = None,
        ensemble: int = 1,
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
        smoothing: Smoothing | None = None,
        smoothing_schedule: Literal["constant", "to_exact"] = "constant",
        schedule: Literal["constant", "cosine", "one_cycle"] = "constant",
        sample_halflife: float | None = None,
        learned: Sequence[Learnable] = (),
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
        self.stage = stage
        self.risk_aversion = risk_aversion
        self.turnover_limit = turnover_limit
        self.transaction_cost = transaction_cost
        self.costs = costs
        self.limits = limits
        self.solver = solver
        self.covariance = covariance
        self.predictor = predictor
        self.predictor_options = predictor_options
        self.features = features
        self.prior = prior
        self.prior_options = prior_options
        self.ensemble = ensemble
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
        self.smoothing = smoothing
        self.smoothing_schedule = smoothing_schedule
        self.schedule = schedule
        self.sample_halflife = sample_halflife
        self.learned = learned
        self.risk_scaling = risk_scaling
        self.seed = seed

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; deep ones of the covariance estimator too, as ``covariance__window``."""
        params: dict[str, Any] = super().get_params(deep=deep)
        inside = self._covariance()
        if deep and is_dataclass(inside):
            made = {part.name: getattr(inside, part.name) for part in fields(inside) if part.init}
            params |= {f"covariance__{name}": value for name, value in made.items()}
        return params

    def set_params(self, **params: Any) -> DecisionFocusedPortfolio:
        """Set parameters by name; ``covariance__window`` and the like make an estimator with that value.

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        inside = {key: params[key] for key in params if key.startswith("covariance__")}
        super().set_params(**{key: value for key, value in params.items() if key not in inside})
        known = self.get_params()
        unknown = [key for key in inside if key not in known]
        if unknown:
            valid = ", ".join(key for key in known if key.startswith("covariance__")) or "none"
            raise ValueError(f"no parameter {', '.join(unknown)}; of {self._covariance()!r} there are: {valid}")
        if inside:
            changed: Any = self._covariance()
            self.covariance = replace(changed, **{key.partition("__")[2]: value for key, value in inside.items()})
        return self

    def _covariance(self) -> CovarianceEstimator:
        return RollingCovariance() if self.covariance is None else self.covariance

    @property
    def needs_previous_weights(self) -> bool:
        """The turnover limit ties every decision to the weights held: folds must run in order."""
        return True

    def fit(self, X: ArrayLike, y: Any = None) -> DecisionFocusedPortfolio:
        """Train on simple returns X [T, N] and decide at the close of its last row.

        What skfolio's other optimisers take as y, returns of factors or of a benchmark, is refused here: give it as
        `features`. A plain vector, the target that scikit-learn's tools hand to every estimator, is not looked at.

        Raises
        ------
        DataError
            If X is no table of finite simple returns, anywhere in it, or too short; if the weights held do not fit it;
            if y is a table or a series.
        TrainingError
            If training fails numerically; see skfolio's `fallback` and `raise_on_failure` for ways on.
        """
        _refuse_factors(y)
        history = self._history(X, fitted=False)
        n_assets = history.shape[1]
        held = np.full(n_assets, 1.0 / n_assets)
        if self.previous_weights is not None:
            held = np.asarray(self._clean_previous_weights(n_assets), dtype=np.float64)
        self.policy_ = self._policy(n_assets, [str(name) for name in history.columns])
        self.policy_.fit(history)
        decided = self.policy_.decide(history, held)
        if decided is None:
            raise TrainingError("the trained window places no orders")
        self.window_: TrainedWindow = self.policy_.windows[-1]
        starving = starving_warning(self.window_.health)
        if starving:
            warnings.warn(starving, ConvergenceWarning, stacklevel=2)
        self.expected_returns_: NDArray[np.float64] = self.policy_.forecasts[history.index[-1]]
        self.weights_ = decided
        return self

    def predict(self, X: ArrayLike) -> Any:
        """Portfolio of the weights decided on other simple returns X [T, N] of the same assets, as in skfolio.

        Raises
        ------
        DataError
            If X is no table of finite simple returns of the assets that were fitted.
        """
        check_is_fitted(self, "weights_")
        self._history(X, fitted=True)
        return super().predict(X)

    def fit_predict(self, X: ArrayLike, y: Any = None) -> Any:
        """Fit on X and evaluate the weights on it, as in skfolio."""
        return self.fit(X, y).predict(X)

    def _history(self, X: ArrayLike, *, fitted: bool) -> pd.DataFrame:
        """X as a frame of finite returns with dates; in `fit`, scikit-learn keeps its names and width."""
        needed = {"ensure_min_samples": 1 if fitted else 2, "reset": not fitted}
        try:
            # Not finite ones are named below, by ticker and date.
            values = validate_data(self, X, dtype=np.float64, ensure_all_finite=False, **needed)
        except (TypeError, ValueError) as error:
            raise DataError(f"X is no table of returns: {error}") from error
        index = X.index if isinstance(X, pd.DataFrame) else pd.RangeIndex(len(values))
        columns = X.columns if isinstance(X, pd.DataFrame) else range(values.shape[1])
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            row, column = bad[0]
            label = index[row].date() if isinstance(index, pd.DatetimeIndex) else f"row {index[row]}"
            kind = "NaN" if np.isnan(values[row, column]) else "infinity"
            raise DataError(
                f"X contains {kind}: the return of {columns[column]} on {label}, and {len(bad) - 1} more values are "
                "not finite; clean the prices, or start later"
            )
        if not isinstance(index, pd.DatetimeIndex):  # consecutive days only seed the window
            index = pd.date_range("1970-01-01", periods=len(values))
        history = pd.DataFrame(values, index=index, columns=columns)
        reason = why_not_returns(history)
        if reason is not None:
            raise DataError(f"not simple returns: {reason}")
        return history

    def _clean_previous_weights(self, n_assets: int, *, apply_investable_mask: bool = True) -> NDArray[np.float64]:
        """Weights held [N] in the order of X; those of other assets as sold, see the class."""
        given = self.previous_weights
        if isinstance(given, Mapping):
            return self._aligned(given, n_assets)
        held = np.asarray(given, dtype=np.float64)
        held = np.full(n_assets, float(held)) if held.ndim == 0 else held
        if held.shape != (n_assets,):
            raise DataError(
                f"previous_weights are {list(held.shape)} numbers without names, and X has {n_assets} assets: give "
                'a mapping of names to weights and X as a frame; in a pipeline, call set_output(transform="pandas")'
            )
        return held

    def _aligned(self, given: Mapping[str, float], n_assets: int) -> NDArray[np.float64]:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            raise DataError(
                "previous_weights have names and the columns of X have none (or not all are text): give X as a frame; "
                'in a pipeline, call set_output(transform="pandas")'
            )
        kept = np.array([float(given.get(name, 0.0)) for name in names])
        sold = float(sum(weight for name, weight in given.items() if name not in set(names)))
        if sold == 0.0 or not np.isfinite([*kept, sold]).all():
            return kept
        left = float(kept.sum())
        return kept * ((left + sold) / left) if left > 0.0 else np.full(n_assets, sold / n_assets)

    def _policy(self, n_assets: int, names: Sequence[str]) -> PredictOptimisePolicy:
        if self.costs is not None:
            if self.transaction_cost:
                raise TrainingError("costs and transaction_cost are both given, and say the same: give one of them")
            self.costs.check(names)
        planned = Costs(rate=self.transaction_cost) if self.costs is None else self.costs
        layer = MultiPeriodMeanVariance(
            n_assets=n_assets,
            horizon=self.horizon,
            risk_aversion=self.risk_aversion,
            turnover_limit=self.turnover_limit,
            limits=self.limits,
            solver=self.solver,
            assets=names,
            **planned.plan_terms(names),
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
            smoothing=self.smoothing,
            smoothing_schedule=self.smoothing_schedule,
            learned=tuple(self.learned),
            schedule=self.schedule,
            sample_halflife=self.sample_halflife,
        )
        return PredictOptimisePolicy(
            layer,
            self._covariance(),
            predictor=PredictorSpec(
                self.predictor,
                self.predictor_options or {},
                self.scaled,
                PriorSpec(self.prior, self.prior_options or {}).of_assets(names),
                self.ensemble,
            ),
            features=self.features,
            costs=self.costs,
            lookback=self.lookback,
            stage=self.stage,
            realised_window=self.realised_window,
            samples=self.samples,
            expanding=self.expanding,
            settings=settings,
            seed=self.seed,
            risk_scaling=self.risk_scaling,
            name=type(self).__name__,
        )


def _refuse_factors(y: Any) -> None:
    """Raise DataError where y is more than a plain vector: what looks like data must not be passed over."""
    if isinstance(y, pd.DataFrame | pd.Series) or np.ndim(y) > 1:
        raise DataError(
            "y, as of returns of factors or of a benchmark, is not used: give what predicts beside X as "
            "features=FeatureSet(...), which says when its values were known, and leave y out"
        )
