"""One self-contained HTML page that shows what a study did: results first, then how they came about.

The page carries its own style and plotting library, opens without a network, and is meant to be read on a
telephone, on a wide screen and on paper.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Protocol

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
from portfolio_dfl.strategies.table import Appearance, Lane
from portfolio_dfl.wording import counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from portfolio_dfl.backtest import Ledger

__all__ = [
    "PageText",
    "ReportedStudy",
    "differences",
    "report_html",
    "rows_a_month",
    "wealth_from_start",
    "window_charts",
    "write_report",
]

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


_STATISTICS = {
    "sharpe": "Sharpe ratio",
    "utility": "utility a year",
    "regret": "regret a decision, where less is better",
}


class ReportedStudy(Protocol):
    """What a page and its pictures read of a study's result, :class:`~portfolio_dfl.study.result.StudyResult`."""

    @property
    def lanes(self) -> Sequence[Lane]:
        """The strategies, in the order of the table."""

    @property
    def ledgers(self) -> Mapping[str, Ledger]:
        """Books of each, by label."""

    @property
    def metrics(self) -> pd.DataFrame:
        """One row a strategy."""

    @property
    def costs(self) -> pd.DataFrame:
        """The metrics at several cost levels, rows (label, cost rate)."""

    @property
    def scores(self) -> pd.DataFrame:
        """One row a strategy, columns of :data:`~portfolio_dfl.backtest.evaluation.SCORES`."""

    @property
    def comparison(self) -> pd.DataFrame | None:
        """Paired differences, rows (strategy, statistic)."""

    @property
    def windows(self) -> pd.DataFrame:
        """One row a retraining: strategy, seed, window, date, failed (message or empty), held (as text), numbers."""

    @property
    def failures(self) -> pd.DataFrame:
        """Decisions that failed and held what was held: strategy, date, what, message, held."""

    @property
    def flags(self) -> pd.DataFrame:
        """What was found in the data."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Versions, hashes and places, shown at the end."""

    @property
    def periods_per_year(self) -> float:
        """Rows a year of the ledgers."""


@dataclass(frozen=True)
class PageText:
    """The words of a page that follow from a study's configuration.

    Attributes
    ----------
    title, subtitle, lead : str
        Name of the study, its setting in one line, its outcome in one or two sentences.
    scores_note, comparison_note : str
        What the scores and the differences were taken against.
    config_yaml : str
        The exact configuration.
    synthetic : bool
        Whether the prices were made up, which the page then says at the top.
    """

    title: str
    subtitle: str
    lead: str
    scores_note: str
    comparison_note: str
    config_yaml: str
    synthetic: bool = False


