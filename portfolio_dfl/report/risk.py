"""The section on risk: the tear sheet, the worst drawdowns, rolling statistics."""

from __future__ import annotations

import pandas as pd

from portfolio_dfl.report.gallery import Gallery
from portfolio_dfl.report.looks import looks_of
from portfolio_dfl.report.markup import figure, key, more, note, scrolled, section, side_by_side
from portfolio_dfl.report.reported import ReportedStudy, benchmark_of, main_of, period_of, real_lanes
from portfolio_dfl.report.tables import drawdowns_table, tear_sheet_meaning, tear_sheet_table
from portfolio_dfl.wording import counted

__all__ = ["risk"]

_ROLLING = {
    "sharpe": "<b>Rolling Sharpe ratio</b>, a year",
    "volatility": "<b>Rolling volatility</b>, a year",
    "beta": "<b>Rolling beta</b> to the benchmark",
}


def risk(study: ReportedStudy, figures: Gallery) -> str:
    """Risk and how it was rewarded."""
    from portfolio_dfl.backtest import tearsheet

    benchmark, main = benchmark_of(study), main_of(study)
    against = None if benchmark is None else study.ledgers[benchmark.label]
    table = tearsheet.tear_sheet_table(
        [study.ledgers[lane.label] for lane in study.lanes],
        against,
        periods_per_year=study.periods_per_year,
        risk_free=study.risk_free,
    )
    if benchmark is None or len(study.lanes) == 1:
        said = "No strategy is there to be a benchmark: what needs one is left out."
        table = table[list(tearsheet.TEAR_SHEET)]
    else:
        said = f"The benchmark is {benchmark.label}."
    shown = [main] if benchmark is None or benchmark == main else [main, benchmark]
    spells = {lane.label: tearsheet.drawdown_episodes(study.ledgers[lane.label].net_returns) for lane in shown}
    falls = pd.concat([frame.assign(strategy=label) for label, frame in spells.items()], ignore_index=True)
    back = figures.rolling_rows
    charts = [
        figure(figures.rolling(name), f"{_ROLLING[name]}, over the past {counted(back, period_of(study))}.")
        for name in figures.rolling_shown
    ]
    parts = [
        scrolled(tear_sheet_table(table), ""),
        note(f"{said} All after costs; a row of the ledger is a {period_of(study)}."),
        more("What the statistics are", tear_sheet_meaning(table)),
    ]
    if len(falls):
        parts.append(
            scrolled(
                drawdowns_table(falls),
                "<b>Worst drawdowns</b> of what the study is about and of the benchmark, by depth; lengths in "
                f"{period_of(study)}s, from the peak: down to the trough, and under it until recovery.",
            )
        )
    looks = looks_of(study.lanes)
    parts.append(key({lane.label: looks[lane.label] for lane in real_lanes(study)}))
    return section("Risk, and what it was paid with", *parts, side_by_side(charts))
