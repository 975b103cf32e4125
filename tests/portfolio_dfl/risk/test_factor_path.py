"""Covariances in parts by date: the same as in full, for estimates, labels, losses and regret."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from portfolio_dfl.backtest.baselines import HistoricalMeanVariance, MinimumVariance
from portfolio_dfl.forecasting import PriorSpec
from portfolio_dfl.risk import FactorCovariance, RollingCovariance, StatisticalFactors, covariance_path, factor_path
from portfolio_dfl.risk.factor_path import RealisedFactors, estimate_now, in_parts
from portfolio_dfl.training.losses import plan_objective
from portfolio_dfl.training.samples import build_samples

N, T = 48, 90
ESTIMATOR = StatisticalFactors(window=30)


@pytest.fixture(scope="module")
def returns() -> pd.DataFrame:
    """Synthetic: two factors and what each asset has of its own."""
    rng = np.random.default_rng(4)
    common = rng.normal(0.0, 0.01, (T, 2)) @ rng.normal(0.0, 1.0, (2, N))
    values = 2e-4 + common + rng.normal(0.0, 0.01, (T, N))
    return pd.DataFrame(values, pd.bdate_range("2021-01-04", periods=T), [f"A{place}" for place in range(N)])


def test_only_factor_models_of_many_assets_stay_in_parts() -> None:
    assert in_parts(ESTIMATOR, 40)
    assert not in_parts(ESTIMATOR, 39)
    assert not in_parts(RollingCovariance(30), 400)


def test_the_path_is_that_of_full_covariances(returns: pd.DataFrame) -> None:
    dates, parts = factor_path(returns, ESTIMATOR)
    expected, dense = covariance_path(returns, ESTIMATOR)
    assert dates.equals(expected)
    np.testing.assert_allclose(parts.dense(), dense, rtol=0.0, atol=1e-17)
    last = estimate_now(ESTIMATOR, returns.to_numpy()[-30:], 5)
    assert isinstance(last, FactorCovariance)
    np.testing.assert_allclose(last.dense(), 5.0 * dense[-1], rtol=0.0, atol=1e-16)


def test_samples_have_labels_in_parts(returns: pd.DataFrame) -> None:
    """Sample covariances, with 1e-4 of each variance added as the asset's own; objectives are the full ones."""
    settings = {"lookback": 5, "horizon": 2, "realised_window": 10, "stage": 3}
    parts = build_samples(returns, covariance=factor_path(returns, ESTIMATOR), **settings).usable_at(returns.index[-1])
    full = build_samples(returns, covariance=covariance_path(returns, ESTIMATOR), **settings).usable_at(
        returns.index[-1]
    )
    assert isinstance(parts.realised_covariance, FactorCovariance)
    assert isinstance(parts.covariance, FactorCovariance)
    assert isinstance(full.realised_covariance, torch.Tensor)
    assert isinstance(full.covariance, torch.Tensor)
    own = 1e-4 * torch.diag_embed(torch.diagonal(full.realised_covariance, dim1=1, dim2=2))
    torch.testing.assert_close(parts.realised_covariance.dense(), full.realised_covariance + own, rtol=0.0, atol=1e-15)
    torch.testing.assert_close(parts.covariance.dense(), full.covariance, rtol=0.0, atol=1e-15)
    weights = torch.rand(len(parts), 2, N, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        plan_objective(weights, parts.future_returns, parts.covariance, 3.0),
        plan_objective(weights, full.future_returns, full.covariance, 3.0),
        rtol=1e-12,
        atol=0.0,
    )
    assert len(parts.slice(2, 7).covariance) == 5


def test_an_equilibrium_is_that_of_the_full_covariance(returns: pd.DataFrame) -> None:
    window = returns.to_numpy()[-30:]
    parts = ESTIMATOR.estimate_factors(window[None])
    prior = PriorSpec("equilibrium").build(N, 30)
    assert prior is not None
    seen = torch.from_numpy(window)[None]
    torch.testing.assert_close(prior(seen, parts, 5.0), prior(seen, parts.dense(), 5.0), rtol=1e-12, atol=1e-18)


class InFull:
    """The estimator, without its parts."""

    window = ESTIMATOR.window

    def __call__(self, window: np.ndarray) -> np.ndarray:
        return ESTIMATOR(window)

    def estimate_many(self, windows: np.ndarray) -> object:
        return ESTIMATOR.estimate_many(windows)


@pytest.mark.parametrize("rule", [MinimumVariance, HistoricalMeanVariance])
def test_rules_decide_as_with_full_covariances(rule: type[MinimumVariance], returns: pd.DataFrame) -> None:
    options = {"horizon": 2, "turnover_limit": 0.5, "transaction_cost": 1e-4, "stage": 2}
    more = {"mean_window": 30} if rule is HistoricalMeanVariance else {}
    held = np.full(N, 1.0 / N)
    parts = rule(covariance=ESTIMATOR, **options, **more).decide(returns, held)
    full = rule(covariance=InFull(), **options, **more).decide(returns, held)  # type: ignore[arg-type]
    np.testing.assert_allclose(parts, full, rtol=0.0, atol=1e-9)


def test_realised_factors_of_a_window(returns: pd.DataFrame) -> None:
    window = returns.to_numpy()[:20]
    found, expected = RealisedFactors(20)(window), np.cov(window.T)
    np.testing.assert_allclose(found, expected + 1e-4 * np.diag(np.diag(expected)), rtol=0.0, atol=1e-17)
