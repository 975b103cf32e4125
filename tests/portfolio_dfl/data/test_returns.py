"""Prices, per cent and other things taken for returns are refused wherever returns go in; real returns never are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from skfolio.datasets import load_factors_dataset, load_sp500_dataset

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.backtest import roll, run_ledger
from portfolio_dfl.backtest.baselines import EqualWeight, PerfectForesight
from portfolio_dfl.backtest.deflation import deflated_sharpe
from portfolio_dfl.backtest.evaluation import sharpe_ratio
from portfolio_dfl.backtest.regret import decision_regret
from portfolio_dfl.data.returns import why_not_returns
from portfolio_dfl.errors import PortfolioError
from portfolio_dfl.risk import RollingCovariance, covariance_path
from portfolio_dfl.training.estimator import DecisionFocusedPortfolio
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.samples import build_samples

PRICES = load_sp500_dataset().iloc[:400, :3]
RETURNS = PRICES.pct_change().iloc[1:]
WEIGHTS = pd.DataFrame(1 / 3, index=RETURNS.index[:1], columns=RETURNS.columns)


def policy() -> PredictOptimisePolicy:
    layer = MultiPeriodMeanVariance(3, 2)
    return PredictOptimisePolicy(layer, RollingCovariance(8), lookback=6, samples=12, realised_window=4)


#: Everything that takes a frame, or a series, of returns.
ENTRIES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "run_ledger": lambda returns: run_ledger(WEIGHTS, returns),
    "roll": lambda returns: roll(EqualWeight(), returns),
    "decision_regret": lambda returns: decision_regret(run_ledger(WEIGHTS, RETURNS), returns, risk_aversion=1.0),
    "covariance_path": lambda returns: covariance_path(returns, RollingCovariance(20)),
    "PerfectForesight": PerfectForesight,
    "build_samples": lambda returns: build_samples(
        returns,
        lookback=6,
        horizon=2,
        realised_window=4,
        covariance=covariance_path(RETURNS, RollingCovariance(8)),
    ),
    "policy.fit": lambda returns: policy().fit(returns),
    "policy.task": lambda returns: policy().task(returns),
    "estimator": lambda returns: DecisionFocusedPortfolio(horizon=2, lookback=6, samples=12, epochs=1).fit(returns),
    "sharpe_ratio": lambda returns: sharpe_ratio(returns.iloc[:, 0], periods_per_year=252),
    "deflated_sharpe": lambda returns: deflated_sharpe(returns.iloc[:, 0], [1.0]),
}
#: What is taken for returns, and the advice that belongs to it.
MISTAKES = {
    "prices": (PRICES.iloc[1:], "pct_change"),
    "per cent": (100.0 * RETURNS, "divide returns in per cent by 100"),
    "gross returns": (1.0 + RETURNS, "subtract 1"),
    "wealth": ((1.0 + RETURNS).cumprod(), "pct_change"),
    "logarithms of prices": (np.log(PRICES.iloc[1:]), "pct_change"),
    "cheap prices": (PRICES.iloc[1:] / PRICES.iloc[0] / 20.0, "pct_change"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("entry", ENTRIES)
def test_what_is_no_return_is_refused_with_ticker_date_and_advice(entry: str, mistake: str) -> None:
    frame, advice = MISTAKES[mistake]
    with pytest.raises(PortfolioError, match=rf"(AAPL|AMD|BAC) has \S+ on \d\d\d\d-\d\d-\d\d .*{advice}"):
        ENTRIES[entry](frame)


@pytest.mark.parametrize("entry", sorted(set(ENTRIES) - {"estimator", "policy.fit"}))
def test_returns_are_taken(entry: str) -> None:
    ENTRIES[entry](RETURNS)


def test_one_wrong_column_among_right_ones_is_named() -> None:
    mixed = RETURNS.assign(AMD=PRICES["AMD"])
    with pytest.raises(PortfolioError, match="AMD has"):
        run_ledger(WEIGHTS, mixed)
    percent = RETURNS.assign(BAC=100.0 * RETURNS["BAC"])
    with pytest.raises(PortfolioError, match=r"BAC has .*per cent"):
        run_ledger(WEIGHTS, percent)


def test_one_loss_of_more_than_all_is_a_matter_of_the_prices() -> None:
    odd = RETURNS.copy()
    odd.iloc[7, 1] = -1.3
    with pytest.raises(PortfolioError, match=r"AMD has -1\.3 on 1990-01-12 .*clean the prices"):
        run_ledger(WEIGHTS, odd)


def test_rows_without_dates_are_counted() -> None:
    assert " in row " in str(why_not_returns(PRICES.iloc[1:].reset_index(drop=True)))


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 10, 20, 29, 30, 60, 10_000])
@pytest.mark.parametrize("rule", ["D", "W-FRI", "ME", "QE", "YE"])
@pytest.mark.parametrize("load", [load_sp500_dataset, load_factors_dataset])
def test_real_returns_are_never_refused(load: Callable[[], pd.DataFrame], rule: str, rows: int) -> None:
    prices = load()
    returns = (prices if rule == "D" else prices.resample(rule).last()).pct_change().iloc[1:]
    starts = range(0, max(1, len(returns) - rows), max(1, len(returns) // 25))
    assert {why_not_returns(returns.iloc[first : first + rows]) for first in starts} == {None}


def test_a_year_of_crashes_interest_and_missing_values_may_be_returns() -> None:
    dates = pd.bdate_range("2020-01-01", periods=250)
    noise = np.random.default_rng(0).normal(0.0, 0.08, 250)  # the volatility of a wild coin: 127 % a year
    frame = pd.DataFrame({"coin": np.expm1(noise), "cash": 1e-4, "fixed": 0.1, "young": np.nan}, index=dates)
    frame.iloc[3, 0], frame.iloc[4, 0] = -0.99, 9.0
    assert why_not_returns(frame) is None


@pytest.mark.parametrize("rule", ["W-FRI", "ME"])
def test_per_cent_of_longer_rhythms_are_refused(rule: str) -> None:
    returns = load_sp500_dataset().resample(rule).last().pct_change().iloc[1:]
    assert "per cent" in str(why_not_returns(100.0 * returns))
    assert "pct_change" in str(why_not_returns(load_sp500_dataset().resample(rule).last()))
