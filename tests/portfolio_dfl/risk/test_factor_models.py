"""Statistical factors: variances are the sample's, common movements are found, noise is not taken for one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portfolio_dfl.errors import DataError
from portfolio_dfl.risk import CovarianceEstimator, StatisticalFactors


def returns(W: int, N: int, K: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 0.01 * (rng.normal(size=(W, K)) @ rng.normal(size=(K, N)) + rng.normal(size=(W, N)))


@settings(max_examples=15, deadline=None)
@given(st.integers(4, 30), st.integers(2, 30), st.integers(0, 99))
def test_variances_are_the_samples_and_the_matrix_is_positive(W: int, N: int, seed: int) -> None:
    window = returns(W, N, 1, seed)
    covariance = StatisticalFactors(W)(window)
    np.testing.assert_allclose(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance)[0] > 0.0
    assert np.diag(covariance) == pytest.approx(window.var(axis=0, ddof=1), rel=2e-3)
    if W > N + 2:
        # With as many factors as assets nothing is left out but the share that is always an asset's own.
        full = StatisticalFactors(W, factors=N)(window)
        volatility = window.std(axis=0, ddof=1)
        np.testing.assert_allclose(
            full, np.cov(window.T).reshape(N, N), atol=1.1e-3 * float(np.outer(volatility, volatility).max())
        )


def test_as_many_components_count_as_there_are_common_movements() -> None:
    windows = np.stack([returns(500, 40, 3, seed) for seed in range(4)])
    assert StatisticalFactors(500).estimate_factors(windows).n_factors == 3
    noise = 0.01 * np.random.default_rng(0).normal(size=(3, 500, 40))
    assert StatisticalFactors(500).estimate_factors(noise).n_factors <= 2
    assert StatisticalFactors(500, factors=7).estimate_factors(windows).n_factors == 7


def test_windows_with_fewer_components_have_no_exposure_to_the_rest() -> None:
    windows = np.stack([returns(300, 20, 1), returns(300, 20, 4)])
    risk = StatisticalFactors(300).estimate_factors(windows)
    alone = [StatisticalFactors(300).estimate_factors(window[None]) for window in windows]
    assert [one.n_factors for one in alone] == [1, 4]
    assert risk.n_factors == 4
    for k, one in enumerate(alone):
        np.testing.assert_allclose(risk.dense()[k], one.dense()[0], rtol=1e-9, atol=1e-18)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 99))
def test_the_order_of_assets_and_units_of_returns(seed: int) -> None:
    window = returns(60, 9, 2, seed)
    order = np.random.default_rng(seed).permutation(9)
    estimator = StatisticalFactors(60, shrinkage=0.3)
    plain = estimator(window)
    np.testing.assert_allclose(estimator(window[:, order]), plain[np.ix_(order, order)], rtol=1e-8, atol=1e-15)
    np.testing.assert_allclose(estimator(100.0 * window), 1e4 * plain, rtol=1e-8)


def test_shrinkage_draws_own_variances_together() -> None:
    window = returns(250, 12, 2, 5)[None]
    shares = []
    for share in (0.0, 0.5, 1.0):
        risk = StatisticalFactors(250, factors=2, shrinkage=share).estimate_factors(window)
        shares.append(risk.specific_variance.numpy()[0] / window[0].var(axis=0, ddof=1))
    assert shares[0].std() > shares[1].std() > shares[2].std()
    assert shares[1] == pytest.approx(0.5 * (shares[0] + shares[2]))


def test_it_is_an_estimator_and_refuses_what_it_cannot_use() -> None:
    assert isinstance(StatisticalFactors(60), CovarianceEstimator)
    for options, words in (
        ({"window": 2}, "at least 3 returns"),
        ({"window": 10, "factors": 9}, "from 1 to window − 2 = 8"),
        ({"shrinkage": 1.5}, "a share from 0 to 1"),
    ):
        with pytest.raises(DataError, match=words):
            StatisticalFactors(**options)  # type: ignore[arg-type]
    still = returns(30, 4, 1)
    still[:, 2] = 0.01
    with pytest.raises(DataError, match="asset 2 does not vary in window 0"):
        StatisticalFactors(30)(still)
