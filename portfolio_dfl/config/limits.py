"""Limits of weights and trades: the sections of a study's configuration that name them by ticker."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from portfolio_dfl.config.own import OwnPart
from portfolio_dfl.config.section import Section, Text, Ticker

__all__ = ["OTHERS", "BenchmarkConfig", "ExposureConfig", "GroupConfig", "LimitsConfig", "RangeConfig"]

#: Stands for tickers, or groups, that are not named.
OTHERS = "*"

_Positive = Annotated[float, Field(gt=0)]
_Band = Annotated[float, Field(ge=0)]


def _require_order(least: float | None, most: float | None) -> None:
    if least is not None and most is not None and least > most:
        raise ValueError(f"min of {least:g} exceeds max of {most:g}")


class RangeConfig(Section):
    """The least and the largest value of a number; null: none."""

    min: float | None = Field(default=None, description="least value; null: none")
    max: float | None = Field(default=None, description="largest value; null: none")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _require_order(self.min, self.max)
        return self


class GroupConfig(Section):
    """The sum of the weights of some tickers."""

    tickers: list[Ticker] | None = Field(default=None, description="members; null: those that group_of says")
    min: float | None = Field(default=None, description="least sum of their weights; null: none")
    max: float | None = Field(default=None, description="largest sum of their weights; null: none")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _require_order(self.min, self.max)
        if self.min is None and self.max is None:
            raise ValueError("a group needs a min, a max, or both")
        if self.tickers is not None and not self.tickers:
            raise ValueError("a group needs a ticker at least")
        return self


class ExposureConfig(Section):
    """The weighted sum of numbers of the tickers, Σ value · weight: a beta, a duration, a score."""

    values: dict[Ticker, float] | Text = Field(
        min_length=1, description="{ticker: number}, '*' for others; or a CSV or Parquet file with the column ticker"
    )
    column: Text = Field(default="value", min_length=1, description="column of that file")
    min: float | None = Field(default=None, description="least sum; null: none")
    max: float | None = Field(default=None, description="largest sum; null: none")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _require_order(self.min, self.max)
        if self.min is None and self.max is None:
            raise ValueError("an exposure needs a min, a max, or both")
        return self


class BenchmarkConfig(Section):
    """What weights are held against."""

    ticker: Ticker | None = Field(default=None, description="one ticker as the benchmark; null: weights")
    weights: dict[Ticker, float] | None = Field(default=None, description="{ticker: weight}, summing to 1")
    band: _Band | dict[Ticker, _Band] | None = Field(
        default=None, description="largest distance of each weight from the benchmark's, or {ticker: distance}"
    )
    active_share: _Positive | None = Field(default=None, description="largest ½ Σ|w − benchmark|")
    tracking_error: _Positive | None = Field(
        default=None, description="largest volatility of w − benchmark over one stage, by the plan's covariance"
    )
    tracking_aversion: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="γ of the penalty γ/2 (w − benchmark)ᵀΣ(w − benchmark)"
    )

    @model_validator(mode="after")
    def _one_benchmark(self) -> Self:
        if (self.ticker is None) == (self.weights is None):
            raise ValueError("a benchmark is given by ticker or by weights, one of them")
        total = 1.0 if self.weights is None else sum(self.weights.values())
        if abs(total - 1.0) > 1e-8:
            raise ValueError(f"the benchmark's weights sum to {total:.9g}; they must sum to 1")
        return self


class LimitsConfig(Section):
    """Limits that every decision of a strategy that plans obeys; numbers are for all tickers, or {ticker: number}."""

    min_weight: float | dict[Ticker, float] | None = Field(
        default=None, description="smallest weight, negative for shorts; {ticker: number}, '*' for others; null: 0"
    )
    max_weight: float | dict[Ticker, float] | None = Field(
        default=None, description="largest weight; {ticker: number}, '*' for others; null: any"
    )
    groups: dict[Text, GroupConfig] = Field(
        default_factory=dict, description="{name: {tickers: [..], min: .., max: ..}}; '*' for others of group_of"
    )
    group_of: dict[Ticker, Text] | Text | None = Field(
        default=None, description="{ticker: group}, or a CSV or Parquet file with the columns ticker and group_column"
    )
    group_column: Text = Field(default="group", min_length=1, description="column of that file")
    exposures: dict[Text, ExposureConfig] = Field(
        default_factory=dict, description="{name: {values: {ticker: number} or a file, min: .., max: ..}}, as a beta"
    )
    gross: _Positive | None = Field(default=None, description="gross leverage: largest Σ|w|, cash left out; null: any")
    net: float | RangeConfig | None = Field(
        default=None, description="net exposure Σw, cash left out: a number or {min: .., max: ..}; null: any"
    )
    cash: Ticker | None = Field(
        default=None,
        description="ticker that is cash, with prices or by costs.cash_rate: its trades are neither turnover nor cost",
    )
    benchmark: BenchmarkConfig | None = Field(
        default=None,
        description="{ticker or weights, band, active_share, tracking_error, tracking_aversion}; null: none",
    )
    max_trade: _Positive | dict[Ticker, _Positive] | None = Field(
        default=None, description="largest change of a weight by one trade; {ticker: number}, '*' for others"
    )
    no_trade: list[Ticker] = Field(default_factory=list, description="tickers whose weights prices alone change")
    own: list[OwnPart] = Field(
        default_factory=list,
        description="limits of your own: package.module:Name, or {name: package.module:Name, options: {..}}",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        lacking = [name for name, group in self.groups.items() if group.tickers is None and self.group_of is None]
        if lacking:
            raise ValueError(f"groups without tickers, {', '.join(lacking)}, need group_of to say who is in them")
        if OTHERS in self.groups and self.groups[OTHERS].tickers is not None:
            raise ValueError("groups: '*' stands for groups that are not named and takes no tickers")
        if isinstance(self.group_of, dict) and OTHERS in self.group_of:
            raise ValueError("group_of: '*' is no ticker")
        for key in ("min_weight", "max_weight", "max_trade"):
            value = getattr(self, key)
            both = sorted(set(self.no_trade) & set(value)) if isinstance(value, dict) else []
            if both:
                raise ValueError(f"no_trade names {', '.join(both)}, which {key} names too: prices alone change it")
        if self.cash is not None and self.cash in self.no_trade:
            raise ValueError(f"no_trade names {self.cash}, which is cash and takes what trades leave")
        return self
