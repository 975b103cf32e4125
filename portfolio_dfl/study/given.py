"""What a study is given beside its configuration: policies and prices in Python, and the sources of own parts."""

from __future__ import annotations

import json
from collections.abc import Sequence

from portfolio_dfl.config.names import GIVEN, given_name
from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.local_sources import IN_MEMORY
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.execution.own_sources import OwnSources, find_sources
from portfolio_dfl.strategies.table import TABLE

__all__ = ["own_sources", "with_given"]


def own_sources(config: StudyConfig, modules: Sequence[str] = ()) -> OwnSources:
    """The sources of all parts that a configuration names, and of other modules, installed.

    They are looked for beside the file of the configuration first.
    """
    named = [name.partition(":")[0] for name in config.own_names()]
    return find_sources([*named, *modules], [] if config.home is None else [config.home])


def with_given(
    config: StudyConfig, policies: Sequence[str], *, prices: bool, spreads: bool, members: bool = False
) -> StudyConfig:
    """The configuration of a study with such policies, and with prices, bid–ask spreads or members in memory.

    Raises
    ------
    ConfigError
        If a policy's name is no text or is that of a strategy of ours.
    """
    for key in policies:
        if not isinstance(key, str) or given_name(f"{GIVEN}{key}") is None:
            raise ConfigError(f"strategies: {key!r} is no name; use letters, digits, spaces and . _ - in a text")
        if key in TABLE:
            raise ConfigError(f"strategies: {key!r} is the name of a strategy of ours; give yours another")
    texts = []
    if policies:
        names = [f"{GIVEN}{key}" for key in policies]
        named = config.backtest.strategies
        texts.append(f"backtest.strategies={json.dumps([*named, *(name for name in names if name not in named)])}")
    texts += [f"data.source={IN_MEMORY}"] * prices + [f"costs.spreads={IN_MEMORY}"] * spreads
    texts += [f"data.members={IN_MEMORY}"] * members
    return config.override(texts) if texts else config
