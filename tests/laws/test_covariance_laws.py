"""What holds for every covariance estimator, whatever the returns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from portfolio_dfl.risk import OAS, EWMACovariance, LedoitWolf, RollingCovariance

WINDOW = 12
every_estimator = pytest.mark.parametrize(
    "estimator",
    [RollingCovariance(WINDOW), EWMACovariance(WINDOW, halflife=4.0), LedoitWolf(WINDOW), OAS(WINDOW)],
    ids=lambda estimator: type(estimator).__name__,
)


@st.composite
def windows(draw: st.DrawFn) -> NDArray[np.float64]:
    """Returns of up to 20 assets, some of them copies of others or without any movement."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_assets = draw(st.integers(1, 20))
    values = rng.normal(size=(WINDOW, n_assets)) * 10.0 ** rng.uniform(-4, -1, n_assets)
    if draw(st.booleans()):
        values[:, rng.integers(n_assets)] = values[:, rng.integers(n_assets)]
    if draw(st.booleans()):
        values[:, rng.integers(n_assets)] = 0.0
    return values


@every_estimator
@given(windows())
def test_no_portfolio_has_a_negative_variance(estimator, window):
    covariance = estimator(window)
    np.testing.assert_array_equal(covariance, covariance.T)
    eigenvalues = np.linalg.eigvalsh(covariance)
    assert eigenvalues.min() >= -1e-13 * eigenvalues.max()


@every_estimator
@given(windows(), st.integers(-40, 40))
def test_other_units_change_the_covariance_by_their_square(estimator, window, exponent):
    unit = 2.0**exponent
    there, here = estimator(window), estimator(unit * window) / unit**2
    np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-12 * np.abs(there).max())


@every_estimator
@given(windows(), st.randoms(use_true_random=False))
def test_the_order_of_assets_does_not_matter(estimator, window, random):
    order = list(range(window.shape[1]))
    random.shuffle(order)
    there, here = estimator(window)[np.ix_(order, order)], estimator(window[:, order])
    np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-12 * np.abs(there).max())


@every_estimator
@given(windows())
def test_many_windows_at_once_are_each_window_alone(estimator, window):
    stacked = np.stack([window, window[::-1], 2.0 * window])
    together = estimator.estimate_many(np.ascontiguousarray(stacked)).covariance
    for alone, joint in zip(stacked, together, strict=True):
        np.testing.assert_array_equal(estimator(alone), joint)
