"""One validated description of a study: YAML in, YAML out, single values overridden by dotted keys.

Nothing below :mod:`portfolio_dfl.study` knows this schema: every other room takes plain arguments.
Paths are relative to the working directory.
"""

from __future__ import annotations

import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, get_args

import yaml
from pydantic import BaseModel, Field, PrivateAttr, ValidationError, model_validator

from portfolio_dfl.config.costs import CostsConfig
from portfolio_dfl.config.features import FeatureConfig, FeatureName
from portfolio_dfl.config.names import strategy_names
from portfolio_dfl.config.section import Name, Section
from portfolio_dfl.config.sections import (
    AllocationConfig,
    BacktestConfig,
    CovarianceConfig,
    DataConfig,
    EvaluationConfig,
    ExecutionConfig,
    ForecastingConfig,
    SweepConfig,
    TrackingConfig,
    TrainingConfig,
)
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.execution.parts import is_own
from portfolio_dfl.notebook import PrintedResult
from portfolio_dfl.wording.console import spelled

__all__ = ["STRATEGIES", "StudyConfig", "StudyLike", "assignments", "load_config"]

#: Names of all strategies.
STRATEGIES: tuple[str, ...] = strategy_names()


class StudyConfig(PrintedResult, Section):
    """Everything that decides the outcome of a study."""

    name: Name = Field(default="study", min_length=1, pattern=r"^\w[\w.-]*$", description="letters, digits, . _ -")
    data: DataConfig = DataConfig()
    features: dict[FeatureName, FeatureConfig] = Field(
        default_factory=dict,
        description="{name: {source or builtin or function, lag, ..}}: what predictors see beside returns",
    )
    covariance: CovarianceConfig = CovarianceConfig()
    allocation: AllocationConfig = AllocationConfig()
    forecasting: ForecastingConfig = ForecastingConfig()
    training: TrainingConfig = TrainingConfig()
    backtest: BacktestConfig = BacktestConfig()
    costs: CostsConfig = CostsConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    execution: ExecutionConfig = ExecutionConfig()
    tracking: TrackingConfig = TrackingConfig()
    sweep: SweepConfig = SweepConfig()

    @model_validator(mode="after")
    def _costs_said_once(self) -> Self:
        """Costs have a section of their own; what says the same elsewhere keeps its default then."""
        unset = BacktestConfig.model_fields
        for key, elsewhere, value, default in (
            ("rate", "backtest.cost_rate", self.backtest.cost_rate, unset["cost_rate"].default),
            ("rate", "allocation.transaction_cost", self.allocation.transaction_cost, 0.0),
            ("fixed", "backtest.fixed_cost", self.backtest.fixed_cost, unset["fixed_cost"].default),
        ):
            if getattr(self.costs, key) is not None and value != default:
                raise ValueError(f"costs.{key} and {elsewhere} are both set, and say the same: leave one of them out")
        return self

    @model_validator(mode="after")
    def _cash_named(self) -> Self:
        """A rate makes cash, which has a name and no prices."""
        cash = self.allocation.limits.cash
        if self.costs.cash_rate is not None:
            if cash is None:
                raise ValueError("costs.cash_rate makes cash an asset: name it, allocation.limits.cash=CASH")
            if cash in (self.data.tickers or ()):
                raise ValueError(f"data.tickers names {cash}, which costs.cash_rate makes: leave out one of them")
        return self

    # Where the file lies that it was read from: own parts are looked for there first.
    _home: Path | None = PrivateAttr(default=None)

    def __eq__(self, other: object) -> bool:
        """Whether all values are the same, wherever they were read from."""
        return isinstance(other, StudyConfig) and self.__dict__ == other.__dict__

    @property
    def home(self) -> Path | None:
        """Folder of the file that it was read from, or None; where own parts are looked for first."""
        return self._home

    def beside(self, home: Path | None) -> StudyConfig:
        """The same configuration, its own parts looked for in a folder first."""
        changed = self.model_copy()
        changed._home = home
        return changed

    def own_names(self) -> list[str]:
        """Every value and key that may name a part of the user's own, ``package.module:Name``."""
        return list(dict.fromkeys(name for name in _texts(self.plain()) if is_own(name)))

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> StudyConfig:
        """Validate a nested mapping.

        Raises
        ------
        ConfigError
            For an unknown key, naming the nearest valid one, or a value out of range; all of them at once.
        """
        if not isinstance(values, Mapping):
            raise ConfigError(f"a mapping of sections is needed, not {values!r}; load_config reads a file")
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise ConfigError(cls.explained(error, values)) from error

    @classmethod
    def of(cls, study: StudyLike | None, **sections: Any) -> StudyConfig:
        """The configuration itself, read from a YAML file, or of a nested mapping; None for the defaults.

        Sections, such as ``data={"source": "prices.csv"}``, replace those of its values that they name.

        Raises
        ------
        ConfigError
            If it is none of them, or cannot be used.
        """
        if sections or study is None:
            base = cls() if study is None else cls.of(study)
            return cls.parse(_merged(base.plain(), sections)).beside(base.home)
        if isinstance(study, StudyConfig):
            return study
        if isinstance(study, str | os.PathLike):
            return load_config(study)
        if isinstance(study, Mapping):
            return cls.parse(study)
        raise ConfigError(f"a StudyConfig, the path of a YAML file or a mapping is needed, not {study!r}")

    @classmethod
    def _unknown(cls, where: list[str]) -> str:
        return _unknown(where)

    @classmethod
    def _nullable(cls) -> set[str]:
        return _nullable()

    @classmethod
    def from_yaml(cls, text: str) -> StudyConfig:
        """Validate YAML text; keys left out take their defaults."""
        return cls.parse(_mapping(text, "the configuration"))

    def override(self, texts: str | Sequence[str]) -> StudyConfig:
        """Replace single values, each given as ``dotted.key=value`` with the value in YAML; one, or several."""
        return StudyConfig.parse(_assigned(self.plain(), texts)).beside(self.home)

    def plain(self) -> dict[str, Any]:
        """Nested mapping of JSON-ready values, paths and dates as text."""
        return self.model_dump(mode="json")

    def flat(self) -> dict[str, Any]:
        """Leaf values by dotted key."""
        return dict(_leaves(self.plain()))

    def __str__(self) -> str:
        return self.to_yaml()

    def to_yaml(self, *, comments: bool = False, ascii_only: bool = False) -> str:
        """YAML that :meth:`from_yaml` reads back to an equal configuration; comments say what keys mean.

        With ``ascii_only`` it can be written in any encoding: other letters are escaped, in comments spelled.
        """
        if not comments:
            return yaml.safe_dump(self.plain(), sort_keys=False, allow_unicode=not ascii_only)
        return "\n".join(_commented(self, 0, ascii_only)) + "\n"


