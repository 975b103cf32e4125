"""One self-contained HTML page that shows what a study did: results first, then how they came about.

The page carries its own style and plotting library, opens without a network, and is meant to be read on a
telephone, on a wide screen and on paper.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import pandas as pd

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.report import figures
from portfolio_dfl.report.tables import (
    costs_table,
    frame_table,
    metrics_meaning,
    metrics_table,
    scores_meaning,
    scores_table,
)
from portfolio_dfl.strategies.table import Appearance, appearance
from portfolio_dfl.wording import counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["ReportContent", "StrategyRecord", "report_html", "wealth_from_start", "window_charts", "write_report"]

_FLAGS_SHOWN = 60
# Strategies minimise different losses, so that these have an axis for each.
_OWN_SCALE = ("train_loss", "validation_loss", "parameter_gradient_norm")
_SHRINKAGES = ("shrinkage", "learned_shrinkage")

# Window metrics that are drawn, with what their captions say; others stay in the artifacts.
_WINDOW_METRICS = {
    "train_loss": "Loss on the training samples in the last epoch",
    "validation_loss": "Loss on the validation samples that early stopping watches",
    "regret": "Regret against perfect foresight, mean over the decisions until the next retraining",
    "mse": "Mean squared error of the forecasts, over the decisions until the next retraining",
    "forecast_inflation": "Size of the forecasts over that of realised returns; a calibrated one is far below 1",
    "zero_gradient_share": "Share of training samples whose loss does not react to any forecast",
    "bounds_active_share": "Share of planned weights at zero, in training",
    "turnover_active_share": "Share of plans that use the whole turnover limit, in training",
    "shrinkage": "Weight of the structured target in the covariances of the decisions until the next retraining",
    "learned_shrinkage": "Weight of the diagonal that training gave the covariance",
    "parameter_gradient_norm": "Norm of the gradient with respect to the predictor's parameters, last epoch",
}


@dataclass(frozen=True)
class StrategyRecord:
    """One strategy's path through the backtest.

    Attributes
    ----------
    strategy : str
        Identifier, as in the configuration.
    seed : int or None
        Seed of a trained strategy where there are several.
    daily : DataFrame
        The ledger: one row a day with ``wealth``, ``turnover`` (L1) and ``cost`` (share of wealth).
    weights : DataFrame
        Weights held through each day, one column a ticker.
    """

    strategy: str
    seed: int | None
    daily: pd.DataFrame
    weights: pd.DataFrame

    @property
    def look(self) -> Appearance:
        """Name and colours in the figures."""
        return appearance(self.strategy, self.seed)


@dataclass(frozen=True)
class ReportContent:
    """Everything the page shows, as plain frames and text.

    Attributes
    ----------
    title, subtitle, lead : str
        Name of the study, its setting in one line, its outcome in one or two sentences.
    records : sequence of StrategyRecord
        In the order of the table.
    metrics : DataFrame
        One row a strategy (index: label), as :func:`~portfolio_dfl.backtest.evaluation.performance_table` gives it.
    costs : DataFrame or None
        The metrics at several cost levels, rows (label, cost rate).
    windows : DataFrame
        One row a retraining: ``strategy``, ``seed``, ``window``, ``date``, ``failed`` (message or empty), ``held``
        (weights kept where it failed, as text) and numbers.
    failures : DataFrame
        Decisions that failed and held what was held: ``strategy``, ``date``, ``what``, ``message``, ``held``.
    flags : DataFrame
        What was found in the data.
    scores : DataFrame or None
        One row a strategy, columns of :data:`~portfolio_dfl.backtest.evaluation.SCORES`.
    scores_note : str
        What the scores were taken against.
    comparison : DataFrame or None
        Paired differences: ``measure``, ``strategy``, ``estimate``, ``lower``, ``upper``.
    config_yaml : str
        The exact configuration.
    facts : mapping
        Versions, hashes and places, shown at the end.
    periods_per_year : float or None
        Rows a year of the ledgers; None reads it off their dates.
    synthetic : bool
        Whether the prices were made up, which the page then says at the top.
    """

    title: str
    subtitle: str
    lead: str
    records: Sequence[StrategyRecord]
    metrics: pd.DataFrame
    windows: pd.DataFrame
    failures: pd.DataFrame
    flags: pd.DataFrame
    config_yaml: str
    costs: pd.DataFrame | None = None
    scores: pd.DataFrame | None = None
    scores_note: str = ""
    comparison: pd.DataFrame | None = None
    comparison_note: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    periods_per_year: float | None = None
    synthetic: bool = False

    @property
    def rows_a_month(self) -> int:
        """Rows of the ledgers that make a month: what is drawn day by day is smoothed over them."""
        from portfolio_dfl.backtest.rhythm import resolved_periods_per_year  # loads the numerical stack

        return max(1, round(resolved_periods_per_year(self.periods_per_year, self.records[0].daily.index) / 12.0))


def write_report(path: str | os.PathLike[str], content: ReportContent) -> Path:
    """Write the page; a reader never sees half of it, and an older page stays until the new one is complete.

    Raises
    ------
    TrackingError
        If there is no strategy to show or the folder does not exist.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise TrackingError(f"no folder {target.parent} to write the report into; create it first")
    page = report_html(content)
    partial = target.with_name(f".{target.name}.partial")
    partial.write_text(page, encoding="utf-8")
    os.replace(partial, target)
    return target


