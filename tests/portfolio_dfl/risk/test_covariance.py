"""Covariance estimators against the libraries and formulas they follow."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from sklearn.covariance import ledoit_wolf, oas

from portfolio_dfl.errors import DataError
from portfolio_dfl.risk import (
    OAS,
    CovarianceEstimator,
    EWMACovariance,
    LedoitWolf,
    RollingCovariance,
    covariance_path,
    estimate_path,
)

ESTIMATORS = [RollingCovariance(20), EWMACovariance(30, halflife=8.0), LedoitWolf(25), OAS(25)]


@pytest.fixture
def returns() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    mixed = rng.normal(size=(80, 4)) @ rng.normal(size=(4, 4)) * 0.01
    return pd.DataFrame(mixed, index=pd.bdate_range("2020-01-01", periods=80), columns=list("ABCD"))


def test_rolling_is_the_sample_covariance_plus_a_share_of_the_average_variance(returns):
    sample = returns.iloc[:20].cov().to_numpy()
    expected = sample + 0.01 * np.trace(sample) / 4 * np.eye(4)
    np.testing.assert_allclose(RollingCovariance(20, ridge=0.01)(returns.to_numpy()[:20]), expected, rtol=1e-12)


def test_ewma_is_skfolios_with_the_same_decay(returns):
    from skfolio.moments import EWCovariance

    window = returns.to_numpy()[:60]
    theirs = EWCovariance(window_size=60, half_life=10.0, nearest=False).fit(window).covariance_
    ours = EWMACovariance(60, halflife=10.0, ridge=0.0)(window)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize(("estimator", "library"), [(LedoitWolf(30), ledoit_wolf), (OAS(30), oas)])
@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
def test_shrinkage_is_scikit_learns(returns, estimator, library, unit):
    window = returns.to_numpy()[:30]
    matrix, shrinkage = library(window)
    estimate = estimator.estimate_many(unit * window[None])
    np.testing.assert_allclose(estimate.covariance[0], unit**2 * matrix, rtol=1e-11)
    assert estimate.shrinkage[0] == pytest.approx(shrinkage, rel=1e-10)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_the_path_holds_the_estimates_of_single_windows(returns, estimator):
    dates, path = covariance_path(returns, estimator)
    assert dates.equals(returns.index[estimator.window - 1 :])
    for position in (0, 10, len(dates) - 1):
        window = returns.to_numpy()[position : position + estimator.window]
        np.testing.assert_array_equal(path[position], estimator(window))


def test_a_path_that_is_estimated_in_pieces_has_every_date():
    wide = np.random.default_rng(2).normal(size=(290, 500)) * 0.01
    frame = pd.DataFrame(wide, index=pd.bdate_range("2020-01-01", periods=290))
    dates, path = covariance_path(frame, RollingCovariance(250))
    assert len(dates) == len(path) == 41
    whole = RollingCovariance(250)(wide[-250:])
    np.testing.assert_array_equal(path[-1], whole)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_fewer_returns_than_assets_still_give_no_negative_variance(estimator):
    wide = np.random.default_rng(1).normal(size=(estimator.window, 60)) * 0.01
    eigenvalues = np.linalg.eigvalsh(estimator(wide))
    assert eigenvalues.min() >= -1e-14 * eigenvalues.max()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_returns_that_never_move_have_no_covariance(estimator):
    np.testing.assert_array_equal(estimator(np.zeros((estimator.window, 3))), np.zeros((3, 3)))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_estimators_follow_the_protocol(estimator):
    assert isinstance(estimator, CovarianceEstimator)


def test_the_shrinkage_and_the_ridge_used_are_on_the_path(returns):
    shrunk = estimate_path(returns, LedoitWolf(25))
    assert ((shrunk.shrinkage > 0.0) & (shrunk.shrinkage <= 1.0)).all()
    rolled = estimate_path(returns, RollingCovariance(20, ridge=0.5))
    assert (rolled.shrinkage == 0.0).all()
    plain = estimate_path(returns, RollingCovariance(20, ridge=0.0))
    np.testing.assert_allclose(rolled.ridge, 0.5 * np.trace(plain.covariance, axis1=1, axis2=2) / 4)


@pytest.mark.parametrize("estimator", [RollingCovariance(20), EWMACovariance(), LedoitWolf(), OAS()])
def test_fourteen_years_of_seven_assets_take_about_a_second_at_most(estimator):
    long = np.random.default_rng(0).normal(size=(3500, 7)) * 0.01
    frame = pd.DataFrame(long, index=pd.bdate_range("2011-01-03", periods=3500))
    started = time.perf_counter()
    covariance_path(frame, estimator)
    assert time.perf_counter() - started < 3.0


def test_a_missing_return_is_named(returns):
    returns.iloc[5, 2] = np.nan
    with pytest.raises(DataError, match="C on 2020-01-08"):
        covariance_path(returns, RollingCovariance(20))


def test_a_history_shorter_than_the_window_is_refused(returns):
    with pytest.raises(DataError, match="needs 20 returns and there are 10"):
        covariance_path(returns.iloc[:10], RollingCovariance(20))


def test_a_window_of_another_length_is_refused(returns):
    with pytest.raises(DataError, match="looks at 20 returns"):
        RollingCovariance(20)(returns.to_numpy()[:19])


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: RollingCovariance(1), "at least 2"),
        (lambda: RollingCovariance(20, ridge=-1.0), "ridge"),
        (lambda: EWMACovariance(20, halflife=0.0), "halflife"),
        (lambda: LedoitWolf(0), "at least 2"),
        (lambda: OAS(1), "at least 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, what):
    with pytest.raises(DataError, match=what):
        make()
