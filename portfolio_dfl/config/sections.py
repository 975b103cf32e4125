"""The sections of a study's configuration: each key with its type, range, default and meaning."""

from __future__ import annotations

import datetime as dt
import math
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainValidator, model_validator

from portfolio_dfl.config.frequency import RebalanceValue
from portfolio_dfl.config.limits import LimitsConfig
from portfolio_dfl.config.names import one_of, part_name, strategy_names
from portfolio_dfl.config.own import OwnPart
from portfolio_dfl.config.section import Choice, Folder, Free, Name, Section, Text, Ticker
from portfolio_dfl.config.smoothing import SmoothingConfig

__all__ = [
    "AllocationConfig",
    "BacktestConfig",
    "CovarianceConfig",
    "DataConfig",
    "EvaluationConfig",
    "ExecutionConfig",
    "ForecastingConfig",
    "Strategy",
    "SweepConfig",
    "TrackingConfig",
    "TrainingConfig",
]

Strategy = Annotated[str, PlainValidator(one_of())]
# What MLflow 3 keeps runs in.
_STORES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks")
# What torch's generators take.
_SEEDS = 2**63
# The longest name of an experiment that MLflow takes.
_EXPERIMENT_LENGTH = 500
# Wider than this, floating point numbers are not whole ones any more.
_WHOLE = 2**53


def _in_order(start: dt.date | None, end: dt.date | None) -> None:
    if start is not None and end is not None and start >= end:
        raise ValueError(f"start {start} must lie before end {end}")