def report_html(content: ReportContent) -> str:
    """Return the page as text."""
    from plotly.offline import get_plotlyjs

    if not content.records:
        raise TrackingError("the study has no strategy to report on; name at least one in backtest.strategies")
    package = resources.files("portfolio_dfl.report")
    page = Template((package / "page.html").read_text(encoding="utf-8"))
    sections = [
        _results(content),
        _portfolios(content),
        _trading(content),
        _comparison(content),
        _training(content),
        _data(content),
        _setting(content),
    ]
    banner = '<p class="banner">Synthetic prices: made up by a known rule, not a market.</p>'
    return page.substitute(
        title=escape(content.title),
        style=(package / "page.css").read_text(encoding="utf-8"),
        plotly=get_plotlyjs(),
        subtitle=escape(content.subtitle),
        banner=banner if content.synthetic else "",
        lead=escape(content.lead),
        body="\n".join(section for section in sections if section),
    )


def _results(content: ReportContent) -> str:
    # Wealth in hindsight grows a thousandfold, and every real strategy would be one flat line below it.
    drawn = [record for record in content.records if not record.look.ceiling] or list(content.records)
    paths = {record.look.label: (record.look, wealth_from_start(record.daily)) for record in drawn}
    ceiling = "" if len(drawn) == len(content.records) else " The ceiling is left out."
    looks = {record.look.label: record.look for record in content.records}
    return _section(
        "What the strategies earned",
        f'<div class="scroll">{metrics_table(content.metrics, looks)}</div>',
        _note(f"All after costs. {metrics_meaning()}"),
        _key(drawn),
        _figure(
            figures.wealth(paths),
            "<b>Wealth</b> of one unit invested on the first day, after trading costs, which all strategies "
            f"pay at the same rate in the same ledger.{ceiling}",
        ),
        _figure(figures.drawdown(paths), "<b>Drawdown</b>: how far wealth stands below its highest level so far."),
    )


def _portfolios(content: ReportContent) -> str:
    tickers = [str(column) for column in content.records[0].weights.columns]
    colours = figures.asset_colours(tickers)
    items = "".join(
        f'<li><span class="swatch block" style="background:{colours[ticker]}"></span>{escape(ticker)}</li>'
        for ticker in tickers
    )
    charts = [
        f"<figure><h3>{escape(record.look.label)}</h3>"
        f"{_plot(figures.weights_over_time(record.weights, colours))}</figure>"
        for record in content.records
    ]
    days = figures.averaging_days(len(content.records[0].weights))
    pace = "day by day" if days == 1 else f"averages of {days} trading days"
    return _section(
        "What they held",
        _note(f"Share of wealth in each asset, {pace}. Between trades the shares drift with prices."),
        f'<ul class="key">{items}</ul>',
        _side_by_side(charts),
    )


def _trading(content: ReportContent) -> str:
    turnover = {record.look.label: (record.look, record.daily["turnover"]) for record in content.records}
    cost = {record.look.label: (record.look, record.daily["cost"]) for record in content.records}
    rows = content.rows_a_month
    pace = f", averaged over the past {rows} trading days" if rows > 1 else ""
    charts = [
        _figure(
            figures.turnover(turnover, rows),
            f"<b>Turnover</b> a day: the sum of |change of weight| against the drifted portfolio{pace}.",
        ),
        _figure(figures.cumulative_cost(cost), "<b>Costs paid so far</b>, as the sum of daily shares of wealth."),
    ]
    parts = [_key(content.records), _side_by_side(charts)]
    if content.costs is not None:
        parts.append(
            f"<figure class='scroll'>{costs_table(content.costs)}<figcaption><b>Sharpe ratio and growth a year at "
            "other costs</b>, for the same decisions.</figcaption></figure>"
        )
    return _section("What they traded and paid", *parts)


def _comparison(content: ReportContent) -> str:
    title, parts = "Are the differences more than luck?", []
    table = content.comparison
    if table is not None and not table.empty:
        charts = [
            _figure(
                figures.intervals(rows.set_index("strategy"), f"difference in {measure}"),
                f"<b>{escape(str(measure)).capitalize()}</b>. An interval that covers 0 does not tell the two apart.",
            )
            for measure, rows in table.groupby("measure", sort=False)
        ]
        parts += [_note(content.comparison_note), _side_by_side(charts)]
    if content.scores is not None:
        parts.append(
            f"<figure class='scroll'>{scores_table(content.scores)}<figcaption>{escape(scores_meaning())} "
            f"{escape(content.scores_note)}</figcaption></figure>"
        )
    return _section(title, *parts) if parts else ""


