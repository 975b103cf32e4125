"""The books of a strategy: what it held, traded, paid and was worth, one row a day.

A row is the time from one close to the next. It opens with the trade made at the close before, which is
paid at once, and ends with the day's return on the weights held through it:

    trade_t   = executed_t − drifted_t              turnover_t = ‖trade_t‖₁
    cost_t    = cost_rate · turnover_t + spread_t + impact_t + fixed_cost · orders_t / wealth_{t−1}
    net_t     = (1 − cost_t)(1 + gross_t − borrow_t) − 1       wealth_t = wealth_{t−1} (1 + net_t)

Wealth before the first row is 1. Costs of trading (:class:`~portfolio_dfl.allocation.costs.Costs`) are paid at once,
fees for borrowed positions at the end of the day. Both lower the wealth of all positions alike, so that weights drift
as if there were none.

Assets that may be held at some closes only are sold at the first close at which they may not be, like any trade at its
costs; what they bring goes into cash where there is some, else into the others held, in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.allocation import drift_weights
from portfolio_dfl.allocation.costs import Costs, calendar_years
from portfolio_dfl.backtest.frames import equal_weights, require_fully_invested, require_returns
from portfolio_dfl.backtest.leaving import drifted, membership, open_through, require_members, sold
from portfolio_dfl.errors import BacktestError

__all__ = ["CASH", "Ledger", "charged_with", "run_ledger"]

FloatArray = NDArray[np.float64]

CASH = "cash"

# A trade below this in every asset is the noise of a solver at rest, not an order.
TRADE_TOLERANCE = 1e-8


@dataclass(frozen=True)
class Ledger:
    """Books of one strategy; every frame has one row a day of return, in order of date.

    Attributes
    ----------
    name : str
        The strategy.
    daily : DataFrame
        ``gross_return`` (of the weights held), ``turnover`` (‖trade‖₁ without cash, a share of wealth), ``orders``
        (assets traded), ``cost`` (of trading, share of wealth), ``net_return``, ``wealth`` (at the end of the day, 1
        before the first). Where more is charged than one proportional rate and a fixed cost, also what adds up to
        ``cost`` (``proportional_cost``, ``spread_cost``, ``impact_cost``, ``fixed_cost``), and ``borrow_cost``.
    weights : DataFrame
        Weights held through the day, after the trade that opens it; with a ``cash`` column where cash is
        kept.
    trades : DataFrame
        Signed change of each asset's weight by the trade that opens the day.
    cost_rate : float
        Cost of trading one unit of wealth: 0.001 is 10 basis points; NaN where it differs between assets.
    fixed_cost : float
        Cost of one order, in units of the starting wealth.
    lag : int
        Closes between a decision and its trade.
    costs : Costs, optional
        All that was charged; None stands for the two numbers above.
    opened : Timestamp, optional
        Close at which the books open, that of the first row's trade.
    """

    name: str
    daily: pd.DataFrame
    weights: pd.DataFrame
    trades: pd.DataFrame
    cost_rate: float
    fixed_cost: float
    lag: int
    costs: Costs | None = None
    opened: pd.Timestamp | None = None

    @property
    def net_returns(self) -> pd.Series[float]:
        """Returns after costs, one a day."""
        return self.daily["net_return"]

    @property
    def holds_cash(self) -> bool:
        """Whether the last column of the weights is cash; an asset may have its name where no cash is kept."""
        return self.weights.shape[1] > self.trades.shape[1]

    def with_costs(
        self, *, cost_rate: float | None = None, fixed_cost: float = 0.0, costs: Costs | None = None
    ) -> Ledger:
        """The same holdings at other costs: what is held and traded does not depend on what trading costs.

        Parameters
        ----------
        cost_rate : float, optional
            Proportional rate of every asset, in place of the present one; spreads, impact and borrow rates are kept.
        fixed_cost : float
            Goes with ``cost_rate``.
        costs : Costs, optional
            In place of all that is charged; its ``cash_rate`` is not looked at, for cash is among the holdings.

        Raises
        ------
        BacktestError
            If neither or both are given, or wealth is used up.
        """
        if (cost_rate is None) == (costs is None):
            raise BacktestError("other costs are one rate, or an object of all costs: give cost_rate or costs")
        if cost_rate is not None:
            _check_costs(cost_rate, fixed_cost)
            now = Costs() if self.costs is None else self.costs
            costs = replace(now, rate=cost_rate, fixed=fixed_cost)
        assert costs is not None
        flows = self.daily[["gross_return", "turnover", "orders"]]
        assets = self.weights[list(self.trades.columns)] if self.holds_cash else self.weights
        daily = _charge(flows, self.trades, assets, costs, self.opened)
        return replace(self, daily=daily, **charged_with(costs))


def charged_with(costs: Costs) -> dict[str, Any]:
    """The costs as attributes of a :class:`Ledger`."""
    rate = float("nan") if isinstance(costs.rate, Mapping) else costs.rate
    return {"cost_rate": rate, "fixed_cost": costs.fixed, "costs": None if costs.plain else costs}


def run_ledger(
    target_weights: pd.DataFrame,
    returns: pd.DataFrame,
    *,
    cost_rate: float = 0.0,
    fixed_cost: float = 0.0,
    lag: int = 0,
    initial: FloatArray | None = None,
    cash: float | pd.Series[float] | None = None,
    costs: Costs | None = None,
    members: pd.DataFrame | None = None,
    name: str = "",
) -> Ledger:
    """Keep the books of target weights against realised returns.

    Parameters
    ----------
    target_weights : DataFrame, shape (decisions, N)
        Weights decided at the close of the row's date with what was known then. Dates without a row, and
        rows that are NaN throughout, place no order: what is held drifts.
    returns : DataFrame, shape (T, N)
        Simple returns of the same assets. The books run from the day after the first decision to the last
        return; a decision at the last date has no return to earn and leaves no trace.
    cost_rate : float
        Proportional cost of trading one unit of wealth, charged on ‖trade‖₁: 0.001 is 10 basis points.
    fixed_cost : float
        Cost of one order (one asset on one day), in units of the starting wealth.
    lag : {0, 1}
        0: a decision is traded at the close at which it is taken and earns the next day's return.
        1: it is traded one close later.
    initial : array, shape (N,), optional
        Weights held when the books open; 1/N by default. Zeros, with ``cash=0.0``, start from cash.
    cash : float or Series, optional
        Return of cash a day, as one number or by date. What the targets leave is then held in a ``cash``
        column, whose movements are not trades. By default targets must be fully invested.
    costs : Costs, optional
        In place of ``cost_rate`` and ``fixed_cost``, and with a ``cash_rate`` of ``cash`` too: rates by ticker,
        spreads by date, market impact, and fees for short positions, for each day held by the calendar.
    members : DataFrame of bool, shape (T, N), optional
        Whether an asset may be held at the close of a date; all may by default. An asset that may not be held any more
        is sold at that close, after the return of its row, which may be −1; an order for it is carried out as if it
        had been sold. Returns are asked for of what may be held at the close before alone.
    name : str
        The strategy's name.

    Returns
    -------
    Ledger

    Raises
    ------
    BacktestError
        If frames do not fit together, weights are not a portfolio, costs are negative, or wealth is used up.

    Examples
    --------
    >>> import pandas as pd
    >>> from portfolio_dfl import run_ledger
    >>> days = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04"])
    >>> returns = pd.DataFrame({"A": [0.0, 0.10, 0.0], "B": [0.0, 0.0, 0.02]}, index=days)
    >>> targets = pd.DataFrame({"A": [1.0], "B": [0.0]}, index=days[:1])
    >>> book = run_ledger(targets, returns, cost_rate=0.001)
    >>> book.daily[["turnover", "cost", "net_return", "wealth"]].round(4)
                turnover   cost  net_return  wealth
    2024-01-03       1.0  0.001      0.0989  1.0989
    2024-01-04       0.0  0.000      0.0000  1.0989
    """
    may_hold = membership(members, returns)
    require_returns(returns, may_hold)
    _check_costs(cost_rate, fixed_cost)
    if costs is None:
        costs = Costs(rate=cost_rate, fixed=fixed_cost)
    elif cost_rate or fixed_cost:
        raise BacktestError("costs hold the rate and the fixed cost: leave out cost_rate and fixed_cost, or costs")
    if lag not in (0, 1):
        raise BacktestError(f"lag must be 0 or 1 close, got {lag}")
    targets = _aligned_targets(target_weights, returns)
    dates = pd.DatetimeIndex(returns.index)
    first = int(dates.searchsorted(target_weights.index[0])) + 1
    days = dates[first:]
    if len(days) == 0:
        raise BacktestError(
            f"the first decision, {target_weights.index[0].date()}, is on the last date of the returns: "
            "there is no return to earn"
        )
    held = equal_weights(returns.shape[1]) if initial is None else np.array(initial, dtype=np.float64)
    if held.shape != (returns.shape[1],):
        raise BacktestError(f"initial weights have shape {held.shape}, there are {returns.shape[1]} assets")

    values = returns.to_numpy(dtype=np.float64)
    assets = list(returns.columns)
    costs.check(assets)
    # Where trades of an asset that is cash are no trades, what is sold becomes cash.
    into = assets.index(costs.cash) if costs.cash in assets else None
    if may_hold is not None:
        if initial is None:
            held = sold(held, may_hold[first - 1])
        values = np.where(open_through(may_hold), values, 0.0)
        for row, date in zip(targets, target_weights.index, strict=True):
            there = may_hold[dates.get_loc(date)]
            require_members(row, there, list(map(str, assets)), f"target weights of {date.date()}")
    if cash is not None and costs.cash_rate is not None:
        raise BacktestError("costs have a cash_rate: leave out cash, or the rate")
    if costs.cash_rate is not None:
        cash = pd.Series(costs.cash_rate * calendar_years(dates), index=dates[1:]).reindex(dates, fill_value=0.0)
    if cash is None:
        require_fully_invested(held, "initial weights")
    else:
        if CASH in assets:
            raise BacktestError(f"an asset is named {CASH!r} like the column that cash is kept in: rename it")
        values = np.column_stack([values, _cash_returns(cash, dates)])
        held = np.append(held, 1.0 - held.sum())
        if may_hold is not None:
            may_hold = np.column_stack([may_hold, np.ones(len(may_hold), dtype=np.bool_)])
        into = len(assets)
        targets = np.column_stack([targets, 1.0 - targets.sum(axis=1)])
        assets = [*assets, CASH]
    for row, date in zip(targets, target_weights.index, strict=False):
        if not np.isnan(row).all():
            require_fully_invested(row, f"target weights of {date.date()}")

    orders = np.full_like(values, np.nan)
    orders[dates.get_indexer(target_weights.index)] = targets
    weights, trades, gross = _keep_books(held, orders, values, first, lag, days, may_hold, into)
    traded = trades if cash is None else trades[:, :-1]
    moved = np.abs(traded)
    if costs.cash in list(returns.columns):  # an asset that is cash takes what the trades of the others leave
        moved = np.delete(moved, list(returns.columns).index(costs.cash), axis=1)
    flows = pd.DataFrame(
        {
            "gross_return": gross,
            "turnover": moved.sum(axis=1),
            "orders": (moved > TRADE_TOLERANCE).sum(axis=1),
        },
        index=days,
    )
    held_through = pd.DataFrame(weights, index=days, columns=assets)
    orders_of = pd.DataFrame(traded, index=days, columns=returns.columns)
    opened = dates[first - 1]
    return Ledger(
        name=name,
        daily=_charge(flows, orders_of, held_through[list(returns.columns)], costs, opened),
        weights=held_through,
        trades=orders_of,
        lag=lag,
        opened=opened,
        **charged_with(costs),
    )


def _keep_books(
    held: FloatArray,
    orders: FloatArray,
    values: FloatArray,
    first: int,
    lag: int,
    days: pd.DatetimeIndex,
    may_hold: NDArray[np.bool_] | None,
    cash: int | None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Trade, hold, drift, day by day; weights and trades [days, M] and the gross return [days] of each."""
    weights = np.empty((len(days), values.shape[1]))
    trades = np.zeros_like(weights)
    gross = np.empty(len(days))
    for row, day in enumerate(range(first, len(values))):
        decided = day - 1 - lag
        order = orders[decided]
        here = None if may_hold is None else may_hold[day - 1]
        # Before the first decision there is nothing to look up (a negative position would wrap around).
        ordered = decided >= first - 1 and not np.isnan(order).any()
        target = sold(order if ordered else held, here, cash)
        if ordered or target is not held:
            trade = target - held
            must = here is not None and bool((~here & (held != 0.0)).any())
            if must or np.abs(trade).max() > TRADE_TOLERANCE:
                held, trades[row] = target, trade
        weights[row] = held
        gross[row] = held @ values[day]
        if not gross[row] > -1.0:
            raise BacktestError(f"the portfolio lost everything on {days[row].date()}: a return of {gross[row]}")
        if here is None:
            held = drift_weights(held, values[day])
        else:
            held, gross[row] = drifted(held, values[day])
    return weights, trades, gross


