"""Target weights as orders of whole lots of shares, paid for with what is there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.allocation.costs import Costs
from portfolio_dfl.errors import DataError

__all__ = ["Orders", "place_orders"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Orders:
    """Shares to trade, and what is left.

    Attributes
    ----------
    lot : int
        Every order is a multiple of it.
    wealth : float
        Before the orders, in money.
    prices, held, trades, target : Series [N]
        Of one share; shares held, to buy (negative: to sell), and held afterwards. An asset that is cash is counted
        in money.
    turnover : float
        ‖trades‖₁ in shares of wealth, cash left out: never more than that of the weights they come from.
    cost : float
        Of the orders in money, as the study charges them; fixed fees, in units of its first wealth, left out.
    cash : float
        Money left over after orders and their cost, beside what the target keeps in cash.
    """

    lot: int
    wealth: float
    prices: pd.Series[float]
    held: pd.Series[float]
    trades: pd.Series[float]
    target: pd.Series[float]
    turnover: float
    cost: float
    cash: float

    def __str__(self) -> str:
        lots = "whole shares" if self.lot == 1 else f"lots of {self.lot}"
        return (
            f"orders in {lots} at a wealth of {self.wealth:,.2f}: turnover {self.turnover:.4f}, costs about "
            f"{self.cost:,.2f}, cash left over {self.cash:,.2f}"
        )


def place_orders(
    target: pd.Series[float],
    held: pd.Series[float],
    prices: pd.Series[float],
    wealth: float,
    *,
    lot: int = 1,
    shares: pd.Series[float] | None = None,
    costs: Costs | None = None,
) -> Orders:
    """Orders that lead as near to target weights as whole lots and the money allow.

    Every trade is rounded towards none, so that turnover is at most that of the weights. Where sales then bring in less
    than purchases and costs ask for, the largest purchase gives up a lot at a time until they can be paid for.

    Parameters
    ----------
    target, held : Series [N]
        Weights, shares of wealth; what ``held`` leaves to 1 is in cash.
    prices : Series [N]
        Of one share.
    wealth : float
        In money, cash included.
    lot : int
        Shares of one lot.
    shares : Series [N], optional
        Numbers held; by default those that the weights amount to.
    costs : Costs, optional
        Of the trades, with spreads of the date that ``prices`` are named by; its cash is not ordered.

    Raises
    ------
    DataError
        If the lot, the wealth or a price is not positive.
    """
    if lot < 1 or not (np.isfinite(wealth) and wealth > 0.0):
        raise DataError(f"a lot of {lot} and a wealth of {wealth:g} make no orders: both must be positive")
    costs = Costs() if costs is None else costs
    tickers = list(target.index)
    traded = np.array([ticker != costs.cash for ticker in tickers])
    money: FloatArray = np.where(traded, prices[tickers].to_numpy(dtype=np.float64), 1.0)
    if not (money > 0.0).all():
        wrong = int(np.flatnonzero(~(money > 0.0))[0])
        raise DataError(f"{tickers[wrong]} has a price of {money[wrong]:g}: shares need positive prices")
    wanted, owned = target.to_numpy(dtype=np.float64), held.to_numpy(dtype=np.float64)
    before: FloatArray = owned * wealth / money
    if shares is not None:
        before = np.asarray(shares, dtype=np.float64)
    step = np.where(traded, (wanted - owned) * wealth / (money * lot), 0.0)
    # A step that is a whole number but for rounding is that number.
    lots: FloatArray = np.trunc(step + np.sign(step) * 1e-9)
    floor = min(0.0, wealth * float(wanted[~traded].sum()))
    loose = wealth - float((before * money)[traded].sum())
    while True:
        spent = lots * lot * money
        cost = _cost(costs, spent / wealth, prices, tickers) * wealth
        left = loose - float(spent.sum()) - cost
        if left >= floor or not (spent > 0.0).any():  # what is owed then was owed before
            break
        lots[spent.argmax()] -= 1.0
    trades: FloatArray = np.where(traded, lots * lot, left - before)

    def named(values: FloatArray) -> pd.Series[float]:
        return pd.Series(values, index=tickers)

    return Orders(
        lot=lot,
        wealth=wealth,
        prices=named(money),
        held=named(before),
        trades=named(trades),
        target=named(before + trades),
        turnover=float(np.abs(spent).sum()) / wealth,
        cost=cost,
        cash=left if traded.all() else 0.0,
    )


def _cost(costs: Costs, trades: FloatArray, prices: pd.Series[float], tickers: list[str]) -> float:
    """Cost of trades, shares of wealth, on the date of the prices."""
    charges = costs.charges(trades[None], pd.DatetimeIndex([pd.Timestamp(str(prices.name))]), tickers)
    return float(charges.proportional[0] + charges.spread[0] + charges.impact[0])