#: What stands for a study: its configuration, the path of its YAML file, or a nested mapping.
StudyLike: TypeAlias = StudyConfig | str | os.PathLike[str] | Mapping[str, Any]


def load_config(
    path: str | os.PathLike[str] | None = None, overrides: str | Sequence[str] | None = None
) -> StudyConfig:
    """Read a study's YAML file, or take the defaults, and apply dotted overrides.

    Raises
    ------
    ConfigError
        If the file is missing, is not YAML, or holds an unknown key or unusable value.

    Examples
    --------
    >>> from portfolio_dfl import load_config
    >>> study = load_config(None, ["allocation.horizon=3", "backtest.rebalance=weekly"])
    >>> study.allocation.horizon, study.backtest.rebalance
    (3, 'weekly')
    """
    values: dict[str, Any] = {}
    if path is not None:
        file = Path(path)
        values = _mapping(_text_of(file), str(file))
        if not values:
            raise ConfigError(f"{file} is empty; leave it out for the defaults, which `portfolio-dfl config` shows")
    study = StudyConfig.parse(_assigned(values, overrides or []))
    return study if path is None else study.beside(Path(path).absolute().parent)


def _text_of(file: Path) -> str:
    """Content of a YAML file: UTF-8, or UTF-16 with the mark that says so, which some shells write."""
    try:
        if file.is_dir():
            raise ConfigError(f"{file} is a folder; name the YAML file of a study")
        if not file.is_file():
            raise ConfigError(f"no configuration file {file}; `portfolio-dfl config > {file}` writes one")
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    encoding = "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file} is not UTF-8 text, see line {content[: error.start].count(10) + 1}: save it as UTF-8"
        ) from error


def assignments(texts: str | Sequence[str]) -> dict[str, Any]:
    """Nested mapping of ``dotted.key=value`` texts, values in YAML.

    Raises
    ------
    ConfigError
        For text without a key or an equals sign, or a value that is not YAML.
    """
    return _assigned({}, texts)


if TYPE_CHECKING:
    _Loader = yaml.SafeLoader
