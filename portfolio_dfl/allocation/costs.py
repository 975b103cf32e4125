"""What trading and holding cost: one object that the plan and the books both read.

A trade u of one asset, a share of wealth, costs at most

    (rate + spread / 2) |u| + impact |u|^{3/2}

of the wealth, and ``fixed`` an order; a short position costs its borrow rate for as long as it is held. The books
charge exactly this. The plan counts what keeps it a quadratic program: the linear part as it is, with the spreads
known at the decision, and for the impact the parabola through the same cost at a typical trade size u₀,

    impact / √u₀ · u²,

which asks too little of smaller trades and too much of larger ones. Short positions cost it their borrow rate for
the length of a stage. Fixed costs it leaves out.
The 3/2 power is the square-root law of market impact: Almgren, Thum, Hauptmann and Li (2005), *Direct estimation of
equity market impact*, Risk 18(7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.errors import AllocationError, DataError
from portfolio_dfl.scalars import require_number

__all__ = ["Charges", "Costs", "PlanTerms", "Rate", "calendar_years"]

FloatArray = NDArray[np.float64]

#: One number for all assets, or one for each by ticker, where "*" stands for all that are not named.
Rate: TypeAlias = float | Mapping[str, float]

_OTHERS = "*"
# Interest and borrow fees accrue by the calendar, actual days over 365.
DAYS_A_YEAR = 365.0


class PlanTerms(TypedDict):
    """Costs as :class:`~portfolio_dfl.allocation.MultiPeriodMeanVariance` takes them, numbers or arrays [N]."""

    transaction_cost: float | FloatArray
    market_impact: float | FloatArray
    borrow_cost: float | FloatArray


@dataclass(frozen=True)
class Charges:
    """Costs of the trades of T days, shares of the wealth before the trade, each [T]."""

    proportional: FloatArray
    spread: FloatArray
    impact: FloatArray


@dataclass(frozen=True, eq=False)
class Costs:
    """Costs of trading and holding; by default none.

    Attributes
    ----------
    rate : float or mapping of ticker to float
        Proportional cost of a unit traded: 0.001 is 10 basis points.
    spreads : DataFrame, shape (dates, N), optional
        Bid–ask spreads, shares of the price: (ask − bid) / mid. A trade pays half of the spread of the date on which
        it is executed; the plan counts half of that of the decision date. Nothing is filled in.
    impact : float or mapping of ticker to float
        Coefficient k of ``k |u|^{3/2}``, the share of wealth that a trade u, a share of wealth too, moves prices by
        against itself. The square-root law has k = Y σ √(wealth / daily volume) with a Y of about 1; how large the
        portfolio is beside the market is taken not to change.
    typical_trade : float
        Trade u₀ > 0 at which the plan's parabola costs what the 3/2 power does.
    fixed : float
        Of one order, in units of the first wealth; charged by the books alone.
    borrow_rate : float or mapping of ticker to float
        Of short positions, a year: ``rate · days / 365`` of the position's value for every day held, paid at the end
        of the day.
    cash_rate : float, optional
        Interest a year, ``rate · days / 365``, on what the weights leave in cash, and on what they owe. None: books
        that must be fully invested.
    in_plan : bool
        Whether the plan counts rate, spreads, impact and borrow rate.
    planned_rate : float or mapping of ticker to float, optional
        Proportional rate that the plan counts in place of ``rate``, whatever ``in_plan`` says.
    stage_years : float
        Length of one stage of the plan in years, for borrow rates; by default one of 252 trading days.
    cash : str, optional
        Ticker that is cash: its trades cost nothing, and a debt in it is no borrowed position.

    Raises
    ------
    AllocationError
        If a number is negative or not finite.
    DataError
        If spreads are not a table of shares by date.
    """

    rate: Rate = 0.0
    spreads: pd.DataFrame | None = None
    impact: Rate = 0.0
    typical_trade: float = 0.01
    fixed: float = 0.0
    borrow_rate: Rate = 0.0
    cash_rate: float | None = None
    in_plan: bool = True
    planned_rate: Rate | None = None
    stage_years: float = 1.0 / 252.0
    cash: str | None = None

    def __post_init__(self) -> None:
        for name in ("rate", "impact", "borrow_rate", "planned_rate"):
            _require_rate(name, getattr(self, name))
        require_number(AllocationError, "fixed", self.fixed, least=0.0)
        require_number(AllocationError, "typical_trade", self.typical_trade, above=0.0)
        require_number(AllocationError, "stage_years", self.stage_years, above=0.0)
        if self.cash_rate is not None:
            require_number(AllocationError, "cash_rate", self.cash_rate, above=-1.0)
        if self.spreads is not None:
            _require_spreads(self.spreads)

    @property
    def plain(self) -> bool:
        """Whether one proportional rate and one fixed cost are all that the books charge."""
        return (
            not isinstance(self.rate, Mapping)
            and self.spreads is None
            and not _positive(self.impact)
            and not _positive(self.borrow_rate)
        )

    def check(self, tickers: Sequence[str]) -> None:
        """Make sure that every asset has its numbers, and that nobody else has.

        Raises
        ------
        AllocationError, DataError
            Naming the tickers.
        """
        for name in ("rate", "impact", "borrow_rate", "planned_rate"):
            value = getattr(self, name)
            if value is not None:
                self._each(name, value, tickers)
        if self.spreads is not None:
            lacking = [str(one) for one in tickers if one not in self.spreads.columns and one != self.cash]
            if lacking:
                raise DataError(f"the table of spreads has no column for {', '.join(lacking)}: one a ticker is needed")

    def book_rates(self, tickers: Sequence[str]) -> tuple[FloatArray, FloatArray]:
        """Proportional rates and coefficients of the impact that the books charge, [N] each; 0 for cash."""
        return self._each("rate", self.rate, tickers), self._each("impact", self.impact, tickers)

    def plan_rate(self, tickers: Sequence[str]) -> float | FloatArray:
        """Proportional cost that the plan counts beside spreads: one number, or an array [N]."""
        rate: Rate | None = self.planned_rate
        if rate is None:
            rate = self.rate if self.in_plan else 0.0
        return self._each("rate", rate, tickers) if isinstance(rate, Mapping) else float(rate)

    def plan_rates(self, dates: pd.DatetimeIndex, tickers: Sequence[str]) -> FloatArray | None:
        """Linear cost that the plan counts at each decision date, [T, N]; None where it is that of `plan_rate`."""
        if self.spreads is None or not self.in_plan:
            return None
        found: FloatArray = self.plan_rate(tickers) + 0.5 * self.spreads_on(dates, tickers)
        return found

    def plan_impact(self, tickers: Sequence[str]) -> float | FloatArray:
        """Coefficient b of the plan's ``b u²``: one number, or an array [N]."""
        if not self.in_plan or not _positive(self.impact):
            return 0.0
        scale: float = self.typical_trade**-0.5
        if isinstance(self.impact, Mapping):
            return scale * self._each("impact", self.impact, tickers)
        return scale * float(self.impact)

    def plan_borrow(self, tickers: Sequence[str]) -> float | FloatArray:
        """Cost of a unit held short for one stage of the plan: one number, or an array [N]."""
        if not self.in_plan:
            return 0.0
        if isinstance(self.borrow_rate, Mapping):
            return self.stage_years * self._each("borrow_rate", self.borrow_rate, tickers)
        return self.stage_years * float(self.borrow_rate)

    def plan_terms(self, tickers: Sequence[str]) -> PlanTerms:
        """What the plan counts whatever the date, as arguments of the portfolio layer."""
        return {
            "transaction_cost": self.plan_rate(tickers),
            "market_impact": self.plan_impact(tickers),
            "borrow_cost": self.plan_borrow(tickers),
        }

    def spreads_on(
        self, dates: pd.DatetimeIndex, tickers: Sequence[str], where: NDArray[np.bool_] | None = None
    ) -> FloatArray:
        """Spreads of dates, [T, N]; zeros without a table.

        Parameters
        ----------
        dates : DatetimeIndex [T]
        tickers : sequence of N str
        where : array of bool, shape (T, N), optional
            Values that are asked for; the others are 0. All by default.

        Raises
        ------
        DataError
            If one is missing, naming the first ticker and date.
        """
        wanted = np.ones((len(dates), len(tickers)), dtype=np.bool_) if where is None else where
        wanted = wanted & np.array([ticker != self.cash for ticker in tickers], dtype=np.bool_)
        if self.spreads is None:
            return np.zeros(wanted.shape)
        values = self.spreads.reindex(index=dates, columns=list(tickers)).to_numpy(dtype=np.float64)
        missing = np.argwhere(wanted & np.isnan(values))
        if len(missing):
            row, column = missing[0]
            raise DataError(
                f"the bid-ask spread of {tickers[column]} on {dates[row].date()} is missing, {len(missing)} of "
                f"{int(wanted.sum())} values asked for in all: complete the table, for none is filled in"
            )
        return np.where(wanted, values, 0.0)

    def charges(self, trades: FloatArray, executed: pd.DatetimeIndex, tickers: Sequence[str]) -> Charges:
        """Costs of trades.

        Parameters
        ----------
        trades : array, shape (T, N)
            Shares of wealth.
        executed : DatetimeIndex [T]
            Dates of the closes at which they were made.
        tickers : sequence of N str

        Raises
        ------
        AllocationError, DataError
            If a ticker has no rate, or a spread on a date with a trade is missing.
        """
        size = np.abs(trades)
        spreads = self.spreads_on(executed, tickers, size > 0.0)
        return Charges(
            proportional=size @ self._each("rate", self.rate, tickers),
            spread=(size * (0.5 * spreads)).sum(axis=1),
            impact=(size * np.sqrt(size)) @ self._each("impact", self.impact, tickers),
        )

    def borrow_fees(self, weights: FloatArray, years: FloatArray, tickers: Sequence[str]) -> FloatArray:
        """Fees [T] for the short positions among weights [T, N] held for so many years [T], shares of wealth."""
        short = np.maximum(-weights, 0.0)
        fees: FloatArray = short @ self._each("borrow_rate", self.borrow_rate, tickers) * years
        return fees

    def _each(self, name: str, rate: Rate, tickers: Sequence[str]) -> FloatArray:
        """One number an asset, [N]; 0 for cash."""
        charged = [ticker for ticker in tickers if ticker != self.cash]
        if not isinstance(rate, Mapping):
            return np.array([0.0 if ticker == self.cash else rate for ticker in tickers], dtype=np.float64)
        others = rate.get(_OTHERS)
        lacking = [str(ticker) for ticker in charged if ticker not in rate and others is None]
        unknown = [str(ticker) for ticker in rate if ticker not in charged and ticker != _OTHERS]
        if lacking or unknown:
            clauses = [f"no value for {', '.join(lacking)}"] * bool(lacking)
            clauses += [f"values for {', '.join(unknown)}, which are not among the assets"] * bool(unknown)
            raise AllocationError(
                f'{name} has {" and ".join(clauses)}: give one to each asset, "*" to all others, or one number to all'
            )
        values = {**dict.fromkeys(charged, others), **rate}
        return np.array([0.0 if ticker == self.cash else values[ticker] for ticker in tickers], dtype=np.float64)


