"""Prices of a universe that changes: a column a security, with gaps where it is none, and who is a member when.

A security is a member at the closes of its spells. A position in it that is held at its last close earns, on the
session after, its delisting return; or else what the price of that session says; or else nothing, which is a sale at
its last price. What happens is known on the session on which it happens, and no sooner.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property

import numpy as np
import pandas as pd

from portfolio_dfl.data.cleaning import Cleaned, clean_prices
from portfolio_dfl.data.flags import Flag, PanelReport, day
from portfolio_dfl.data.layouts import naming_file, wide_prices
from portfolio_dfl.data.members import Spell
from portfolio_dfl.data.panel import PricePanel, content_hash
from portfolio_dfl.data.policies import Policies
from portfolio_dfl.data.tidy import Day, TidyPrices, as_day, tidy_prices
from portfolio_dfl.errors import DataError
from portfolio_dfl.wording import counted

__all__ = ["MemberPanel", "build_member_panel", "check_members", "require_priced"]


@dataclass(frozen=True)
class MemberPanel(PricePanel):
    """Clean adjusted closes of securities that come and go.

    Made by :func:`build_member_panel`; the constructor refuses what is not clean.

    Attributes
    ----------
    prices
        As of :class:`PricePanel`, but NaN where a security has no price; it has one on each session of its spells.
    spells
        Times of membership, of every security at least one.

    Raises
    ------
    DataError
        Prices that are not clean, or a member without a price.
    """

    spells: tuple[Spell, ...] = ()

    def _require_prices(self) -> None:
        values = self.prices.to_numpy()
        with np.errstate(invalid="ignore"):
            clean = np.isnan(values) | (np.isfinite(values) & (values > 0))
        if not clean.all() or (np.isnan(values) & self.members.to_numpy()).any():
            raise DataError("the prices of members are finite and positive: make them with build_member_panel")

    @cached_property
    def members(self) -> pd.DataFrame:
        """Whether a security is a member at the close of a date, [T, N] bool, dates and columns of the prices."""
        found = pd.DataFrame(False, index=self.prices.index, columns=self.prices.columns)
        for spell in self.spells:
            found.loc[spell.first : spell.last, spell.asset] = True
        return found

    @cached_property
    def returns(self) -> pd.DataFrame:
        """Simple returns, [T-1, N]; NaN where there is none; of the session after a last one what a position earns."""
        found = super().returns.copy()
        dates = self.prices.index
        for spell in self.spells:
            after = len(dates) if spell.last is None else int(dates.searchsorted(spell.last, side="right"))
            # Nobody holds what left before the first session, and what happens after the last one is not known.
            if after in (0, len(dates)) or not self.members[spell.asset].iloc[after - 1]:
                continue
            if spell.delisting_return is not None:
                found.loc[dates[after], spell.asset] = spell.delisting_return
            elif np.isnan(found.loc[dates[after], spell.asset]):
                found.loc[dates[after], spell.asset] = 0.0
        return found

    @property
    def earned(self) -> pd.DataFrame:
        """Returns [T-1, N] as weights earn them: 0 in place of those that there are not, where nothing is held."""
        return self.returns.fillna(0.0)

    @cached_property
    def sha256(self) -> str:
        """Hash of dates, securities, prices, and who is a member when at which return."""
        digest = hashlib.sha256(content_hash(self.prices).encode())
        digest.update(self.members.to_numpy().tobytes())
        digest.update(content_hash(self.returns).encode())
        return digest.hexdigest()


def build_member_panel(
    raw: pd.DataFrame,
    spells: Sequence[Spell],
    *,
    name: str = "members",
    start: Day | None = None,
    end: Day | None = None,
    calendar: str | None = "XNYS",
    policies: Policies | Mapping[str, object] | None = None,
) -> MemberPanel:
    """Make a clean panel of the securities that are members between two dates, or say what is wrong.

    Every check of :func:`~portfolio_dfl.data.panel.build_panel` is made, but for late starts and early ends, of which
    there are many here. Of dates on which a security is no member nothing is asked.

    Parameters
    ----------
    raw
        Prices as a source found them, a column each that the spells are read from.
    spells
        As :func:`~portfolio_dfl.data.members.read_members` gives them.
    name
        What messages call the file of members.
    start, end, calendar, policies
        As for :func:`~portfolio_dfl.data.panel.build_panel`.

    Raises
    ------
    DataError
        As for :func:`~portfolio_dfl.data.panel.build_panel`, and naming line, ticker and date: no column of prices, or
        no price on a session of membership.
    """
    seen, cleaned = check_members(raw, spells, name=name, start=start, end=end, calendar=calendar, policies=policies)
    with naming_file(raw):
        if cleaned.failures:
            raise DataError(cleaned.refusal())
        if len(cleaned.prices) < 2:
            raise DataError("one date of prices is left, returns need two: widen start and end")
    kept = [spell for spell in seen if spell.asset in cleaned.prices.columns]
    require_priced(cleaned.prices, kept, name)
    return MemberPanel(cleaned.prices, cleaned.report, tuple(kept))


def check_members(
    raw: pd.DataFrame,
    spells: Sequence[Spell],
    *,
    name: str = "members",
    start: Day | None = None,
    end: Day | None = None,
    calendar: str | None = "XNYS",
    policies: Policies | Mapping[str, object] | None = None,
) -> tuple[tuple[Spell, ...], Cleaned]:
    """The spells within the dates of the prices, and the prices of their securities after all checks.

    Parameters and errors as of :func:`build_member_panel`, but that what policies refuse is told and no error.
    """
    chosen = Policies.of(policies)
    first, last = as_day(start, "start"), as_day(end, "end")
    within = [spell for spell in spells if _meets(spell, first, last)]
    if not within:
        raise DataError(f"{name}: nobody is a member between {start} and {end}")
    tidy = _tidy(raw, within, name, start, end, calendar)
    dates = tidy.prices.index
    seen = [spell for spell in within if _meets(spell, dates[0], dates[-1])]
    assets = list(dict.fromkeys(spell.asset for spell in seen))
    idle = pd.DataFrame(True, index=dates, columns=assets)
    for spell in seen:
        idle.loc[spell.first : spell.last, spell.asset] = False
    cleaned = clean_prices(_of_securities(tidy, seen, assets), chosen, calendar, idle=idle)
    outside = len(spells) - len(seen)
    notes = [Flag("members", f"{counted(outside, 'spell')} outside the dates of the prices left out", "note")]
    found = cleaned.report
    report = PanelReport((*found.flags, *notes * bool(outside)), found.touched, found.dropped_tickers)
    return tuple(seen), replace(cleaned, report=report)


def _meets(spell: Spell, first: pd.Timestamp | None, last: pd.Timestamp | None) -> bool:
    """Whether a spell has a day between two dates."""
    begins = last is None or spell.first <= last
    return begins and (first is None or spell.last is None or spell.last >= first)


def _tidy(
    raw: pd.DataFrame, spells: Sequence[Spell], name: str, start: Day | None, end: Day | None, calendar: str | None
) -> TidyPrices:
    columns = list(dict.fromkeys(spell.column for spell in spells))
    try:
        return tidy_prices(raw, tickers=columns, start=start, end=end, calendar=calendar)
    except DataError:
        known = [str(column) for column in wide_prices(raw).columns]
        lacking = [spell for spell in spells if spell.column not in known]
        if not lacking:
            raise
    near = [get_close_matches(spell.column.upper(), known, n=1) for spell in lacking]
    listed = ", ".join(
        f"{spell.column} (line {spell.line}{''.join(f', the nearest is {match}' for match in matches)})"
        for spell, matches in zip(lacking, near, strict=True)
    )
    raise DataError(
        f"{name} names tickers without a column of prices: {listed}; add their prices, those of delisted ones too, for "
        "a universe without them has only survivors"
    )


def _of_securities(tidy: TidyPrices, spells: Sequence[Spell], assets: Sequence[str]) -> TidyPrices:
    """A column a security, with prices of its own alone."""
    columns, unreadable = {}, []
    for asset in assets:
        mine = [spell for spell in spells if spell.asset == asset]
        shared = asset != mine[0].column  # with others that had the ticker
        first, last = (mine[0].first, mine[0].last) if shared else (None, None)
        prices = tidy.prices[mine[0].column]
        columns[asset] = prices.loc[first:last].reindex(prices.index)
        unreadable += [
            replace(flag, ticker=asset)
            for flag in tidy.unreadable
            if flag.ticker == mine[0].column and flag.date is not None and flag.date in prices.loc[first:last].index
        ]
    frame = pd.DataFrame(columns, index=tidy.prices.index)
    return TidyPrices(frame, tuple(unreadable), tidy.notes, tidy.start, tidy.end)


def require_priced(prices: pd.DataFrame, spells: Sequence[Spell], name: str) -> None:
    """Raise DataError unless every member has a price on every session of its spell."""
    for spell in spells:
        mine = prices.loc[spell.first : spell.last, spell.asset]
        if mine.empty:
            ends = "" if spell.last is None else f" to {day(spell.last)}"
            raise DataError(f"{name}: {spell}{ends}: the prices have no session in it")
        missing = mine.index[mine.isna()]
        if len(missing):
            more = f", and on {len(missing) - 1} more sessions" if len(missing) > 1 else ""
            raise DataError(
                f"{name}: {spell}, is a member on {day(missing[0])} and has no price then{more}: correct the dates of "
                f"membership, or give the prices of the column {spell.column}"
            )
