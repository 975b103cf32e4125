"""Weights drift with returns, stay invested, and refuse a portfolio that is worth nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from portfolio_dfl.allocation import drift_weights
from portfolio_dfl.errors import AllocationError


def test_a_winner_gains_weight_as_computed_by_hand() -> None:
    drifted = drift_weights(np.array([0.5, 0.5]), np.array([0.1, -0.1]))
    np.testing.assert_allclose(drifted, [0.55, 0.45], rtol=1e-15)


def test_equal_returns_change_nothing() -> None:
    weights = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(drift_weights(weights, np.full(3, 0.07)), weights, rtol=1e-15)


def test_tensors_and_arrays_agree_and_leading_dimensions_broadcast() -> None:
    rng = np.random.default_rng(0)
    weights, returns = rng.dirichlet(np.ones(4), size=(3, 1)), rng.normal(0, 0.02, (5, 4))
    expected = drift_weights(weights, returns)
    assert expected.shape == (3, 5, 4)
    np.testing.assert_allclose(expected.sum(-1), 1.0, rtol=1e-14)
    tensor = drift_weights(torch.from_numpy(weights), torch.from_numpy(returns))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-15)


def test_gradients_are_exact() -> None:
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(2, 4, dtype=torch.float64, generator=generator).requires_grad_()
    returns = (0.02 * torch.randn(2, 4, dtype=torch.float64, generator=generator)).requires_grad_()
    assert torch.autograd.gradcheck(drift_weights, (weights, returns))


@pytest.mark.parametrize("returns", [[-1.0, -1.0], [np.nan, 0.0]])
def test_a_worthless_or_unknown_portfolio_is_refused(returns: list[float]) -> None:
    with pytest.raises(AllocationError, match="worth nothing"):
        drift_weights(np.array([0.5, 0.5]), np.array(returns))


def test_other_assets_are_refused() -> None:
    with pytest.raises(AllocationError, match="same assets"):
        drift_weights(np.ones(3) / 3, np.zeros(2))
