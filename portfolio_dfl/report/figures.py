"""The report's figures: plain frames in, plotly figures out; one look for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from portfolio_dfl.wording import drawn

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from portfolio_dfl.strategies.table import Appearance

__all__ = [
    "asset_colours",
    "averaging_days",
    "cumulative_cost",
    "drawdown",
    "intervals",
    "turnover",
    "wealth",
    "weights_over_time",
    "window_metric",
]

INK = "#23262b"
MUTED = "#6f747c"
GRID = "#e7e4dd"
ALARM = "#b3261e"
FONT = "-apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

_WEIGHT_POINTS = 520
# Of an axis in one line, on a telephone.
_TITLE_LETTERS = 34

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
    """A colour for each ticker, repeating after twelve."""
    return dict(zip(tickers, cycle(_ASSETS), strict=False))


def wealth(paths: Mapping[str, tuple[Appearance, pd.Series]]) -> go.Figure:
    """Wealth of one unit invested, net of costs, a line a strategy; log scale once it spans a factor of 3."""
    figure = _figure(360)
    spread = [series for _, series in paths.values()]
    for look, series in paths.values():
        figure.add_trace(_line(series.index, series.to_numpy(), look, "%{y:.3f}"))
    _first_on_top(figure)
    ratio = max(float(s.max()) for s in spread) / min(float(s.min()) for s in spread)
    figure.add_hline(y=1.0, line={"color": MUTED, "width": 0.8})
    figure.update_yaxes(tickformat=".2f", type="log" if ratio > 3 else "linear", dtick=None, nticks=7)
    return figure


def drawdown(paths: Mapping[str, tuple[Appearance, pd.Series]]) -> go.Figure:
    """Loss since the highest wealth so far, at most 0."""
    figure = _figure(240)
    for look, series in paths.values():
        below = series / series.cummax() - 1.0
        figure.add_trace(_line(below.index, below.to_numpy(), look, "%{y:.1%}"))
    _first_on_top(figure)
    deepest = min(float((series / series.cummax() - 1.0).min()) for _, series in paths.values())
    figure.update_yaxes(tickformat=".0%", range=[1.06 * min(deepest, -0.001), -0.02 * min(deepest, -0.001)])
    return figure


def averaging_days(rows: int) -> int:
    """Days that one point of a chart of weights stands for: more than a screen has room for only blur."""
    return max(1, round(rows / _WEIGHT_POINTS))


def weights_over_time(weights: pd.DataFrame, colours: Mapping[str, str]) -> go.Figure:
    """Stacked shares of wealth by ticker, averaged over :func:`averaging_days`."""
    blocks = np.arange(len(weights)) // averaging_days(len(weights))
    first = weights.index[np.flatnonzero(np.diff(blocks, prepend=-1))]
    weights = weights.groupby(blocks).mean().set_index(first)
    import plotly.graph_objects as go

    figure = _figure(210)
    for ticker in weights.columns:
        figure.add_trace(
            go.Scatter(
                x=weights.index,
                y=np.round(weights[ticker].to_numpy(), 4),
                name=drawn(ticker),
                mode="lines",
                line={"width": 0.4, "color": colours[ticker], "shape": "hv"},
                fillcolor=colours[ticker],
                stackgroup="all",
                hovertemplate="%{y:.1%}",
            )
        )
    top = max(1.0, float(weights.clip(lower=0.0).sum(axis=1).max()))
    figure.update_yaxes(tickformat=".0%", range=[0, top], showgrid=False, dtick=0.5)
    figure.update_xaxes(nticks=5)
    return figure


def turnover(paths: Mapping[str, tuple[Appearance, pd.Series]], days: int) -> go.Figure:
    """Turnover a day, L1, averaged over the given number of trading days."""
    figure = _figure(240)
    for look, series in paths.values():
        mean = series.rolling(days, min_periods=1).mean()
        figure.add_trace(_line(mean.index, mean.to_numpy(), look, "%{y:.3f}"))
    _first_on_top(figure)
    figure.update_yaxes(rangemode="tozero", tickformat=".2f")
    return figure


def cumulative_cost(paths: Mapping[str, tuple[Appearance, pd.Series]]) -> go.Figure:
    """Costs paid so far, as a sum of daily shares of wealth."""
    figure = _figure(240)
    for look, series in paths.values():
        total = series.cumsum()
        figure.add_trace(_line(total.index, total.to_numpy(), look, "%{y:.2%}"))
    _first_on_top(figure)
    figure.update_yaxes(rangemode="tozero", tickformat=".1%")
    return figure


def window_metric(
    lines: Mapping[str, tuple[Appearance, pd.Series]], failed: Sequence[pd.Timestamp], *, share: bool = False
) -> go.Figure:
    """One number for each retraining; dates at which training failed carry a cross; shares run from 0 to 1."""
    import plotly.graph_objects as go

    figure = _figure(230)
    for look, series in lines.values():
        trace = _line(series.index, series.to_numpy(), look, "%{y:.3g}")
        trace.update(mode="lines+markers", marker={"size": 4, "color": look.colour})
        figure.add_trace(trace)
    _first_on_top(figure)
    values = np.concatenate([series.dropna().to_numpy(np.float64) for _, series in lines.values()])
    figure.update_yaxes(exponentformat="power", nticks=5)
    if share:
        figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%", dtick=0.25)
    elif len(values) and np.ptp(values) <= 1e-6 * np.abs(values).max():  # a constant needs room, not decimals
        level = float(values[0])
        room = 0.5 * abs(level) or 1.0
        figure.update_yaxes(range=[level - room, level + room])
    if len(failed):
        level = float(values.max()) if len(values) else 0.0
        figure.add_trace(
            go.Scatter(
                x=list(failed),
                y=[level] * len(failed),
                mode="markers",
                name="failed",
                marker={"symbol": "x", "size": 9, "color": ALARM},
                hovertemplate="failed",
            )
        )
    return figure


def intervals(table: pd.DataFrame, label: str) -> go.Figure:
    """Point estimates with intervals, one row each; columns ``estimate``, ``low``, ``high``."""
    import plotly.graph_objects as go

    figure = _figure(60 + 34 * len(table), hovermode="closest")
    figure.add_vline(x=0.0, line={"color": MUTED, "width": 1})
    rows = table.iloc[::-1]
    figure.add_trace(
        go.Scatter(
            x=rows["estimate"],
            y=[drawn(name) for name in rows.index],
            mode="markers",
            marker={"size": 9, "color": INK},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": rows["high"] - rows["estimate"],
                "arrayminus": rows["estimate"] - rows["low"],
                "color": INK,
                "thickness": 1.6,
                "width": 0,
            },
            name=drawn(label),
            hovertemplate="%{y}: %{x:.3g}<extra></extra>",
        )
    )
    figure.update_xaxes(
        title={"text": "<br>".join(map(drawn, wrap(label, _TITLE_LETTERS))), "font": {"size": 12}},
        showgrid=True,
        gridcolor=GRID,
        exponentformat="power",
        nticks=6,
    )
    figure.update_yaxes(showgrid=False)
    figure.update_layout(margin={"l": 8, "r": 14, "t": 6, "b": 40})
    figure.update_xaxes(automargin=True)
    return figure


def _first_on_top(figure: go.Figure) -> None:
    """Keep the order of the table in the hover box, but draw the first strategy over the others."""
    for depth, trace in enumerate(reversed(figure.data), start=1):
        trace.zorder = depth


def _line(x: pd.Index, y: np.ndarray, look: Appearance, hover: str) -> Any:
    import plotly.graph_objects as go

    return go.Scatter(
        x=x,
        y=np.asarray(y, dtype=np.float32),
        name=drawn(look.label),
        mode="lines",
        line={"color": look.colour, "dash": look.dash, "width": look.width},
        hovertemplate=hover,
    )


def _figure(height: int, hovermode: str = "x unified") -> go.Figure:
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 46, "r": 14, "t": 6, "b": 28},
        font={"family": FONT, "size": 12, "color": INK},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        hovermode=hovermode,
        hoverlabel={"bgcolor": "#ffffff", "bordercolor": GRID, "font": {"size": 11, "color": INK}},
        showlegend=False,
        dragmode=False,
    )
    figure.update_xaxes(
        showgrid=False, zeroline=False, linecolor=GRID, tickcolor=GRID, ticks="outside", automargin=True
    )
    figure.update_yaxes(gridcolor=GRID, zeroline=False, automargin=True, tickfont={"color": MUTED})
    return figure
