"""Numbers that settings must be, checked where they are given and not when they are first used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portfolio_dfl.errors import PortfolioError

__all__ = ["require_choice", "require_number", "require_whole"]


def require_number(
    error: type[PortfolioError],
    name: str,
    value: Any,
    *,
    above: float = -np.inf,
    least: float = -np.inf,
    most: float = np.inf,
    infinite: bool = False,
) -> None:
    """Raise ``error`` unless the value, or each of several, is a number within the bounds.

    Parameters
    ----------
    error : type
        Of the room that asks.
    name : str
        Of the argument, as the user knows it.
    value : float, sequence of float, or tensor
    above, least, most : float
        Exclusive and inclusive lower bound, inclusive upper bound.
    infinite : bool
        Whether plus and minus infinity may stand for no limit.
    """
    try:
        values = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise error(f"{name} is {value!r}; a number is needed") from None
    bad = np.isnan(values) | ~(values > above) & np.isfinite(above) | (values < least) | (values > most)
    if not infinite:
        bad |= np.isinf(values)
    if bad.any():
        bounds = [
            "positive" if above == 0.0 else f"above {above:g}" if np.isfinite(above) else "",
            f"at least {least:g}" if np.isfinite(least) else "",
            f"at most {most:g}" if np.isfinite(most) else "",
            "" if infinite else "finite",
        ]
        raise error(
            f"{name} is {values[bad].ravel()[0]:g}; it must be {' and '.join(filter(None, bounds)) or 'a number'}"
        )


def require_whole(error: type[PortfolioError], name: str, value: Any, least: int) -> None:
    """Raise ``error`` unless the value is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise error(f"{name} is {value!r}; a whole number is needed")
    if value < least:
        raise error(f"{name} must be at least {least}, got {value}")


def require_choice(error: type[PortfolioError], name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise ``error`` unless the value is one of the choices."""
    if value not in choices:
        raise error(f"{name} is {value!r}; it must be {' or '.join(map(repr, choices))}")