class DataConfig(Section):
    """Where prices come from and what is done about their gaps."""

    source: Text = Field(
        default="embedded",
        min_length=1,
        description="embedded | skfolio-sp500 | yahoo | path of a file, snapshot or folder | package.module:Name",
    )
    tickers: list[Ticker] | None = Field(default=None, description="columns to use; null takes all of them")
    members: Text | None = Field(
        default=None,
        min_length=1,
        description="CSV or Parquet file of who is a member when: ticker, from, to, [delisting_return, column]; null: "
        "all, always",
    )
    start: dt.date | None = Field(default=None, description="first price date used")
    end: dt.date | None = Field(default=None, description="last price date used, included")
    calendar: Text | None = Field(
        default="XNYS", description="exchange calendar that says which sessions exist; null: none"
    )
    policies: dict[str, Free] = Field(
        default_factory=dict, description="what to do about each kind of defect; the default is to fail"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _in_order(self.start, self.end)
        if self.tickers is not None and self.members is not None:
            raise ValueError("tickers and members both say which columns to use: leave out tickers")
        if self.tickers is not None:
            if len(self.tickers) < 2:
                raise ValueError("a portfolio needs at least two tickers")
            repeated = sorted({ticker for ticker in self.tickers if self.tickers.count(ticker) > 1})
            if repeated:
                raise ValueError(f"tickers named twice: {', '.join(repeated)}")
        return self


class CovarianceConfig(Section):
    """How the covariance inside the portfolio problem is estimated, from returns up to the decision date."""

    estimator: Annotated[str, PlainValidator(part_name("rolling", "ewma", "ledoit_wolf", "oas", "factor"))] = Field(
        default="rolling", description="rolling | ewma | ledoit_wolf | oas | factor | package.module:Name"
    )
    window: int = Field(default=20, ge=2, description="past returns used")
    ridge: float = Field(default=1e-3, ge=0, description="share of the mean variance added to each variance")
    halflife: float = Field(default=20.0, gt=0, description="in returns; ewma only")
    options: dict[str, Free] = Field(
        default_factory=dict,
        description="arguments of factor (factors, shrinkage; or exposures: a file, or {factor: {ticker: number}}, "
        "market, shrinkage), or of an estimator of your own",
    )


class AllocationConfig(Section):
    """The multi-period mean-variance problem."""

    horizon: int = Field(default=5, ge=1, description="stages planned ahead, H")
    stage: int = Field(
        default=1,
        ge=1,
        description="rows of prices (trading days) a stage: returns compound over them, costs and τ count once",
    )
    risk_aversion: float = Field(default=10.0, gt=0, description="λ")
    turnover_limit: Annotated[float, Field(gt=0)] | list[Annotated[float, Field(gt=0)]] | None = Field(
        default=0.2, description="τ, L1 distance between consecutive weights; one for each stage; null: no limit"
    )
    max_weight: float | None = Field(
        default=None, gt=0, le=1, description="largest weight that a decision may give an asset; null: any"
    )
    transaction_cost: float = Field(
        default=0.0, ge=0, lt=1, description="c, cost of trading one unit that the plan counts; the paper: none"
    )
    solver: Text = Field(default="auto", min_length=1, description="auto | piqp | gurobi | a name known to qpsolvers")
    repair: Literal["none", "project"] = Field(
        default="none",
        description="what studies start from: none, equal weights | project, the nearest within the limits (to the "
        "benchmark, where the tracking error is limited)",
    )
    limits: LimitsConfig = LimitsConfig()

    @model_validator(mode="after")
    def _limit_for_each_stage(self) -> Self:
        limits = self.turnover_limit
        if isinstance(limits, list) and len(limits) != self.horizon:
            raise ValueError(f"turnover_limit has {len(limits)} numbers for {self.horizon} stages of the horizon")
        return self

    @property
    def first_turnover_limit(self) -> float:
        """τ of the stage that is traded; infinite where there is none."""
        limits = self.turnover_limit
        if limits is None:
            return float("inf")
        return limits[0] if isinstance(limits, list) else limits


class ForecastingConfig(Section):
    """The predictor of returns."""

    predictor: Text = Field(
        default="linear",
        min_length=1,
        description="linear (the paper's) | momentum | ewma | pooled | mlp | gru | tcn | package.module:Class; with "
        "features pooled | linear | gru | tcn",
    )
    lookback: int = Field(default=120, ge=1, description="past returns the predictor sees")
    scaled: bool = Field(default=True, description="standardise with scales fitted in the training window")
    options: dict[str, Free] = Field(default_factory=dict, description="arguments of the predictor")
    prior: Literal["zero", "historical_mean", "james_stein", "equilibrium"] = Field(
        default="zero",
        description="what forecasts are added to: zero | historical_mean | james_stein | equilibrium, λΣ of weights",
    )
    prior_options: dict[str, Free] = Field(
        default_factory=dict,
        description="arguments of the prior: window, reference: {ticker: weight}, scale, learn_scale",
    )
    ensemble: int = Field(
        default=1, ge=1, description="predictors trained apart from as many seeds; their mean forecasts"
    )


class TrainingConfig(Section):
    """Walk-forward training: at every retraining date, on the newest samples whose labels have ended."""

    retrain_every: int = Field(default=20, ge=1, description="decision dates from one retraining to the next")
    samples: int = Field(default=120, ge=2, description="supervised samples a retraining uses")
    expanding: bool = Field(default=False, description="use all the past; samples is then the least number")
    sample_halflife: float | None = Field(
        default=None, gt=0, description="samples back from the newest at which one counts half; null: all alike"
    )
    realised_window: int = Field(default=20, ge=2, description="returns of the realised covariance in the loss")
    loss: str | dict[str, float | list[float]] = Field(
        default="decision",
        description="decision (paper) | regret | net_utility | sharpe | cvar | mse | spo_plus | pfyl | of the executed "
        "path: executed_utility | log_wealth | sortino | drawdown | tracking_error | information_ratio | "
        "package.module:Name | {loss: weight}",
    )
    loss_options: dict[str, dict[str, Free]] = Field(default_factory=dict, description="arguments of losses by name")
    two_stage: Literal["gradient", "least_squares"] = Field(
        default="gradient",
        description="how squared error is minimised: gradient, like the loss | least_squares",
    )
    initialise: Literal["fresh", "least_squares"] = Field(
        default="fresh", description="where gradient training starts: fresh | least_squares"
    )
    ridge: float = Field(default=100.0, ge=0, description="penalty of least_squares, standardised units")
    epochs: int = Field(default=20, ge=1, description="passes over the samples of a window")
    batch_size: int | None = Field(
        default=None,
        ge=1,
        description="consecutive samples a step; null: all; 1: the paper's pass through time",
    )
    learning_rate: float = Field(default=1e-4, gt=0, description="of AdamW")
    schedule: Literal["constant", "cosine", "one_cycle"] = Field(
        default="constant", description="learning rate over the epochs: constant | cosine | one_cycle, as in PyTorch"
    )
    weight_decay: float = Field(default=0.0, ge=0, description="of AdamW")
    gradient_clip: float | None = Field(default=None, gt=0, description="largest norm of a step's gradient")
    validation_samples: int = Field(
        default=0, ge=0, description="newest samples held out, with embargo, for early stopping"
    )
    patience: int = Field(default=5, ge=1, description="epochs without improvement before stopping early")
    gradient: Literal["exact", "smoothed"] = Field(
        default="exact",
        description="derivative that training follows: exact, zero at a vertex | smoothed; decisions are exact anyway",
    )
    smoothing: SmoothingConfig = SmoothingConfig()
    warm_start: bool = Field(default=False, description="start each window from the predictor of the one before")
    risk_scaling: bool = Field(default=False, description="learn a scale of each volatility as well")
    learned: list[Literal["risk_aversion", "transaction_cost", "forecasts"]] = Field(
        default_factory=list,
        description="learn a factor of each as well, by decision-focused training: risk_aversion | transaction_cost | "
        "forecasts",
    )
    seeds: list[Annotated[int, Field(ge=0, lt=_SEEDS)]] = Field(
        default=[0], min_length=1, description="each trained strategy is run once for each"
    )

    @model_validator(mode="after")
    def _distinct_seeds(self) -> Self:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds must differ from one another")
        return self

    @model_validator(mode="after")
    def _something_to_train_on(self) -> Self:
        if self.validation_samples >= self.samples and not self.expanding:
            raise ValueError(
                f"validation_samples of {self.validation_samples} leave none of {self.samples} samples to train on"
            )
        return self


class BacktestConfig(Section):
    """The span that strategies are judged on, and what trading costs."""

    start: dt.date | None = Field(default=None, description="no decision before it; null: as early as the data allow")
    end: dt.date | None = Field(default=None, description="no decision after it, where the books end; null: all data")
    strategies: list[Strategy] = Field(
        default=["decision_focused", "two_stage", "equal_weight", "buy_and_hold", "minimum_variance"],
        min_length=1,
        description=f"trained: {', '.join(strategy_names('trained'))}; fixed rules: "
        f"{', '.join(strategy_names('rule'))}; in hindsight: {', '.join(strategy_names('hindsight'))}; "
        "package.module:Name",
    )
    strategy_options: dict[str, dict[str, Free]] = Field(
        default_factory=dict, description="arguments of strategies of your own by name"
    )
    rebalance: RebalanceValue = Field(
        default="daily",
        description="decision dates: daily | weekly | monthly | quarterly | every N sessions | [dates]; "
        "between them nothing is traded",
    )
    rebalance_on: Literal["last", "first"] = Field(
        default="last", description="session of the week, month or quarter, by data.calendar; null: by weekdays"
    )
    cost_rate: float = Field(default=5e-4, ge=0, lt=1, description="proportional cost of the amount traded")
    fixed_cost: float = Field(default=0.0, ge=0, lt=1, description="of one order, in units of the first wealth")
    lag: Literal[0, 1] = Field(default=0, description="closes between the decision's own and that of the trade")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _in_order(self.start, self.end)
        if len(set(self.strategies)) < len(self.strategies):
            raise ValueError("each strategy may be named once; training.seeds repeats trained ones")
        return self


class EvaluationConfig(Section):
    """Metrics and intervals."""

    risk_free_rate: float = Field(default=0.0, gt=-1, description="annual, simple")
    periods_per_year: float | None = Field(
        default=None, gt=0, description="rows a year, for annualising; null: read off the dates (252, 365, 52, 12, 4)"
    )
    reference: Strategy = Field(default="two_stage", description="strategy that paired differences are taken against")
    bootstrap: int = Field(
        default=1000, ge=0, description="resamples of the paired comparison, 100 or more; 0 leaves it out"
    )
    confidence: float = Field(default=0.95, gt=0, lt=1, description="of the intervals")
    cost_levels: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        default=[0.0, 5e-4, 1e-3], min_length=1, description="cost rates at which all strategies are shown again"
    )
    earlier_trials: int = Field(
        default=0, ge=0, description="configurations tried on this span before; they count in the deflated Sharpe"
    )
    metrics: list[OwnPart] = Field(
        default_factory=list,
        description="metrics of your own, of a Ledger: package.module:name, or {name: .., options: {..}}",
    )

    @model_validator(mode="after")
    def _enough_resamples(self) -> Self:
        if 0 < self.bootstrap < 100:
            raise ValueError(f"{self.bootstrap} resamples are too few for an interval; use 100 or more, or 0")
        return self


