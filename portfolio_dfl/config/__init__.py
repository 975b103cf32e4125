"""A study's configuration: one validated schema, YAML in, YAML out."""

from __future__ import annotations

from portfolio_dfl.config.study import STRATEGIES, StudyConfig, assignments, load_config

__all__ = ["STRATEGIES", "StudyConfig", "assignments", "load_config"]
