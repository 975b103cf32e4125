"""The sections on the retrainings and on the data."""

from __future__ import annotations

from html import escape

from portfolio_dfl.report.looks import looks_of
from portfolio_dfl.report.markup import figure, key, note, section, side_by_side
from portfolio_dfl.report.reported import ReportedStudy
from portfolio_dfl.report.tables import frame_table
from portfolio_dfl.report.windows import window_charts
from portfolio_dfl.wording import counted

__all__ = ["found", "trained"]

#: Rows of a table of findings; more of them stay in the artifacts.
ROWS_SHOWN = 60


def trained(study: ReportedStudy) -> str:
    """How training went, window by window; nothing where nothing was trained."""
    windows = study.windows
    if windows.empty:
        return ""
    failed = windows[windows["failed"] != ""]
    charts = [figure(chart, f"<b>{escape(name)}</b>. {caption}.") for name, caption, chart in window_charts(study)]
    if failed.empty:
        outcome = note(
            f"All {len(windows)} retrainings succeeded." if len(windows) > 1 else "The retraining succeeded."
        )
    else:
        listed = failed[[name for name in ("strategy", "seed", "window", "date", "failed", "held") if name in failed]]
        outcome = (
            f"<p class='alarm'>{len(failed)} of {counted(len(windows), 'retraining')} failed. The weights held "
            f"before were kept and drifted; crosses mark the dates.</p><div class='scroll'>{frame_table(listed)}</div>"
        )
    looks = looks_of(study.lanes)
    learners = {lane.label: looks[lane.label] for lane in study.lanes if lane.strategy in set(windows["strategy"])}
    other = study.failures[study.failures["what"] != "fit"]
    if len(other):
        outcome += (
            f"<p class='alarm'>{counted(len(other), 'further failure')}: a decision that failed held what was held, a "
            "regret that could not be computed is left out.</p>"
            f"<div class='scroll'>{frame_table(other.head(ROWS_SHOWN))}</div>"
        )
    return section("How training went, window by window", outcome, key(learners), side_by_side(charts))


def found(study: ReportedStudy) -> str:
    """What was found in the data."""
    title, flags = "What was found in the data", study.flags
    if flags.empty:
        return section(title, note("Nothing was found wrong with the prices; nothing was filled in or removed."))
    shown = (
        f"{counted(len(flags), 'finding')}. What was done about each follows from the policies in the configuration."
    )
    if len(flags) > ROWS_SHOWN:
        shown += f" The first {ROWS_SHOWN} are listed; all of them are among the artifacts."
    table = f"<div class='scroll'>{frame_table(flags.head(ROWS_SHOWN))}</div>"
    return section(title, note(shown), table)
