"""Charts of the tasks: lines over sizes, epochs or smoothing, in the look of the study's report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from portfolio_dfl.report.canvas import FONT, GRID, INK

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["gain_panels", "interval_panels", "line_panels"]

_COLOURS: tuple[str, ...] = ("#16528e", "#d1602f", "#2d8a6b", "#8c64a8", "#b98b1d", "#b0467b", "#3c9bb5", "#7c8c2b")
_COLOURS += ("#5f62b8", "#a7a197", "#8f3b2e", "#4d6b47", "#cfa3b4", "#23262b")


def line_panels(
    panels: Mapping[str, pd.DataFrame],
    *,
    x: str,
    y: str,
    by: str,
    x_title: str | Sequence[str],
    y_titles: Sequence[str],
    log_x: bool = True,
    log_y: bool = True,
    dashed: Sequence[str] = (),
) -> go.Figure:
    """Panels side by side, one a title, that share their legend and colours; one title of x for all, or one each.

    Where x is text, points stand side by side.
    """
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=len(panels), subplot_titles=list(panels), horizontal_spacing=0.11)
    names = list(dict.fromkeys(name for rows in panels.values() for name in rows[by]))
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}
    legend: set[Any] = set()
    for column, rows in enumerate(panels.values(), start=1):
        for name, line in rows.dropna(subset=[y]).groupby(by, sort=False):
            figure.add_trace(
                go.Scatter(
                    x=line[x],
                    y=line[y],
                    name=str(name),
                    legendgroup=str(name),
                    showlegend=name not in legend,
                    mode="lines+markers" if len(line) <= 24 else "lines",
                    line={"color": colours[name], "width": 2, "dash": "dot" if name in dashed else "solid"},
                ),
                row=1,
                col=column,
            )
            legend.add(name)
        kind = {True: "log", False: "linear"}
        below = x_title if isinstance(x_title, str) else x_title[column - 1]
        dates = pd.api.types.is_datetime64_any_dtype(rows[x])
        along = "date" if dates else kind[log_x] if pd.api.types.is_numeric_dtype(rows[x]) else "category"
        figure.update_xaxes(type=along, title=below, exponentformat="power", row=1, col=column)
        figure.update_yaxes(type=kind[log_y], title=y_titles[column - 1], exponentformat="power", row=1, col=column)
    figure.update_xaxes(gridcolor=GRID, linecolor=GRID, zeroline=False)
    figure.update_yaxes(gridcolor=GRID, linecolor=GRID, zeroline=False)
    figure.update_layout(
        template="none",
        width=640 if len(panels) == 1 else 480 * len(panels),
        height=460,
        font={"family": FONT, "size": 13, "color": INK},
        legend={"orientation": "h", "y": -0.25, "yanchor": "top"},
        margin={"l": 70, "r": 20, "t": 50, "b": 130},
    )
    return figure


def interval_panels(panels: Mapping[str, pd.DataFrame], *, x_title: str) -> go.Figure:
    """Panels side by side of estimates with their intervals, a line each: index, and estimate, low and high."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=len(panels), subplot_titles=list(panels), shared_yaxes=True)
    for column, rows in enumerate(panels.values(), start=1):
        figure.add_trace(
            go.Scatter(
                x=rows["estimate"],
                y=rows.index,
                error_x={
                    "array": rows["high"] - rows["estimate"],
                    "arrayminus": rows["estimate"] - rows["low"],
                    "thickness": 2,
                    "width": 5,
                },
                mode="markers",
                marker={"size": 10, "color": _COLOURS[0]},
                showlegend=False,
            ),
            row=1,
            col=column,
        )
        figure.update_xaxes(title=x_title, zeroline=True, zerolinecolor=INK, gridcolor=GRID, row=1, col=column)
    figure.update_yaxes(autorange="reversed", gridcolor=GRID)
    figure.update_layout(
        template="none",
        width=360 * len(panels),
        height=150 + 44 * max(len(rows) for rows in panels.values()),
        font={"family": FONT, "size": 13, "color": INK},
        margin={"l": 90, "r": 20, "t": 50, "b": 70},
    )
    return figure


def gain_panels(panels: Mapping[str, pd.DataFrame], *, y_title: str, columns: int = 3) -> go.Figure:
    """Gains with their intervals over values side by side: a panel each of text x, and gain, low and high.

    Intervals above zero are blue, those below it orange, those with zero in them grey.
    """
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    rows = -(-len(panels) // columns)
    figure = make_subplots(rows=rows, cols=columns, subplot_titles=list(panels), vertical_spacing=0.2)
    for number, found in enumerate(panels.values()):
        place = {"row": number // columns + 1, "col": number % columns + 1}
        colours = [
            _COLOURS[0] if low > 0.0 else _COLOURS[1] if high < 0.0 else "#8a8880"
            for low, high in zip(found["low"], found["high"], strict=True)
        ]
        figure.add_trace(
            go.Bar(
                x=found["x"],
                y=found["gain"],
                marker={"color": colours},
                error_y={"array": found["high"] - found["gain"], "color": INK, "thickness": 1.5, "width": 4},
                showlegend=False,
                width=0.6,
            ),
            **place,
        )
        figure.update_xaxes(type="category", **place)
        title = y_title if number % columns == 0 else None
        figure.update_yaxes(title=title, gridcolor=GRID, zeroline=True, zerolinecolor=INK, **place)
    figure.update_layout(
        template="none",
        width=1080,
        height=90 + 300 * rows,
        font={"family": FONT, "size": 13, "color": INK},
        margin={"l": 80, "r": 20, "t": 50, "b": 50},
    )
    return figure
