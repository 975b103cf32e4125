"""What is said of arguments knows their precision: rounding is no fault, and what cannot be computed is no NaN."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from portfolio_dfl.allocation import BenchmarkBand, BoxLimits, MultiPeriodMeanVariance, TrackingCost
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


@pytest.mark.parametrize("solver", ["auto", "piqp"])
def test_a_plan_without_risk_is_that_of_the_linear_program(solver: str) -> None:
    layer = MultiPeriodMeanVariance(3, 1, turnover_limit=0.2, solver=solver)
    returns = torch.tensor([[[1e-3, 2e-3, 4e-3]]], dtype=torch.float64, requires_grad=True)
    plan = layer(returns, torch.zeros(3, 3, dtype=torch.float64), torch.full((3,), 1 / 3, dtype=torch.float64))
    torch.testing.assert_close(plan[0, 0].detach(), torch.tensor([1 / 3 - 0.1, 1 / 3, 1 / 3 + 0.1]).double())
    assert torch.isfinite(torch.autograd.grad(plan[0, 0, 0], returns)[0]).all()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("size", [1e-320, 1e-310, 1e-200, 1e-100, 1e100, 1e200, 1e300])
@pytest.mark.parametrize("scaled", ["covariance", "both", "covariance alone", "risk_aversion"])
def test_tiny_and_huge_numbers_are_right_or_refused_by_name(scaled: str, size: float, solver: str) -> None:
    generator = torch.Generator().manual_seed(0)
    days = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    covariance, returns = days.T @ days / 40, torch.randn(1, 2, 3, generator=generator, dtype=torch.float64)
    held = torch.full((3,), 1 / 3, dtype=torch.float64)
    layer = MultiPeriodMeanVariance(3, 2, turnover_limit=0.5, solver=solver)
    of_returns = {"both": size, "covariance alone": 0.0}.get(scaled, 1.0)
    of_covariance = 1.0 if scaled == "risk_aversion" else size
    aversion = 10.0 * (size if scaled == "risk_aversion" else 1.0)
    S = (of_covariance * covariance).requires_grad_()
    try:
        plan = layer(of_returns * returns, S, held, risk_aversion=aversion)
    except AllocationError as error:
        refused = str(error)
        plan = None
    if plan is None:
        assert "eigenvalue" not in refused
        assert "semidefinite" not in refused
        assert size < 1e-50
        return
    gradient = torch.autograd.grad(plan[0, 0, 0], S)[0]
    assert torch.isfinite(plan).all()
    assert not torch.isnan(gradient).any()
    if scaled == "both":
        torch.testing.assert_close(plan, layer(returns, covariance, held), rtol=1e-6, atol=1e-8)
    if scaled == "covariance alone":
        torch.testing.assert_close(plan, layer(0.0 * returns, covariance, held), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("seed", range(8))
def test_limits_in_single_precision_are_judged_by_it(seed: int, kind: str) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.ones(101)).astype(np.float32)
    given = weights if kind == "numpy" else torch.from_numpy(weights)
    assert float(weights.sum(dtype=np.float64)) != 1.0
    data = torch.zeros(1, 1, 101, dtype=torch.float64), torch.eye(101, dtype=torch.float64)
    held = torch.full((101,), 1 / 101, dtype=torch.float64)
    for limit in (BoxLimits(0.0, given), BoxLimits(given, 1.0), BoxLimits(given, given), BenchmarkBand(given, 0.0)):
        plan = MultiPeriodMeanVariance(101, 1, limits=[limit])(*data, held)
        assert np.abs(plan[0, 0].numpy() - weights).max() < 1e-5
    MultiPeriodMeanVariance(101, 1, limits=[TrackingCost(given, 10.0)])(*data, held)


@pytest.mark.parametrize(
    "limit", [BoxLimits(0.0, np.full(10, 0.0999)), BoxLimits(np.full(10, 0.1001, np.float32), 1.0)]
)
def test_limits_that_miss_the_sum_by_more_are_refused(limit: BoxLimits) -> None:
    with pytest.raises(AllocationError, match="limits of the weights sum to"):
        MultiPeriodMeanVariance(10, 1, limits=[limit])
