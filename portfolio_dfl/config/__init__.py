"""A study's configuration: one validated schema, YAML in, YAML out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portfolio_dfl.config.study import STRATEGIES, StudyConfig, assignments, load_config

__all__ = ["STRATEGIES", "StudyConfig", "assignments", "load_config"]


def __getattr__(name: str) -> Any:
    """What is exported is imported when it is asked for: ``portfolio_dfl.config.names`` needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from portfolio_dfl.config import study

    return getattr(study, name)
