"""The section of a study's configuration that says what trading and holding cost."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from portfolio_dfl.config.section import Section, Text, Ticker

__all__ = ["CostsConfig"]

_Rate = Annotated[float, Field(ge=0, lt=1)]
_Impact = Annotated[float, Field(ge=0)]
ByTicker: TypeAlias = dict[Ticker, _Rate]


class CostsConfig(Section):
    """What trading and holding cost, counted by the plan and charged by the books alike."""

    rate: _Rate | ByTicker | None = Field(
        default=None,
        description="proportional cost of a unit traded, or {ticker: cost, '*': others}; null: backtest.cost_rate "
        "in the books and allocation.transaction_cost in the plan",
    )
    spreads: Text | None = Field(
        default=None,
        min_length=1,
        description="CSV or Parquet file of bid-ask spreads, shares of the price, date by ticker: a trade pays half",
    )
    impact: _Impact | dict[Ticker, _Impact] = Field(
        default=0.0, description="k of the market impact k |trade|^1.5, trades in shares of wealth; or {ticker: k}"
    )
    typical_trade: float = Field(
        default=0.01, gt=0, le=2, description="share of wealth at which the plan's parabola costs what the impact does"
    )
    fixed: _Rate | None = Field(
        default=None, description="of one order, in units of the first wealth, books alone; null: backtest.fixed_cost"
    )
    borrow_rate: _Impact | dict[Ticker, _Impact] = Field(
        default=0.0, description="fee a year for short positions, paid daily; or {ticker: fee}"
    )
    cash_rate: Annotated[float, Field(gt=-1, lt=1)] | None = Field(
        default=None,
        description="interest a year that makes allocation.limits.cash an asset without prices; null: it has prices",
    )
    in_plan: bool = Field(default=True, description="whether the plan counts rate, spreads, impact and borrow_rate")

    def in_words(self, rate: float) -> str:
        """What is charged, in short; ``rate`` is the proportional one where this section has none."""
        charged = rate if self.rate is None else self.rate
        if isinstance(charged, dict):
            low, high = min(charged.values()), max(charged.values())
            text = f"{low * 1e4:g} to {high * 1e4:g} bp by asset"
        else:
            text = f"{charged * 1e4:g} bp"
        others = [
            "half the bid-ask spread" * (self.spreads is not None),
            "market impact" * _charged(self.impact),
            "borrow fees" * _charged(self.borrow_rate),
        ]
        return ", ".join([text, *filter(None, others)])


def _charged(rate: float | dict[str, float]) -> bool:
    return any(value > 0 for value in (rate.values() if isinstance(rate, dict) else [rate]))
