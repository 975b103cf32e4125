"""The section on what tells the strategies apart."""

from __future__ import annotations

from html import escape

from portfolio_dfl.report.differences import differences
from portfolio_dfl.report.markup import figure, note, scrolled, section, side_by_side
from portfolio_dfl.report.reported import ReportedStudy
from portfolio_dfl.report.tables import scores_meaning, scores_table

__all__ = ["judged"]


def judged(study: ReportedStudy, comparison_note: str, scores_note: str) -> str:
    """Whether the differences are more than luck."""
    charts = [
        figure(
            chart,
            f"<b>{escape(measure).capitalize()}</b>. An interval that covers 0 does not tell the two apart.",
        )
        for measure, chart in differences(study)
    ]
    return section(
        "Are the differences more than luck?",
        *([note(comparison_note), side_by_side(charts)] if charts else []),
        scrolled(scores_table(study.scores), escape(f"{scores_meaning()} {scores_note}")),
    )
