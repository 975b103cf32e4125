"""What assets or groups contributed, as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from portfolio_dfl.report.canvas import GRID, INK, MUTED, blank
from portfolio_dfl.report.holdings import is_rest, rest_of
from portfolio_dfl.wording import drawn

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["contribution_bars", "largest_contributions"]

_SHOWN, _LARGEST = 12, 10
_LETTERS = 22
# The rest of many assets has no bar where it is as many times the longest of the others.
_BEYOND = 3.0


def largest_contributions(table: pd.DataFrame) -> pd.DataFrame:
    """Of more than twelve rows, the ten with the largest contribution to risk, and what the others add up to."""
    if len(table) <= _SHOWN:
        return table.sort_values("return", ascending=False, kind="stable")
    weight = table["risk"].abs().fillna(0.0) if table["risk"].notna().any() else table["return"].abs()
    order = weight.sort_values(ascending=False, kind="stable").index
    kept = table.loc[order[:_LARGEST]].sort_values("return", ascending=False, kind="stable")
    rest = table.drop(index=kept.index)
    summed = rest.sum(min_count=1).to_frame(rest_of(len(rest))).T
    found: pd.DataFrame = pd.concat([kept, summed])
    return found


def contribution_bars(values: pd.Series, label: str) -> go.Figure:
    """One bar a row, the first on top."""
    import plotly.graph_objects as go

    figure = blank(56 + 22 * len(values), hovermode="closest")
    rows = values.iloc[::-1].astype("float64")
    names = [str(name) for name in rows.index]
    beyond = names[0] if names and is_rest(names[0]) else None
    if beyond is not None:
        rest, others = float(rows.iloc[0]), float(rows.iloc[1:].abs().max())
        if abs(rest) > _BEYOND * others:  # every other bar would be a hair beside it
            rows.iloc[0] = float("nan")
            figure.add_annotation(
                x=0.0,
                y=drawn(beyond),
                text=f"{rest:.1%}, beyond the scale".replace("-", "−"),
                showarrow=False,
                xanchor="left",
                xshift=4,
                font={"size": 11, "color": MUTED},
            )
    figure.add_trace(
        go.Bar(
            x=rows.to_numpy(dtype="float64"),
            y=[drawn(name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…") for name in names],
            customdata=[drawn(name) for name in names],
            orientation="h",
            marker={"color": ["#b8574e" if value < 0.0 else "#28557f" for value in rows], "line": {"width": 0}},
            name=drawn(label),
            hovertemplate="%{customdata}: %{x:.2%}<extra></extra>",
        )
    )
    figure.update_layout(bargap=0.35, margin={"l": 8, "r": 14, "t": 6, "b": 40})
    figure.update_yaxes(type="category", showgrid=False, tickfont={"color": INK, "size": 11})
    figure.update_xaxes(
        title={"text": drawn(label), "font": {"size": 12}},
        tickformat=".1%",
        nticks=5,
        showgrid=True,
        gridcolor=GRID,
        zeroline=True,
        zerolinecolor=MUTED,
    )
    return figure
