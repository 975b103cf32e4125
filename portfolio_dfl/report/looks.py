"""Looks of a study's strategies in its figures: seeds of one strategy differ in shade and dash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from portfolio_dfl.strategies.table import Appearance, Lane, by_strategy

__all__ = ["looks_of"]

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
# The palest seed keeps this share of its colour.
_PALEST = 0.45


def looks_of(paths: Sequence[Lane]) -> dict[str, Appearance]:
    """Look of each strategy by label; the first seed has the strategy's own, the others paler and dashed ones."""
    found = {}
    for mine in by_strategy(paths).values():
        for place, lane in enumerate(mine):
            look = lane.look
            if place:
                kept = 1.0 - (1.0 - _PALEST) * place / (len(mine) - 1)
                dash = _DASHES[place % len(_DASHES)]
                look = replace(
                    look, colour=_paler(look.colour, kept), dash=dash, width=min(look.width, 1.6), main=False
                )
            found[lane.label] = look
    return {lane.label: found[lane.label] for lane in paths}


def _paler(colour: str, kept: float) -> str:
    """A colour #rrggbb mixed with white."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(255 - kept * (255 - part)):02x}" for part in parts)