class ExecutionConfig(Section):
    """How windows, seeds and strategies are spread over processes and machines."""

    backend: Literal["sequential", "loky", "dask", "ray"] = Field(
        default="sequential", description="sequential | loky | dask | ray"
    )
    workers: int = Field(default=2, ge=1, description="processes; loky only")
    address: Text | None = Field(default=None, description="of the running dask or ray cluster")

    @model_validator(mode="after")
    def _address_given(self) -> Self:
        if self.backend in ("dask", "ray") and self.address is None:
            raise ValueError(f"backend {self.backend} needs the address of a running cluster")
        return self


def _range(key: str, choices: dict[Any, float | bool]) -> None:
    """Refuse a range that nothing can be drawn from."""
    low, high, log = (choices.get(name) for name in ("low", "high", "log"))
    numbers = not {bool, type(None)} & {type(low), type(high)}
    if low is None or high is None or not numbers or not low < high:
        raise ValueError(f"space: {key} needs a low and a high above it, numbers both, not {choices}")
    if log not in (None, False, True):
        raise ValueError(f"space: {key} needs log: true or log: false, not {log}")
    if log and low <= 0:
        raise ValueError(f"space: {key} with log: true needs a low above 0, not {low:g}: 0 has no logarithm")
    if float(low).is_integer() and float(high).is_integer() and max(abs(low), abs(high)) > _WHOLE:
        raise ValueError(f"space: {key} needs whole numbers of at most 2^53, not {choices}")
    if not math.isfinite(float(high) - float(low)):
        raise ValueError(f"space: {key} needs a smaller range, not {choices}")


