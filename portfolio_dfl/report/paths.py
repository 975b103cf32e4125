"""Lines through time: wealth, drawdown, what was traded and paid, rolling statistics, exposure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from portfolio_dfl.report.canvas import MUTED, Lines, add_lines, blank

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["cumulative_cost", "drawdown", "level", "turnover", "wealth", "wealth_from_start"]

# More points than a screen has room for only make the page heavy; smooth lines lose nothing to it.
_POINTS = 520
#: Wealth that spans this factor is drawn on a logarithmic scale.
_LOG_FACTOR = 3.0


def wealth_from_start(daily: pd.DataFrame) -> pd.Series:
    """Wealth with the 1 it started from, dated one row before the first: a business day, or what rows are apart."""
    days = pd.DatetimeIndex(daily.index)
    apart = days.to_series().diff().median() if len(days) > 1 else pd.Timedelta(days=1)
    on_sessions = apart <= pd.Timedelta(days=1) and not (days.day_of_week >= 5).any()
    first = days[0] - (pd.offsets.BDay(1) if on_sessions else apart)
    start = pd.Series([1.0], index=pd.DatetimeIndex([first]))
    joined: pd.Series = pd.concat([start, daily["wealth"]])
    return joined


def wealth(lines: Lines, *, log: bool | None = None) -> go.Figure:
    """Wealth of one unit invested, net of costs, a line a strategy; by default in log scale once it spans 3 times."""
    figure = blank(360)
    add_lines(figure, lines, "%{y:.3f}")
    if log is None:
        series = [own for _, own in lines.values()]
        log = max(float(s.max()) for s in series) > _LOG_FACTOR * min(float(s.min()) for s in series)
    figure.add_hline(y=1.0, line={"color": MUTED, "width": 0.8})
    figure.update_yaxes(tickformat=".2f", type="log" if log else "linear", dtick=None, nticks=7)
    return figure


def drawdown(lines: Lines) -> go.Figure:
    """Loss since the highest wealth so far, at most 0."""
    figure = blank(240)
    below = {label: (look, series / series.cummax() - 1.0) for label, (look, series) in lines.items()}
    add_lines(figure, below, "%{y:.1%}")
    deepest = min(float(series.min()) for _, series in below.values())
    figure.update_yaxes(tickformat=".0%", range=[1.06 * min(deepest, -0.001), -0.02 * min(deepest, -0.001)])
    return figure


def turnover(lines: Lines, rows: int) -> go.Figure:
    """Turnover a row, L1, averaged over the given number of rows."""
    figure = blank(240)
    means = {label: (look, series.rolling(rows, min_periods=1).mean()) for label, (look, series) in lines.items()}
    add_lines(figure, means, "%{y:.3f}")
    figure.update_yaxes(rangemode="tozero", tickformat=".2f")
    return figure


def cumulative_cost(lines: Lines) -> go.Figure:
    """Costs paid so far, as a sum of daily shares of wealth."""
    figure = blank(240)
    add_lines(figure, {label: (look, series.cumsum()) for label, (look, series) in lines.items()}, "%{y:.2%}")
    figure.update_yaxes(rangemode="tozero", tickformat=".1%")
    return figure


def level(lines: Lines, *, share: bool = False, zero: bool = False) -> go.Figure:
    """A number through time; ``share``: in per cent; ``zero``: with a line at 0. Of long series every k-th value."""
    figure = blank(230)
    longest = max(len(series) for _, series in lines.values())
    step = max(1, round(longest / _POINTS))
    # The last value is always among those that are kept.
    kept = {label: (look, series.iloc[(len(series) - 1) % step :: step]) for label, (look, series) in lines.items()}
    add_lines(figure, kept, "%{y:.1%}" if share else "%{y:.2f}")
    values = np.concatenate([series.dropna().to_numpy(np.float64) for _, series in kept.values()])
    if len(values) and np.ptp(values) <= 1e-6 * np.abs(values).max():  # a constant needs room, not decimals
        figure.update_yaxes(
            range=[values[0] - 0.5 * (abs(values[0]) or 2.0), values[0] + 0.5 * (abs(values[0]) or 2.0)]
        )
    if zero:
        figure.add_hline(y=0.0, line={"color": MUTED, "width": 0.8})
    figure.update_yaxes(tickformat=".0%" if share else None, nticks=6)
    return figure
