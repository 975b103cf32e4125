"""One HTML page about prices: levels, returns, completeness and findings; self-contained, no network."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from portfolio_dfl.data.flags import Flag
from portfolio_dfl.data.inspection import CheckReport
from portfolio_dfl.errors import DataError
from portfolio_dfl.wording import counted, drawn

__all__ = ["write_page"]

_MOST_LINES = 40
_MOST_ROWS = 500
_MOST_POINTS = 2500
_COLOURS = {"problem": "#b3261e", "warning": "#b26a00", "note": "#5f6368"}
_RANK = {severity: rank for rank, severity in enumerate(_COLOURS)}
_MOST_ALIKE = 25
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #202124; margin: 0 auto; max-width: 1200px; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
.verdict { padding: .6rem .9rem; border-left: 4px solid; background: #f8f9fa; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #e0e0e0; vertical-align: top; }
th { position: sticky; top: 0; background: #fff; } th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; }
.scroll { max-height: 28rem; overflow: auto; border: 1px solid #e0e0e0; } .quiet { color: #5f6368; }
code { font-size: 12px; overflow-wrap: anywhere; }
"""


def write_page(check: CheckReport, path: str | Path, *, title: str, facts: Mapping[str, Any]) -> Path:
    """Write the page of a check.

    Parameters
    ----------
    check
        Prices as found and the findings in them.
    path
        Of the page; written aside and moved into place.
    title
        Heading.
    facts
        Manifest of the snapshot, or ``arguments`` alone.

    Raises
    ------
    DataError
        A folder that cannot be written.
    """
    target = Path(path)
    parts = [
        _heading(check, title, facts),
        "<h2>Prices</h2>",
        _price_figure(check),
        "<h2>Daily returns</h2>",
        _return_figure(check),
        "<h2>Completeness</h2>",
        _gap_figure(check),
        _completeness_table(check),
        "<h2>Findings</h2>",
        _flag_table(check.report.flags),
    ]
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><script>{_plotly()}</script></head><body>{''.join(parts)}</body></html>"
    )
    aside = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(page, encoding="utf-8")
        aside.replace(target)
    except OSError as error:
        raise DataError(f"the page cannot be written to {target}: {error.strerror}") from error
    return target


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _heading(check: CheckReport, title: str, facts: Mapping[str, Any]) -> str:
    """Title, range, verdict and origin."""
    prices = check.prices
    count = f"{counted(prices.shape[1], 'ticker')}, {counted(len(prices), 'date')}"
    span = f"{count}, {prices.index[0]:%Y-%m-%d} to {prices.index[-1]:%Y-%m-%d}"
    if check.usable:
        verdict, colour = "No finding that a study would refuse.", "#1e7d32"
    else:
        counts = ", ".join(f"{name} ({len(flags)})" for name, flags in check.failures.items())
        verdict = f"A study refuses these prices until a policy deals with: {counts}."
        colour = _COLOURS["problem"]
    origin = {**facts.get("arguments", {})}
    origin.update({key: facts[key] for key in ("fetched_at", "sha256") if key in facts})
    rows = "".join(
        f"<tr><th>{html.escape(key)}</th><td><code>{html.escape(str(value))}</code></td></tr>"
        for key, value in origin.items()
    )
    return (
        f'<h1>{html.escape(title)}</h1><div class="quiet">{span}</div>'
        f'<div class="verdict" style="border-color:{colour}">{html.escape(verdict)}</div>'
        f"<table>{rows}</table>"
    )


def _draw(figure: Any, height: int) -> str:
    figure.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 60, "r": 20, "t": 20, "b": 40},
        legend={"font": {"size": 11}},
        hovermode="closest",
    )
    return str(figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False}))


def _shown(check: CheckReport) -> tuple[pd.DataFrame, str]:
    """Prices of the tickers drawn, those with most findings first, and a word on the rest."""
    prices = check.prices.where(np.isfinite(check.prices) & (check.prices > 0)).dropna(axis=1, how="all")
    if prices.shape[1] <= _MOST_LINES:
        return prices, ""
    weight = pd.Series(0, index=prices.columns)
    for flag in check.report.flags:
        if flag.ticker is not None and flag.ticker in weight.index:
            weight[flag.ticker] += 1
    chosen = weight.sort_values(ascending=False, kind="stable").index[:_MOST_LINES]
    rest = prices.shape[1] - _MOST_LINES
    return prices[list(chosen)], f'<p class="quiet">{counted(rest, "ticker")} with fewer findings not drawn.</p>'


