"""Factor models with exposures that are given: what they find, what they refuse, and how a study names them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError, DataError
from portfolio_dfl.risk import CovarianceEstimator, GivenFactors
from portfolio_dfl.strategies.setting import build_estimator
from portfolio_dfl.study.places import located

W, N, K = 60, 12, 3


def market(seed: int, days: int = W) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    exposures = rng.normal(size=(N, K))
    return exposures, 0.01 * (rng.normal(size=(days, K)) @ exposures.T + rng.normal(size=(days, N)))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 99), st.booleans(), st.floats(0.0, 1.0))
def test_the_model_is_that_of_regressions_across_assets(seed: int, alike: bool, shrinkage: float) -> None:
    exposures, window = market(seed)
    loadings = np.column_stack([np.ones(N), exposures]) if alike else exposures
    factors = np.linalg.lstsq(loadings, window.T, rcond=None)[0]
    common = np.cov(factors)
    common = (1.0 - shrinkage) * common + shrinkage * np.diag(np.diag(common))
    own = (window.T - loadings @ factors).var(axis=1, ddof=1)
    own = (1.0 - shrinkage) * own + shrinkage * own.mean()
    estimator = GivenFactors(W, exposures, market=alike, shrinkage=shrinkage)
    np.testing.assert_allclose(estimator(window), loadings @ common @ loadings.T + np.diag(own), rtol=1e-9, atol=1e-15)


def test_a_long_window_finds_the_truth() -> None:
    exposures, window = market(0, 40_000)
    truth = 1e-4 * (exposures @ exposures.T + np.eye(N))
    found = GivenFactors(len(window), exposures, market=False)(window)
    # Across twelve assets regressions leave some of each asset's own return in the factors.
    assert np.abs(found - truth).max() < 0.25 * truth.max()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 99))
def test_the_order_of_assets_units_of_exposures_and_of_returns(seed: int) -> None:
    exposures, window = market(seed)
    order = np.random.default_rng(seed).permutation(N)
    plain = GivenFactors(W, exposures)(window)
    np.testing.assert_allclose(
        GivenFactors(W, exposures[order])(window[:, order]), plain[np.ix_(order, order)], rtol=1e-9, atol=1e-15
    )
    np.testing.assert_allclose(GivenFactors(W, exposures * [1.0, 10.0, 0.1])(window), plain, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(GivenFactors(W, exposures)(3.0 * window), 9.0 * plain, rtol=1e-9, atol=1e-15)


def test_many_windows_are_those_one_by_one_and_it_is_an_estimator_that_travels() -> None:
    exposures, returns = market(3, W + 4)
    estimator = pickle.loads(pickle.dumps(GivenFactors(W, exposures)))
    assert isinstance(estimator, CovarianceEstimator)
    windows = np.stack([returns[first : first + W] for first in range(5)])
    risk = estimator.estimate_factors(windows)
    assert risk.n_factors == K + 1
    for number, window in enumerate(windows):
        np.testing.assert_allclose(risk.dense()[number], estimator(window), rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exposures": np.full((N, K), np.nan)}, "finite numbers"),
        ({"exposures": np.ones(N)}, "a row for each asset"),
        ({"exposures": np.ones((N, 1))}, "leave out one that follows from the others"),
        ({"window": 2}, "at least 3 returns"),
        ({"shrinkage": 1.5}, "a share from 0 to 1"),
    ],
)
def test_what_is_no_model_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        GivenFactors(**{"window": W, "exposures": market(0)[0], **change})  # type: ignore[arg-type]


def test_returns_of_another_number_of_assets_are_refused() -> None:
    with pytest.raises(DataError, match="exposures are of 12 assets, returns of 11"):
        GivenFactors(W, market(0)[0])(market(0)[1][:, 1:])


def configured(exposures: object) -> StudyConfig:
    options = {"exposures": exposures, "shrinkage": 0.1}
    return StudyConfig.parse({"covariance": {"estimator": "factor", "window": W, "options": options}})


def test_a_study_reads_a_file_and_takes_each_ticker_its_row(tmp_path: Path) -> None:
    file = tmp_path / "exposures.csv"
    file.write_text("ticker,size,value\nB,2.0,0.5\nA,1.0,-0.5\nC,0.0,0.25\nD,-1.0,0.0\nX,9,9\n")
    config = located(configured(str(file)))
    assert config.covariance.options["exposures"]["size"]["A"] == 1.0
    estimator = build_estimator(config, ["A", "B", "C", "D"])
    assert isinstance(estimator, GivenFactors)
    np.testing.assert_array_equal(estimator.exposures, [[1.0, -0.5], [2.0, 0.5], [0.0, 0.25], [-1.0, 0.0]])
    assert estimator.shrinkage == 0.1
    assert StudyConfig.from_yaml(config.to_yaml()) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ticker\nA\n", "no column of a factor"),
        ("name,size\nA,1\n", "lacks ticker"),
        ("ticker,size\nA,big\n", "no finite number in size: big of A"),
        ("ticker,size\nA,1\nA,2\n", "more than one row for A"),
    ],
)
def test_a_file_that_says_nothing_is_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "exposures.csv"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        located(configured(str(file)))


@pytest.mark.parametrize(
    ("exposures", "message"),
    [
        ({"size": {"A": 1.0}}, "size has no number for B"),
        ({"size": {"A": 1.0, "B": "x"}}, "'x' of B: a number is needed"),
        ([1.0, 2.0], "is a file, or {factor: {ticker: number}}"),
    ],
)
def test_exposures_that_do_not_fit_the_tickers_are_refused(exposures: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_estimator(configured(exposures), ["A", "B"])
