"""What is said of arguments knows their precision: rounding is no fault, and what cannot be computed is no NaN."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.errors import AllocationError

N, H = 12, 2
SOLVERS = ("auto", "native", "piqp")


def _few_days(seed: int, dtype: torch.dtype) -> Tensor:
    """A covariance of fewer days than assets: its least eigenvalues are zero, and a rounding below."""
    returns = 0.1 * torch.randn(8, N, generator=torch.Generator().manual_seed(seed))
    return torch.cov(returns.T).to(dtype)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_covariance_that_is_semidefinite_but_for_its_rounding_is_taken(dtype: torch.dtype, solver: str) -> None:
    layer = MultiPeriodMeanVariance(N, H, turnover_limit=0.5, solver=solver)
    held = torch.full((N,), 1.0 / N, dtype=torch.float64)
    for seed in range(10):
        covariance = _few_days(seed, dtype).requires_grad_()
        returns = 1e-3 * torch.randn(1, H, N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        plan = layer(returns, covariance, held)
        assert torch.isfinite(torch.autograd.grad(plan[..., 0].sum(), covariance)[0]).all()
        # No more risk than the plan of the covariance that is semidefinite, up to the rounding.
        S = covariance.detach().double()
        eigenvalues, vectors = torch.linalg.eigh(S)
        other = layer(returns, vectors @ torch.diag(eigenvalues.clamp(min=0.0)) @ vectors.T, held)

        def cost(weights: Tensor, S: Tensor = S, returns: Tensor = returns) -> float:
            return float((5.0 * torch.einsum("bsi,ij,bsj->", weights, S, weights) - (returns * weights).sum()).detach())

        assert cost(plan) <= cost(other) + 100.0 * torch.finfo(dtype).eps * float(S.diagonal().max())


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_covariance_that_is_not_semidefinite_is_refused_in_any_precision(solver: str) -> None:
    layer = MultiPeriodMeanVariance(3, 1, solver=solver)
    covariance = torch.eye(3)
    covariance[0, 1] = covariance[1, 0] = 1.01
    with pytest.raises(AllocationError, match=r"negative eigenvalue|not positive semidefinite"):
        layer(torch.zeros(1, 1, 3), covariance, torch.full((3,), 1 / 3))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_held_weights_that_sum_to_one_but_for_their_rounding_need_no_trade(dtype: torch.dtype, solver: str) -> None:
    held = torch.softmax(torch.linspace(-1.0, 1.0, N), 0).to(dtype)
    layer = MultiPeriodMeanVariance(N, 1, turnover_limit=1e-9, solver=solver)
    plan = layer(torch.zeros(1, 1, N, dtype=torch.float64), torch.eye(N, dtype=torch.float64), held)
    assert torch.allclose(plan[0, 0], held.double(), atol=2.0 * torch.finfo(dtype).eps)
