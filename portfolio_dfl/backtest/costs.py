"""What trading costs do to a result: several cost levels, and the cost at which an advantage is gone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.backtest.evaluation import performance_table, require_same_days
from portfolio_dfl.backtest.ledger import Ledger

__all__ = ["break_even_cost", "cost_levels"]

FloatArray = NDArray[np.float64]


def cost_levels(
    ledgers: Sequence[Ledger],
    cost_rates: Sequence[float] = (0.0, 0.0005, 0.001),
    *,
    periods_per_year: float | None = None,
    risk_free: float = 0.0,
    risk_aversion: float = 10.0,
    own: Mapping[str, Callable[[Ledger], float]] | None = None,
) -> pd.DataFrame:
    """Metrics at several proportional costs with the decisions unchanged; rows are (strategy, cost_rate).

    A level takes the place of the proportional rate, of each asset where they differ; every ledger keeps its own
    fixed cost, spreads, impact and borrow rates. Other parameters as in
    :func:`~portfolio_dfl.backtest.evaluation.performance`.
    """
    tables = {
        rate: performance_table(
            [book.with_costs(cost_rate=rate, fixed_cost=book.fixed_cost) for book in ledgers],
            periods_per_year=periods_per_year,
            risk_free=risk_free,
            risk_aversion=risk_aversion,
            own=own,
        )
        for rate in cost_rates
    }
    table = pd.concat(tables, names=["cost_rate"]).swaplevel()
    order = [(book.name, rate) for book in ledgers for rate in cost_rates]
    return table.loc[order]


def break_even_cost(strategy: Ledger, benchmark: Ledger) -> float:
    """Proportional cost rate at which the strategy ends with no more wealth than the benchmark.

    Both pay the same rate on what they trade; fixed costs are left out. Spreads, impact and borrow fees, where the
    books have them, are paid beside the rate.

    Parameters
    ----------
    strategy, benchmark : Ledger
        Books over the same days; their own proportional rates do not matter.

    Returns
    -------
    float
        The rate (0.001 is 10 basis points): below it the strategy is ahead. ``inf`` where it is ahead at
        every rate that can be charged, 1 being all that is traded; NaN where it is not even ahead without
        costs.
    """
    from scipy.optimize import brentq

    require_same_days([strategy, benchmark])
    ours, theirs = _Flows.of(strategy), _Flows.of(benchmark)

    gross = np.log1p(ours.returns).sum() - np.log1p(theirs.returns).sum()

    def lead(rate: float) -> float:
        return float(gross + ours.drag(rate) - theirs.drag(rate))

    highest = min(1.0, ours.highest, theirs.highest)
    if not highest > 0.0 or lead(0.0) <= 0.0:
        return math.nan
    if max(ours.turnover.max(), theirs.turnover.max()) == 0.0 or lead(highest) > 0.0:
        return math.inf
    return float(brentq(lead, 0.0, highest, xtol=1e-15, rtol=1e-12))


@dataclass(frozen=True)
class _Flows:
    """What a rate acts on: returns after borrow fees, trading, and what it costs beside the rate; [T] each."""

    returns: FloatArray
    turnover: FloatArray
    rest: FloatArray

    @classmethod
    def of(cls, book: Ledger) -> _Flows:
        daily = book.daily
        returns, turnover = daily["gross_return"].to_numpy(np.float64), daily["turnover"].to_numpy(np.float64)
        if book.costs is None:
            return cls(returns, turnover, np.zeros(len(daily)))
        rest = (daily["spread_cost"] + daily["impact_cost"]).to_numpy(np.float64)
        return cls(returns - daily["borrow_cost"].to_numpy(np.float64), turnover, rest)

    def drag(self, rate: float) -> np.float64:
        """Logarithm of what is left of wealth after trading."""
        left: np.float64 = np.log1p(-rate * self.turnover - self.rest).sum()
        return left

    @property
    def highest(self) -> float:
        """Rate at which a day's trade costs all there is, or just below."""
        traded = self.turnover > 0.0
        left = (1.0 - 1e-12) - self.rest[traded]
        return float((left / self.turnover[traded]).min(initial=np.inf))
