"""One self-contained HTML page that shows what a study did: results first, then how they came about.

The page carries its own style and plotting library, opens without a network, and is meant to be read on a
telephone, on a wide screen and on paper.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.report.earned import earned
from portfolio_dfl.report.gallery import Gallery
from portfolio_dfl.report.held import contributed, held
from portfolio_dfl.report.judged import judged
from portfolio_dfl.report.markup import note, section
from portfolio_dfl.report.reported import ReportedStudy
from portfolio_dfl.report.risk import risk
from portfolio_dfl.report.seasons import seasons
from portfolio_dfl.report.traded import traded
from portfolio_dfl.report.went import found, trained

__all__ = ["PageText", "report_html", "write_report"]


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
    figures = Gallery(study)
    sections = [
        earned(study, figures),
        seasons(study, figures),
        risk(study, figures),
        held(study, figures),
        contributed(study, figures),
        traded(study, figures),
        judged(study, text.comparison_note, text.scores_note),
        trained(study),
        found(study),
        _setting(study, text),
    ]
    shown = [part for part in sections if part]
    banner = '<p class="banner">Synthetic prices: made up by a known rule, not a market.</p>'
    return page.substitute(
        title=escape(text.title),
        style=(package / "page.css").read_text(encoding="utf-8"),
        plotly=get_plotlyjs(),
        subtitle=escape(text.subtitle),
        banner=banner if text.synthetic else "",
        lead=escape(text.lead),
        contents=_contents(shown),
        body="\n".join(shown),
    )


def _contents(sections: list[str]) -> str:
    """Links to the sections, in their order."""
    found = (re.match(r'<section id="([^"]+)">\s*<h2>(.*?)</h2>', part) for part in sections)
    items = "".join(f'<li><a href="#{match[1]}">{match[2]}</a></li>' for match in found if match)
    return f'<nav aria-label="Contents"><ol>{items}</ol></nav>'


def _setting(study: ReportedStudy, text: PageText) -> str:
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in study.facts.items())
    return section(
        "The exact setting",
        note("Saved as a YAML file, this configuration repeats the study."),
        f"<pre>{escape(text.config_yaml.strip())}</pre>",
        f"<dl>{facts}</dl>",
    )