def calendar_years(dates: pd.DatetimeIndex) -> FloatArray:
    """Years from each date to the next, actual days over 365; one fewer than the dates."""
    days = np.diff(dates.to_numpy()) / np.timedelta64(1, "D")
    return np.asarray(days / DAYS_A_YEAR, dtype=np.float64)


def _positive(rate: Rate) -> bool:
    values = rate.values() if isinstance(rate, Mapping) else (rate,)
    return any(value > 0.0 for value in values)


def _require_rate(name: str, rate: Rate | None) -> None:
    if isinstance(rate, Mapping):
        for ticker, value in rate.items():
            require_number(AllocationError, f"{name} of {ticker}", value, least=0.0)
    elif rate is not None:
        require_number(AllocationError, name, rate, least=0.0)


def _require_spreads(spreads: pd.DataFrame) -> None:
    """Raise DataError unless this is a table of shares, one row a date and one column a ticker; gaps pass."""
    index = spreads.index
    if not isinstance(index, pd.DatetimeIndex) or not index.is_unique or not spreads.columns.is_unique:
        raise DataError("spreads need one row a date and one column a ticker, each once")
    values = spreads.to_numpy(dtype=np.float64)
    with np.errstate(invalid="ignore"):
        wrong = np.argwhere(~np.isnan(values) & ~((values >= 0.0) & (values < 1.0)))
    if len(wrong):
        row, column = wrong[0]
        raise DataError(
            f"the bid-ask spread of {spreads.columns[column]} on {index[row].date()} is {values[row, column]:g}: "
            "spreads are shares of the price, at least 0 and below 1, so that 0.0005 is 5 basis points"
        )
