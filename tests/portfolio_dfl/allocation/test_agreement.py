"""Native solver, PIQP alone, and black boxes through the layer find the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import piqp
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from portfolio_dfl.allocation import MultiPeriodMeanVariance

GRID = [(1, 2, 12), (1, 7, 12), (1, 30, 6), (5, 2, 12), (5, 7, 12), (5, 30, 3), (10, 7, 8), (20, 7, 6), (20, 30, 1)]
LONG = [(50, 2, 4), (50, 7, 2), (200, 2, 2), (200, 7, 1)]


def piqp_weights(
    returns: NDArray[np.float64],
    covariance: NDArray[np.float64],
    held: NDArray[np.float64],
    aversion: float,
    tau: float,
) -> NDArray[np.float64]:
    """The paper's standard form, written down once more, solved by PIQP alone (scaled, 1e-11)."""
    H, N = returns.shape
    size, scale = H * N, 1.0 / np.abs(returns).max()
    P = sp.block_diag([*[scale * aversion * covariance] * H, sp.csc_matrix((size, size))], format="csc")
    q = np.concatenate([-scale * returns.ravel(), np.zeros(size)])
    stage_sum, one = sp.kron(sp.eye(H), np.ones((1, N))), sp.eye(size)
    change = one - sp.kron(sp.eye(H, k=-1), sp.eye(N))
    A = sp.hstack([stage_sum, sp.csc_matrix((H, size))], format="csc")
    G = sp.bmat([[change, -one], [-change, -one], [None, stage_sum]], format="csc")
    first = np.concatenate([held, np.zeros(size - N)])
    h = np.concatenate([first, -first, np.full(H, tau)])
    solver = piqp.SparseSolver()
    solver.settings.eps_abs, solver.settings.eps_rel = 1e-11, 0.0
    solver.setup(P, q, A, np.ones(H), G, np.full(len(h), -np.inf), h, np.zeros(2 * size), np.full(2 * size, np.inf))
    solver.solve()
    return np.asarray(solver.result.x[:size]).reshape(H, N)


@pytest.mark.parametrize(("horizon", "n_assets", "batch"), GRID + LONG)
def test_native_weights_are_those_of_piqp(instances: Any, horizon: int, n_assets: int, batch: int) -> None:
    instance = instances(batch, horizon, n_assets, seed=horizon + n_assets)
    layer = MultiPeriodMeanVariance(n_assets, horizon, turnover_limit=0.2, solver="native")
    found = layer(instance.returns, instance.covariance, instance.previous, return_solution=True)
    assert found.certified.all()
    assert found.certificate.max() < 1e-10
    weights = found.weights.numpy()
    assert np.abs(weights.sum(-1) - 1.0).max() < 1e-12
    assert weights.min() >= -1e-14
    assert np.abs(found.trades).sum(-1).max() <= 0.2 + 1e-12
    for b in range(batch):
        alone = piqp_weights(
            instance.returns[b].numpy(), instance.covariance[b].numpy(), instance.previous[b].numpy(), 10.0, 0.2
        )
        # PIQP's own point is not polished: where a row is weakly active its error is the root of its tolerance.
        assert np.abs(weights[b] - alone).max() < (1e-7 if found.margin[b] > 1e-3 else 2e-5), (b, found.margin[b])


