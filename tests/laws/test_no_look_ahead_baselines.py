"""What happens after a date changes nothing that was known or decided up to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portfolio_dfl.backtest import Policy, roll
from portfolio_dfl.backtest.baselines import (
    BuyAndHold,
    EqualWeight,
    HistoricalMeanVariance,
    MinimumVariance,
    PerfectForesight,
    RiskParity,
)
from portfolio_dfl.risk import (
    OAS,
    CovarianceEstimator,
    EWMACovariance,
    LedoitWolf,
    RollingCovariance,
    estimate_path,
)

ESTIMATORS: list[CovarianceEstimator] = [
    RollingCovariance(8),
    EWMACovariance(10, halflife=3.0),
    LedoitWolf(9),
    OAS(9),
]
BASELINES: dict[str, Callable[[CovarianceEstimator], Policy]] = {
    "equal weight": lambda estimator: EqualWeight(),
    "buy and hold": lambda estimator: BuyAndHold(),
    "minimum variance": lambda estimator: MinimumVariance(estimator, turnover_limit=0.2),
    "risk parity": lambda estimator: RiskParity(estimator, turnover_limit=0.2),
    "historical mean": lambda estimator: HistoricalMeanVariance(
        estimator, mean_window=10, horizon=3, turnover_limit=0.2
    ),
}
DAYS = 24


@st.composite
def changed_futures(draw: st.DrawFn) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """Returns, the same with everything after a position replaced, and that position."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = rng.normal(0.0, 0.01, (DAYS, 3))
    position = draw(st.integers(12, DAYS - 2))
    later = values.copy()
    later[position + 1 :] = rng.normal(0.0, draw(st.sampled_from([0.01, 0.1])), (DAYS - position - 1, 3))
    dates = pd.bdate_range("2022-01-03", periods=DAYS)
    before, after = (pd.DataFrame(each.clip(-0.5, 0.5), index=dates, columns=list("ABC")) for each in (values, later))
    return before, after, position


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@given(changed_futures())
def test_covariances_up_to_a_date_do_not_know_what_comes_after(estimator, futures):
    before, after, position = futures
    known = before.index[: position + 1]
    there, here = estimate_path(before, estimator), estimate_path(after, estimator)
    count = int((there.dates <= known[-1]).sum())
    assert count > 0
    np.testing.assert_array_equal(there.covariance[:count], here.covariance[:count])
    np.testing.assert_array_equal(there.shrinkage[:count], here.shrinkage[:count])
    assert not np.array_equal(there.covariance[count:], here.covariance[count:])


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("baseline", BASELINES)
@settings(max_examples=8)
@given(changed_futures())
def test_weights_up_to_a_date_do_not_know_what_comes_after(baseline, lag, futures):
    before, after, position = futures
    there, here = (
        roll(BASELINES[baseline](RollingCovariance(8)), returns, start=returns.index[10], lag=lag)
        for returns in (before, after)
    )
    count = position + 1 - 10
    np.testing.assert_array_equal(there.to_numpy()[:count], here.to_numpy()[:count])


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@settings(max_examples=5)
@given(changed_futures())
def test_that_holds_for_every_covariance_estimator(estimator, futures):
    before, after, position = futures
    there, here = (
        roll(MinimumVariance(estimator, turnover_limit=0.2), returns, start=returns.index[10])
        for returns in (before, after)
    )
    count = position + 1 - 10
    np.testing.assert_array_equal(there.to_numpy()[:count], here.to_numpy()[:count])


@settings(max_examples=5)
@given(changed_futures())
def test_perfect_foresight_alone_looks_ahead_and_says_so(futures):
    before, after, position = futures
    there, here = (
        roll(PerfectForesight(returns, RollingCovariance(8), turnover_limit=0.2), returns, start=returns.index[10])
        for returns in (before, after)
    )
    count = position + 1 - 10
    assert not np.array_equal(there.to_numpy()[:count], here.to_numpy()[:count])
    assert PerfectForesight.foresight
    assert "ceiling" in PerfectForesight(before, RollingCovariance(8)).name
    assert not any(make(RollingCovariance(8)).foresight for make in BASELINES.values())