def write_report(path: str | os.PathLike[str], study: ReportedStudy, text: PageText) -> Path:
    """Write the page; a reader never sees half of it, and an older page stays until the new one is complete.

    Raises
    ------
    TrackingError
        If there is no strategy to show or the folder does not exist.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise TrackingError(f"no folder {target.parent} to write the report into; create it first")
    page = report_html(study, text)
    partial = target.with_name(f".{target.name}.partial")
    partial.write_text(page, encoding="utf-8")
    os.replace(partial, target)
    return target


def report_html(study: ReportedStudy, text: PageText) -> str:
    """Return the page as text."""
    from plotly.offline import get_plotlyjs

    if not study.lanes:
        raise TrackingError("the study has no strategy to report on; name at least one in backtest.strategies")
    package = resources.files("portfolio_dfl.report")
    page = Template((package / "page.html").read_text(encoding="utf-8"))
    sections = [
        _results(study),
        _portfolios(study),
        _trading(study),
        _comparison(study, text),
        _training(study),
        _data(study),
        _setting(study, text),
    ]
    banner = '<p class="banner">Synthetic prices: made up by a known rule, not a market.</p>'
    return page.substitute(
        title=escape(text.title),
        style=(package / "page.css").read_text(encoding="utf-8"),
        plotly=get_plotlyjs(),
        subtitle=escape(text.subtitle),
        banner=banner if text.synthetic else "",
        lead=escape(text.lead),
        body="\n".join(section for section in sections if section),
    )


def _results(study: ReportedStudy) -> str:
    # Wealth in hindsight grows a thousandfold, and every real strategy would be one flat line below it.
    drawn = [lane for lane in study.lanes if not lane.look.ceiling] or list(study.lanes)
    paths = {lane.label: (lane.look, wealth_from_start(study.ledgers[lane.label].daily)) for lane in drawn}
    ceiling = "" if len(drawn) == len(study.lanes) else " The ceiling is left out."
    looks = {lane.label: lane.look for lane in study.lanes}
    return _section(
        "What the strategies earned",
        f'<div class="scroll">{metrics_table(study.metrics, looks)}</div>',
        _note(f"All after costs. {metrics_meaning()}"),
        _key(drawn),
        _figure(
            figures.wealth(paths),
            "<b>Wealth</b> of one unit invested on the first day, after trading costs, which all strategies "
            f"pay at the same rate in the same ledger.{ceiling}",
        ),
        _figure(figures.drawdown(paths), "<b>Drawdown</b>: how far wealth stands below its highest level so far."),
    )


def _portfolios(study: ReportedStudy) -> str:
    held = {lane.label: study.ledgers[lane.label].weights for lane in study.lanes}
    first = next(iter(held.values()))
    tickers = [str(column) for column in first.columns]
    colours = figures.asset_colours(tickers)
    items = "".join(
        f'<li><span class="swatch block" style="background:{colours[ticker]}"></span>{escape(ticker)}</li>'
        for ticker in tickers
    )
    charts = [
        f"<figure><h3>{escape(label)}</h3>{_plot(figures.weights_over_time(weights, colours))}</figure>"
        for label, weights in held.items()
    ]
    days = figures.averaging_days(len(first))
    pace = "day by day" if days == 1 else f"averages of {days} trading days"
    return _section(
        "What they held",
        _note(f"Share of wealth in each asset, {pace}. Between trades the shares drift with prices."),
        f'<ul class="key">{items}</ul>',
        _side_by_side(charts),
    )


def rows_a_month(study: ReportedStudy) -> int:
    """Rows of the ledgers that make a month: what is drawn day by day is smoothed over them."""
    return max(1, round(study.periods_per_year / 12.0))


def _trading(study: ReportedStudy) -> str:
    daily = {lane.label: (lane.look, study.ledgers[lane.label].daily) for lane in study.lanes}
    turnover = {label: (look, rows["turnover"]) for label, (look, rows) in daily.items()}
    cost = {label: (look, rows["cost"]) for label, (look, rows) in daily.items()}
    month = rows_a_month(study)
    pace = f", averaged over the past {month} trading days" if month > 1 else ""
    charts = [
        _figure(
            figures.turnover(turnover, month),
            f"<b>Turnover</b> a day: the sum of |change of weight| against the drifted portfolio{pace}.",
        ),
        _figure(figures.cumulative_cost(cost), "<b>Costs paid so far</b>, as the sum of daily shares of wealth."),
    ]
    return _section(
        "What they traded and paid",
        _key(study.lanes),
        _side_by_side(charts),
        f"<figure class='scroll'>{costs_table(study.costs)}<figcaption><b>Sharpe ratio and growth a year at "
        "other costs</b>, for the same decisions.</figcaption></figure>",
    )


def differences(study: ReportedStudy) -> Iterator[tuple[str, go.Figure]]:
    """What is compared with the reference, in words, and the figure of its intervals."""
    if study.comparison is None:
        return
    table = study.comparison.reset_index()
    ceilings = {lane.strategy_label for lane in study.lanes if lane.foresight}  # so far off that the rest is one point
    table = table[table["estimate"].notna() & ~table["strategy"].isin(ceilings)]
    for statistic, rows in table.groupby("statistic", sort=False):
        measure = _STATISTICS.get(str(statistic), str(statistic))
        yield measure, figures.intervals(rows.set_index("strategy"), f"difference in {measure}")


def _comparison(study: ReportedStudy, text: PageText) -> str:
    charts = [
        _figure(
            chart,
            f"<b>{escape(measure).capitalize()}</b>. An interval that covers 0 does not tell the two apart.",
        )
        for measure, chart in differences(study)
    ]
    return _section(
        "Are the differences more than luck?",
        *([_note(text.comparison_note), _side_by_side(charts)] if charts else []),
        f"<figure class='scroll'>{scores_table(study.scores)}<figcaption>{escape(scores_meaning())} "
        f"{escape(text.scores_note)}</figcaption></figure>",
    )


def _training(study: ReportedStudy) -> str:
    windows = study.windows
    if windows.empty:
        return ""
    failed = windows[windows["failed"] != ""]
    charts = [_figure(chart, f"<b>{escape(name)}</b>. {caption}.") for name, caption, chart in window_charts(study)]
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
    trained = [lane for lane in study.lanes if lane.strategy in set(windows["strategy"])]
    other = study.failures[study.failures["what"] != "fit"]
    if len(other):
        outcome += (
            f"<p class='alarm'>{counted(len(other), 'further failure')}: a decision that failed held what was held, a "
            "regret that could not be computed is left out.</p>"
            f"<div class='scroll'>{frame_table(other.head(_FLAGS_SHOWN))}</div>"
        )
    return _section("How training went, window by window", outcome, _key(trained), _side_by_side(charts))


def window_charts(study: ReportedStudy) -> Iterator[tuple[str, str, go.Figure]]:
    """Heading, caption and figure of every window metric that there are numbers of."""
    windows = study.windows
    if windows.empty:
        return
    failed = list(windows.loc[windows["failed"] != "", "date"])
    for column, caption in _WINDOW_METRICS.items():
        lines = _window_lines(study, column) if column in windows else {}
        if column in _SHRINKAGES and not any(series.any() for _, series in lines.values()):
            continue  # an estimator that does not shrink
        title = column.replace("_", " ").capitalize().replace("Mse", "MSE")
        groups = {f"{title}, {label}": {label: line} for label, line in lines.items()}
        if column not in _OWN_SCALE:
            groups = {title: lines} if lines else {}
        for heading, group in groups.items():
            share = column.endswith("_share") or column in _SHRINKAGES
            yield heading, caption, figures.window_metric(group, failed, share=share)


def _window_lines(study: ReportedStudy, column: str) -> dict[str, tuple[Appearance, pd.Series]]:
    lines = {}
    for lane in study.lanes:
        mine = study.windows[(study.windows["strategy"] == lane.strategy) & (study.windows["seed"] == lane.seed)]
        if mine[column].notna().any():
            lines[lane.label] = (lane.look, mine.set_index("date")[column])
    return lines


def _data(study: ReportedStudy) -> str:
    title, flags = "What was found in the data", study.flags
    if flags.empty:
        return _section(title, _note("Nothing was found wrong with the prices; nothing was filled in or removed."))
    shown = (
        f"{counted(len(flags), 'finding')}. What was done about each follows from the policies in the configuration."
    )
    if len(flags) > _FLAGS_SHOWN:
        shown += f" The first {_FLAGS_SHOWN} are listed; all of them are among the artifacts."
    table = f"<div class='scroll'>{frame_table(flags.head(_FLAGS_SHOWN))}</div>"
    return _section(title, _note(shown), table)


def _setting(study: ReportedStudy, text: PageText) -> str:
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in study.facts.items())
    return _section(
        "The exact setting",
        _note("Saved as a YAML file, this configuration repeats the study."),
        f"<pre>{escape(text.config_yaml.strip())}</pre>",
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


def _key(lanes: Sequence[Lane]) -> str:
    items = "".join(
        f'<li><span class="swatch" style="border-top-color:{lane.look.colour};'
        f'border-top-style:{"solid" if lane.look.dash == "solid" else "dashed"}"></span>'
        f"{escape(lane.label)}</li>"
        for lane in lanes
    )
    return f'<ul class="key">{items}</ul>'


def _figure(chart: go.Figure, caption: str) -> str:
    return f"<figure>{_plot(chart)}<figcaption>{caption}</figcaption></figure>"


def _plot(chart: go.Figure) -> str:
    inner = chart.to_html(full_html=False, include_plotlyjs=False, config={"responsive": True, "displayModeBar": False})
    return f'<div class="plot">{inner}</div>'
