"""Books with all costs: against an account kept by hand in shares and money, and what holds for all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portfolio_dfl.allocation.costs import Costs
from portfolio_dfl.backtest import run_ledger
from portfolio_dfl.errors import AllocationError, BacktestError, DataError

TICKERS = ["A", "B", "C"]


def market(seed: int, days: int = 12) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Prices and bid-ask spreads of three assets, weekends and a long holiday among the dates."""
    rng = np.random.default_rng(seed)
    dates = pd.bdate_range("2023-12-20", periods=days).delete(4)
    prices = 100.0 * np.exp(np.cumsum(rng.normal(0.0, 0.02, (len(dates), 3)), axis=0))
    spreads = rng.uniform(0.0001, 0.002, prices.shape)
    return pd.DataFrame(prices, dates, TICKERS), pd.DataFrame(spreads, dates, TICKERS)


def everything(spreads: pd.DataFrame) -> Costs:
    return Costs(
        rate={"A": 0.0005, "B": 0.001, "C": 0.0},
        spreads=spreads,
        impact={"A": 0.02, "B": 0.05, "C": 0.01},
        fixed=0.0001,
        borrow_rate={"A": 0.03, "B": 0.08, "C": 0.0},
    )


@pytest.mark.parametrize("weights", [(0.5, 0.3, 0.2), (0.9, -0.4, 0.5), (1.3, -0.3, 0.0)])
@pytest.mark.parametrize("lag", [0, 1])
def test_shares_bought_and_held_are_worth_what_the_books_say(weights: tuple[float, ...], lag: int) -> None:
    prices, spreads = market(3)
    bought = 2
    target = pd.DataFrame([weights], prices.index[[bought]], TICKERS)
    returns = prices.pct_change().iloc[1:]
    book = run_ledger(target, returns, costs=everything(spreads), lag=lag)

    # By hand: a third of the money in each at the decision, exchanged at the execution; what that costs, and what the
    # lender of sold shares asks for each night, is paid by selling the same part of every position at no cost.
    rate, impact, fee = (0.0005, 0.001, 0.0), (0.02, 0.05, 0.01), (0.03, 0.08, 0.0)
    close = prices.to_numpy()
    shares = 1_000_000.0 / 3.0 / close[bought]
    wealth = []
    for day in range(bought + 1, len(close)):
        if day - 1 == bought + lag:
            money = float(shares @ close[day - 1])
            paid = 0.0
            for i in range(3):
                moved = abs(weights[i] * money - shares[i] * close[day - 1, i])
                paid += moved * rate[i] + moved * spreads.iloc[day - 1, i] / 2.0
                paid += impact[i] * (moved / money) ** 1.5 * money
                paid += 0.0001 * 1_000_000.0 * (moved > 0.0)
            shares = np.array(weights) * (money - paid) / close[day - 1]
        nights = (prices.index[day] - prices.index[day - 1]).days
        lent = sum(max(-shares[i], 0.0) * close[day - 1, i] * fee[i] * nights / 365.0 for i in range(3))
        value = float(shares @ close[day])
        shares = shares * (value - lent) / value
        wealth.append((value - lent) / 1_000_000.0)
    np.testing.assert_allclose(book.daily["wealth"], wealth, rtol=0.0, atol=1e-12)


def test_a_debt_in_cash_pays_interest_for_every_calendar_day() -> None:
    prices, _ = market(5)
    target = pd.DataFrame([(0.9, 0.7, 0.0)], prices.index[[1]], TICKERS)
    book = run_ledger(target, prices.pct_change().iloc[1:], costs=Costs(cash_rate=0.06), initial=np.zeros(3))
    shares, cash, wealth = np.array([0.9, 0.7, 0.0]) / prices.iloc[1].to_numpy(), -0.6, []
    for day in range(2, len(prices)):
        cash *= 1.0 + 0.06 * (prices.index[day] - prices.index[day - 1]).days / 365.0
        wealth.append(float(shares @ prices.iloc[day].to_numpy()) + cash)
    np.testing.assert_allclose(book.daily["wealth"], wealth, rtol=0.0, atol=1e-12)


@st.composite
def traded(draw: st.DrawFn) -> tuple[pd.DataFrame, pd.DataFrame, Costs]:
    """Targets with short positions on most days, returns, and costs of every kind."""
    seed = draw(st.integers(0, 2**32 - 1))
    prices, spreads = market(seed)
    rng = np.random.default_rng(seed)
    free = rng.uniform(-0.4, 0.8, (len(prices) - 1, 2))
    targets = pd.DataFrame(np.column_stack([free, 1.0 - free.sum(axis=1)]), prices.index[:-1], TICKERS).iloc[1:]
    return targets, prices.pct_change().iloc[1:], everything(spreads)


