"""The space of a search: which keys it may change, the configurations at its corners, and what a trial draws."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from portfolio_dfl.config.sections import SweepConfig
from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError

if TYPE_CHECKING:
    import optuna

__all__ = ["changed", "corners", "require_searchable", "sampler", "suggest"]

# Configurations that are looked at before the first trial; each takes a millisecond.
_MOST_CORNERS = 512

# What a search cannot change, and why.
_FIXED = {
    "name": "it changes no number",
    "data": "all trials are judged on the same prices",
    "backtest": "it says how trials are judged",
    "costs": "it says how trials are judged",
    "evaluation": "it says how trials are judged",
    "execution": "it changes no number",
    "tracking": "it changes no number",
    "sweep": "it is the search itself",
}


def require_searchable(space: Iterable[str]) -> None:
    """Refuse keys whose values make no difference between trials, or another measure for each."""
    for key in space:
        reason = _FIXED.get(key.partition(".")[0])
        if reason is not None:
            searched = [name for name in StudyConfig.model_fields if name not in _FIXED]
            raise ConfigError(
                f"sweep.space: {key} cannot be searched, {reason}; what can are keys of {', '.join(searched)}"
            )


def corners(config: StudyConfig) -> list[StudyConfig]:
    """The configurations at the corners of the space: choices of lists and ends of ranges, together with each other.

    Where there are too many, with one value changed at a time.

    Raises
    ------
    ConfigError
        If values of the space do not fit each other, or are none of their keys'.
    """
    ends = {
        key: choices if isinstance(choices, list) else [choices["low"], choices["high"]]
        for key, choices in config.sweep.space.items()
    }
    singles = [{key: value} for key, values in ends.items() for value in values]
    together = [dict(zip(ends, values, strict=True)) for values in _few(list(ends.values()))]
    return [changed(config, values) for values in (together or singles)]


def _few(choices: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """All combinations; none where they are more than one would wait for."""
    return list(product(*choices)) if prod(map(len, choices)) <= _MOST_CORNERS else []


def changed(config: StudyConfig, values: dict[str, Any]) -> StudyConfig:
    """The configuration of a trial, with the strategy that is searched alone."""
    strategy = f"backtest.strategies=[{config.sweep.strategy}]"
    return config.override([strategy, *(f"{key}={json.dumps(value)}" for key, value in values.items())])


def suggest(trial: optuna.Trial, key: str, choices: Any) -> Any:
    """The value that a trial draws for a key."""
    if isinstance(choices, list):
        return trial.suggest_categorical(key, choices)
    low, high, log = choices["low"], choices["high"], bool(choices.get("log", False))
    if float(low).is_integer() and float(high).is_integer():
        return trial.suggest_int(key, int(low), int(high), log=log)
    return trial.suggest_float(key, float(low), float(high), log=log)


def sampler(section: SweepConfig, seed: int, done: int) -> optuna.samplers.BaseSampler:
    """What draws the next trial: for a grid the combination whose turn it is, the last key changing fastest."""
    import optuna

    drawing = optuna.samplers.TPESampler(seed=seed)
    if section.sampler == "tpe":
        return drawing
    listed = [choices for choices in section.space.values() if isinstance(choices, list)]
    values = dict(zip(section.space, list(product(*listed))[done], strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.PartialFixedSampler(values, drawing)
