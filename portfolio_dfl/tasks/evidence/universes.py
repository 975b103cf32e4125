"""The universes of the evidence: where their prices come from, what is searched on each, and what was chosen."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError

__all__ = ["EMBEDDED", "TITLES", "Universe", "read_universe", "require_known"]

#: Every universe, and what it is.
TITLES = {
    "etf7": "seven ETFs",
    "etfs": "191 ETFs, survivors",
    "stocks": "260 US stocks, survivors",
    "sp500": "20 large companies, survivors",
    "factors": "five factor ETFs",
}
#: Those whose prices come with an installed library.
EMBEDDED = ("sp500", "factors")


@dataclass(frozen=True)
class Universe:
    """One universe of the evidence.

    Attributes
    ----------
    name : str
    search : StudyConfig
        The study with the grid that decision-focused training is selected from.
    two_stage_search : StudyConfig
        The same with the grid that two-stage training is selected from by itself.
    chosen : StudyConfig
        What was chosen, and is judged on the test span.
    two_stage_chosen : StudyConfig
        The same for two-stage by itself.
    """

    name: str
    search: StudyConfig
    two_stage_search: StudyConfig
    chosen: StudyConfig
    two_stage_chosen: StudyConfig

    @property
    def title(self) -> str:
        """What it is, in words."""
        return TITLES[self.name]


def require_known(names: Iterable[str]) -> None:
    """Refuse names that are of no universe.

    Raises
    ------
    ConfigError
    """
    for name in names:
        if name not in TITLES:
            raise ConfigError(f"universes has {name!r} in it; there are {', '.join(TITLES)}")


def read_universe(
    name: str, configs: str | os.PathLike[str], source: str | os.PathLike[str] | None, folder: Path, **settings: Any
) -> Universe:
    """Read a universe's configurations.

    Parameters
    ----------
    name : str
    configs : path
        Folder of ``NAME.yaml``, ``select/NAME.yaml`` and ``two_stage.yaml``.
    source : path, optional
        File of prices, in place of what the configurations name.
    folder : Path
        Where studies and searches are kept.
    **settings
        Values by dotted key that replace those of all four, with ``__`` for a dot.

    Raises
    ------
    ConfigError
        If there is no such universe or file, or prices that do not come with a library were not given.
    """
    import yaml

    require_known([name])
    place = Path(configs)
    files = [place / f"{name}.yaml", place / "select" / f"{name}.yaml", place / "two_stage.yaml"]
    for file in files:
        if not file.is_file():
            raise ConfigError(f"{file} is missing; configs is the folder configs/evidence of the project")
    if source is None and name not in EMBEDDED:
        raise ConfigError(f"universe {name} needs a file of prices: {name}=FILE, or leave it out of universes")
    changes = [f"tracking.folder={folder}", *(f"{key.replace('__', '.')}={value}" for key, value in settings.items())]
    if source is not None:
        changes.append(f"data.source={Path(source).resolve()}")
    chosen, search = (StudyConfig.from_yaml(file.read_text(encoding="utf-8")).override(changes) for file in files[:2])
    alone: Mapping[str, Any] = yaml.safe_load(files[2].read_text(encoding="utf-8"))
    return Universe(
        name,
        search,
        _search_of_two_stage(search, alone["space"]),
        chosen,
        _with_values(chosen, alone["chosen"][name]).override("backtest.strategies=[two_stage]"),
    )


def _search_of_two_stage(search: StudyConfig, space: Mapping[str, list[Any]]) -> StudyConfig:
    """The grid of two-stage: its own keys, and those of the search that are of features, which both see."""
    import json
    import math

    shared = {key: values for key, values in search.sweep.space.items() if key.startswith("features.")}
    every = {**space, **shared}
    trials = math.prod(len(values) for values in every.values() if isinstance(values, list))
    return search.override(["sweep.strategy=two_stage", f"sweep.trials={trials}", f"sweep.space={json.dumps(every)}"])


def _with_values(config: StudyConfig, values: Mapping[str, Any]) -> StudyConfig:
    import json

    return config.override([f"{key}={json.dumps(value)}" for key, value in values.items()])
