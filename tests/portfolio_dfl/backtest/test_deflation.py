"""Sharpe ratios deflated for the number of trials."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.backtest.deflation import (
    deflated_sharpe,
    deflated_sharpe_of_moments,
    expected_best_sharpe,
)
from portfolio_dfl.errors import BacktestError


def series(values: np.ndarray) -> pd.Series:
    return pd.Series(values, index=pd.bdate_range("2020-01-01", periods=len(values)))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def test_the_deflated_sharpe_ratio_is_the_papers_example():
    # Bailey and López de Prado (2014), numerical example: annual Sharpe ratio 2.5 on 1,250 days, variance of the
    # 100 trials' annual ratios 1/2, skewness −3, kurtosis 10, 250 days a year.
    spread = (0.5 / 250) ** 0.5
    assert expected_best_sharpe(100, spread) == pytest.approx(0.1132, abs=5e-5)
    probability = deflated_sharpe_of_moments(
        sharpe=2.5 / 250**0.5, observations=1250, skewness=-3.0, kurtosis=10.0, trials=100, trial_spread=spread
    )
    assert probability == pytest.approx(0.9004, abs=5e-5)


def test_a_series_is_deflated_by_its_own_moments_and_the_spread_of_annual_trials(rng):
    net = series(rng.standard_t(4, size=800) * 0.01 + 0.001)
    trials = [0.2, 0.9, 1.4, 0.1]
    excess = net - (1.03 ** (1 / 252) - 1.0)
    expected = deflated_sharpe_of_moments(
        sharpe=excess.mean() / excess.std(),
        observations=800,
        skewness=float(((excess - excess.mean()) ** 3).mean() / excess.std(ddof=0) ** 3),
        kurtosis=float(((excess - excess.mean()) ** 4).mean() / excess.std(ddof=0) ** 4),
        trials=4,
        trial_spread=float(np.std(trials, ddof=1)) / 252**0.5,
    )
    assert 0.05 < expected < 0.95
    assert deflated_sharpe(net, trials, risk_free=0.03) == pytest.approx(expected, rel=1e-9)


def test_more_trials_deflate_more(rng):
    net = series(rng.normal(0.001, 0.01, 500))
    spread = [0.0, 1.0]
    few, many = deflated_sharpe(net, spread * 2), deflated_sharpe(net, spread * 20)
    assert many < few < deflated_sharpe(net, [1.0])


def test_one_trial_gives_the_probability_of_a_positive_sharpe_ratio(rng):
    net = series(rng.normal(0.0, 0.01, 2000))
    skilled = net - net.mean()
    assert deflated_sharpe(skilled, [0.0]) == pytest.approx(0.5, abs=1e-9)


def test_returns_without_volatility_have_no_deflated_sharpe():
    assert math.isnan(deflated_sharpe(series(np.full(100, 0.01)), [1.0, 2.0]))


def test_trials_without_a_sharpe_ratio_are_refused(rng):
    with pytest.raises(BacktestError, match="finite"):
        deflated_sharpe(series(rng.normal(size=50)), [1.0, float("nan")])


def test_trials_made_before_count_as_well(rng):
    net, trials = series(rng.normal(0.0005, 0.01, 500)), list(np.linspace(0.2, 1.4, 60))
    alone, after = (deflated_sharpe(net, trials, earlier_trials=earlier) for earlier in (0, 60))
    assert after < alone
    assert after == pytest.approx(deflated_sharpe(net, trials * 2), abs=0.01)
    with pytest.raises(BacktestError, match="earlier_trials"):
        deflated_sharpe(net, trials, earlier_trials=-1)