def _charge(
    flows: pd.DataFrame, trades: pd.DataFrame, weights: pd.DataFrame, costs: Costs, opened: pd.Timestamp | None
) -> pd.DataFrame:
    """Costs, net returns and wealth of a day's gross return, turnover and orders.

    Trades and weights are those of the assets, without cash.
    """
    days = pd.DatetimeIndex(flows.index)
    fees = np.zeros(len(days))
    parts: dict[str, FloatArray] = {}
    if costs.plain and not isinstance(costs.rate, Mapping):
        variable = costs.rate * flows["turnover"].to_numpy(dtype=np.float64)
    else:
        if opened is None:
            raise BacktestError("these books do not say at which close they open: keep them anew with run_ledger")
        tickers = list(trades.columns)
        closes = pd.DatetimeIndex([opened, *days])
        charges = costs.charges(trades.to_numpy(dtype=np.float64), closes[:-1], tickers)
        fees = costs.borrow_fees(weights.to_numpy(dtype=np.float64), calendar_years(closes), tickers)
        variable = charges.proportional + charges.spread + charges.impact
        parts = {
            "proportional_cost": charges.proportional,
            "spread_cost": charges.spread,
            "impact_cost": charges.impact,
            "fixed_cost": np.zeros(len(days)),
            "borrow_cost": fees,
        }
    net = np.empty(len(days))
    cost = np.empty(len(days))
    wealth = 1.0
    columns = (flows["gross_return"], variable, flows["orders"], fees)
    for row, (gross, traded, orders, fee) in enumerate(zip(*columns, strict=True)):
        fixed = costs.fixed * orders / wealth
        cost[row] = traded + fixed
        if not cost[row] < 1.0:
            raise BacktestError(
                f"trading on {days[row].date()} costs {cost[row]:.3g} of the wealth: "
                "the portfolio cannot pay for it; lower the costs or trade less"
            )
        if not gross - fee > -1.0:
            raise BacktestError(
                f"the portfolio lost everything on {days[row].date()}: a return of {gross:.3g}, and {fee:.3g} of the "
                "wealth for borrowed positions"
            )
        if parts:
            parts["fixed_cost"][row] = fixed
        net[row] = (1.0 - cost[row]) * (1.0 + gross - fee) - 1.0
        wealth *= 1.0 + net[row]
    return flows.assign(cost=cost, net_return=net, wealth=np.cumprod(1.0 + net), **parts)


