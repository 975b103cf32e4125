"""The evidence on one page, with words that follow from its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import pandas as pd

from portfolio_dfl.tasks.charts import interval_panels, line_panels
from portfolio_dfl.tasks.evidence.judgement import EQUAL, OWN_CHOICE, TWO_STAGE, Judgement

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from portfolio_dfl.tasks.evidence.selection import Selection
    from portfolio_dfl.tasks.evidence.universes import Universe

__all__ = ["Found", "summary_figure", "verdict", "write_page"]

# By name of the universe.
Found = Mapping[str, "tuple[Universe, Selection, Judgement]"]

_PAPER = ("gradient-accuracy", "projection-simplex", "projection-chain", "runtime", "sudoku")
_SHOWN = {
    "utility": "utility",
    "sharpe": "Sharpe",
    "cagr": "CAGR",
    "volatility": "volatility",
    "max_drawdown": "max drawdown",
    "turnover": "turnover",
    "cost": "cost",
    "regret": "regret",
    "break_even_cost": "break-even cost",
}


def verdict(found: Found) -> list[str]:
    """What the numbers say, a sentence each."""
    sentences = []
    for other in (TWO_STAGE, OWN_CHOICE, EQUAL):
        rows = pd.DataFrame(
            {name: judged.differences.loc[(other, "utility"), :] for name, (_, _, judged) in found.items()}
        ).T
        ahead = [str(name) for name in rows.index[rows["estimate"] > 0.0]]
        surely = [str(name) for name in rows.index[rows["low"] > 0.0]]
        behind = [str(name) for name in rows.index[rows["high"] < 0.0]]
        sentences.append(
            f"Against {other.lower()}, decision-focused training has the higher net utility in {len(ahead)} of "
            f"{len(rows)} universes{_listed(ahead)}; the 95 % interval is above zero in {len(surely)}{_listed(surely)} "
            f"and below zero in {len(behind)}{_listed(behind)}."
        )
    lucky = [name for name, (_, selection, _) in found.items() if selection.spa > 0.05]
    sentences.append(
        f"On the selection spans no trial is better than equal weight beyond what the best of so many shows by chance "
        f"(SPA, 5 %) in {len(lucky)} of {len(found)}{_listed(lucky)}."
    )
    return sentences


def summary_figure(found: Found) -> go.Figure:
    """Decision-focused minus its rivals, with intervals, by universe."""
    panels = {
        f"minus {other[0].lower()}{other[1:]}": pd.DataFrame(
            {name: judged.differences.loc[(other, "utility"), :] for name, (_, _, judged) in found.items()}
        ).T
        for other in (TWO_STAGE, OWN_CHOICE, EQUAL)
    }
    return interval_panels(panels, x_title="net utility a year")


def _listed(names: list[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def write_page(path: Path, found: Found, mechanism: str | None, tasks: Path) -> None:
    """Write the page; the mechanism study and the paper's tables are on it where their results lie in ``tasks``."""
    from plotly.offline import get_plotlyjs

    parts = [
        "".join(f"<p>{escape(sentence)}</p>" for sentence in verdict(found)),
        _figure(summary_figure(found)),
        _protocol(found),
    ]
    parts += [_section(universe, selection, judged) for universe, selection, judged in found.values()]
    if mechanism is not None:
        parts.append(
            "<h2>When it pays: known markets (synthetic)</h2>"
            f"<div class=wide>{mechanism}</div>{_text_of(tasks / 'mechanism' / 'mechanism.txt')}"
        )
    tables = [name for name in _PAPER if (tasks / name / f"{name}.txt").is_file()]
    if tables:
        parts.append(
            "<h2>The paper's tables</h2><p class=note>The paper's own figures are in their rows; they are of "
            "another machine and other peers' versions.</p>"
        )
        parts += [f"<h3>{name}</h3>{_text_of(tasks / name / f'{name}.txt')}" for name in tables]
    template = Template(resources.files("portfolio_dfl.tasks.evidence").joinpath("page.html").read_text("utf-8"))
    path.write_text(template.substitute(plotly=get_plotlyjs(), body="\n".join(parts)), encoding="utf-8")


