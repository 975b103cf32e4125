"""One validated description of a study: YAML in, YAML out, single values overridden by dotted keys.

Nothing below :mod:`portfolio_dfl.study` knows this schema: every other room takes plain arguments.
Paths are relative to the working directory.
"""

from __future__ import annotations

import datetime as dt
import os
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from portfolio_dfl.errors import ConfigError

__all__ = [
    "AllocationConfig",
    "BacktestConfig",
    "CovarianceConfig",
    "DataConfig",
    "EvaluationConfig",
    "ExecutionConfig",
    "ForecastingConfig",
    "StudyConfig",
    "TrackingConfig",
    "TrainingConfig",
    "load_config",
]

Strategy = Literal[
    "decision_focused",
    "two_stage",
    "equal_weight",
    "buy_and_hold",
    "minimum_variance",
    "risk_parity",
    "historical_mean_variance",
    "perfect_foresight",
]
Ticker = Annotated[str, Field(min_length=1)]


def _in_order(start: dt.date | None, end: dt.date | None) -> None:
    if start is not None and end is not None and start >= end:
        raise ValueError(f"start {start} must lie before end {end}")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


class DataConfig(_Section):
    """Where prices come from and what is done about their gaps."""

    source: str = Field(
        default="embedded",
        min_length=1,
        description="embedded | yahoo | path of a CSV, Parquet file or snapshot",
    )
    tickers: list[Ticker] | None = Field(default=None, description="columns to use; null takes all of them")
    start: dt.date | None = Field(default=None, description="first price date used")
    end: dt.date | None = Field(default=None, description="last price date used, included")
    calendar: str | None = Field(
        default="XNYS", description="exchange calendar that says which sessions exist; null: none"
    )
    policies: dict[str, Any] = Field(
        default_factory=dict, description="what to do about each kind of defect; the default is to fail"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _in_order(self.start, self.end)
        if self.tickers is not None:
            if len(self.tickers) < 2:
                raise ValueError("a portfolio needs at least two tickers")
            repeated = sorted({ticker for ticker in self.tickers if self.tickers.count(ticker) > 1})
            if repeated:
                raise ValueError(f"tickers named twice: {', '.join(repeated)}")
        return self


class CovarianceConfig(_Section):
    """How the covariance inside the portfolio problem is estimated, from returns up to the decision date."""

    estimator: Literal["rolling", "ewma", "ledoit_wolf", "oas"] = Field(
        default="rolling", description="rolling | ewma | ledoit_wolf | oas"
    )
    window: int = Field(default=20, ge=2, description="trading days of returns used")
    ridge: float = Field(default=1e-3, ge=0, description="share of the mean variance added to each variance")
    halflife: float = Field(default=20.0, gt=0, description="trading days; ewma only")


class AllocationConfig(_Section):
    """The multi-period mean-variance problem."""

    horizon: int = Field(default=5, ge=1, description="trading days planned ahead, H")
    risk_aversion: float = Field(default=10.0, gt=0, description="λ")
    turnover_limit: float = Field(default=0.2, gt=0, description="τ, L1 distance between consecutive weights")
    solver: str = Field(
        default="auto", min_length=1, description="auto | piqp | gurobi | a name known to qpsolvers"
    )


class ForecastingConfig(_Section):
    """The predictor of returns."""

    predictor: str = Field(default="linear", min_length=1, description="linear is the paper's")
    lookback: int = Field(default=120, ge=1, description="trading days of returns the predictor sees")
    options: dict[str, Any] = Field(default_factory=dict, description="arguments of the predictor")


class TrainingConfig(_Section):
    """Walk-forward training: at every retraining date, on the newest samples whose labels have ended."""

    retrain_every: int = Field(default=20, ge=1, description="trading days between retrainings")
    samples: int = Field(default=120, ge=2, description="supervised samples a retraining uses")
    realised_window: int = Field(
        default=20, ge=2, description="trading days of the realised covariance in the loss"
    )
    epochs: int = Field(default=20, ge=1, description="passes over the samples of a window")
    batch_size: int = Field(default=32, ge=1, description="samples per gradient step")
    learning_rate: float = Field(default=1e-3, gt=0, description="of Adam")
    weight_decay: float = Field(default=0.0, ge=0, description="of Adam")
    loss: str = Field(default="decision", min_length=1, description="decision is the paper's")
    warm_start: bool = Field(
        default=False, description="start each window from the predictor of the one before"
    )
    seeds: list[Annotated[int, Field(ge=0)]] = Field(
        default=[0], min_length=1, description="one trained strategy for each"
    )

    @model_validator(mode="after")
    def _distinct_seeds(self) -> Self:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds must differ from one another")
        return self


class BacktestConfig(_Section):
    """The span that strategies are judged on, and what trading costs."""

    start: dt.date | None = Field(
        default=None, description="first decision date; null: as early as the data allow"
    )
    end: dt.date | None = Field(default=None, description="last decision date; null: the end of the data")
    strategies: list[Strategy] = Field(
        default=["decision_focused", "two_stage", "equal_weight", "buy_and_hold", "minimum_variance"],
        min_length=1,
        description="trained: decision_focused, two_stage; fixed rules: equal_weight, buy_and_hold, "
        "minimum_variance, risk_parity, historical_mean_variance; in hindsight: perfect_foresight",
    )
    cost_rate: float = Field(default=5e-4, ge=0, lt=1, description="proportional cost of the amount traded")
    fixed_cost: float = Field(default=0.0, ge=0, lt=1, description="share of wealth for each day with trades")
    lag: Literal[0, 1] = Field(
        default=0, description="trading days between decision and execution beyond the close"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _in_order(self.start, self.end)
        if len(set(self.strategies)) < len(self.strategies):
            raise ValueError("each strategy may be named once; training.seeds repeats trained ones")
        return self


class EvaluationConfig(_Section):
    """Metrics and intervals."""

    risk_free_rate: float = Field(default=0.0, gt=-1, description="annual, simple")
    reference: Strategy = Field(
        default="two_stage", description="strategy that paired differences are taken against"
    )
    bootstrap: int = Field(
        default=1000, ge=0, description="resamples of the paired comparison; 0 leaves it out"
    )
    confidence: float = Field(default=0.95, gt=0, lt=1, description="of the intervals")


class ExecutionConfig(_Section):
    """How windows, seeds and strategies are spread over processes and machines."""

    backend: Literal["sequential", "loky", "dask", "ray"] = Field(
        default="sequential", description="sequential | loky | dask | ray"
    )
    workers: int = Field(default=2, ge=1, description="processes; loky only")
    address: str | None = Field(default=None, description="of the running dask or ray cluster")

    @model_validator(mode="after")
    def _address_given(self) -> Self:
        if self.backend in ("dask", "ray") and self.address is None:
            raise ValueError(f"backend {self.backend} needs the address of a running cluster")
        return self


class TrackingConfig(_Section):
    """Where results are written."""

    folder: Path = Field(default=Path("runs"), description="run folders, the MLflow store and its artifacts")
    uri: str | None = Field(
        default=None, description="MLflow tracking server; null: SQLite in the folder above"
    )
    experiment: str | None = Field(default=None, description="MLflow experiment; null: the study's name")
    register_as: str | None = Field(
        default=None, description="name the final model is registered under; null: not"
    )


class StudyConfig(_Section):
    """Everything that decides the outcome of a study."""

    name: str = Field(
        default="study", min_length=1, pattern=r"^[\w.-]+$", description="letters, digits, . _ -"
    )
    data: DataConfig = DataConfig()
    covariance: CovarianceConfig = CovarianceConfig()
    allocation: AllocationConfig = AllocationConfig()
    forecasting: ForecastingConfig = ForecastingConfig()
    training: TrainingConfig = TrainingConfig()
    backtest: BacktestConfig = BacktestConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    execution: ExecutionConfig = ExecutionConfig()
    tracking: TrackingConfig = TrackingConfig()

    @classmethod
    def parse(cls, values: dict[str, Any]) -> StudyConfig:
        """Validate a nested mapping.

        Raises
        ------
        ConfigError
            For an unknown key, naming the nearest valid one, or a value out of range; all of them at once.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError("; ".join(_explain(detail) for detail in error.errors())) from error

    @classmethod
    def from_yaml(cls, text: str) -> StudyConfig:
        """Validate YAML text; keys left out take their defaults."""
        return cls.parse(_mapping(text, "the configuration"))

    def override(self, assignments: list[str]) -> StudyConfig:
        """Replace single values, each given as ``dotted.key=value`` with the value in YAML."""
        return StudyConfig.parse(_assigned(self.plain(), assignments))

    def plain(self) -> dict[str, Any]:
        """Nested mapping of JSON-ready values, paths and dates as text."""
        return self.model_dump(mode="json")

    def flat(self) -> dict[str, Any]:
        """Leaf values by dotted key."""
        return dict(_leaves(self.plain()))

    def to_yaml(self, *, comments: bool = False) -> str:
        """YAML that :meth:`from_yaml` reads back to an equal configuration; comments say what keys mean."""
        if not comments:
            return yaml.safe_dump(self.plain(), sort_keys=False, allow_unicode=True)
        return "\n".join(_commented(self, 0)) + "\n"


def load_config(
    path: str | os.PathLike[str] | None = None, overrides: list[str] | None = None
) -> StudyConfig:
    """Read a study's YAML file, or take the defaults, and apply dotted overrides.

    Raises
    ------
    ConfigError
        If the file is missing, is not YAML, or holds an unknown key or unusable value.
    """
    values: dict[str, Any] = {}
    if path is not None:
        file = Path(path)
        if not file.is_file():
            raise ConfigError(f"no configuration file {file}; `portfolio-dfl config > {file}` writes one")
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{file} is not UTF-8 text: {error}") from error
        values = _mapping(text, str(file))
    return StudyConfig.parse(_assigned(values, overrides or []))


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML in which a key given twice is an error instead of a silent choice of the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key_node.value!r} is given twice", key_node.start_mark
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def _read_yaml(text: str, what: str) -> Any:
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)
    except (yaml.YAMLError, ValueError) as error:  # an impossible date is a plain ValueError
        raise ConfigError(f"{what} is not valid YAML: {' '.join(str(error).split())}") from error


def _mapping(text: str, what: str) -> dict[str, Any]:
    values = _read_yaml(text, what)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{what} holds a {type(values).__name__}; a mapping of sections is needed")
    return values


def _assigned(values: dict[str, Any], assignments: list[str]) -> dict[str, Any]:
    for assignment in assignments:
        key, separator, text = (part.strip() for part in assignment.partition("="))
        *sections, leaf = key.split(".")
        if not separator or not all((*sections, leaf)):
            raise ConfigError(f"{assignment!r} is no assignment; write dotted.key=value")
        target = values
        for section in sections:
            if target.get(section) is None:
                target[section] = {}
            target = target[section]
            if not isinstance(target, dict):
                raise ConfigError(f"{key}: {section} holds a single value, nothing lies below it")
        target[leaf] = _read_yaml(text, f"the value of {key}")
    return values


def _explain(detail: Any) -> str:
    """One clause for one of pydantic's findings, with the dotted key and, for an unknown key, the nearest."""
    where = [str(part) for part in detail["loc"]]
    if detail["type"] == "extra_forbidden":
        names = _fields_of(where[:-1])
        everywhere = {key.rsplit(".", 1)[-1]: key for key in StudyConfig().flat()}
        nearest = [".".join([*where[:-1], name]) for name in get_close_matches(where[-1], names, n=1)]
        nearest += [everywhere[name] for name in get_close_matches(where[-1], everywhere, n=1)]
        advice = f"the nearest is {nearest[0]}" if nearest else f"valid ones: {', '.join(names)}"
        return f"unknown key {'.'.join(where)}; {advice}"
    message = detail["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if detail["type"] in ("value_error", "missing"):
        return f"{'.'.join(where) or 'configuration'}: {message}"
    return f"{'.'.join(where) or 'configuration'}: {message}, not {detail['input']!r}"


def _fields_of(section: list[str]) -> list[str]:
    model: type[BaseModel] = StudyConfig
    for part in section:
        annotation = model.model_fields[part].annotation
        assert isinstance(annotation, type)
        model = annotation
    return list(model.model_fields)


def _leaves(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, dict) and value:
            found.extend(_leaves(value, f"{prefix}{key}."))
        else:
            found.append((f"{prefix}{key}", value))
    return found


def _commented(section: BaseModel, depth: int) -> list[str]:
    lines: list[str] = []
    values = section.model_dump(mode="json")
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            title = (type(value).__doc__ or "").strip().splitlines()[0]
            lines += ["", f"# {title}", f"{'  ' * depth}{name}:", *_commented(value, depth + 1)]
        else:
            text = yaml.safe_dump(
                {name: values[name]}, default_flow_style=True, width=10_000, allow_unicode=True
            )
            comment = f"  # {field.description}" if field.description else ""
            lines.append("  " * depth + text.strip()[1:-1] + comment)
    return lines
