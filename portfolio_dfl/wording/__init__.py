"""Words that depend on numbers, and names that a figure shows as they are."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["counted", "drawn", "listed"]


def counted(count: int, noun: str, *, thousands: bool = False) -> str:
    """A number with its noun in singular or plural: 1 day, 1000 days; ``thousands`` sets them off, as in 1,000 days."""
    return f"{count:{',' if thousands else ''}} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def drawn(text: object) -> str:
    """A text that plotly draws letter by letter: it takes <b> and &amp; for marks of its own."""
    return escape(str(text), quote=False)
