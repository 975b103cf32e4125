"""What every task refuses before it starts: lists of nothing, and numbers too small to mean anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from portfolio_dfl.errors import ConfigError

__all__ = ["require_least", "require_positive", "require_some"]


def require_least(least: int, **settings: float | Sequence[float] | None) -> None:
    """Refuse numbers below ``least``, and lists without a number or with such a one; None is left to its default.

    Raises
    ------
    ConfigError
        Naming the setting.
    """
    _require(lambda number: number >= least, f"at least {least}", settings)


def require_positive(**settings: float | Sequence[float] | None) -> None:
    """Refuse numbers that are not positive and finite, alone or in a list; errors as of :func:`require_least`."""
    _require(lambda number: 0.0 < number < math.inf, "positive and finite", settings)


def require_some(**settings: Sequence[object] | None) -> None:
    """Refuse lists of nothing; errors as of :func:`require_least`."""
    for name, values in settings.items():
        if values is not None and len(values) == 0:
            raise ConfigError(f"{name} is an empty list; name at least one, or leave {name} out for the usual ones")


def _require(fits: Callable[[float], bool], what: str, settings: dict[str, float | Sequence[float] | None]) -> None:
    for name, value in settings.items():
        if isinstance(value, Sequence):
            require_some(**{name: value})
            for number in value:
                if not fits(number):
                    raise ConfigError(f"{name} has {number} in it; each must be {what}")
        elif value is not None and not fits(value):
            raise ConfigError(f"{name} is {value}; it must be {what}")
