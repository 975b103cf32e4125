"""Pieces of HTML that the sections of a page are made of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from portfolio_dfl.strategies.table import Appearance

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["anchor", "asset_key", "figure", "key", "more", "note", "plot", "scrolled", "section", "side_by_side"]

_BORDERS = {"solid": "solid", "dot": "dotted"}


def section(title: str, *parts: str) -> str:
    """A section that the contents lead to."""
    return "\n".join([f'<section id="{anchor(title)}">', f"<h2>{escape(title)}</h2>", *parts, "</section>"])


def anchor(title: str) -> str:
    """Name of a section in links."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def note(text: str) -> str:
    """A paragraph beside the main text."""
    return f"<p class='note'>{escape(text)}</p>"


def more(title: str, text: str) -> str:
    """A paragraph that is opened by its title."""
    return f"<details><summary>{escape(title)}</summary>{note(text)}</details>"


def scrolled(table: str, caption: str = "") -> str:
    """A table that scrolls within the page where it is too wide; ``caption`` is HTML."""
    shown = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f"<figure><div class='scroll'>{table}</div>{shown}</figure>"


def side_by_side(charts: Sequence[str]) -> str:
    """Two in a row where there is room."""
    return f'<div class="pair">{"".join(charts)}</div>'


def key(looks: Mapping[str, Appearance]) -> str:
    """What the lines of figures stand for."""
    items = "".join(
        f'<li><span class="swatch" style="border-top-color:{look.colour};'
        f'border-top-style:{_BORDERS.get(look.dash, "dashed")}"></span>{escape(label)}</li>'
        for label, look in looks.items()
    )
    return f'<ul class="key">{items}</ul>'


def asset_key(colours: Mapping[str, str]) -> str:
    """What the areas of figures stand for."""
    items = "".join(
        f'<li><span class="swatch block" style="background:{colour}"></span>{escape(name)}</li>'
        for name, colour in colours.items()
    )
    return f'<ul class="key">{items}</ul>'


def figure(chart: go.Figure, caption: str, above: str = "") -> str:
    """A figure; its caption and what stands above it are HTML."""
    return f"<figure>{above}{plot(chart)}<figcaption>{caption}</figcaption></figure>"


def plot(chart: go.Figure) -> str:
    """The figure alone."""
    inner = chart.to_html(full_html=False, include_plotlyjs=False, config={"responsive": True, "displayModeBar": False})
    return f'<div class="plot">{inner}</div>'
