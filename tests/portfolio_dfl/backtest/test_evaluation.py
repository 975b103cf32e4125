"""Metrics of a ledger, by empyrical, against skfolio and known numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import skfolio.measures as measures

from portfolio_dfl.backtest import Ledger, run_ledger
from portfolio_dfl.backtest.evaluation import (
    METRICS,
    over_seeds,
    per_period_rate,
    performance,
    performance_table,
    sharpe_ratio,
)
from portfolio_dfl.errors import BacktestError


def ledger_of(net_returns: list[float] | np.ndarray, frequency: str = "B", name: str = "one asset") -> Ledger:
    """Books of a single asset with these returns."""
    dates = pd.date_range("2020-01-03", periods=len(net_returns) + 1, freq=frequency)
    returns = pd.DataFrame({"A": [0.0, *net_returns]}, index=dates)
    return run_ledger(pd.DataFrame({"A": [1.0]}, index=dates[:1]), returns, name=name)


def noise(days: int = 300, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0005, 0.01, days)


def test_metrics_agree_with_skfolio():
    net = noise()
    metrics = performance(ledger_of(net), risk_aversion=4.0)
    spread = float(measures.standard_deviation(net))
    drawdown = -float(measures.max_drawdown(measures.get_drawdowns(net, compounded=True)))
    assert metrics["volatility"] == pytest.approx(spread * 252**0.5, rel=1e-10)
    assert metrics["sharpe"] == pytest.approx(float(measures.mean(net)) / spread * 252**0.5, rel=1e-10)
    assert metrics["max_drawdown"] == pytest.approx(drawdown, rel=1e-10)
    assert metrics["utility"] == pytest.approx(252 * (net.mean() - 2.0 * spread**2), rel=1e-10)
    wealth = float(measures.get_cumulative_returns(net, compounded=True)[-1])
    assert metrics["cagr"] == pytest.approx(wealth ** (252 / 300) - 1.0, rel=1e-10)
    assert list(metrics.index) == list(METRICS)


def test_drawdown_counts_the_starting_value():
    ledger = ledger_of([-0.1, -1.0 / 6.0])
    assert performance(ledger)["max_drawdown"] == pytest.approx(-0.25, abs=1e-12)


@pytest.mark.parametrize("value", [0.0, 1e-4, 0.001, -0.02, 0.1])
def test_equal_returns_have_no_sharpe_ratio(value):
    assert np.isnan(performance(ledger_of([value] * 250))["sharpe"])


def test_equal_returns_of_drifting_assets_have_no_sharpe_ratio():
    dates = pd.bdate_range("2020-01-01", periods=251)
    returns = pd.DataFrame(0.0003, index=dates, columns=list("ABC"))
    targets = pd.DataFrame([(0.21, 0.33, 0.46)], index=dates[:1], columns=list("ABC"))
    assert np.isnan(performance(run_ledger(targets, returns))["sharpe"])


def test_one_day_has_no_volatility():
    metrics = performance(ledger_of([0.01]))
    assert np.isnan(metrics[["volatility", "sharpe", "utility"]]).all()
    assert metrics["final_wealth"] == pytest.approx(1.01)


def test_weekly_data_annualise_by_52():
    net = noise(100)
    metrics = performance(ledger_of(net, frequency="W-FRI"))
    assert metrics["volatility"] == pytest.approx(net.std(ddof=1) * 52**0.5, rel=1e-10)
    assert metrics["sharpe"] == pytest.approx(net.mean() / net.std(ddof=1) * 52**0.5, rel=1e-10)
    assert metrics["cagr"] == pytest.approx(np.prod(1.0 + net) ** (52 / 100) - 1.0, rel=1e-10)


def test_the_risk_free_rate_is_compounded_to_a_daily_one():
    net = pd.Series(noise(), index=pd.bdate_range("2020-01-01", periods=300))
    rate = 1.05 ** (1 / 252) - 1.0
    assert per_period_rate(0.05, 252) == pytest.approx(rate, rel=1e-12)
    expected = 252**0.5 * (net.mean() - rate) / net.std(ddof=1)
    assert sharpe_ratio(net, periods_per_year=252, risk_free=0.05) == pytest.approx(expected, rel=1e-10)


def test_turnover_is_a_daily_average_and_cost_a_yearly_sum(market):
    targets = pd.DataFrame(0.25, index=market.index, columns=market.columns)
    ledger = run_ledger(targets, market, cost_rate=0.001)
    metrics = performance(ledger)
    assert metrics["turnover"] == pytest.approx(ledger.daily["turnover"].mean())
    assert metrics["cost"] == pytest.approx(0.252 * metrics["turnover"])


def test_a_table_has_a_row_a_strategy():
    table = performance_table([ledger_of(noise(seed=1), name="one"), ledger_of(noise(seed=2), name="two")])
    assert table.index.tolist() == ["one", "two"]
    assert table.columns.tolist() == list(METRICS)


def test_strategies_on_different_days_are_not_compared():
    with pytest.raises(BacktestError, match="same days"):
        performance_table([ledger_of(noise(20), name="one"), ledger_of(noise(30), name="two")])


def test_two_strategies_of_one_name_are_refused():
    with pytest.raises(BacktestError, match="name them apart"):
        performance_table([ledger_of(noise()), ledger_of(noise())])


def test_seeds_are_summarised_by_median_and_range():
    tables = {seed: performance_table([ledger_of(noise(seed=seed))]) for seed in range(3)}
    summary = over_seeds(tables)
    values = sorted(table.loc["one asset", "sharpe"] for table in tables.values())
    row = summary.loc["one asset", "sharpe"]
    assert [row["min"], row["median"], row["max"]] == values
