"""Tables of results as HTML and as text: one list of metrics says how each is named and written."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

import pandas as pd

from portfolio_dfl.tracking.figures import Appearance

__all__ = ["METRICS", "Metric", "frame_table", "metrics_table", "metrics_text"]


class Metric(NamedTuple):
    """How a metric's column is named and written."""

    title: str
    short: str
    format: str


METRICS = {
    "cagr": Metric("CAGR", "CAGR", "{:.1%}"),
    "volatility": Metric("Volatility", "Vol.", "{:.1%}"),
    "sharpe": Metric("Sharpe", "Sharpe", "{:.2f}"),
    "max_drawdown": Metric("Max drawdown", "Max DD", "{:.1%}"),
    "turnover": Metric("Turnover", "Turn&shy;over", "{:.2f}"),
    "cost": Metric("Cost", "Cost", "{:.2%}"),
}


def _cell(value: float, metric: Metric) -> str:
    return "–" if pd.isna(value) else metric.format.format(value).replace("-", "−")


def metrics_table(metrics: pd.DataFrame, looks: Mapping[str, Appearance]) -> str:
    """HTML table of the metrics in :data:`METRICS`, one row a strategy."""
    columns = [name for name in METRICS if name in metrics]
    head = "".join(f"<th>{_heading(METRICS[name])}</th>" for name in columns)
    rows = []
    for label, row in metrics.iterrows():
        look = looks.get(str(label))
        swatch = f'<span class="swatch" style="border-top-color:{look.colour}"></span>' if look else ""
        main = ' class="main"' if str(label).startswith("Decision-focused") else ""
        cells = "".join(f"<td>{_cell(row[name], METRICS[name])}</td>" for name in columns)
        rows.append(f"<tr{main}><td>{swatch}{escape(str(label))}</td>{cells}</tr>")
    return f"<table><thead><tr><th>Strategy</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _heading(metric: Metric) -> str:
    return f'<span class="wide">{metric.title}</span><span class="narrow">{metric.short}</span>'


def metrics_text(metrics: pd.DataFrame) -> str:
    """The same table for a terminal."""
    columns = [name for name in METRICS if name in metrics]
    cells = [["Strategy", *(METRICS[name].title for name in columns)]]
    for label, row in metrics.iterrows():
        cells.append([str(label), *(_cell(row[name], METRICS[name]) for name in columns)])
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = [
        "  ".join(
            [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        )
        for line in cells
    ]
    return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:]])


def frame_table(frame: pd.DataFrame) -> str:
    """HTML table of any frame, its values as text; dates without a time of day."""
    head = "".join(f"<th>{escape(str(column)).replace('_', ' ')}</th>" for column in frame.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(_text(value))}</td>" for value in row) + "</tr>"
        for row in frame.itertuples(index=False)
    )
    return f'<table class="text"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _text(value: object) -> str:
    if value is None or value is pd.NaT or value != value:  # NaN differs from itself
        return ""
    return value.strftime("%Y-%m-%d") if isinstance(value, pd.Timestamp) else str(value)
