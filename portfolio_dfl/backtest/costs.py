"""What trading costs do to a result: several cost levels, and the cost at which an advantage is gone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from portfolio_dfl.backtest.evaluation import performance_table, require_same_days
from portfolio_dfl.backtest.ledger import Ledger

__all__ = ["break_even_cost", "cost_levels"]


def cost_levels(
    ledgers: Sequence[Ledger],
    cost_rates: Sequence[float] = (0.0, 0.0005, 0.001),
    *,
    periods_per_year: float | None = None,
    risk_free: float = 0.0,
    risk_aversion: float = 10.0,
) -> pd.DataFrame:
    """Metrics at several proportional costs with the decisions unchanged; rows are (strategy, cost_rate).

    Each ledger keeps its own fixed cost. Other parameters as in
    :func:`~portfolio_dfl.backtest.evaluation.performance`.
    """
    tables = {
        rate: performance_table(
            [book.with_costs(cost_rate=rate, fixed_cost=book.fixed_cost) for book in ledgers],
            periods_per_year=periods_per_year,
            risk_free=risk_free,
            risk_aversion=risk_aversion,
        )
        for rate in cost_rates
    }
    table = pd.concat(tables, names=["cost_rate"]).swaplevel()
    order = [(book.name, rate) for book in ledgers for rate in cost_rates]
    return table.loc[order]


def break_even_cost(strategy: Ledger, benchmark: Ledger) -> float:
    """Proportional cost rate at which the strategy ends with no more wealth than the benchmark.

    Both pay the same rate on what they trade; fixed costs are left out.

    Parameters
    ----------
    strategy, benchmark : Ledger
        Books over the same days; their own costs do not matter.

    Returns
    -------
    float
        The rate (0.001 is 10 basis points): below it the strategy is ahead. ``inf`` where it is ahead at
        every rate that can be charged, 1 being all that is traded; NaN where it is not even ahead without
        costs.
    """
    from scipy.optimize import brentq

    require_same_days([strategy, benchmark])
    gross = np.log1p(strategy.daily["gross_return"]).sum() - np.log1p(benchmark.daily["gross_return"]).sum()
    ours = strategy.daily["turnover"].to_numpy(dtype=np.float64)
    theirs = benchmark.daily["turnover"].to_numpy(dtype=np.float64)

    def lead(rate: float) -> float:
        return float(gross + np.log1p(-rate * ours).sum() - np.log1p(-rate * theirs).sum())

    if lead(0.0) <= 0.0:
        return math.nan
    largest = max(ours.max(), theirs.max())
    if largest == 0.0:
        return math.inf
    # At a rate of 1 / turnover a day's trade costs all there is, at a rate of 1 all that is traded.
    highest = min(1.0, (1.0 - 1e-12) / largest)
    if lead(highest) > 0.0:
        return math.inf
    return float(brentq(lead, 0.0, highest, xtol=1e-15, rtol=1e-12))