few = settings(max_examples=15, deadline=None)


@few
@given(traded())
def test_the_parts_of_a_cost_add_up_to_it(case: tuple[pd.DataFrame, pd.DataFrame, Costs]) -> None:
    targets, returns, costs = case
    daily = run_ledger(targets, returns, costs=costs).daily
    parts = daily[["proportional_cost", "spread_cost", "impact_cost", "fixed_cost"]]
    np.testing.assert_allclose(parts.sum(axis=1), daily["cost"], rtol=1e-12)
    net = (1.0 - daily["cost"]) * (1.0 + daily["gross_return"] - daily["borrow_cost"]) - 1.0
    np.testing.assert_allclose(daily["net_return"], net, atol=1e-15)


@few
@given(traded())
def test_the_costs_of_the_tickers_add_up(case: tuple[pd.DataFrame, pd.DataFrame, Costs]) -> None:
    targets, returns, costs = case
    together = run_ledger(targets, returns, costs=replace(costs, fixed=0.0)).daily
    alone = []
    for ticker in TICKERS:
        assert costs.spreads is not None
        only = {name: dict.fromkeys(TICKERS, 0.0) | {ticker: getattr(costs, name)[ticker]} for name in _BY_TICKER}
        spreads = costs.spreads.assign(**dict.fromkeys(set(TICKERS) - {ticker}, 0.0))
        alone.append(run_ledger(targets, returns, costs=Costs(spreads=spreads, **only)).daily)
    for column in ("cost", "borrow_cost"):
        np.testing.assert_allclose(sum(daily[column] for daily in alone), together[column], atol=1e-14)


_BY_TICKER = ("rate", "impact", "borrow_rate")


@few
@given(traded(), st.floats(0.0, 3.0))
def test_costs_are_linear_in_their_rates(case: tuple[pd.DataFrame, pd.DataFrame, Costs], factor: float) -> None:
    targets, returns, costs = case
    assert costs.spreads is not None
    scaled = {name: {t: factor * value for t, value in getattr(costs, name).items()} for name in _BY_TICKER}
    once = run_ledger(targets, returns, costs=replace(costs, fixed=0.0)).daily
    more = run_ledger(targets, returns, costs=Costs(spreads=factor * costs.spreads, **scaled)).daily
    for column in ("cost", "borrow_cost"):
        np.testing.assert_allclose(more[column], factor * once[column], rtol=1e-12, atol=1e-300)


@few
@given(traded(), st.permutations(TICKERS))
def test_the_order_of_the_assets_does_not_matter(
    case: tuple[pd.DataFrame, pd.DataFrame, Costs], order: list[str]
) -> None:
    targets, returns, costs = case
    there = run_ledger(targets, returns, costs=costs).daily
    back = run_ledger(targets[order], returns[order], costs=costs).daily
    np.testing.assert_allclose(back, there, rtol=1e-12, atol=1e-14)


@few
@given(traded(), st.floats(0.1, 10.0))
def test_a_fixed_fee_weighs_less_the_larger_the_wealth(
    case: tuple[pd.DataFrame, pd.DataFrame, Costs], size: float
) -> None:
    """The fee is in units of the first wealth: as a share of a wealth ``size`` times as large it is that much less."""
    targets, returns, _ = case
    fee = 1e-4
    money = size * run_ledger(targets, returns, costs=Costs(fixed=fee / size)).daily["wealth"].to_numpy()
    before = np.concatenate([[size], money[:-1]])
    daily = run_ledger(targets, returns, costs=Costs(fixed=fee / size)).daily
    np.testing.assert_allclose(daily["cost"] * before, fee * daily["orders"], rtol=1e-12)


@few
@given(traded())
def test_without_costs_net_is_gross(case: tuple[pd.DataFrame, pd.DataFrame, Costs]) -> None:
    targets, returns, costs = case
    assert costs.spreads is not None
    none = dict.fromkeys(TICKERS, 0.0)
    free = Costs(rate=none, spreads=0.0 * costs.spreads, impact=none, borrow_rate=none)
    daily = run_ledger(targets, returns, costs=free).daily
    np.testing.assert_allclose(daily["net_return"], daily["gross_return"], atol=1e-15)


