"""Orders of whole lots: within the turnover of the weights, paid for, and every coin accounted for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portfolio_dfl.allocation.costs import Costs
from portfolio_dfl.errors import DataError
from portfolio_dfl.study.orders import place_orders

TICKERS = ["A", "B", "C", "D"]
DAY = pd.Timestamp("2024-03-01")


def case(seed: int, *, short: bool) -> tuple[pd.Series, pd.Series, pd.Series]:
    """Target and held weights, some of them in cash, and prices."""
    rng = np.random.default_rng(seed)
    low = -0.3 if short else 0.0
    weights = rng.uniform(low, 1.0, (2, 4)) + np.array([0.0, 0.0, 0.0, 0.4])
    weights /= weights.sum(axis=1, keepdims=True)
    weights[1] *= rng.uniform(0.8, 1.0)
    return *(pd.Series(row, TICKERS) for row in weights), pd.Series(rng.uniform(1.0, 300.0, 4), TICKERS, name=DAY)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 7, 100]), st.booleans(), st.floats(0.0, 0.01))
def test_lots_keep_turnover_money_and_the_side_of_every_trade(seed: int, lot: int, short: bool, rate: float) -> None:
    target, held, prices = case(seed, short=short)
    wealth = 250_000.0
    orders = place_orders(target, held, prices, wealth, lot=lot, costs=Costs(rate=rate))
    np.testing.assert_allclose(orders.trades / lot, np.round(orders.trades / lot), atol=1e-9)
    assert (orders.trades * (target - held) >= 0.0).all()
    assert orders.turnover <= (target - held).abs().sum() + 1e-9
    assert orders.cash >= 0.0
    paid = float((orders.trades * prices).sum()) + orders.cost
    assert orders.cash == pytest.approx(wealth * (1.0 - held.sum()) - paid, abs=1e-6)
    assert orders.cost == pytest.approx(rate * float((orders.trades * prices).abs().sum()), abs=1e-6)


def test_purchases_give_up_lots_until_costs_are_paid_for() -> None:
    held, target = pd.Series([1.0, 0.0], ["A", "B"]), pd.Series([0.5, 0.5], ["A", "B"])
    prices = pd.Series([10.0, 10.0], ["A", "B"], name=DAY)
    free = place_orders(target, held, prices, 1000.0)
    assert (free.trades.to_list(), free.cash) == ([-50.0, 50.0], 0.0)
    charged = place_orders(target, held, prices, 1000.0, costs=Costs(rate=0.01))
    assert charged.trades.to_list() == [-50.0, 49.0]
    assert charged.cash == pytest.approx(10.0 - 9.9)


def test_an_asset_that_is_cash_takes_what_is_left() -> None:
    held, target = pd.Series([0.5, 0.5], ["A", "M"]), pd.Series([0.705, 0.295], ["A", "M"])
    prices = pd.Series([100.0, 1.01], ["A", "M"], name=DAY)
    orders = place_orders(target, held, prices, 10_000.0, costs=Costs(rate=0.001, cash="M"))
    assert orders.trades["A"] == 20.0
    assert orders.target["M"] == pytest.approx(5000.0 - 2000.0 - 2.0)
    assert (orders.cash, orders.turnover) == (0.0, 0.2)


def test_orders_need_money_and_prices() -> None:
    target = held = pd.Series([1.0], ["A"])
    with pytest.raises(DataError, match="wealth of 0"):
        place_orders(target, held, pd.Series([1.0], ["A"], name=DAY), 0.0)
    with pytest.raises(DataError, match="A has a price of 0"):
        place_orders(target, held, pd.Series([0.0], ["A"], name=DAY), 1.0)