def _aligned_targets(target_weights: pd.DataFrame, returns: pd.DataFrame) -> FloatArray:
    """Target weights in the order of the returns' columns, once their dates and names are known to fit."""
    if len(target_weights) == 0:
        raise BacktestError("there are no target weights: the books need one decision at least")
    if not (target_weights.index.is_monotonic_increasing and target_weights.index.is_unique):
        raise BacktestError("target weights must have strictly increasing dates, each once")
    unknown = target_weights.index.difference(returns.index)
    if len(unknown) > 0:
        raise BacktestError(f"target weights are dated {unknown[0]}, a date that the returns do not have")
    different = target_weights.columns.symmetric_difference(returns.columns)
    if len(different) > 0:
        raise BacktestError(f"target weights and returns are not for the same assets: {list(different)}")
    return target_weights[list(returns.columns)].to_numpy(dtype=np.float64)


def _cash_returns(cash: float | pd.Series[float], dates: pd.DatetimeIndex) -> FloatArray:
    """Return of cash on every date of the returns."""
    if not isinstance(cash, pd.Series):
        daily = np.full(len(dates), float(cash))
    else:
        missing = dates.difference(pd.DatetimeIndex(cash.index))
        if len(missing) > 0:
            raise BacktestError(f"the return of cash on {missing[0].date()} is missing")
        daily = cash.loc[dates].to_numpy(dtype=np.float64)
    if not (np.isfinite(daily).all() and (daily > -1.0).all()):
        raise BacktestError("returns of cash must be finite and above -1 a day")
    return daily


def _check_costs(cost_rate: float, fixed_cost: float) -> None:
    for what, value in (("cost_rate", cost_rate), ("fixed_cost", fixed_cost)):
        if not (np.isfinite(value) and value >= 0.0):
            raise BacktestError(f"{what} must be finite and not negative, got {value}")
