"""Returns by the calendar: months by years as a heat map, and calendar years."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from portfolio_dfl.report.canvas import INK, MUTED, blank
from portfolio_dfl.strategies.table import Appearance
from portfolio_dfl.wording import drawn

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["months_by_years", "years"]

_NAMES = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Year"]
_SCALE = [[0.0, "#c4695d"], [0.5, "#fbfaf7"], [1.0, "#5b8fbd"]]


def months_by_years(table: pd.DataFrame) -> go.Figure:
    """Net return of each month in per cent, a row a year, and of the year; the colours span ± the largest month.

    Parameters
    ----------
    table : DataFrame
        Of :func:`~portfolio_dfl.backtest.tearsheet.calendar_returns`.
    """
    import plotly.graph_objects as go

    figure = blank(52 + 26 * len(table), hovermode="closest")
    values = table.to_numpy(np.float64)
    months = np.abs(values[:, :12])
    largest = float(np.nanmax(months)) or 0.01
    text = [["" if np.isnan(v) else _per_cent(v) for v in row] for row in values]
    figure.add_trace(
        go.Heatmap(
            z=np.round(values, 5),
            x=_NAMES,
            y=[str(year) for year in table.index],
            text=text,
            texttemplate="%{text}",
            textfont={"size": 10, "color": INK},
            colorscale=_SCALE,
            zmin=-largest,
            zmax=largest,
            showscale=False,
            xgap=1,
            ygap=1,
            hovertemplate="%{y} %{x}: %{z:.2%}<extra></extra>",
            hoverongaps=False,
        )
    )
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False, fixedrange=True)
    figure.update_xaxes(type="category", side="top", ticks="", tickfont={"size": 9, "color": MUTED}, tickangle=0)
    figure.update_xaxes(range=[-0.5, 12.5], fixedrange=True)
    figure.update_layout(margin={"l": 34, "r": 2, "t": 24, "b": 6})
    return figure


def _per_cent(value: float) -> str:
    """With one decimal and no sign of its own; what rounds to nothing has no minus either."""
    shown = f"{100 * value:.1f}".replace("-", "−")
    return "0.0" if shown == "−0.0" else shown


def years(tables: Mapping[str, tuple[Appearance, pd.Series]]) -> go.Figure:
    """Net return of each calendar year, a bar a strategy."""
    import plotly.graph_objects as go

    figure = blank(240)
    for look, series in tables.values():
        figure.add_trace(
            go.Bar(
                x=[str(year) for year in series.index],
                y=np.asarray(series.to_numpy(), dtype=np.float32),
                name=drawn(look.label),
                marker={"color": look.colour, "line": {"width": 0}},
                hovertemplate="%{y:.1%}",
            )
        )
    figure.update_layout(barmode="group", bargap=0.28)
    figure.update_xaxes(type="category")
    figure.update_yaxes(tickformat=".0%", zeroline=True, zerolinecolor=MUTED, zerolinewidth=0.8)
    return figure