else:  # in C where PyYAML was built with it: a tenth of the time
    _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _UniqueKeyLoader(_Loader):
    """YAML in which a key given twice is an error, not a silent choice of the last, and every error has its line."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key_node.start_mark)
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key_node.value!r} is given twice", key_node.start_mark
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)

    def construct_date(self, node: yaml.ScalarNode) -> Any:
        try:
            return self.construct_yaml_timestamp(node)
        except ValueError as error:
            raise yaml.constructor.ConstructorError(
                None, None, f"{node.value} is no date: {error}", node.start_mark
            ) from error


_UniqueKeyLoader.add_constructor("tag:yaml.org,2002:timestamp", _UniqueKeyLoader.construct_date)


def _read_yaml(text: str, what: str) -> Any:
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)
    except (yaml.YAMLError, ValueError) as error:  # a number of too many digits is a plain ValueError
        found = " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
        raise ConfigError(f"{what} is not valid YAML: {found}") from error


def _mapping(text: str, what: str) -> dict[str, Any]:
    values = _read_yaml(text, what)
    if values is None:
        return {}
    if not isinstance(values, dict):
        kind = {"str": "text", "list": "a list"}.get(type(values).__name__, f"the value {values!r}")
        raise ConfigError(f"{what} holds {kind}; sections such as `training:` with keys below them are needed")
    return values


def _assigned(values: dict[str, Any], texts: str | Sequence[str]) -> dict[str, Any]:
    for assignment in [texts] if isinstance(texts, str) else texts:
        if not isinstance(assignment, str):
            raise ConfigError(f"{assignment!r} is no assignment; write a text, dotted.key=value")
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


def _merged(values: Mapping[str, Any], changes: Mapping[str, Any], depth: int = 1) -> dict[str, Any]:
    """Values with others in their place; sections are changed key by key, what lies below a key as a whole."""
    merged = dict(values)
    for key, value in changes.items():
        if isinstance(value, BaseModel):
            value = value.model_dump(mode="json")
        both = depth and isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value, depth - 1) if both else value
    return merged


def _texts(values: Any) -> Iterator[str]:
    """Every text in nested values, keys of mappings too."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _texts(value)
    elif isinstance(values, str):
        yield values


def _unknown(where: list[str]) -> str:
    """One clause for an unknown key, with the nearest that there is."""
    names = _fields_of(where[:-1])
    everywhere = {key.rsplit(".", 1)[-1]: key for key in StudyConfig().flat()}
    nearest = [".".join([*where[:-1], name]) for name in get_close_matches(where[-1], names, n=1)]
    nearest += [everywhere[name] for name in get_close_matches(where[-1], everywhere, n=1, cutoff=0.75)]
    advice = f"the nearest is {nearest[0]}" if nearest else f"valid ones: {', '.join(names)}"
    return f"unknown key {'.'.join(where)}; {advice}"


def _nullable() -> set[str]:
    """Keys that may be null."""
    sections = {name: getattr(StudyConfig(), name) for name in StudyConfig.model_fields}
    return {
        f"{section}.{name}"
        for section, values in sections.items()
        if isinstance(values, BaseModel)
        for name, field in type(values).model_fields.items()
        if type(None) in get_args(field.annotation)
    }


def _fields_of(section: list[str]) -> list[str]:
    model: type[BaseModel] = StudyConfig
    for part in section:
        # Below a mapping lie names of the user's own.
        field = model.model_fields.get(part)
        model = model if field is None else next(_sections_of(field.annotation), model)
    return list(model.model_fields)


def _sections_of(annotation: Any) -> Iterator[type[BaseModel]]:
    """Sections that a type is, or holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _sections_of(part)


def _leaves(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, dict) and value:
            found.extend(_leaves(value, f"{prefix}{key}."))
        else:
            found.append((f"{prefix}{key}", value))
    return found


def _commented(section: BaseModel, depth: int, ascii_only: bool) -> list[str]:
    lines: list[str] = []
    values = section.model_dump(mode="json")
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            title = (type(value).__doc__ or "").strip().splitlines()[0]
            lines += ["", f"# {title}", f"{'  ' * depth}{name}:", *_commented(value, depth + 1, ascii_only)]
        else:
            text = yaml.safe_dump(
                {name: values[name]}, default_flow_style=True, width=10_000, allow_unicode=not ascii_only
            )
            comment = f"  # {field.description}" if field.description else ""
            comment = spelled(comment) if ascii_only else comment
            lines.append("  " * depth + text.strip()[1:-1] + comment)
    return lines
