"""What a reader should know of how often a study decides, next to how long the stages of its plans are."""

from __future__ import annotations

import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.frequency import rule_text
from portfolio_dfl.wording import counted

__all__ = ["frequency_remark", "plan_text", "rebalancing_text"]

# Share by which a stage may differ from the time between decisions: months have 19 to 23 sessions.
_MOST_APART = 0.2


def rebalancing_text(config: StudyConfig) -> str:
    """How often is decided, in words."""
    section = config.backtest
    rule = tuple(section.rebalance) if isinstance(section.rebalance, list) else section.rebalance
    return rule_text(rule, section.rebalance_on)


def plan_text(config: StudyConfig, period: str) -> str:
    """How often is decided, where not on every row, and how far is planned; ``period`` is what a row is called."""
    allocation = config.allocation
    decided = "" if config.backtest.rebalance == "daily" else f"decided {rebalancing_text(config)}, "
    if allocation.stage == 1:
        return f"{decided}horizon {counted(allocation.horizon, period)}"
    return f"{decided}horizon {counted(allocation.horizon, 'stage')} of {counted(allocation.stage, period)}"


def frequency_remark(config: StudyConfig, rows: pd.Index, decisions: pd.Index, period: str) -> str:
    """Says where a stage of the plan is not as long as the time between decisions; nothing where it is.

    Parameters
    ----------
    config : StudyConfig
    rows, decisions : DatetimeIndex
        Dates of the books, and of the decisions.
    period : str
        What a row is called.
    """
    stage = config.allocation.stage
    if len(decisions) < 2:
        return ""
    places = rows.searchsorted(decisions, side="right")
    apart = float((places[-1] - places[0]) / (len(places) - 1))
    if abs(apart - stage) <= _MOST_APART * max(apart, stage):
        return ""
    return (
        f"Decisions are {apart:.3g} {period}{'' if apart == 1 else 's'} apart on average, and a stage of the plan is "
        f"{counted(stage, period)} long (allocation.stage): training takes a stage for the time between decisions."
    )
