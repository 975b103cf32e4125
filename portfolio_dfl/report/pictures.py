"""The report's figures as PNG files for papers and slides."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.report import figures
from portfolio_dfl.report.page import ReportedStudy, differences, rows_a_month, wealth_from_start, window_charts

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["write_pictures"]

# 720 points are 7.2 inches at 100 a inch: the width of a page's text, at 400 dots an inch once scaled.
_WIDTH, _SCALE = 720, 4


def write_pictures(folder: str | os.PathLike[str], study: ReportedStudy) -> list[Path]:
    """Write every figure of a report as PNG, with its legend, on white, 2880 pixels wide.

    Raises
    ------
    TrackingError
        If kaleido or the browser that it draws with is not installed, or the folder cannot be written.
    """
    if find_spec("kaleido") is None:
        raise TrackingError("pictures need kaleido: pip install 'portfolio-dfl[figures]'")
    import plotly.io
    from kaleido.errors import ChromeNotFoundError

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    drawn = {f"{_file_name(name)}.png": _for_paper(figure) for name, figure in _named(study)}
    paths = [target / name for name in drawn]
    try:
        plotly.io.write_images(
            fig=list(drawn.values()),
            file=[str(path) for path in paths],
            width=_WIDTH,
            height=[figure.layout.height for figure in drawn.values()],
            scale=_SCALE,
        )
    except RuntimeError as error:  # what plotly makes of a missing browser
        if not isinstance(error.__context__, ChromeNotFoundError):
            raise
        raise TrackingError("pictures need Chromium or Chrome: install one, or run `plotly_get_chrome`") from error
    return paths


def _named(study: ReportedStudy) -> Iterator[tuple[str, go.Figure]]:
    books = {lane.label: (lane.look, study.ledgers[lane.label]) for lane in study.lanes}
    wealth = {label: (look, wealth_from_start(book.daily)) for label, (look, book) in books.items()}
    yield "wealth", figures.wealth(wealth)
    yield "drawdown", figures.drawdown(wealth)
    colours = figures.asset_colours([str(column) for column in next(iter(study.ledgers.values())).weights.columns])
    for label, (_, book) in books.items():
        yield f"weights {label}", figures.weights_over_time(book.weights, colours)
    turnover = {label: (look, book.daily["turnover"]) for label, (look, book) in books.items()}
    yield "turnover", figures.turnover(turnover, rows_a_month(study))
    yield "costs", figures.cumulative_cost({label: (look, book.daily["cost"]) for label, (look, book) in books.items()})
    for measure, figure in differences(study):
        yield f"difference in {measure}", figure
    for heading, _, figure in window_charts(study):
        yield heading, figure


def _for_paper(figure: go.Figure) -> go.Figure:
    """The figure as it stands alone: a legend of its own, no transparency, letters that survive a column's width."""
    several = len(figure.data) > 1
    height = max(260, figure.layout.height + (60 if several else 20))
    figure.update_xaxes(title_font_size=15)
    figure.update_layout(
        height=height,
        paper_bgcolor="white",
        plot_bgcolor="white",
        font={"size": 15},
        showlegend=several,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        margin={"t": 46 if several else 16, "r": 24, "b": 44},
    )
    return figure


def _file_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
