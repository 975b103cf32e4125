"""What a study is given in Python beside its configuration, and how its configuration names that."""

from __future__ import annotations

import json
from collections.abc import Sequence

from portfolio_dfl.config.names import GIVEN, given_name
from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.local_sources import IN_MEMORY
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.strategies.table import TABLE

__all__ = ["with_given"]


def with_given(config: StudyConfig, policies: Sequence[str], *, prices: bool, spreads: bool) -> StudyConfig:
    """The configuration of a study with such policies, and with prices or bid–ask spreads in memory.

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
    return config.override(texts) if texts else config
