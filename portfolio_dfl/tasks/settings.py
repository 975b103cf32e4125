"""What every task refuses before it starts: lists of nothing, and numbers too small or too large to mean anything."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence

from portfolio_dfl.errors import ConfigError

__all__ = ["fits_memory", "require_least", "require_memory", "require_positive", "require_some"]


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


def fits_memory(size: float) -> bool:
    """Whether so many bytes are within this machine's memory; true where that is not known."""
    return size <= _memory()


def require_memory(size: float, what: str) -> None:
    """Refuse what takes more bytes than this machine's memory, by an estimate.

    Raises
    ------
    ConfigError
        Naming ``what`` takes them.
    """
    if not fits_memory(size):
        raise ConfigError(f"{what} takes some {size / 1e9:,.0f} GB of this machine's {_memory() / 1e9:,.0f}; use less")


def _memory() -> float:
    names = getattr(os, "sysconf_names", {})
    if not {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= names.keys():
        return math.inf
    return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")


def _require(fits: Callable[[float], bool], what: str, settings: dict[str, float | Sequence[float] | None]) -> None:
    for name, value in settings.items():
        if isinstance(value, Sequence):
            require_some(**{name: value})
            for number in value:
                if not fits(number):
                    raise ConfigError(f"{name} has {number} in it; each must be {what}")
        elif value is not None and not fits(value):
            raise ConfigError(f"{name} is {value}; it must be {what}")
