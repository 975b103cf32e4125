"""The sheet that every figure is drawn on: colours, letters, axes, and lines in the look of their strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from portfolio_dfl.strategies.table import Appearance
from portfolio_dfl.wording import drawn

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["ALARM", "FONT", "GRID", "INK", "MUTED", "Lines", "add_lines", "blank", "line"]

INK = "#23262b"
MUTED = "#6f747c"
GRID = "#e7e4dd"
ALARM = "#b3261e"
FONT = "-apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

# Lines this near to one another, next to the height of the figure, are one to the eye.
_HIDDEN, _ROUNDING = 0.01, 1e-9

#: Series through time with the look of the strategy of each, by label.
Lines = Mapping[str, tuple[Appearance, pd.Series]]


def blank(height: int, hovermode: str = "x unified") -> go.Figure:
    """An empty figure."""
    import plotly.graph_objects as go

    tall = {"gridcolor": GRID, "zeroline": False, "automargin": True, "tickfont": {"color": MUTED}}
    wide = {"showgrid": False, "zeroline": False, "linecolor": GRID, "tickcolor": GRID, "ticks": "outside"}
    layout = {
        "template": "none",
        "height": height,
        "margin": {"l": 46, "r": 14, "t": 6, "b": 28},
        "font": {"family": FONT, "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": hovermode,
        "hoverlabel": {"bgcolor": "#ffffff", "bordercolor": GRID, "font": {"size": 11, "color": INK}},
        "showlegend": False,
        "dragmode": False,
        "xaxis": wide | {"automargin": True},
        "yaxis": tall,
    }
    return go.Figure(layout=layout)


def line(x: pd.Index, y: np.ndarray, look: Appearance, hover: str) -> Any:
    """One line."""
    import plotly.graph_objects as go

    return go.Scatter(
        x=x.strftime("%Y-%m-%d") if isinstance(x, pd.DatetimeIndex) and (x == x.normalize()).all() else x,
        y=np.asarray(y, dtype=np.float32),
        name=drawn(look.label),
        mode="lines",
        line={"color": look.colour, "dash": look.dash, "width": look.width},
        hovertemplate=hover,
    )


def add_lines(figure: go.Figure, lines: Lines, hover: str) -> None:
    """Draw all lines, in the hover box in their order, the first one over the others.

    A line that all but covers another is dashed, so that the one below shows through.
    """
    series = list(lines.values())
    known = [own.dropna().to_numpy(np.float64) for _, own in series]
    filled = [values for values in known if len(values)]
    top, bottom = (max(map(np.max, filled)), min(map(np.min, filled))) if filled else (0.0, 0.0)
    near = max(_HIDDEN * (top - bottom), _ROUNDING * max(abs(top), abs(bottom)))
    for place, (look, own) in enumerate(series):
        covers = any(_covers(own, other, near) for _, other in series[place + 1 :])
        shown = replace(look, dash="dash") if covers and look.dash == "solid" else look
        figure.add_trace(line(own.index, own.to_numpy(), shown, hover))
    for depth, trace in enumerate(reversed(figure.data), start=1):
        trace.zorder = depth


def _covers(own: pd.Series, other: pd.Series, distance: float) -> bool:
    if len(own) != len(other) or own.isna().all():
        return False
    apart = np.abs(own.to_numpy(np.float64) - other.to_numpy(np.float64))
    return bool(np.nanquantile(apart, 0.9) <= distance) if np.isfinite(apart).any() else False
