"""The covariance that training may reshape."""

from __future__ import annotations

import pytest
import torch

from portfolio_dfl.errors import DataError
from portfolio_dfl.risk import LearnedCovarianceScaling


def random_covariance(n_assets: int, seed: int = 0) -> torch.Tensor:
    factor = torch.randn(n_assets, n_assets, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return 1e-4 * factor @ factor.T


def test_it_starts_close_to_the_estimate():
    covariance = random_covariance(4)
    scaled = LearnedCovarianceScaling(4, initial_shrinkage=1e-9)(covariance)
    torch.testing.assert_close(scaled, covariance, rtol=1e-7, atol=1e-12)


def test_shrinkage_leaves_variances_alone():
    covariance = random_covariance(4)
    scaled = LearnedCovarianceScaling(4, initial_shrinkage=0.7)(covariance).detach()
    torch.testing.assert_close(scaled.diagonal(), covariance.diagonal())
    assert scaled[0, 1].item() == pytest.approx(0.3 * covariance[0, 1].item())


def test_factors_scale_volatilities():
    module = LearnedCovarianceScaling(3, initial_shrinkage=0.5)
    with torch.no_grad():
        module.log_scale.copy_(torch.tensor([0.0, 0.7, -0.4]))
    covariance = random_covariance(3)
    torch.testing.assert_close(module(covariance).diagonal().detach(), covariance.diagonal() * module.scale**2)


@pytest.mark.parametrize("per_asset", [True, False])
def test_gradients_agree_with_differences(per_asset):
    module = LearnedCovarianceScaling(3, per_asset=per_asset, initial_shrinkage=0.3)
    covariance = (1e4 * random_covariance(3)).expand(2, 3, 3).clone().requires_grad_()

    def reshape(matrix: torch.Tensor, log_scale: torch.Tensor, logit: torch.Tensor) -> torch.Tensor:
        parameters = {"log_scale": log_scale, "shrinkage_logit": logit}
        return torch.func.functional_call(module, parameters, (matrix,))

    assert torch.autograd.gradcheck(reshape, (covariance, module.log_scale, module.shrinkage_logit))


def test_it_stays_positive_semidefinite_after_steps_however_large():
    module = LearnedCovarianceScaling(5)
    covariance = torch.stack([random_covariance(5, seed) for seed in range(3)])
    covariance[0] = torch.ones(5, 5, dtype=torch.float64)
    optimiser = torch.optim.SGD(module.parameters(), lr=1e3)
    for seed in range(5):
        optimiser.zero_grad()
        direction = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        torch.einsum("i,bij,j->", direction, module(covariance), direction).neg().backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1e-3)
        optimiser.step()
        eigenvalues = torch.linalg.eigvalsh(module(covariance).detach())
        assert (eigenvalues.amin(-1) >= -1e-13 * eigenvalues.amax(-1)).all()
        assert 0.0 <= module.shrinkage <= 1.0


def test_a_matrix_of_another_size_is_refused():
    with pytest.raises(DataError, match="N = 4"):
        LearnedCovarianceScaling(4)(random_covariance(3))


@pytest.mark.parametrize("shrinkage", [0.0, 1.0, float("nan")])
def test_an_initial_shrinkage_without_a_gradient_is_refused(shrinkage):
    with pytest.raises(DataError, match="initial_shrinkage"):
        LearnedCovarianceScaling(4, initial_shrinkage=shrinkage)
