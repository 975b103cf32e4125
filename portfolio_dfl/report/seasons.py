"""The section on months, years and the distribution of returns."""

from __future__ import annotations

from html import escape

from portfolio_dfl.report.gallery import Gallery
from portfolio_dfl.report.looks import looks_of
from portfolio_dfl.report.markup import figure, key, note, section, side_by_side
from portfolio_dfl.report.reported import ReportedStudy, benchmark_of, main_of, period_of, real_lanes

__all__ = ["seasons"]


def seasons(study: ReportedStudy, figures: Gallery) -> str:
    """Months, years and days."""
    looks, shown = looks_of(study.lanes), [main_of(study)]
    benchmark = benchmark_of(study)
    if benchmark is not None and benchmark not in shown:
        shown.append(benchmark)
    maps = [
        figure(
            figures.months(lane.label),
            f"<b>{escape(lane.label)}</b>, net return of each month and year, in per cent. The first and the last "
            "month may be parts of one.",
        )
        for lane in shown
    ]
    left = len(study.lanes) - len(shown)
    others = "" if left < 1 else " result.plot.months(strategy) shows the others in Python."
    charts = [
        figure(figures.years(), "<b>Calendar years</b>, net; the first and the last may be parts of one."),
        figure(
            figures.histogram(),
            f"<b>Distribution</b>: share of {period_of(study)}s by the size of the net return, in common bins.",
        ),
    ]
    return section(
        "Month by month",
        *maps,
        *([note(others.strip())] if others else []),
        key({lane.label: looks[lane.label] for lane in real_lanes(study)}),
        side_by_side(charts),
    )
