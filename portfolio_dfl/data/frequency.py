"""How often one decides, as one writes it: a rule's name, a number of sessions, or dates."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, TypeAlias

__all__ = ["PERIODS", "RebalancingRule", "parse_rule", "rule_text"]

#: Rules of the calendar, and the period in which each decides once.
PERIODS = {"weekly": "week", "monthly": "month", "quarterly": "quarter"}

#: ``daily``, ``weekly``, ``monthly``, ``quarterly``; every so many sessions; or dates in order.
RebalancingRule: TypeAlias = str | int | tuple[dt.date, ...]

_EVERY = re.compile(r"every\s+(\d+)\s+(?:sessions|trading days|rows)")


def parse_rule(value: Any) -> RebalancingRule:
    """The rule that a text, a number or dates mean.

    Parameters
    ----------
    value
        ``daily``, ``weekly``, ``monthly``, ``quarterly``, ``every N sessions`` or N itself, or dates: of Python, of
        pandas, or as text YYYY-MM-DD.

    Raises
    ------
    ValueError
        If it is none of them.
    """
    if isinstance(value, str):
        words = " ".join(value.lower().split())
        if words == "daily" or words in PERIODS:
            return words
        counted = _EVERY.fullmatch(words)
        if counted is None:
            raise ValueError(f"{value!r} is no rule of rebalancing: {_VALID}")
        value = int(counted.group(1))
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value!r} is no rule of rebalancing: {_VALID}")
    if isinstance(value, Iterable):
        return _dates(value)
    try:
        count = int(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{value!r} is no rule of rebalancing: {_VALID}") from error
    if count != value or count < 1:
        raise ValueError(f"every {value} sessions is no rule of rebalancing: a whole number of at least 1 is needed")
    return "daily" if count == 1 else count


def rule_text(rule: RebalancingRule, on: str = "last") -> str:
    """A rule in words: ``daily``, ``every 5 sessions``, ``on the last session of each month``."""
    if isinstance(rule, int):
        return f"every {rule} sessions"
    if isinstance(rule, str):
        return rule if rule not in PERIODS else f"on the {on} session of each {PERIODS[rule]}"
    return f"on {len(rule)} given dates" if len(rule) > 1 else f"on {rule[0]}"


_VALID = "use daily, weekly, monthly, quarterly, every N sessions (or N), or a list of dates"


def _dates(values: Iterable[Any]) -> tuple[dt.date, ...]:
    found = tuple(_date(value) for value in values)
    if not found:
        raise ValueError(f"no date to rebalance on is listed: {_VALID}")
    for earlier, later in pairwise(found):
        if later <= earlier:
            raise ValueError(f"dates to rebalance on must be in order, each once: {later} comes after {earlier}")
    return found


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime):  # of which pandas' Timestamp is one
        return value.date()
    if isinstance(value, dt.date):
        return value
    try:
        return dt.date.fromisoformat(str(value))
    except ValueError as error:
        raise ValueError(f"{value!r} is no date to rebalance on: write YYYY-MM-DD") from error
