"""The tables of a comparison in words: several costs and seeds, scores, differences with intervals."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.report.tables import metrics_text, scores_text
from portfolio_dfl.strategies.table import Lane, appearance, by_strategy
from portfolio_dfl.wording import counted

__all__ = ["comparison_text", "seeds_table"]


def seeds_table(lanes: Sequence[Lane], costs: pd.DataFrame) -> pd.DataFrame:
    """Median and range over seeds of metrics by (strategy, cost rate): columns (metric, "median" | "min" | "max")."""
    from portfolio_dfl.backtest.evaluation import over_seeds

    groups = by_strategy(lanes)
    levels = list(dict.fromkeys(costs.index.get_level_values("cost_rate")))
    found = {}
    for level in levels:
        here = costs[costs.index.get_level_values("cost_rate") == level].droplevel("cost_rate")
        tables = {}
        for place in range(max(len(mine) for mine in groups.values())):
            present = {mine[place].label: name for name, mine in groups.items() if place < len(mine)}
            tables[place] = here.loc[list(present)].rename(index=present)
        found[level] = over_seeds(tables)
    stacked = pd.concat(found, names=["cost_rate"]).swaplevel()
    ordered: pd.DataFrame = stacked.loc[[(name, level) for name in groups for level in levels]]
    return ordered


def comparison_text(
    config: StudyConfig,
    lanes: Sequence[Lane],
    seeds: pd.DataFrame,
    scores: pd.DataFrame,
    comparison: pd.DataFrame | None,
) -> str:
    """The metrics at several costs, scores, and the differences to the reference, for a terminal.

    ``seeds`` is of :func:`seeds_table`; the rest as in :class:`~portfolio_dfl.study.result.StudyResult`.
    """
    section, count = config.evaluation, len(config.training.seeds)
    reference = appearance(section.reference).label
    note = f"; of {count} seeds the median, and each column's lowest and highest" if count > 1 else ""
    lines = []
    for level in dict.fromkeys(seeds.index.get_level_values("cost_rate")):
        lines += [f"At costs of {level * 1e4:g} bp{note}", _level_text(lanes, seeds, level), ""]
    lines += [
        f"Forecasts, decisions, and what survives costs against {reference.lower()} and "
        f"{counted(int(scores['trials'].iloc[0]), 'trial')}",
        scores_text(scores),
    ]
    if comparison is None:
        return "\n".join(lines)
    shown = comparison.reset_index()
    width = max(len(str(name)) for name in shown["strategy"])
    lines += [
        "",
        f"Difference to {reference.lower()}{', means over seeds' if count > 1 else ''}, with "
        f"{section.confidence:.0%} intervals from a paired stationary bootstrap of {section.bootstrap:,} "
        "resamples; * excludes 0",
    ]
    for statistic, rows in shown.groupby("statistic", sort=False):
        lines.append(f"  {statistic}")
        columns = (rows[column] for column in ("strategy", "estimate", "low", "high", "excludes_zero"))
        for name, value, low, high, excludes in zip(*columns, strict=True):
            star = " *" if excludes else ""
            lines.append(f"    {name!s:<{width}}  {value:+.2g}  [{low:+.2g}, {high:+.2g}]{star}")
    return "\n".join(lines)


def _level_text(lanes: Sequence[Lane], seeds: pd.DataFrame, level: float) -> str:
    """Metrics at one cost level; a strategy with several seeds has three rows."""
    here = seeds.xs(level, level="cost_rate")
    counts = {name: len(mine) for name, mine in by_strategy(lanes).items()}
    rows, names = [], []
    for name, values in here.iterrows():
        shown = {"median": str(name)}
        if counts[str(name)] > 1:
            shown |= {"min": "  lowest", "max": "  highest"}
        for which, title in shown.items():
            rows.append(values.xs(which, level=1))
            names.append(title)
    return metrics_text(pd.DataFrame(rows).set_axis(names, axis=0))
