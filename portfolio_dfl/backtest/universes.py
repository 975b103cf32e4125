"""Which assets a strategy may choose among on a date, where members come and go: told from what was known on it.

A universe is made up on every date on which strategies learn, and on the first decision after one of its assets left:
of the members of that date that have the history which a decision and its training ask for. What enters in between
waits for the next time; what leaves is sold at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.backtest.leaving import membership, sold
from portfolio_dfl.backtest.ledger import Ledger
from portfolio_dfl.backtest.policy import Policy
from portfolio_dfl.errors import BacktestError

__all__ = ["AmongMembers", "Universe", "books_of", "rows_to_universes", "universe_rows", "universes"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Universe:
    """Assets to choose among from a decision date on.

    Attributes
    ----------
    since : Timestamp
        The date on which it was made up.
    assets : tuple of str
        In the order of the returns.
    begins : Timestamp
        First date from which on all of them have a return.
    waiting : tuple of str
        Members of the date that have not enough history.
    """

    since: pd.Timestamp
    assets: tuple[str, ...]
    begins: pd.Timestamp
    waiting: tuple[str, ...]

    def history(self, returns: pd.DataFrame) -> pd.DataFrame:
        """Returns of its assets alone, from where all of them have one, and nothing of the others' place in memory.

        Sums of the same numbers that lie elsewhere differ in their last bits.
        """
        mine = returns.loc[self.begins :, list(self.assets)]
        values = np.array(mine.to_numpy(dtype=np.float64), order="C")
        return pd.DataFrame(values, index=mine.index, columns=mine.columns, copy=False)


def universes(
    returns: pd.DataFrame, members: pd.DataFrame, decisions: pd.DatetimeIndex, *, every: int, needed: int
) -> tuple[Universe, ...]:
    """The universes of a walk, in order of date.

    Parameters
    ----------
    returns : DataFrame, shape (T, N)
        Simple returns; NaN where an asset has none.
    members : DataFrame of bool, shape (T, N)
        Whether an asset is a member at the close of a date.
    decisions : DatetimeIndex
        Dates on which is decided.
    every : int
        Number of decisions from one time of learning to the next.
    needed : int
        Number of returns up to the date, without a gap, that an asset must have.

    Raises
    ------
    BacktestError
        If fewer than two assets are left on a date.
    """
    there = membership(members, returns)
    assert there is not None
    rows = np.arange(len(returns))[:, None]
    missing: NDArray[np.intp] = np.maximum.accumulate(np.where(returns.isna().to_numpy(), rows, -1), axis=0)
    dates, assets = pd.DatetimeIndex(returns.index), [str(asset) for asset in returns.columns]
    found: list[Universe] = []
    chosen = np.zeros(len(assets), dtype=np.bool_)
    for number, (row, date) in enumerate(zip(dates.get_indexer(decisions), decisions, strict=True)):
        if number % every and bool(there[row, chosen].all()):
            continue
        chosen = there[row] & (row - missing[row] >= needed)
        waiting = tuple(asset for asset, waits in zip(assets, there[row] & ~chosen, strict=True) if waits)
        if chosen.sum() < 2:
            raise BacktestError(
                f"on {date.date()} {int(chosen.sum())} of {int(there[row].sum())} members have the {needed} returns "
                "that a decision needs: start later, or shorten the windows"
            )
        begins = dates[int(missing[row, chosen].max()) + 1]
        mine = tuple(asset for asset, is_in in zip(assets, chosen, strict=True) if is_in)
        found.append(Universe(date, mine, begins, waiting))
    return tuple(found)


def universe_rows(among: Sequence[Universe]) -> pd.DataFrame:
    """Universes as a table: ``since``, ``begins``, ``asset``, and whether it is ``chosen``, or waits for a history."""
    return pd.DataFrame(
        [
            (universe.since, universe.begins, asset, chosen)
            for universe in among
            for chosen, assets in ((True, universe.assets), (False, universe.waiting))
            for asset in assets
        ],
        columns=["since", "begins", "asset", "chosen"],
    )


def rows_to_universes(rows: pd.DataFrame) -> tuple[Universe, ...]:
    """Universes of a table that :func:`universe_rows` made."""
    return tuple(
        Universe(
            pd.Timestamp(str(since)),
            tuple(mine.loc[mine["chosen"], "asset"]),
            pd.Timestamp(mine["begins"].iloc[0]),
            tuple(mine.loc[~mine["chosen"], "asset"]),
        )
        for since, mine in rows.groupby("since", sort=True)
    )


def books_of(book: Ledger, among: Sequence[Universe], members: pd.DataFrame) -> Iterator[tuple[Universe, Ledger]]:
    """The books as long as each universe lasts, of its assets alone.

    What is held before a trade is what is left there when all that is no member any more is sold.
    """
    ends = [*(universe.since for universe in among[1:]), pd.Timestamp.max]
    for universe, until in zip(among, ends, strict=True):
        days = book.daily.index[(book.daily.index > universe.since) & (book.daily.index <= until)]
        inside = book.trades.columns.isin(universe.assets)
        before = (book.weights.loc[days, list(book.trades)] - book.trades.loc[days]).to_numpy(dtype=np.float64)
        there = members[list(book.trades)].to_numpy()[members.index.get_indexer(days) - 1]
        held = [sold(row, may_hold & inside)[inside] for row, may_hold in zip(before, there, strict=True)]
        weights = book.weights.loc[days, list(universe.assets)]
        trades = weights - np.reshape(held, weights.shape)
        yield universe, replace(book, daily=book.daily.loc[days], weights=weights, trades=trades)


class AmongMembers:
    """A policy that is asked about the assets of the universe of a date alone.

    Parameters
    ----------
    name : str
    among : sequence of Universe
        In order of date.
    build : callable
        From the assets of a universe to the policy that decides among them; asked anew where they change.
    """

    def __init__(self, name: str, among: Sequence[Universe], build: Callable[[tuple[str, ...]], Policy]) -> None:
        self.name = name
        self.parts: list[tuple[tuple[str, ...], Policy]] = []
        self._among = list(among)
        self._since = pd.DatetimeIndex([universe.since for universe in among])
        self._build = build

    def fit(self, history: pd.DataFrame) -> None:
        """Let the policy of the date's universe learn."""
        universe = self._universe(history)
        self._policy(universe).fit(universe.history(history))

    def decide(self, history: pd.DataFrame, held: FloatArray) -> FloatArray | None:
        """Weights [N] of the date's universe, 0 elsewhere, from what is held in it once all else is sold."""
        universe = self._universe(history)
        inside = history.columns.isin(universe.assets)
        answer = self._policy(universe).decide(universe.history(history), sold(held, inside)[inside])
        if answer is None:
            return None
        if np.shape(answer) != (len(universe.assets),):
            raise BacktestError(
                f"{self.name} decided on {history.index[-1].date()} with weights of shape {np.shape(answer)}, there "
                f"are {len(universe.assets)} assets: return one weight an asset, or None to hold"
            )
        weights = np.zeros(len(held))
        weights[inside] = answer
        return weights

    def _universe(self, history: pd.DataFrame) -> Universe:
        return self._among[int(self._since.searchsorted(history.index[-1], side="right")) - 1]

    def _policy(self, universe: Universe) -> Policy:
        if not self.parts or self.parts[-1][0] != universe.assets:
            self.parts.append((universe.assets, self._build(universe.assets)))
        return self.parts[-1][1]