def _protocol(found: Found) -> str:
    rows = [
        {
            "universe": universe.title,
            "selected on": f"{selection.focused.start:%Y-%m-%d} to {selection.focused.end:%Y-%m-%d}",
            "judged on": f"{judged.wealth.index[0]:%Y-%m-%d} to {judged.wealth.index[-1]:%Y-%m-%d}",
            "trials": f"{len(selection.focused.trials)} + {len(selection.two_stage.trials)}",
            "best utility there": f"{selection.focused.score:.4f} / {selection.two_stage.score:.4f}",
            "equal weight there": f"{selection.equal_weight:.4f}",
            "SPA p": f"{selection.spa:.3f}",
            "overfitting": f"{selection.overfitting:.2f}",
            "deflated Sharpe": f"{judged.deflated_sharpe:.2f}",
            "choice as frozen": "yes" if selection.as_frozen else "NO",
        }
        for universe, selection, judged in found.values()
    ]
    return (
        "<h2>How it was done</h2><p>The grid of each universe was written down first; it was searched on the first "
        "part of the span, by net utility at λ = 10; the best was frozen and run once on the rest. Both trainings "
        "share predictor, features, prior, samples, limits and costs. Two-stage is also shown with what it would have "
        "chosen for itself. Prices of etfs, stocks and sp500 are of those that survived. Trials: decision-focused + "
        "two-stage; best utility in the same order.</p>" + _table(pd.DataFrame(rows).set_index("universe"))
    )


def _section(universe: Universe, selection: Selection, judged: Judgement) -> str:
    shown = judged.strategies.rename(columns=_SHOWN)
    text = {
        str(statistic): {
            str(row["against"]): f"{row['estimate']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"
            for row in rows.to_dict("records")
        }
        for statistic, rows in judged.differences.reset_index().groupby("statistic", sort=False)
    }
    utility = judged.costs.reset_index().pivot_table("utility", "strategy", "cost_rate").loc[shown.index]
    utility.columns = pd.Index([f"{10_000 * float(rate):g} bp" for rate in utility.columns])
    chosen = ", ".join(f"{key} {value}" for key, value in _chosen(selection).items())
    parts = [
        f"<h2>{universe.name}: {escape(universe.title)}</h2><p class=note>Chosen: {escape(chosen)}.</p>",
        _figure(
            line_panels(
                _wealth(judged), x="date", y="wealth", by="strategy", x_title="", y_titles=["net wealth"], log_x=False
            )
        ),
        _table(shown.map("{:.4f}".format, na_action="ignore")),
        "<h3>Decision-focused minus</h3>" + _table(pd.DataFrame(text)),
        "<h3>Net utility at other costs of a trade, plans unchanged</h3>" + _table(utility.map("{:.4f}".format)),
        "<h3>Net utility by year</h3>" + _table(judged.years.map("{:+.3f}".format)),
        "<h3>Mean net return a year after calm and turbulent times</h3>" + _table(judged.regimes.map("{:+.3f}".format)),
    ]
    if len(judged.sensitivity):
        panels = {str(name): rows for name, rows in judged.sensitivity.groupby("setting", sort=False)}
        figure = line_panels(
            panels,
            x="value",
            y="utility",
            by="strategy",
            x_title=["λ of the plan", "τ", "H"],
            y_titles=["net utility", "", ""],
            log_y=False,
        )
        parts.append("<h3>With other settings</h3>" + _figure(figure))
    return "".join(parts)


def _chosen(selection: Selection) -> dict[str, object]:
    trials = selection.focused.trials
    best = trials[trials["score"] == trials["score"].max()].to_dict("records")[0]
    return {str(key): value for key, value in best.items() if key not in ("trial", "score")}


def _wealth(judged: Judgement) -> dict[str, pd.DataFrame]:
    weekly = judged.wealth.iloc[::5]
    long = weekly.rename_axis("date").reset_index().melt("date", var_name="strategy", value_name="wealth")
    return {"": long}


def _table(frame: pd.DataFrame) -> str:
    return f"<div class=wide>{frame.to_html(border=0, na_rep='–')}</div>"


def _figure(figure: go.Figure) -> str:
    return f"<div class=wide>{figure.to_html(full_html=False, include_plotlyjs=False)}</div>"


def _text_of(file: Path) -> str:
    return f"<pre>{escape(file.read_text(encoding='utf-8'))}</pre>" if file.is_file() else ""
