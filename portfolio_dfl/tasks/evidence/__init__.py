"""Does training on the decision pay? A protocol: select on one part of a span, freeze, judge on the rest.

- `universes`: prices, grids and choices, from ``configs/evidence``;
- `selection`: the searches, and how much of their best is luck;
- `judgement`: the chosen configuration on the test span, beside its rivals;
- `peers`: strategies of skfolio; `studies`: each study is run once; `page`: all of it on one page.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from portfolio_dfl.tasks.records import TaskResult, describe_machine, require_place, save_task
from portfolio_dfl.tasks.settings import require_least, require_some

__all__ = ["evidence"]

_NAME = "evidence"


def evidence(
    *,
    universes: Sequence[str] | None = None,
    etf7: str | None = None,
    etfs: str | None = None,
    stocks: str | None = None,
    configs: str = "configs/evidence",
    sensitivity: Sequence[str] = ("etf7", "sp500", "factors"),
    replications: int = 1000,
    backend: str = "sequential",
    workers: int = 2,
    reduced: bool = False,
    folder: str | os.PathLike[str] = "runs",
) -> TaskResult:
    """Search each universe on the first part of its span, and judge what was chosen on the rest.

    An interrupted one goes on where it stopped. Its page shows the mechanism study and the paper's tables as well,
    where these tasks have been run with the same folder.

    Parameters
    ----------
    universes : sequence of str, optional
        Of etf7, etfs, stocks, sp500 and factors; by default all whose prices are given or come with skfolio.
    etf7, etfs, stocks : path, optional
        Files of adjusted closes; the other universes come with skfolio.
    configs : path
        Folder of the grids and choices, ``configs/evidence`` of the project.
    sensitivity : sequence of str
        Universes in which λ, τ and H are varied as well.
    replications : int
        Of bootstraps.
    backend, workers
        As of ``execution``: where the studies that judge are spread; searches run in this process.
    reduced : bool
        The factor ETFs alone, with a grid of two, half a year of selection, half a year of test and two epochs.
    folder : path
        Folder of runs; searches and studies are kept in it, too.

    Returns
    -------
    TaskResult
        Rows: universe, strategy, and its net utility, Sharpe ratio, turnover and so on, with the interval of
        decision-focused minus it (difference, low, high). More tables are written beside it, and the page
        ``evidence.html``.

    Raises
    ------
    ConfigError, DataError, TrackingError
        As of a study.
    """
    from portfolio_dfl.tasks.evidence.judgement import judge
    from portfolio_dfl.tasks.evidence.page import summary_figure, verdict, write_page
    from portfolio_dfl.tasks.evidence.selection import select
    from portfolio_dfl.tasks.evidence.universes import EMBEDDED, TITLES, read_universe, require_known

    require_some(universes=universes)
    require_least(100, replications=replications)
    place = Path(folder) / "tasks" / _NAME
    sources = {"etf7": etf7, "etfs": etfs, "stocks": stocks}
    named = [name for name in TITLES if sources.get(name) or name in EMBEDDED] if universes is None else universes
    small: dict[str, object] = {"execution__backend": backend, "execution__workers": workers}
    if reduced:
        named, sensitivity, replications = ["factors"], [], 100
        small |= {
            "training__epochs": 2,
            "sweep__days": 120,
            "sweep__trials": 2,
            "backtest__end": "2019-06-28",
            "sweep__space": "{training.loss: [executed_utility, net_utility]}",
        }
    require_known(named)
    require_place(_NAME, folder)
    chosen = {name: read_universe(name, configs, sources.get(name), place / "studies", **small) for name in named}
    found = {}
    for name, universe in chosen.items():
        selection = select(universe, replications=replications)
        judged = judge(
            universe, selection, sensitivity=name in sensitivity, peers=not reduced, replications=replications
        )
        found[name] = (universe, selection, judged)
    rows = pd.concat(
        [
            judged.strategies.join(judged.differences.xs("utility", level="statistic").rename_axis("strategy"))
            .rename(columns={"estimate": "difference"})
            .rename_axis("strategy")
            .reset_index()
            .assign(universe=name)
            for name, (_, _, judged) in found.items()
        ],
        ignore_index=True,
    )
    rows = rows[["universe", *(column for column in rows if column != "universe")]]
    for table in ("costs", "years", "regimes", "sensitivity", "wealth"):
        for name, (_, _, judged) in found.items():
            getattr(judged, table).to_csv(place / f"{name}_{table}.csv")
    for name, (_, selection, _) in found.items():
        selection.focused.trials.to_csv(place / f"{name}_trials.csv", index=False)
        selection.two_stage.trials.to_csv(place / f"{name}_two_stage_trials.csv", index=False)
    write_page(place / "evidence.html", found, _mechanism(Path(folder)), Path(folder) / "tasks")
    summary = rows[["universe", "strategy", "utility", "sharpe", "turnover", "difference", "low", "high"]]
    return save_task(
        TaskResult(
            name=_NAME,
            title="Decision-focused training chosen on one part of a span and judged on the rest: net utility a year, "
            "and decision-focused minus each with its 95 % interval",
            rows=rows,
            figures={"differences": summary_figure(found)},
            table=summary.to_string(index=False, float_format="{:.4f}".format, na_rep="–"),
            parameters={"universes": list(chosen), "configs": configs, "replications": replications},
            metrics={
                f"{row['universe']}/{row['strategy']}/utility": float(row["utility"]) for row in rows.to_dict("records")
            },
            notes=[*verdict(found), f"page: {place / 'evidence.html'}"],
            machine=describe_machine(),
        ),
        folder,
    )


def _mechanism(folder: Path) -> str | None:
    """The figure of the mechanism study, where that has been run."""
    file = folder / "tasks" / "mechanism" / "mechanism.csv"
    if not file.is_file():
        return None
    from portfolio_dfl.tasks.mechanism import mechanism_figure

    figure: str = mechanism_figure(pd.read_csv(file)).to_html(full_html=False, include_plotlyjs=False)
    return figure
