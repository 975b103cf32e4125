"""Tables of results as HTML and as text: one list of metrics says how each is named and written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

from portfolio_dfl.strategies.table import Appearance

if TYPE_CHECKING:
    from portfolio_dfl.backtest.evaluation import Metric

__all__ = [
    "SHOWN",
    "costs_table",
    "drawdowns_table",
    "frame_table",
    "metrics_meaning",
    "metrics_table",
    "metrics_text",
    "scores_meaning",
    "scores_table",
    "scores_text",
    "tear_sheet_meaning",
    "tear_sheet_table",
]

#: Metrics of the main table, with the heading that a style sheet puts in its place where room is short.
SHOWN = {
    "cagr": "CAGR",
    "volatility": "Vol.",
    "sharpe": "Sharpe",
    "max_drawdown": "Max DD",
    "turnover": "Turn&shy;over",
    "cost": "Cost",
}


def metrics_meaning(period: str = "day", metrics: pd.DataFrame | None = None) -> str:
    """One sentence that says what the columns of a table measure, of ledgers with a row a ``period``."""
    shown = _shown([] if metrics is None else metrics.columns)
    return "; ".join(f"{metric.title}: {metric.meaning.format(period=period)}" for metric in shown.values()) + "."


def metrics_table(metrics: pd.DataFrame, looks: Mapping[str, Appearance]) -> str:
    """HTML table of the metrics in :data:`SHOWN` and of the user's own, one row a strategy."""
    known = _shown(metrics.columns)
    head = "".join(
        f'<th data-narrow="{SHOWN.get(name, metric.title)}"><span>{metric.title}</span></th>'
        for name, metric in known.items()
    )
    rows = []
    for label, row in metrics.iterrows():
        look = looks.get(str(label))
        swatch = f'<span class="swatch" style="border-top-color:{look.colour}"></span>' if look else ""
        main = ' class="main"' if look and look.main else ""
        cells = "".join(f"<td>{_cell(row[name], metric)}</td>" for name, metric in known.items())
        rows.append(f"<tr{main}><td>{swatch}{escape(str(label))}</td>{cells}</tr>")
    return f"<table><thead><tr><th>Strategy</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def metrics_text(metrics: pd.DataFrame) -> str:
    """The same table for a terminal."""
    return _text_table(metrics, _shown(metrics.columns))


def scores_text(scores: pd.DataFrame) -> str:
    """Scores of all strategies for a terminal."""
    return _text_table(scores, _scores())


def scores_table(scores: pd.DataFrame) -> str:
    """HTML table of the scores, one row a strategy."""
    known = _scores()
    head = "".join(f"<th>{metric.title}</th>" for metric in known.values())
    rows = ""
    for label, row in scores.iterrows():
        cells = "".join(f"<td>{_cell(row[name], metric)}</td>" for name, metric in known.items())
        rows += f"<tr><td>{escape(str(label))}</td>{cells}</tr>"
    return f"<table><thead><tr><th>Strategy</th>{head}</tr></thead><tbody>{rows}</tbody></table>"


def scores_meaning() -> str:
    """One sentence that says what the scores measure."""
    return "; ".join(f"{metric.title}: {metric.meaning}" for metric in _scores().values()) + "."


def tear_sheet_table(table: pd.DataFrame) -> str:
    """HTML table of a tear sheet: a row a statistic, a column a strategy."""
    known = _tear_sheet()
    head = "".join(f"<th>{escape(str(label))}</th>" for label in table.index)
    rows = ""
    for name in table.columns:
        cells = "".join(f"<td>{_cell(value, known[name])}</td>" for value in table[name])
        rows += f"<tr><td>{known[name].title}</td>{cells}</tr>"
    return f'<table class="sheet"><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>'


def tear_sheet_meaning(table: pd.DataFrame) -> str:
    """One sentence that says what the rows measure."""
    known = _tear_sheet()
    return "; ".join(f"{known[name].title}: {known[name].meaning}" for name in table.columns) + "."


def drawdowns_table(table: pd.DataFrame) -> str:
    """HTML table of the worst drawdowns of some strategies, columns ``strategy`` and those of the episodes."""
    shown = pd.DataFrame(
        {
            "Strategy": table["strategy"],
            "Depth": [f"{depth:.2%}".replace("-", "−") for depth in table["depth"]],
            "Peak": [_text(day) or "the start" for day in table["peak"]],
            "Trough": [_text(day) for day in table["trough"]],
            "Recovered": [_text(day) or "not yet" for day in table["recovery"]],
            "Down": [str(rows) for rows in table["rows_down"]],
            "Under": [str(rows) for rows in table["rows_under"]],
        }
    )
    return frame_table(shown)


def _text_table(frame: pd.DataFrame, known: Mapping[str, Metric]) -> str:
    cells = [["Strategy", *(metric.title for metric in known.values())]]
    for label, row in frame.iterrows():
        cells.append([str(label), *(_cell(row[name], metric) for name, metric in known.items())])
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = [
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in cells
    ]
    return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:]])


def costs_table(costs: pd.DataFrame) -> str:
    """HTML table of Sharpe ratio and growth at several cost levels; rows (strategy, cost rate)."""
    known = _metrics()
    levels = list(dict.fromkeys(costs.index.get_level_values(1)))
    head = "".join(f"<th>{level * 1e4:g} bp</th>" for level in levels)
    rows = []
    for label in dict.fromkeys(costs.index.get_level_values(0)):
        pairs = [
            " · ".join(_cell(costs.loc[(label, level), name], known[name]) for name in ("sharpe", "cagr"))
            for level in levels
        ]
        rows.append(f"<tr><td>{escape(str(label))}</td>{''.join(f'<td>{pair}</td>' for pair in pairs)}</tr>")
    return f"<table><thead><tr><th>Strategy</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def frame_table(frame: pd.DataFrame) -> str:
    """HTML table of any frame, its values as text; dates without a time of day."""
    head = "".join(f"<th>{escape(str(column)).replace('_', ' ')}</th>" for column in frame.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(_text(value))}</td>" for value in row) + "</tr>"
        for row in frame.itertuples(index=False)
    )
    return f'<table class="text"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _metrics() -> dict[str, Metric]:
    from portfolio_dfl.backtest.evaluation import METRICS  # loads the numerical stack

    return METRICS


def _shown(columns: Iterable[str]) -> dict[str, Metric]:
    """The metrics of the main table: ours, and what else its columns are, which are the user's own."""
    from portfolio_dfl.backtest.evaluation import Metric  # loads the numerical stack

    known = _metrics()
    own = [name for name in columns if name not in known]
    return {name: known[name] for name in SHOWN} | {
        name: Metric(name.replace("_", " "), "{:.4g}", "a metric of your own") for name in own
    }


def _scores() -> dict[str, Metric]:
    from portfolio_dfl.backtest.evaluation import SCORES  # loads the numerical stack

    return SCORES


def _tear_sheet() -> dict[str, Metric]:
    from portfolio_dfl.backtest.tearsheet import AGAINST_BENCHMARK, TEAR_SHEET  # loads the numerical stack

    return TEAR_SHEET | AGAINST_BENCHMARK


def _cell(value: float, metric: Metric) -> str:
    if value == float("inf"):
        return "∞"
    return "–" if pd.isna(value) else metric.format.format(value).replace("-", "−")


def _text(value: object) -> str:
    if value is None or value is pd.NaT or value != value:  # NaN differs from itself
        return ""
    return value.strftime("%Y-%m-%d") if isinstance(value, pd.Timestamp) else str(value)
