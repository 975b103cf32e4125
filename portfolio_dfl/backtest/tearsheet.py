"""A closer look at a ledger's net returns: their shape, their worst days, and what they are next to a benchmark's.

Conventions are those of :mod:`portfolio_dfl.backtest.evaluation`: all after costs, simple returns, means annualised by
multiplication and deviations by the square root of rows a year, NaN for what does not exist. Values at risk are
quantiles of returns, negative where they are losses. The alpha is Jensen's, annualised as a mean is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from portfolio_dfl.backtest.evaluation import Metric, is_constant, per_period_rate, require_same_days
from portfolio_dfl.backtest.ledger import Ledger
from portfolio_dfl.backtest.rhythm import resolved_periods_per_year

__all__ = [
    "AGAINST_BENCHMARK",
    "TEAR_SHEET",
    "annual_returns",
    "calendar_returns",
    "drawdown_episodes",
    "effective_holdings",
    "exposure",
    "rolling_statistics",
    "tear_sheet",
    "tear_sheet_table",
]

#: Quantile of the values at risk.
TAIL = 0.05

TEAR_SHEET: dict[str, Metric] = {
    "sortino": Metric("Sortino", "{:.2f}", "mean net excess return over its root mean square below zero, a year"),
    "calmar": Metric("Calmar", "{:.2f}", "compound growth a year over the largest drawdown"),
    "value_at_risk": Metric("VaR 95%", "{:.2%}", "5% quantile of the net returns of one row"),
    "expected_shortfall": Metric("CVaR 95%", "{:.2%}", "mean of the net returns up to that quantile"),
    "skewness": Metric("Skew", "{:.2f}", "third standardised moment of net returns"),
    "excess_kurtosis": Metric("Kurtosis", "{:.2f}", "fourth standardised moment less 3, that of a normal law"),
    "best": Metric("Best", "{:.2%}", "highest net return of one row"),
    "worst": Metric("Worst", "{:.2%}", "lowest net return of one row"),
    "win_rate": Metric("Win rate", "{:.1%}", "share of rows with a net return above 0"),
    "annual_turnover": Metric("Turnover a year", "{:.2f}", "‖trade‖₁, summed over a year (half of it one-way)"),
    "effective_holdings": Metric(
        "Effective holdings", "{:.1f}", "1 / Σ of squared shares of gross exposure, cash left out, on average"
    ),
}

#: What needs a benchmark beside the ledger.
AGAINST_BENCHMARK: dict[str, Metric] = {
    "alpha": Metric("Alpha", "{:.2%}", "mean net excess return less beta times the benchmark's, a year"),
    "beta": Metric("Beta", "{:.2f}", "covariance with the benchmark's net return over that one's variance"),
    "tracking_error": Metric("Tracking error", "{:.2%}", "standard deviation of the difference of net returns, a year"),
    "information_ratio": Metric("Information ratio", "{:.2f}", "mean of that difference over its deviation, a year"),
    "up_capture": Metric("Up capture", "{:.2f}", "mean net return over the benchmark's, where that one rose"),
    "down_capture": Metric("Down capture", "{:.2f}", "the same where it fell"),
}


def tear_sheet(
    ledger: Ledger,
    benchmark: Ledger | None = None,
    *,
    periods_per_year: float | None = None,
    risk_free: float = 0.0,
) -> pd.Series[float]:
    """Statistics of one ledger beyond :func:`~portfolio_dfl.backtest.evaluation.performance`, all after its costs.

    Parameters
    ----------
    ledger : Ledger
        Books of a strategy.
    benchmark : Ledger, optional
        Books over the same days that it is held against; without them, or with the same books, what needs a benchmark
        is NaN.
    periods_per_year, risk_free : float
        As in :func:`~portfolio_dfl.backtest.evaluation.performance`.

    Returns
    -------
    Series
        Indexed by the keys of :data:`TEAR_SHEET` and :data:`AGAINST_BENCHMARK`.

    Raises
    ------
    BacktestError
        If the benchmark has other days, or the dates have no rhythm that is known.
    """
    import empyrical
    from scipy.stats import kurtosis, skew

    net = ledger.net_returns
    per_year = resolved_periods_per_year(periods_per_year, net.index)
    rate = per_period_rate(risk_free, per_year)
    values = net.to_numpy(dtype=np.float64)
    varies = len(values) > 1 and not is_constant(values)
    falls = bool((values < rate).any())
    nan = float("nan")
    found = {
        "sortino": _finite(empyrical.sortino_ratio(net, rate, annualization=per_year)) if varies and falls else nan,
        "calmar": _finite(empyrical.calmar_ratio(net, annualization=per_year)),
        "value_at_risk": float(empyrical.value_at_risk(net, TAIL)),
        "expected_shortfall": float(empyrical.conditional_value_at_risk(net, TAIL)),
        "skewness": float(skew(values)) if varies else nan,
        "excess_kurtosis": float(kurtosis(values)) if varies else nan,
        "best": float(values.max()),
        "worst": float(values.min()),
        "win_rate": float((values > 0.0).mean()),
        "annual_turnover": float(ledger.daily["turnover"].mean() * per_year),
        "effective_holdings": float(effective_holdings(ledger).mean()),
    }
    compared = dict.fromkeys(AGAINST_BENCHMARK, nan)
    if benchmark is not None and benchmark is not ledger:
        require_same_days([benchmark, ledger])
        compared |= _against(values, benchmark.net_returns.to_numpy(dtype=np.float64), rate, per_year)
    return pd.Series(found | compared, name=ledger.name)


def tear_sheet_table(
    ledgers: Iterable[Ledger],
    benchmark: Ledger | None = None,
    *,
    periods_per_year: float | None = None,
    risk_free: float = 0.0,
) -> pd.DataFrame:
    """:func:`tear_sheet` of several ledgers, one row a strategy."""
    rows = [tear_sheet(book, benchmark, periods_per_year=periods_per_year, risk_free=risk_free) for book in ledgers]
    names = pd.Index([row.name for row in rows], name="strategy")
    return pd.DataFrame(rows, index=names, columns=[*TEAR_SHEET, *AGAINST_BENCHMARK])


def _against(own: np.ndarray, other: np.ndarray, rate: float, per_year: float) -> dict[str, float]:
    import empyrical

    active = own - other
    found: dict[str, float] = {}
    if len(own) > 1 and not is_constant(other):
        beta = float(empyrical.beta_aligned(own, other, risk_free=rate))
        found["beta"] = beta
        found["alpha"] = float(per_year * ((own - rate).mean() - beta * (other - rate).mean()))
    if len(own) > 1:
        constant = is_constant(active)
        found["tracking_error"] = 0.0 if constant else float(active.std(ddof=1) * np.sqrt(per_year))
        if not constant:
            found["information_ratio"] = float(empyrical.excess_sharpe(own, other) * np.sqrt(per_year))
    for name, where in (("up_capture", other > 0.0), ("down_capture", other < 0.0)):
        if where.any():
            found[name] = float(own[where].mean() / other[where].mean())
    return found


def effective_holdings(ledger: Ledger) -> pd.Series[float]:
    """1 / Σ sᵢ², where sᵢ is an asset's share of gross exposure, for each row; NaN where nothing is held.

    The inverse of Herfindahl's index: N for equal weights of N assets, 1 for a single one.
    """
    size = ledger.weights[list(ledger.trades.columns)].abs()
    gross = size.sum(axis=1)
    shares = size.div(gross.where(gross > 0.0), axis=0)
    concentration: pd.Series[float] = shares.pow(2).sum(axis=1, min_count=1)
    return 1.0 / concentration


def exposure(ledger: Ledger) -> pd.DataFrame:
    """Long, short (negative), net and gross exposure of each row, shares of wealth, cash left out."""
    weights = ledger.weights[list(ledger.trades.columns)]
    long, short = weights.clip(lower=0.0).sum(axis=1), weights.clip(upper=0.0).sum(axis=1)
    return pd.DataFrame({"long": long, "short": short, "net": long + short, "gross": long - short})


def calendar_returns(net_returns: pd.Series[float]) -> pd.DataFrame:
    """Compounded net returns: one row a calendar year, columns 1 to 12 and ``year``; NaN for months without a row."""
    import empyrical

    months = empyrical.aggregate_returns(net_returns, "monthly").unstack().reindex(columns=range(1, 13))  # noqa: PD010
    months.index.name = None
    months.columns.name = None
    found: pd.DataFrame = months.assign(year=annual_returns(net_returns))
    return found


def annual_returns(net_returns: pd.Series[float]) -> pd.Series[float]:
    """Compounded net return of each calendar year; the first and the last may be parts of one."""
    import empyrical

    found: pd.Series[float] = empyrical.aggregate_returns(net_returns, "yearly")
    return found


def drawdown_episodes(net_returns: pd.Series[float], count: int = 5) -> pd.DataFrame:
    """The worst drawdowns, deepest first.

    Parameters
    ----------
    net_returns : Series
    count : int
        Rows at most.

    Returns
    -------
    DataFrame
        ``depth`` (negative), ``peak`` (date of the highest wealth before; NaT for the start), ``trough``, ``recovery``
        (first date at that height again; NaT while it lasts), ``rows_down`` (from peak to trough) and ``rows_under``
        (from peak to recovery or to the end).
    """
    wealth = np.concatenate([[1.0], np.cumprod(1.0 + net_returns.to_numpy(dtype=np.float64))])
    highest = np.maximum.accumulate(wealth)
    depth = wealth / highest - 1.0
    under = np.flatnonzero(depth < 0.0)
    dates = [pd.NaT, *net_returns.index]
    rows = []
    for spell in np.split(under, np.flatnonzero(np.diff(under) > 1) + 1) if len(under) else []:
        trough = int(spell[np.argmin(depth[spell])])
        peak, after = int(spell[0]) - 1, int(spell[-1]) + 1
        recovered = after < len(wealth)
        rows.append(
            {
                "depth": float(depth[trough]),
                "peak": dates[peak],
                "trough": dates[trough],
                "recovery": dates[after] if recovered else pd.NaT,
                "rows_down": trough - peak,
                "rows_under": (after if recovered else len(wealth) - 1) - peak,
            }
        )
    rows.sort(key=lambda row: row["depth"])
    return pd.DataFrame(rows[:count], columns=["depth", "peak", "trough", "recovery", "rows_down", "rows_under"])


def rolling_statistics(
    net_returns: pd.Series[float],
    benchmark: pd.Series[float] | None,
    rows: int,
    *,
    periods_per_year: float,
    risk_free: float = 0.0,
) -> pd.DataFrame:
    """Annualised ``sharpe`` and ``volatility``, and ``beta`` where there is a benchmark, over the past rows.

    NaN before there are as many rows, and where they do not vary.
    """
    rate = per_period_rate(risk_free, periods_per_year)
    window = net_returns.rolling(rows)
    deviation = window.std(ddof=1)
    deviation = deviation.where(deviation > 1e-14)
    root = np.sqrt(periods_per_year)
    found = {"sharpe": root * (window.mean() - rate) / deviation, "volatility": root * deviation}
    if benchmark is not None:
        variance = benchmark.rolling(rows).var(ddof=1)
        found["beta"] = window.cov(benchmark, ddof=1) / variance.where(variance > 1e-28)
    return pd.DataFrame(found)


def _finite(value: float) -> float:
    return float(value) if np.isfinite(value) else float("nan")
