"""Named policies for defects in prices: what to do is said by the study, never decided in silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches

import pandas as pd

from portfolio_dfl.errors import DataError

__all__ = ["CHOICES", "Policies", "describe_choices"]

FORWARD_FILL = "forward_fill"

#: What each policy can say; ``forward_fill`` takes the most sessions it may fill, as ``forward_fill:3``.
CHOICES: dict[str, tuple[str, ...]] = {
    "off_calendar": ("fail", "drop_dates"),
    "bad_prices": ("fail", "as_missing", "drop_ticker"),
    "empty": ("fail", "drop_ticker"),
    "stale": ("fail", "accept", "as_missing", "drop_ticker"),
    "late_start": ("fail", "start_later", "drop_ticker"),
    "early_end": ("fail", "end_earlier", "drop_ticker"),
    "gaps": ("fail", "drop_dates", FORWARD_FILL, "drop_ticker"),
    "jumps": ("fail", "accept", "drop_ticker"),
}


@dataclass(frozen=True)
class Policies:
    """What to do about each kind of defect; ``fail``, the default of all, refuses the prices and says why.

    Attributes
    ----------
    off_calendar
        Prices on days without a session: ``drop_dates`` leaves the days out.
    bad_prices
        Zero, negative, non-finite or unreadable prices: ``as_missing`` makes gaps of them.
    empty
        Tickers without any price: ``drop_ticker``.
    stale
        Long runs of one price, also a first price copied back: ``accept``, or ``as_missing``.
    late_start, early_end
        Tickers that start after the panel or stop before its end: ``start_later``, ``end_earlier``
        (both shorten the panel), or ``drop_ticker``.
    gaps
        Missing prices inside a ticker's life, and sessions on which no ticker has a price: ``drop_dates``
        leaves the dates out, so that a return spans the gap; ``forward_fill:K`` repeats the last price for
        at most K sessions (0 % returns, then a jump); ``drop_ticker``.
    jumps
        Moves that look like an unadjusted split, a change of unit or bad prices: ``accept``, or ``drop_ticker``.
    confirmed_jumps
        Moves that were looked up and are genuine, each as ``"TICKER YYYY-MM-DD"``.

    Raises
    ------
    DataError
        An unknown choice.
    """

    off_calendar: str = "fail"
    bad_prices: str = "fail"
    empty: str = "fail"
    stale: str = "fail"
    late_start: str = "fail"
    early_end: str = "fail"
    gaps: str = "fail"
    jumps: str = "fail"
    confirmed_jumps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            word, colon, number = str(value).partition(":")
            counted = word == FORWARD_FILL
            if word not in choices or counted != bool(colon) or (counted and not _is_count(number)):
                raise DataError(f"policy {name}={value!r} is unknown: {_listed(name)}")
        for move in self.confirmed_jumps:
            _parse_move(move)

    @classmethod
    def of(cls, policies: Policies | Mapping[str, object] | None) -> Policies:
        """Policies from a mapping of names to choices, as a configuration holds it; None gives the default.

        Raises
        ------
        DataError
            An unknown name (the nearest valid one is named) or choice.
        """
        if isinstance(policies, Policies):
            return policies
        given = dict(policies or {})
        names = [field.name for field in fields(cls)]
        for name in given:
            if name not in names:
                near = get_close_matches(name, names, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
                raise DataError(f"no policy is named {name!r}: {hint}")
        moves = given.pop("confirmed_jumps", ())
        if isinstance(moves, str) or not isinstance(moves, Iterable):
            raise DataError(f"confirmed_jumps must be a list of 'TICKER YYYY-MM-DD', not {moves!r}")
        return cls(
            **{name: str(value) for name, value in given.items()},
            confirmed_jumps=tuple(str(move) for move in moves),
        )

    @property
    def fill_limit(self) -> int:
        """Most sessions that a gap may be filled forward; 0 where gaps are not filled."""
        word, _, number = self.gaps.partition(":")
        return int(number) if word == FORWARD_FILL else 0

    @property
    def confirmed(self) -> frozenset[tuple[str, pd.Timestamp]]:
        """Ticker and date of each confirmed move."""
        return frozenset(_parse_move(move) for move in self.confirmed_jumps)


def _is_count(text: str) -> bool:
    return text.isdigit() and int(text) >= 1


def _parse_move(move: str) -> tuple[str, pd.Timestamp]:
    ticker, _, date = move.strip().rpartition(" ")
    stamp = pd.to_datetime(date, format="%Y-%m-%d", errors="coerce")
    if not ticker or pd.isna(stamp):
        raise DataError(f"confirmed jump {move!r} must read 'TICKER YYYY-MM-DD'")
    return ticker, stamp


def _listed(name: str) -> str:
    words = [f"{choice}:K" if choice == FORWARD_FILL else choice for choice in CHOICES[name]]
    return f"{name} can be {' | '.join(words)}"


def describe_choices(name: str) -> str:
    """Choices of a policy other than to fail, as ``gaps=drop_dates | forward_fill:K | drop_ticker``."""
    words = [f"{choice}:K" if choice == FORWARD_FILL else choice for choice in CHOICES[name][1:]]
    more = ", or list genuine moves in confirmed_jumps" if name == "jumps" else ""
    return f"{name}={' | '.join(words)}{more}"