# A grid is written down before it is looked at; one that is larger finds a winner by luck alone.
MOST_GRID_TRIALS = 64


class SweepConfig(Section):
    """A search over values, judged on the days before the test span alone."""

    space: dict[str, list[Choice] | dict[Literal["low", "high", "log"], float | bool]] = Field(
        default_factory=dict,
        description="dotted key: [choices], or {low: .., high: .., log: true}; whole numbers stay whole",
    )
    trials: int = Field(default=8, ge=1, description="configurations tried in all, resumed ones included")
    sampler: Literal["tpe", "grid"] = Field(
        default="tpe",
        description="tpe: each trial drawn from what earlier ones scored | grid: all combinations of listed choices, "
        f"in order, at most {MOST_GRID_TRIALS}",
    )
    days: int = Field(default=250, ge=20, description="rows of prices before the first decision of the test that judge")
    strategy: Annotated[str, PlainValidator(one_of("trained"))] = Field(
        default="decision_focused", description=f"what is tuned: {' | '.join(strategy_names('trained'))}"
    )
    score: Annotated[str, PlainValidator(part_name("utility", "sharpe", "cagr"))] = Field(
        default="utility",
        description="after costs, higher is better: utility | sharpe | cagr | package.module:name of your own",
    )
    risk_aversion: float | None = Field(
        default=None,
        gt=0,
        description="λ of the utility that judges every trial alike; null: the study's allocation.risk_aversion",
    )

    @model_validator(mode="after")
    def _something_to_choose(self) -> Self:
        for key, choices in self.space.items():
            if isinstance(choices, list):
                if not choices:
                    raise ValueError(f"space: {key} has no choices; list at least one")
            else:
                _range(key, choices)
        return self

    @model_validator(mode="after")
    def _whole_grid(self) -> Self:
        if self.sampler == "grid" and self.space:
            listed: dict[str, list[Any]] = {}
            for key, choices in self.space.items():
                if not isinstance(choices, list):
                    raise ValueError(f"space: {key} is a range; list its choices for sampler grid")
                if any(choice in choices[:place] for place, choice in enumerate(choices)):
                    raise ValueError(f"space: {key} lists a choice twice; sampler grid needs each once")
                listed[key] = choices
            size = prod(map(len, listed.values()))
            if size > MOST_GRID_TRIALS:
                raise ValueError(f"space has {size} combinations; sampler grid takes {MOST_GRID_TRIALS}")
            if self.trials > size:
                raise ValueError(f"trials {self.trials} is more than the {size} combinations of the space")
        return self


class TrackingConfig(Section):
    """Where results are written."""

    folder: Folder = Field(default=Path("runs"), description="run folders, the MLflow store and its artifacts")
    uri: Text | None = Field(default=None, description="MLflow tracking server; null: SQLite in the folder above")
    experiment: Text | None = Field(
        default=None, max_length=_EXPERIMENT_LENGTH, description="MLflow experiment; null: the study's name"
    )
    register_as: Name | None = Field(default=None, description="name the final model is registered under; null: not")

    @model_validator(mode="after")
    def _understood_by_mlflow(self) -> Self:
        scheme = "" if self.uri is None else self.uri.partition("://")[0].partition("+")[0]
        if self.uri is not None and scheme not in _STORES:
            raise ValueError(f"uri {self.uri!r} is no MLflow store; write http://HOST:PORT or sqlite:///FILE")
        name = self.register_as
        if name is not None and (not name.strip() or name == "." or name.startswith("..") or set(name) & set("/:")):
            raise ValueError(
                f"register_as {name!r} is no name of a model; it must not hold / or :, be blank or begin with .."
            )
        return self
