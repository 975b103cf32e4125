"""What costs do to a result."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.backtest import run_ledger
from portfolio_dfl.backtest.costs import break_even_cost, cost_levels
from portfolio_dfl.backtest.evaluation import performance


@pytest.fixture
def books(market):
    """A strategy that trades and is ahead, and one that holds."""
    best = np.zeros_like(market.to_numpy())
    best[np.arange(len(market) - 1), market.to_numpy()[1:].argmax(axis=1)] = 1.0
    best[-1, 0] = 1.0
    trading = pd.DataFrame(best, index=market.index, columns=market.columns)
    holding = pd.DataFrame(0.25, index=market.index[:1], columns=market.columns)
    return run_ledger(trading, market, name="trading"), run_ledger(holding, market, name="holding")


def test_cost_levels_are_fresh_runs_at_these_costs(books):
    table = cost_levels(books, (0.0, 0.001))
    assert table.index.tolist() == [(n, c) for n in ("trading", "holding") for c in (0.0, 0.001)]
    expected = performance(books[0].with_costs(cost_rate=0.001))
    np.testing.assert_allclose(table.loc[("trading", 0.001)], expected)


def test_fixed_costs_stay_at_every_level(books):
    charged = books[0].with_costs(cost_rate=0.0, fixed_cost=1e-4)
    table = cost_levels([charged], (0.0, 0.001))
    expected = performance(books[0].with_costs(cost_rate=0.001, fixed_cost=1e-4))
    np.testing.assert_allclose(table.loc[("trading", 0.001)], expected)


def test_a_benchmark_that_trades_pays_the_same_rate(books, market):
    rebalanced = run_ledger(pd.DataFrame(0.25, index=market.index, columns=market.columns), market, name="rebalanced")
    rate = break_even_cost(books[0], rebalanced)
    ends = [book.with_costs(cost_rate=rate).daily["wealth"].iloc[-1] for book in (books[0], rebalanced)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


def test_at_the_break_even_cost_both_end_with_the_same_wealth(books):
    rate = break_even_cost(*books)
    trading, holding = (book.with_costs(cost_rate=rate) for book in books)
    assert 0.0 < rate < 1.0
    assert trading.daily["wealth"].iloc[-1] == pytest.approx(holding.daily["wealth"].iloc[-1], rel=1e-9)


def test_a_strategy_that_is_behind_without_costs_has_no_break_even(books):
    assert math.isnan(break_even_cost(books[1], books[0]))


def test_a_lead_without_trading_survives_every_cost(market):
    whole = pd.DataFrame([np.eye(4)[int(np.argmax((1 + market.iloc[1:]).prod()))]], index=market.index[:1])
    whole.columns = market.columns
    best = run_ledger(whole, market, initial=whole.to_numpy()[0], name="best")
    holding = run_ledger(pd.DataFrame(0.25, index=whole.index, columns=whole.columns), market, name="holding")
    assert break_even_cost(best, holding) == math.inf


def test_a_break_even_beyond_all_that_is_traded_is_none(market):
    """Turnover a hair above the benchmark's: a rate of several hundred per cent could not be charged."""
    steady = run_ledger(pd.DataFrame(0.25, index=market.index, columns=market.columns), market, name="steady")
    daily = steady.daily.assign(turnover=steady.daily["turnover"] + 1e-6)
    ahead = replace(steady, daily=daily.assign(gross_return=daily["gross_return"] + 1e-5))
    assert break_even_cost(ahead, steady) == math.inf
