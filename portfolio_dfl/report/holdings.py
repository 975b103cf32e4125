"""Weights through time: stacked shares of wealth, of many assets the largest and the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from portfolio_dfl.report.canvas import MUTED, blank
from portfolio_dfl.wording import drawn

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = [
    "SHOWN",
    "asset_colours",
    "averaging_days",
    "by_group",
    "is_rest",
    "key_of",
    "largest_and_rest",
    "rest_of",
    "weights_over_time",
]

#: Assets that are drawn apart; of more, the ten largest and what the rest adds up to.
SHOWN = 12
_LARGEST = 10
_REST = "#d9d6cf"

_POINTS = 520

_ASSETS = [
    "#28557f",
    "#d98c5f",
    "#6fa08b",
    "#c9b458",
    "#8f6a9e",
    "#7fb0cf",
    "#b8574e",
    "#4d6b47",
    "#cfa3b4",
    "#8c8273",
    "#4f9aa0",
    "#a5ad6b",
]


def asset_colours(tickers: Sequence[str]) -> dict[str, str]:
    """A colour for each ticker, repeating after twelve; grey for the rest of many."""
    colours = dict(zip(tickers, cycle(_ASSETS), strict=False))
    return {name: _REST if is_rest(name) else colour for name, colour in colours.items()}


def largest_and_rest(weights: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The weights of each strategy, of more than :data:`SHOWN` assets the ten largest, and the others' sum.

    The largest are those with the largest absolute weight on average over time and strategies, the same for all.
    """
    frames = {label: frame.rename(columns=str) for label, frame in weights.items()}
    columns = list(dict.fromkeys(name for frame in frames.values() for name in frame.columns))
    if len(columns) <= SHOWN:
        return frames
    size = pd.DataFrame({label: frame.abs().mean() for label, frame in frames.items()}).fillna(0.0).mean(axis=1)
    kept = list(size.reindex(columns).sort_values(ascending=False, kind="stable").index[:_LARGEST])
    rest = rest_of(len(columns) - len(kept))
    return {
        label: frame.reindex(columns=kept, fill_value=0.0).assign(
            **{rest: frame.drop(columns=kept, errors="ignore").sum(axis=1)}
        )
        for label, frame in frames.items()
    }


def by_group(weights: pd.DataFrame, groups: Mapping[str, str], other: str = "no group") -> pd.DataFrame:
    """Weights summed over the assets of each group."""
    names = [groups.get(str(asset), other) for asset in weights.columns]
    summed: pd.DataFrame = weights.T.groupby(names, sort=False).sum().T
    return summed


def averaging_days(rows: int) -> int:
    """Rows that one point of a chart of weights stands for: more than a screen has room for only blur."""
    return max(1, round(rows / _POINTS))


def weights_over_time(weights: pd.DataFrame, colours: Mapping[str, str]) -> go.Figure:
    """Stacked shares of wealth by ticker, averaged over :func:`averaging_days`; short ones hang below zero."""
    import plotly.graph_objects as go

    blocks = np.arange(len(weights)) // averaging_days(len(weights))
    first = pd.DatetimeIndex(weights.index[np.flatnonzero(np.diff(blocks, prepend=-1))]).strftime("%Y-%m-%d")
    means = weights.groupby(blocks).mean().round(4)
    figure = blank(210)
    # A negative part that rounding alone makes is no short position.
    sides = [("long", means.clip(lower=0.0)), ("short", means.clip(upper=0.0))]
    for side, part in sides:
        for ticker in part.columns:
            values = part[ticker].to_numpy()
            if side == "short" and not (values < 0.0).any():
                continue
            figure.add_trace(
                go.Scatter(
                    x=first,
                    y=values,
                    name=drawn(ticker) if side == "long" else f"{drawn(ticker)}, short",
                    mode="lines",
                    line={"width": 0.4, "color": colours[ticker], "shape": "hv"},
                    fillcolor=colours[ticker],
                    stackgroup=side,
                    hovertemplate="%{y:.1%}",
                    showlegend=side == "long",
                )
            )
    top = max(1.0, float(sides[0][1].sum(axis=1).max()))
    bottom = float(sides[1][1].sum(axis=1).min())
    if bottom < 0.0:
        figure.add_hline(y=0.0, line={"color": MUTED, "width": 0.8})
    figure.update_yaxes(tickformat=".0%", range=[1.02 * bottom, top], showgrid=False, dtick=0.5)
    figure.update_xaxes(nticks=5)
    return figure


def key_of(frames: Iterable[pd.DataFrame]) -> dict[str, str]:
    """Names and colours of what the charts show, in their order."""
    return asset_colours(list(dict.fromkeys(str(name) for frame in frames for name in frame.columns)))


def rest_of(count: int) -> str:
    """Name of what is not shown apart."""
    return f"the other {count}"


def is_rest(name: str) -> bool:
    """Whether a name is that of :func:`rest_of`."""
    return re.fullmatch(r"the other \d+", name) is not None
