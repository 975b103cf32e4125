"""The books on real prices, against facts known from elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.backtest import roll, run_ledger
from portfolio_dfl.backtest.baselines import BuyAndHold, MinimumVariance, RiskParity
from portfolio_dfl.backtest.evaluation import performance, performance_table
from portfolio_dfl.risk import LedoitWolf


@pytest.fixture(scope="module")
def returns(shared_data: Path) -> pd.DataFrame:
    prices = pd.read_csv(shared_data / "etf7_adj_close.csv", index_col="Date", parse_dates=True)
    return prices.pct_change().iloc[1:]


@pytest.mark.parametrize(
    ("ticker", "year", "earned"), [("VTI", 2013, 0.3345), ("GLD", 2013, -0.2833), ("AGG", 2022, -0.1302)]
)
def test_one_fund_held_for_a_year_earns_what_it_did(returns, ticker, year, earned):
    span = returns.loc[returns.index[returns.index < f"{year}-01-01"][-1] : f"{year}-12-31"]
    targets = pd.DataFrame(0.0, index=span.index[:1], columns=span.columns)
    targets[ticker] = 1.0
    ledger = run_ledger(targets, span, initial=targets.to_numpy()[0])
    assert ledger.daily["wealth"].iloc[-1] - 1.0 == pytest.approx(earned, abs=5e-5)
    assert performance(ledger)["turnover"] == 0.0


def test_the_covid_crash_is_the_worst_day_of_small_companies(returns):
    targets = pd.DataFrame(0.0, index=returns.index[:1], columns=returns.columns).assign(IWM=1.0)
    ledger = run_ledger(targets, returns)
    worst = ledger.daily["gross_return"].idxmin()
    assert worst == pd.Timestamp("2020-03-16")
    assert ledger.daily["gross_return"].loc[worst] == pytest.approx(-0.1327, abs=5e-5)


def test_rules_that_avoid_risk_have_less_of_it_than_holding_everything(returns):
    span = returns.loc["2019":"2021"]
    start = span.index[60]
    policies = [
        BuyAndHold(),
        MinimumVariance(LedoitWolf(60), turnover_limit=0.2),
        RiskParity(LedoitWolf(60), turnover_limit=0.2),
    ]
    books = [run_ledger(roll(p, span, start=start), span, name=p.name) for p in policies]
    table = performance_table(books)
    assert table["volatility"].idxmax() == "1/N buy and hold"
    assert table["volatility"].idxmin() == "minimum variance"
    assert np.isfinite(table.to_numpy()).all()
