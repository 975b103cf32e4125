"""What a ledger amounts to: the usual metrics, by a maintained library, under this project's conventions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.backtest.frames import require_net_returns
from portfolio_dfl.backtest.ledger import Ledger
from portfolio_dfl.backtest.rhythm import periods_per_year_of, resolved_periods_per_year
from portfolio_dfl.errors import BacktestError

__all__ = [
    "METRICS",
    "SCORES",
    "Metric",
    "is_constant",
    "over_seeds",
    "per_period_rate",
    "performance",
    "performance_table",
    "periods_per_year_of",
    "require_same_days",
    "sharpe_ratio",
]


@dataclass(frozen=True)
class Metric:
    """How a column of a metrics table is read: its title, how to print a value, and what it measures.

    In what it measures, ``{period}`` stands for what a row of the ledger is: a day, a month.
    """

    title: str
    format: str
    meaning: str


METRICS: dict[str, Metric] = {
    "cagr": Metric("CAGR", "{:.2%}", "compound growth a year, after costs"),
    "volatility": Metric("Volatility", "{:.2%}", "standard deviation of net returns, a year"),
    "sharpe": Metric("Sharpe", "{:.2f}", "mean over standard deviation of net excess returns, a year"),
    "max_drawdown": Metric("Max drawdown", "{:.2%}", "largest loss from a peak, the start included"),
    "turnover": Metric("Turnover", "{:.4f}", "‖trade‖₁ a {period}, on average (half of it one-way)"),
    "cost": Metric("Cost", "{:.2%}", "share of wealth paid for trading, a year"),
    "utility": Metric("Utility", "{:.4f}", "mean − λ/2 variance of net returns, a year"),
    "final_wealth": Metric("Final wealth", "{:.4f}", "wealth at the end per unit at the start"),
    "days": Metric("Days", "{:.0f}", "rows of the ledger"),
}

#: What a strategy is judged by beside its metrics; see `portfolio_dfl.study_evaluation`.
SCORES: dict[str, Metric] = {
    "mse": Metric("MSE", "{:.3e}", "mean squared error of the forecasts that were decided with"),
    "regret": Metric("Regret", "{:.3e}", "realised loss of a decision above the least possible in hindsight, mean"),
    "break_even_cost": Metric(
        "Break-even",
        "{:.3%}",
        "cost rate at which the lead in final wealth over the reference is gone (∞: never, –: no lead)",
    ),
    "break_even_holding": Metric("… over holding", "{:.3%}", "the same against buying and holding"),
    "deflated_sharpe": Metric(
        "Deflated Sharpe", "{:.3f}", "probability that the true Sharpe ratio beats the best of as many worthless trials"
    ),
}

# A net return comes out of products near 1, so that equal ones differ by some units of 1's last place.
_ROUNDING = 1e-14


def performance(
    ledger: Ledger,
    *,
    periods_per_year: float | None = None,
    risk_free: float = 0.0,
    risk_aversion: float = 10.0,
    own: Mapping[str, Callable[[Ledger], float]] | None = None,
) -> pd.Series[float]:
    """Metrics of one ledger, all after its costs.

    Parameters
    ----------
    ledger : Ledger
        Books of a strategy.
    periods_per_year : float, optional
        Rows a year, for annualising; by default read off the dates of the rows, see
        :func:`~portfolio_dfl.backtest.rhythm.periods_per_year_of`.
    risk_free : float
        Risk-free rate a year, compounded to a rate a row for the Sharpe ratio.
    risk_aversion : float
        λ of the utility.
    own : mapping of str to callable, optional
        Other metrics of the ledger by name.

    Returns
    -------
    Series
        Indexed by the keys of :data:`METRICS`, then those of ``own``. Statistics that do not exist (the Sharpe ratio
        of returns that never vary, the volatility of one day) are NaN.

    Examples
    --------
    >>> import pandas as pd
    >>> from portfolio_dfl import EqualWeight, open_source, performance, roll, run_ledger
    >>> returns = open_source("embedded").load().pct_change().loc["2018"]
    >>> weights = roll(EqualWeight(), returns, rebalance="monthly")
    >>> performance(run_ledger(weights, returns, cost_rate=0.0005))[["volatility", "sharpe", "turnover"]].round(3)
    volatility    0.165
    sharpe       -0.555
    turnover      0.000
    Name: , dtype: float64
    """
    import empyrical

    net = ledger.net_returns
    per_year = resolved_periods_per_year(periods_per_year, ledger.daily.index)
    volatility = float(empyrical.annual_volatility(net, annualization=per_year))
    metrics: dict[str, float] = {
        "cagr": float(empyrical.annual_return(net, annualization=per_year)),
        "volatility": volatility,
        "sharpe": sharpe_ratio(net, periods_per_year=per_year, risk_free=risk_free),
        "max_drawdown": float(empyrical.max_drawdown(net)),
        "turnover": float(ledger.daily["turnover"].mean()),
        "cost": float(ledger.daily["cost"].mean() * per_year),
        "utility": float(per_year * (net.mean() - 0.5 * risk_aversion * net.var(ddof=1))),
        "final_wealth": float(ledger.daily["wealth"].iloc[-1]),
        "days": float(len(net)),
        **{name: metric(ledger) for name, metric in (own or {}).items()},
    }
    return pd.Series(metrics, name=ledger.name)


def performance_table(
    ledgers: Iterable[Ledger],
    *,
    periods_per_year: float | None = None,
    risk_free: float = 0.0,
    risk_aversion: float = 10.0,
    own: Mapping[str, Callable[[Ledger], float]] | None = None,
) -> pd.DataFrame:
    """Metrics of several ledgers over the same days, one row a strategy; see :func:`performance`.

    Raises
    ------
    BacktestError
        If the ledgers do not cover the same days, or two have one name.
    """
    books = list(ledgers)
    require_same_days(books)
    names = [book.name for book in books]
    if len(set(names)) < len(names):
        raise BacktestError(f"two ledgers have one name among {names}: name them apart")
    rows = [
        performance(book, periods_per_year=periods_per_year, risk_free=risk_free, risk_aversion=risk_aversion, own=own)
        for book in books
    ]
    return pd.DataFrame(rows, index=pd.Index(names, name="strategy"), columns=[*METRICS, *(own or {})])


def sharpe_ratio(net_returns: pd.Series[float], *, periods_per_year: float, risk_free: float = 0.0) -> float:
    """Annualised Sharpe ratio of net returns; NaN where volatility is zero or not finite."""
    import empyrical

    require_net_returns(net_returns)
    values = net_returns.to_numpy(dtype=np.float64)
    if len(values) < 2 or not np.isfinite(values).all() or is_constant(values):
        return float("nan")
    rate = per_period_rate(risk_free, periods_per_year)
    return float(empyrical.sharpe_ratio(net_returns, risk_free=rate, annualization=periods_per_year))


def per_period_rate(annual_rate: float, periods_per_year: float) -> float:
    """Rate a period that compounds to the annual rate."""
    if not annual_rate > -1.0:
        raise BacktestError(f"an annual rate must be above -1, got {annual_rate}")
    return float((1.0 + annual_rate) ** (1.0 / periods_per_year) - 1.0)


def over_seeds(tables: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    """Median and range over seeds of metrics tables; columns are (metric, "median" | "min" | "max").

    Parameters
    ----------
    tables : mapping of seed to DataFrame
        Tables of :func:`performance_table`; a strategy may be missing for some seeds.
    """
    if not tables:
        raise BacktestError("there are no tables to summarise: run one seed at least")
    stacked = pd.concat(tables, names=["seed"])
    by_strategy = stacked.groupby(level="strategy", sort=False)
    return by_strategy.agg(["median", "min", "max"])


def require_same_days(ledgers: Sequence[Ledger]) -> None:
    """Raise BacktestError unless all ledgers have the same days: only those can be compared."""
    if not ledgers:
        raise BacktestError("there is no ledger to evaluate")
    first = ledgers[0]
    for book in ledgers[1:]:
        if not book.daily.index.equals(first.daily.index):
            raise BacktestError(
                f"{book.name!r} has {len(book.daily)} days from {book.daily.index[0].date()} and "
                f"{first.name!r} {len(first.daily)} from {first.daily.index[0].date()}: "
                "strategies are compared on the same days only"
            )


def is_constant(values: NDArray[np.floating[Any]]) -> bool:
    """Whether returns are equal but for rounding, so that they have no volatility."""
    return bool(np.ptp(values) <= _ROUNDING * (1.0 + np.abs(values).max()))