def _training(content: ReportContent) -> str:
    windows = content.windows
    if windows.empty:
        return ""
    failed = windows[windows["failed"] != ""]
    charts = [_figure(chart, f"<b>{escape(name)}</b>. {caption}.") for name, caption, chart in window_charts(content)]
    if failed.empty:
        outcome = _note(
            f"All {len(windows)} retrainings succeeded." if len(windows) > 1 else "The retraining succeeded."
        )
    else:
        listed = failed[[name for name in ("strategy", "seed", "window", "date", "failed", "held") if name in failed]]
        outcome = (
            f"<p class='alarm'>{len(failed)} of {counted(len(windows), 'retraining')} failed. The weights held "
            f"before were kept and drifted; crosses mark the dates.</p><div class='scroll'>{frame_table(listed)}</div>"
        )
    trained = [record for record in content.records if record.strategy in set(windows["strategy"])]
    other = content.failures[content.failures["what"] != "fit"]
    if len(other):
        outcome += (
            f"<p class='alarm'>{counted(len(other), 'further failure')}: a decision that failed held what was held, a "
            "regret that could not be computed is left out.</p>"
            f"<div class='scroll'>{frame_table(other.head(_FLAGS_SHOWN))}</div>"
        )
    return _section("How training went, window by window", outcome, _key(trained), _side_by_side(charts))


def window_charts(content: ReportContent) -> Iterator[tuple[str, str, go.Figure]]:
    """Heading, caption and figure of every window metric that there are numbers of."""
    windows = content.windows
    if windows.empty:
        return
    failed = list(windows.loc[windows["failed"] != "", "date"])
    for column, caption in _WINDOW_METRICS.items():
        lines = _window_lines(content, column) if column in windows else {}
        if column in _SHRINKAGES and not any(series.any() for _, series in lines.values()):
            continue  # an estimator that does not shrink
        title = column.replace("_", " ").capitalize().replace("Mse", "MSE")
        groups = {f"{title}, {label}": {label: line} for label, line in lines.items()}
        if column not in _OWN_SCALE:
            groups = {title: lines} if lines else {}
        for heading, group in groups.items():
            share = column.endswith("_share") or column in _SHRINKAGES
            yield heading, caption, figures.window_metric(group, failed, share=share)


def _window_lines(content: ReportContent, column: str) -> dict[str, tuple[Appearance, pd.Series]]:
    lines = {}
    for record in content.records:
        mine = content.windows[content.windows["strategy"] == record.strategy]
        if record.seed is not None:
            mine = mine[mine["seed"] == record.seed]
        if mine[column].notna().any():
            lines[record.look.label] = (record.look, mine.set_index("date")[column])
    return lines


def _data(content: ReportContent) -> str:
    title, flags = "What was found in the data", content.flags
    if flags.empty:
        return _section(title, _note("Nothing was found wrong with the prices; nothing was filled in or removed."))
    shown = (
        f"{counted(len(flags), 'finding')}. What was done about each follows from the policies in the configuration."
    )
    if len(flags) > _FLAGS_SHOWN:
        shown += f" The first {_FLAGS_SHOWN} are listed; all of them are among the artifacts."
    table = f"<div class='scroll'>{frame_table(flags.head(_FLAGS_SHOWN))}</div>"
    return _section(title, _note(shown), table)


def _setting(content: ReportContent) -> str:
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in content.facts.items())
    return _section(
        "The exact setting",
        _note("Saved as a YAML file, this configuration repeats the study."),
        f"<pre>{escape(content.config_yaml.strip())}</pre>",
        f"<dl>{facts}</dl>",
    )


def _section(title: str, *parts: str) -> str:
    return "\n".join(["<section>", f"<h2>{escape(title)}</h2>", *parts, "</section>"])


def _note(text: str) -> str:
    return f"<p class='note'>{escape(text)}</p>"


def _side_by_side(charts: Sequence[str]) -> str:
    return f'<div class="pair">{"".join(charts)}</div>'


def wealth_from_start(daily: pd.DataFrame) -> pd.Series:
    """Wealth with the 1 it started from, dated one row before the first: a business day, or what rows are apart."""
    days = pd.DatetimeIndex(daily.index)
    apart = days.to_series().diff().median() if len(days) > 1 else pd.Timedelta(days=1)
    on_sessions = apart <= pd.Timedelta(days=1) and not (days.day_of_week >= 5).any()
    first = days[0] - (pd.offsets.BDay(1) if on_sessions else apart)
    start = pd.Series([1.0], index=pd.DatetimeIndex([first]))
    joined: pd.Series = pd.concat([start, daily["wealth"]])
    return joined


def _key(records: Sequence[StrategyRecord]) -> str:
    items = "".join(
        f'<li><span class="swatch" style="border-top-color:{record.look.colour};'
        f'border-top-style:{"solid" if record.look.dash == "solid" else "dashed"}"></span>'
        f"{escape(record.look.label)}</li>"
        for record in records
    )
    return f'<ul class="key">{items}</ul>'


def _figure(chart: go.Figure, caption: str) -> str:
    return f"<figure>{_plot(chart)}<figcaption>{caption}</figcaption></figure>"


def _plot(chart: go.Figure) -> str:
    inner = chart.to_html(full_html=False, include_plotlyjs=False, config={"responsive": True, "displayModeBar": False})
    return f'<div class="plot">{inner}</div>'
