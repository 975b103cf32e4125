"""What a row of returns is called: a day, a week, a month, a quarter, or a period that has no name."""

from __future__ import annotations

__all__ = ["period_noun"]

# Fewest and most rows a year of each; exchanges have from some 220 days a year, coins 365.
_NOUNS = (
    ("day", 200.0, 366.0),
    ("week", 50.0, 53.0),
    ("fortnight", 25.5, 26.5),
    ("month", 11.5, 12.5),
    ("quarter", 3.9, 4.1),
    ("half-year", 1.95, 2.05),
    ("year", 0.99, 1.01),
)


def period_noun(periods_per_year: float) -> str:
    """The word for one row of returns of which a year has so many."""
    return next((noun for noun, fewest, most in _NOUNS if fewest <= periods_per_year <= most), "period")
