"""The section on trades and costs."""

from __future__ import annotations

from portfolio_dfl.report.gallery import Gallery
from portfolio_dfl.report.looks import looks_of
from portfolio_dfl.report.markup import figure, key, scrolled, section, side_by_side
from portfolio_dfl.report.reported import ReportedStudy, period_of, rows_a_month
from portfolio_dfl.report.tables import costs_table

__all__ = ["traded"]


def traded(study: ReportedStudy, figures: Gallery) -> str:
    """What they traded and paid."""
    month, period = rows_a_month(study), period_of(study)
    pace = f", averaged over the past {month} {period}s" if month > 1 else ""
    charts = [
        figure(
            figures.turnover(),
            f"<b>Turnover</b> a {period}: the sum of |change of weight| against the drifted portfolio{pace}.",
        ),
        figure(figures.costs(), "<b>Costs paid so far</b>, as the sum of shares of wealth."),
    ]
    return section(
        "What they traded and paid",
        key(looks_of(study.lanes)),
        side_by_side(charts),
        scrolled(
            costs_table(study.costs),
            "<b>Sharpe ratio and growth a year at other costs</b>, for the same decisions.",
        ),
    )
