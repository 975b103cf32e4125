"""The report's figures as PNG files for papers and slides."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.report.gallery import Gallery
from portfolio_dfl.report.reported import ReportedStudy

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
    drawn = {f"{_file_name(name)}.png": _for_paper(figure) for name, figure in Gallery(study).named()}
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