def _thin(frame: pd.DataFrame) -> pd.DataFrame:
    """At most so many rows as a screen has pixels for."""
    return frame.iloc[:: max(1, -(-len(frame) // _MOST_POINTS))]


def _price_figure(check: CheckReport) -> str:
    """Prices as multiples of each ticker's first price, logarithmic, with a mark at each finding."""
    import plotly.graph_objects as go

    prices, rest = _shown(check)
    if prices.empty:
        return "<p>No prices.</p>"
    figure = go.Figure()
    levels = prices / prices.bfill().iloc[0]
    for ticker in levels:
        line = _thin(levels[[ticker]])[ticker]
        figure.add_scattergl(
            x=line.index, y=line.round(5), name=drawn(ticker), mode="lines", line={"width": 1.2}, connectgaps=False
        )
    for severity, colour in _COLOURS.items():
        marks = [
            (flag.date, levels[flag.ticker].asof(flag.date), flag)
            for flag in check.report.flags
            if flag.severity == severity and flag.date is not None and flag.ticker in levels
        ]
        if marks:
            figure.add_scattergl(
                x=[date for date, _, _ in marks],
                y=[level for _, level, _ in marks],
                text=[drawn(f"{flag.kind}: {flag}") for _, _, flag in marks],
                name=severity,
                mode="markers",
                marker={"color": colour, "size": 8, "symbol": "triangle-down"},
                hovertemplate="%{text}<extra></extra>",
            )
    figure.update_yaxes(type="log", title="multiple of first price")
    return _draw(figure, 460) + rest


def _return_figure(check: CheckReport) -> str:
    """Smallest, median and largest return of each day over the tickers; the extreme ticker on hover."""
    import plotly.graph_objects as go

    prices, _ = _shown(check)
    if prices.empty:
        return "<p>No returns.</p>"
    returns = prices.pct_change(fill_method=None).iloc[1:].dropna(how="all")
    figure = go.Figure()
    if prices.shape[1] == 1:
        only = returns.iloc[:, 0]
        figure.add_bar(x=only.index, y=(100 * only).round(3), name=drawn(only.name))
    else:
        for name, who, value in (
            ("largest", returns.idxmax(axis=1), returns.max(axis=1)),
            ("smallest", returns.idxmin(axis=1), returns.min(axis=1)),
        ):
            figure.add_scattergl(
                x=value.index,
                y=(100 * value).round(3),
                text=who.map(drawn),
                name=name,
                mode="lines",
                line={"width": 1},
                hovertemplate="%{text} %{y} %<extra></extra>",
            )
        median = returns.median(axis=1)
        figure.add_scattergl(x=median.index, y=(100 * median).round(3), name="median", mode="lines", line={"width": 1})
    figure.update_yaxes(title="simple return, %")
    return _draw(figure, 340)


def _gap_figure(check: CheckReport) -> str:
    """Share of dates with a price, by ticker and month."""
    import plotly.graph_objects as go

    present = check.prices.notna()
    sessions = sum(flag.count for flag in check.report.of_kind("missing_session"))
    absent = f"<p>On {counted(sessions, 'session')} of the exchange no ticker has a price.</p>" if sessions else ""
    monthly = present.groupby(pd.DatetimeIndex(present.index).to_period("M")).mean()
    if (monthly.to_numpy() == 1).all():
        return f"<p>Every ticker has a price on every date of the table.</p>{absent}"
    incomplete = monthly.columns[(monthly < 1).any()][:_MOST_ROWS]
    figure = go.Figure(
        go.Heatmap(
            x=pd.PeriodIndex(monthly.index).to_timestamp(),
            y=[drawn(ticker) for ticker in incomplete],
            z=(100 * monthly[incomplete].T).round(0).to_numpy(),
            zmin=0,
            zmax=100,
            colorscale=[[0, "#b3261e"], [0.5, "#f4b400"], [1, "#e6f4ea"]],
            colorbar={"title": "% of dates"},
            hovertemplate="%{y} %{x|%Y-%m}: %{z} % of dates<extra></extra>",
        )
    )
    figure.update_yaxes(type="category")
    return _draw(figure, min(1200, 160 + 18 * len(incomplete))) + absent


def _completeness_table(check: CheckReport) -> str:
    """First and last price, number and share of prices of each ticker."""
    rows = "".join(
        f"<tr><td>{html.escape(str(ticker))}</td><td>{_date(row['first'])}</td><td>{_date(row['last'])}</td>"
        f'<td class="n">{row["prices"]:,}</td><td class="n">{row["missing_inside"]:,}</td>'
        f'<td class="n">{100 * row["share"]:.1f} %</td></tr>'
        for ticker, row in check.completeness().iterrows()
    )
    head = (
        "<tr><th>ticker<th>first price<th>last price"
        '<th class="n">prices<th class="n">missing between<th class="n">share of dates</tr>'
    )
    return f'<div class="scroll"><table>{head}{rows}</table></div>'


def _date(value: Any) -> str:
    return "none" if pd.isna(value) else f"{value:%Y-%m-%d}"


def _flag_table(flags: tuple[Flag, ...]) -> str:
    """All findings, problems first."""
    if not flags:
        return "<p>Nothing to report.</p>"
    rows = ""
    for kind in sorted(
        dict.fromkeys(flag.kind for flag in flags),
        key=lambda kind: min(_RANK[flag.severity] for flag in flags if flag.kind == kind),
    ):
        alike = [flag for flag in flags if flag.kind == kind]
        rows += "".join(_flag_row(flag) for flag in alike[:_MOST_ALIKE])
        if len(alike) > _MOST_ALIKE:
            rows += f'<tr class="quiet"><td><td>{html.escape(kind)}<td>and {len(alike) - _MOST_ALIKE} more<td></tr>'
    head = "<tr><th>severity<th>kind<th>where<th>what</tr>"
    return f'<div class="scroll"><table>{head}{rows}</table></div>'


def _flag_row(flag: Flag) -> str:
    return (
        f'<tr><td style="color:{_COLOURS[flag.severity]}">{flag.severity}</td><td>{html.escape(flag.kind)}</td>'
        f"<td>{html.escape(flag.place)}</td><td>{html.escape(flag.message)}</td></tr>"
    )
