"""How often returns of each size came: histograms as steps, so that none hides another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from portfolio_dfl.report.canvas import MUTED, Lines, blank, line

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["histogram"]

_MOST_BINS = 60


def histogram(lines: Lines) -> go.Figure:
    """Share of rows by the size of their net return, in bins that all strategies share."""
    figure = blank(240)
    values = {label: series.to_numpy(np.float64) for label, (_, series) in lines.items()}
    together = np.concatenate(list(values.values()))
    edges = np.histogram_bin_edges(together, bins=min(_MOST_BINS, max(8, round(2 * len(together) ** (1 / 3)))))
    for label, (look, _) in lines.items():
        counts, _ = np.histogram(values[label], bins=edges)
        heights = np.concatenate([[0.0], counts / len(values[label]), [0.0]])
        places = pd.Index(np.concatenate([edges, edges[-1:]]))
        trace = line(places, heights, replace(look, width=min(look.width, 1.8)), "%{y:.1%}")
        trace.line.shape = "vh"
        figure.add_trace(trace)
    for depth, trace in enumerate(reversed(figure.data), start=1):
        trace.zorder = depth
    figure.add_vline(x=0.0, line={"color": MUTED, "width": 0.8})
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    figure.update_xaxes(tickformat=".1%", nticks=7, hoverformat=".2%")
    return figure
