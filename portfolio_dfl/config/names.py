"""The names that a configuration may give strategies: the table of strategies announces them, which lies above.

Importing any module of the package imports the table first, so that the names are complete wherever one is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from portfolio_dfl.execution.parts import is_own

__all__ = ["GIVEN", "Kind", "announce", "given_name", "one_of", "part_name", "strategy_names"]

#: Whether a strategy learns, is a rule that learns nothing, or looks at returns that were not known.
Kind = Literal["trained", "rule", "hindsight"]

#: Before the name of a strategy that a study was given as an object in Python.
GIVEN = "python:"
_NAME = re.compile(r"\w[\w .-]*")

_ANNOUNCED: dict[str, Kind] = {}


def announce(name: str, kind: Kind) -> None:
    """Let configurations name a strategy."""
    _ANNOUNCED[name] = kind


def strategy_names(*kinds: Kind) -> tuple[str, ...]:
    """Names of the strategies of these kinds, or of all, in the order of the table."""
    return tuple(name for name, kind in _ANNOUNCED.items() if not kinds or kind in kinds)


def given_name(name: str) -> str | None:
    """The name under which a strategy was given in Python; None for any other."""
    key = name.removeprefix(GIVEN)
    return key if key != name and _NAME.fullmatch(key) else None


def one_of(*kinds: Kind) -> Callable[[Any], str]:
    """A validator that takes the names of these kinds, and says which there are; or of all, and own ones."""

    def known(value: Any) -> str:
        names = strategy_names(*kinds)
        own = not kinds and isinstance(value, str) and (is_own(value) or given_name(value) is not None)
        if not own and (not isinstance(value, str) or value not in names):
            from pydantic_core import PydanticCustomError

            *others, last = (repr(name) for name in names)
            expected = f"{', '.join(others)} or {last}{'' if kinds else ' (or package.module:Name)'}"
            raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
        return str(value)

    return known


def part_name(*ours: str) -> Callable[[Any], str]:
    """A validator that takes these names and ``package.module:Name``, and says which there are."""

    def known(value: Any) -> str:
        if not isinstance(value, str) or not (value in ours or is_own(value)):
            from pydantic_core import PydanticCustomError

            expected = f"{', '.join(repr(name) for name in ours)}{' or ' if ours else ''}'package.module:Name'"
            raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
        return value

    return known