def test_one_object_of_plain_costs_keeps_the_books_of_two_numbers() -> None:
    prices, _ = market(1)
    targets, returns = pd.DataFrame([(0.7, 0.2, 0.1)] * 4, prices.index[1:5], TICKERS), prices.pct_change().iloc[1:]
    two = run_ledger(targets, returns, cost_rate=0.002, fixed_cost=0.001)
    one = run_ledger(targets, returns, costs=Costs(rate=0.002, fixed=0.001))
    pd.testing.assert_frame_equal(one.daily, two.daily, check_exact=True)
    assert (one.cost_rate, one.fixed_cost, one.costs) == (0.002, 0.001, None)


def test_another_rate_keeps_spreads_impact_and_fees() -> None:
    prices, spreads = market(2)
    targets, returns = pd.DataFrame([(0.7, 0.5, -0.2)] * 4, prices.index[1:5], TICKERS), prices.pct_change().iloc[1:]
    costs = everything(spreads)
    fresh = run_ledger(targets, returns, costs=replace(costs, rate=0.003, fixed=0.0))
    again = run_ledger(targets, returns, costs=costs).with_costs(cost_rate=0.003)
    pd.testing.assert_frame_equal(again.daily, fresh.daily, check_exact=True)
    assert again.with_costs(costs=costs).daily.equals(run_ledger(targets, returns, costs=costs).daily)


def test_an_asset_that_is_cash_is_traded_and_owed_for_free() -> None:
    prices, spreads = market(6)
    targets, returns = pd.DataFrame([(0.9, 0.4, -0.3)] * 3, prices.index[1:4], TICKERS), prices.pct_change().iloc[1:]
    with_cash = replace(everything(spreads.drop(columns="C")), cash="C", rate={"A": 0.0005, "B": 0.001})
    with_cash = replace(with_cash, impact={"A": 0.02, "B": 0.05}, borrow_rate=0.5)
    book = run_ledger(targets, returns, costs=with_cash)
    np.testing.assert_allclose(book.daily["turnover"], book.trades[["A", "B"]].abs().sum(axis=1), rtol=1e-15)
    assert book.daily["orders"].max() == 2
    assert (book.daily["borrow_cost"] == 0.0).all()
    free = run_ledger(targets, returns, costs=replace(everything(spreads), borrow_rate=0.0)).daily
    column = ["spread_cost", "proportional_cost"]
    charged = free[column].sum(axis=1) - book.trades["C"].abs() * spreads["C"].shift(1)[book.trades.index] / 2.0
    np.testing.assert_allclose(book.daily[column].sum(axis=1), charged, atol=1e-15)


def test_a_missing_spread_is_an_error_where_something_was_traded() -> None:
    prices, spreads = market(4)
    targets, returns = pd.DataFrame([(0.7, 0.2, 0.1)], prices.index[[3]], TICKERS), prices.pct_change().iloc[1:]
    spreads.loc[prices.index[5], "B"] = np.nan
    run_ledger(targets, returns, costs=Costs(spreads=spreads))
    spreads.loc[prices.index[3], "C"] = np.nan
    with pytest.raises(DataError, match=rf"spread of C on {prices.index[3].date()} is missing"):
        run_ledger(targets, returns, costs=Costs(spreads=spreads))


def test_fees_that_use_up_the_wealth_are_an_error_with_their_date() -> None:
    prices, _ = market(4)
    targets, returns = pd.DataFrame([(2.0, -1.0, 0.0)], prices.index[[1]], TICKERS), prices.pct_change().iloc[1:]
    with pytest.raises(BacktestError, match=rf"lost everything on {prices.index[2].date()}.*borrowed"):
        run_ledger(targets, returns, costs=Costs(borrow_rate=400.0))


def test_tickers_that_do_not_fit_are_named() -> None:
    prices, spreads = market(4)
    targets, returns = pd.DataFrame([(0.7, 0.2, 0.1)], prices.index[[3]], TICKERS), prices.pct_change().iloc[1:]
    with pytest.raises(AllocationError, match=r"rate has no value for C and values for D"):
        run_ledger(targets, returns, costs=Costs(rate={"A": 0.1, "B": 0.1, "D": 0.1}))
    with pytest.raises(DataError, match="no column for B"):
        run_ledger(targets, returns, costs=Costs(spreads=spreads.drop(columns="B")))


def test_costs_are_given_once() -> None:
    prices, _ = market(4)
    targets, returns = pd.DataFrame([(0.7, 0.2, 0.1)], prices.index[[3]], TICKERS), prices.pct_change().iloc[1:]
    with pytest.raises(BacktestError, match="leave out cost_rate"):
        run_ledger(targets, returns, cost_rate=0.1, costs=Costs(rate=0.1))
    with pytest.raises(BacktestError, match="leave out cash"):
        run_ledger(targets, returns, cash=0.0, costs=Costs(cash_rate=0.1))
