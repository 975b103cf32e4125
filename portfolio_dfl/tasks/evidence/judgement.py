"""What was chosen, on the part of the span that choosing did not see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.evidence.peers import HierarchicalRisk, ShrunkMeanVariance
from portfolio_dfl.tasks.evidence.studies import finished_study

if TYPE_CHECKING:
    from portfolio_dfl.backtest import Ledger
    from portfolio_dfl.tasks.evidence.selection import Selection
    from portfolio_dfl.tasks.evidence.universes import Universe

__all__ = ["FOCUSED", "OWN_CHOICE", "TWO_STAGE", "Judgement", "judge"]

FOCUSED, TWO_STAGE, OWN_CHOICE, EQUAL = "Decision-focused", "Two-stage", "Two-stage, its own choice", "Equal weight"
# Rows over which volatility is measured that tells calm days from turbulent ones.
_REGIME = 60


@dataclass(frozen=True)
class Judgement:
    """One universe on its test span.

    Attributes
    ----------
    strategies : DataFrame
        By strategy: utility, sharpe, cagr, volatility, max_drawdown, turnover and cost a year, all net; regret and
        break_even_cost where they exist.
    differences : DataFrame
        Decision-focused minus another strategy, by (against, statistic): estimate, low, high.
    costs : DataFrame
        Utility and Sharpe ratio by (strategy, cost_rate).
    years, regimes : DataFrame
        Utility a year of each strategy by calendar year; mean return a year on calm and on turbulent days.
    sensitivity : DataFrame
        Utility of decision-focused, two-stage and equal weight as λ, τ and H are changed, all else as chosen; judged at
        the same λ.
    deflated_sharpe : float
        Of decision-focused, counting all trials of its search.
    wealth : DataFrame
        Net wealth by date and strategy.
    """

    strategies: pd.DataFrame
    differences: pd.DataFrame
    costs: pd.DataFrame
    years: pd.DataFrame
    regimes: pd.DataFrame
    sensitivity: pd.DataFrame
    deflated_sharpe: float
    wealth: pd.DataFrame


def judge(
    universe: Universe, selection: Selection, *, sensitivity: bool = True, peers: bool = True, replications: int = 1000
) -> Judgement:
    """Run what was chosen on the test span of a universe."""
    from portfolio_dfl.backtest.deflation import deflated_sharpe

    config = universe.chosen
    own: dict[str, Any] = {}
    if peers:
        rate = config.costs.rate
        if not isinstance(rate, int | float):
            raise ConfigError(f"costs.rate of {universe.name} is {rate!r}; skfolio's need one for all tickers")
        own = {
            "skfolio_mean_variance": ShrunkMeanVariance(
                config.allocation.risk_aversion,
                float(rate),
                max_weight=config.allocation.max_weight or 1.0,
            ),
            "skfolio_hierarchical": HierarchicalRisk(),
        }
    result = finished_study(config, own)
    alone = finished_study(universe.two_stage_chosen)
    books = {lane.label: result.ledgers[lane.label] for lane in result.lanes}
    books[OWN_CHOICE] = alone.ledgers[TWO_STAGE]
    metrics = pd.concat([result.metrics, alone.metrics.loc[[TWO_STAGE]].rename(index={TWO_STAGE: OWN_CHOICE})])
    scores = pd.concat([result.scores, alone.scores.loc[[TWO_STAGE]].rename(index={TWO_STAGE: OWN_CHOICE})])
    columns = ["utility", "sharpe", "cagr", "volatility", "max_drawdown", "turnover", "cost"]
    table = metrics[[name for name in columns if name in metrics]].join(
        scores[[name for name in ("regret", "break_even_cost") if name in scores]]
    )
    net = pd.DataFrame({name: book.net_returns for name, book in books.items()})
    aversion, per_year = config.allocation.risk_aversion, result.periods_per_year
    costs = pd.concat(
        [result.costs, alone.costs.loc[[TWO_STAGE]].rename(index={TWO_STAGE: OWN_CHOICE}, level="strategy")]
    )
    return Judgement(
        strategies=table,
        differences=_differences(books, aversion, per_year, replications),
        costs=costs[["utility", "sharpe"]],
        years=pd.DataFrame(net.groupby(pd.DatetimeIndex(net.index).year).agg(_utility, per_year, aversion)),
        regimes=_regimes(net, per_year),
        sensitivity=_sensitivity(universe) if sensitivity else pd.DataFrame(),
        deflated_sharpe=deflated_sharpe(books[FOCUSED].net_returns, selection.sharpes),
        wealth=(1.0 + net).cumprod(),
    )


def _utility(returns: pd.Series[float], per_year: float, risk_aversion: float) -> float:
    return float(per_year * (returns.mean() - 0.5 * risk_aversion * returns.var(ddof=1)))


def _differences(books: dict[str, Ledger], aversion: float, per_year: float, replications: int) -> pd.DataFrame:
    from portfolio_dfl.backtest.inference import Bootstrap, compare

    rows = [
        {"against": name, **vars(interval)}
        for name, book in books.items()
        if name != FOCUSED
        for interval in compare(
            [books[FOCUSED]],
            [book],
            risk_aversion=aversion,
            periods_per_year=per_year,
            bootstrap=Bootstrap(replications=replications),
        )
    ]
    return pd.DataFrame(rows).set_index(["against", "statistic"])[["estimate", "low", "high"]]


def _regimes(net: pd.DataFrame, per_year: float) -> pd.DataFrame:
    """Mean net return a year on days after calm and after turbulent times, by equal weight's volatility before."""
    before = net[EQUAL].rolling(_REGIME).std().shift(1)
    known = before.dropna()
    kind = (known > known.median()).map({True: "turbulent", False: "calm"})
    means: pd.DataFrame = net.loc[known.index].groupby(kind).mean() * per_year
    return means.rename_axis("days")


def _sensitivity(universe: Universe) -> pd.DataFrame:
    """The chosen configuration with one number changed at a time."""
    config = universe.chosen
    judged_at = config.allocation.risk_aversion
    changes = [
        *(("risk_aversion", value) for value in (judged_at / 2, judged_at, judged_at * 2)),
        *(("turnover_limit", value) for value in (0.05, 0.2, 1.0)),
        *(("horizon", value) for value in (1, 2, 4)),
    ]
    rows = []
    for name, value in changes:
        changed = config.override(
            [
                f"allocation.{name}={value}",
                "backtest.strategies=[decision_focused, two_stage, equal_weight]",
                "evaluation.bootstrap=0",
            ]
        )
        result = finished_study(changed)
        for label in (FOCUSED, TWO_STAGE, EQUAL):
            utility = _utility(result.ledgers[label].net_returns, result.periods_per_year, judged_at)
            rows.append({"setting": name, "value": value, "strategy": label, "utility": utility})
    return pd.DataFrame(rows)
