"""Predictors: shapes, where they start, and what they learn from."""

from __future__ import annotations

import torch

from portfolio_dfl.forecasting.linear import LinearPredictor


def test_linear_forecast_is_the_affine_map_of_the_flattened_window() -> None:
    predictor = LinearPredictor(n_assets=3, lookback=5, horizon=2)
    torch.nn.init.normal_(predictor.map.weight, generator=torch.Generator().manual_seed(0))
    features = torch.randn(4, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = (features.reshape(4, 15) @ predictor.map.weight.T).reshape(4, 2, 3)
    torch.testing.assert_close(predictor(features), expected)


def test_linear_forecast_starts_at_zero() -> None:
    predictor = LinearPredictor(n_assets=3, lookback=5, horizon=2)
    assert torch.equal(
        predictor(torch.ones(1, 5, 3, dtype=torch.float64)), torch.zeros(1, 2, 3, dtype=torch.float64)
    )
