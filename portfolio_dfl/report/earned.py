"""The section on wealth and its drawdowns, with the main table."""

from __future__ import annotations

from portfolio_dfl.report.gallery import Gallery
from portfolio_dfl.report.looks import looks_of
from portfolio_dfl.report.markup import figure, key, note, section
from portfolio_dfl.report.reported import ReportedStudy, period_of, real_lanes
from portfolio_dfl.report.tables import metrics_meaning, metrics_table

__all__ = ["earned"]

_SCALES = (
    "<div class='scales' role='group' aria-label='Scale of wealth'>"
    "<button type='button' onclick=\"rescale(this, 'linear')\">linear</button>"
    "<button type='button' onclick=\"rescale(this, 'log')\">log</button></div>"
)


def earned(study: ReportedStudy, figures: Gallery) -> str:
    """What the strategies earned."""
    looks, drawn = looks_of(study.lanes), real_lanes(study)
    ceiling = "" if len(drawn) == len(study.lanes) else " The ceiling is left out."
    return section(
        "What the strategies earned",
        f'<div class="scroll">{metrics_table(study.metrics, looks)}</div>',
        note(f"All after costs. {metrics_meaning(period_of(study), study.metrics)}"),
        key({lane.label: looks[lane.label] for lane in drawn}),
        figure(
            figures.wealth(),
            "<b>Wealth</b> of one unit invested at the start, after trading costs, which all strategies "
            f"pay at the same rate in the same ledger.{ceiling}",
            _SCALES,
        ),
        figure(figures.drawdown(), "<b>Drawdown</b>: how far wealth stands below its highest level so far."),
    )
