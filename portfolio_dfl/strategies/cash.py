"""Cash that no price file has: a column of a study's prices that grows at the rate of its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from portfolio_dfl.errors import ConfigError

if TYPE_CHECKING:
    from portfolio_dfl.config.study import StudyConfig

__all__ = ["cash_remark", "known_cash", "with_cash", "without_cash"]


def known_cash(config: StudyConfig) -> str | None:
    """Name of the cash that a study makes itself, ``allocation.limits.cash``; None where ``costs.cash_rate`` is."""
    return None if config.costs.cash_rate is None else config.allocation.limits.cash


def without_cash(config: StudyConfig, tickers: Sequence[str]) -> list[str]:
    """The tickers that have prices of their own."""
    made = known_cash(config)
    return [ticker for ticker in tickers if ticker != made]


def with_cash(config: StudyConfig, prices: pd.DataFrame) -> pd.DataFrame:
    """Prices with a column for the cash that the study makes, 1 on their first date, or the same prices.

    Its return is ``costs.cash_rate · days / 365``, by the calendar days from row to row.

    Raises
    ------
    ConfigError
        If the prices have a column of that name.
    """
    from portfolio_dfl.allocation.costs import calendar_years

    made, rate = known_cash(config), config.costs.cash_rate
    if made is None or rate is None:
        return prices
    if made in prices.columns:
        raise ConfigError(
            f"costs.cash_rate makes {made}, which the prices have already: leave out costs.cash_rate, or give "
            "allocation.limits.cash another name"
        )
    grown = np.cumprod(1.0 + rate * calendar_years(pd.DatetimeIndex(prices.index)))
    return prices.assign(**{made: np.concatenate([[1.0], grown])})


def cash_remark(config: StudyConfig) -> str:
    """Tells a reader that cash has no market price; nothing where the study makes none."""
    made = known_cash(config)
    if made is None:
        return ""
    return (
        f"{made} is cash at {config.costs.cash_rate:.4g} a year (costs.cash_rate), by actual days over 365: it is in "
        "no price file, its trades are free, its variance is zero, and its return is known and not forecast."
    )