@pytest.mark.parametrize(
    ("solver", "horizon", "n_assets", "batch"), [("piqp", 10, 7, 6), ("piqp", 50, 7, 1), ("gurobi", 5, 7, 3)]
)
def test_black_boxes_agree_in_weights_and_gradients(
    instances: Any, solver: str, horizon: int, n_assets: int, batch: int
) -> None:
    instance = instances(batch, horizon, n_assets, seed=3 * horizon)
    upstream = torch.randn(batch, horizon, n_assets, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found, grads = {}, {}
    for name in ("native", solver):
        leaves = instance.leaves()
        layer = MultiPeriodMeanVariance(n_assets, horizon, turnover_limit=0.2, solver=name)
        found[name] = layer(*leaves, return_solution=True)
        grads[name] = torch.autograd.grad((found[name].weights * upstream).sum(), leaves)
    assert (found["native"].weights - found[solver].weights).abs().max() < 1e-9
    for ours, theirs in zip(grads["native"][:2], grads[solver][:2], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_duals_satisfy_the_papers_stationarity(instances: Any) -> None:
    instance = instances(5, 6, 5, seed=2)
    covariance = instance.covariance[:, None] * torch.linspace(0.5, 2.0, 6, dtype=torch.float64)[None, :, None, None]
    layer = MultiPeriodMeanVariance(5, 6, turnover_limit=0.2, transaction_cost=1e-4)
    found = layer(instance.returns, covariance, instance.previous, return_solution=True)
    assert found.native is not None
    pressure = found.native.found.pressure
    following = np.concatenate([pressure[:, 1:], np.zeros((5, 1, 5))], axis=1)
    gradient = 10.0 * np.einsum("bsij,bsj->bsi", covariance.numpy(), found.weights.numpy()) - instance.returns.numpy()
    total = gradient + found.budget_dual[..., None] - found.lower_dual + found.upper_dual + pressure - following
    assert np.abs(total).max() < 1e-14
    assert (np.abs(pressure) <= found.turnover_dual[..., None] + 1e-4 + 1e-13).all()
    assert np.abs(found.lower_dual * found.weights.numpy()).max() < 1e-15


def test_covariances_per_stage_and_shared_ones_agree(instances: Any) -> None:
    instance = instances(3, 4, 5, seed=9)
    layer = MultiPeriodMeanVariance(5, 4, turnover_limit=0.3)
    shared = instance.covariance[0].clone().requires_grad_()
    weights = layer(instance.returns, shared, instance.previous)
    staged = shared.detach().expand(3, 4, 5, 5).clone().requires_grad_()
    again = layer(instance.returns, staged, instance.previous)
    torch.testing.assert_close(weights, again, rtol=0, atol=1e-13)
    one = torch.autograd.grad((weights**2).sum(), shared)[0]
    many = torch.autograd.grad((again**2).sum(), staged)[0]
    torch.testing.assert_close(one, many.sum((0, 1)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("n_assets", "horizon"), [(500, 2), (200, 5), (7, 250)])
def test_large_problems_are_certified_and_differentiated(instances: Any, n_assets: int, horizon: int) -> None:
    instance = instances(1, horizon, n_assets, seed=1)
    layer = MultiPeriodMeanVariance(n_assets, horizon, turnover_limit=0.2, solver="native")
    returns = instance.returns.clone().requires_grad_()
    found = layer(returns, instance.covariance, instance.previous, return_solution=True)
    assert found.certified.all()
    upstream = torch.randn(found.weights.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    direction = torch.randn(returns.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    (one,) = torch.autograd.grad((found.weights * upstream).sum(), returns, retain_graph=True)
    (other,) = torch.autograd.grad((found.weights * direction).sum(), returns)
    # The Jacobian of weights in returns is symmetric and positive semidefinite, and maps into changes that sum to 0.
    assert float((one * direction).sum()) == pytest.approx(float((other * upstream).sum()), rel=1e-9)
    assert float((one * upstream).sum()) > 0.0
    assert one.sum(-1).abs().max() < 1e-9 * one.abs().max()


def test_the_factor_may_be_made_again_instead_of_kept(instances: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = instances(2, 4, 5, seed=6)
    layer = MultiPeriodMeanVariance(5, 4, turnover_limit=0.2)
    returns, covariance, previous = instance.leaves()
    kept = torch.autograd.grad((layer(returns, covariance, previous) ** 2).sum(), returns)[0]
    monkeypatch.setattr("portfolio_dfl.allocation.native.KEEP_BYTES", 0)
    again = torch.autograd.grad((layer(returns, covariance, previous) ** 2).sum(), returns)[0]
    torch.testing.assert_close(kept, again, rtol=1e-10, atol=1e-10)
