"""Differences to the reference with their intervals, a figure a statistic."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

import pandas as pd

from portfolio_dfl.report.canvas import GRID, INK, MUTED, blank
from portfolio_dfl.report.reported import ReportedStudy
from portfolio_dfl.wording import drawn

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["differences", "intervals"]

# Of an axis in one line, on a telephone.
_TITLE_LETTERS = 34

_STATISTICS = {
    "sharpe": "Sharpe ratio",
    "utility": "utility a year",
    "regret": "regret a decision, where less is better",
}


def differences(study: ReportedStudy) -> Iterator[tuple[str, go.Figure]]:
    """What is compared with the reference, in words, and the figure of its intervals."""
    if study.comparison is None:
        return
    table = study.comparison.reset_index()
    ceilings = {lane.strategy_label for lane in study.lanes if lane.foresight}  # so far off that the rest is one point
    table = table[table["estimate"].notna() & ~table["strategy"].isin(ceilings)]
    for statistic, rows in table.groupby("statistic", sort=False):
        measure = _STATISTICS.get(str(statistic), str(statistic))
        yield measure, intervals(rows.set_index("strategy"), f"difference in {measure}")


def intervals(table: pd.DataFrame, label: str) -> go.Figure:
    """Point estimates with intervals, one row each; columns ``estimate``, ``low``, ``high``."""
    import plotly.graph_objects as go

    figure = blank(60 + 34 * len(table), hovermode="closest")
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
