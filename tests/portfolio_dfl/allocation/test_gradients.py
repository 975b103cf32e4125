"""The layer's gradients against the exact reduced KKT system, finite differences, and where no derivative exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from portfolio_dfl.allocation import MultiPeriodMeanVariance, drift_weights
from portfolio_dfl.errors import AllocationError

AVERSION, LIMIT = 10.0, 0.2


def gradients(layer: MultiPeriodMeanVariance, instance: Any, upstream: Tensor) -> tuple[Any, dict[str, Tensor]]:
    B = upstream.shape[0]
    returns, covariance, previous = instance.leaves()
    aversion = torch.full((B,), AVERSION, dtype=torch.float64, requires_grad=True)
    limit = torch.full((B, 1), LIMIT, dtype=torch.float64, requires_grad=True)
    found = layer(returns, covariance, previous, risk_aversion=aversion, turnover_limit=limit, return_solution=True)
    names = ("returns", "covariance", "previous", "aversion", "limit")
    grads = torch.autograd.grad((found.weights * upstream).sum(), (returns, covariance, previous, aversion, limit))
    return found, dict(zip(names, grads, strict=True))


@pytest.mark.parametrize(("horizon", "n_assets", "batch"), [(1, 2, 30), (1, 7, 30), (5, 7, 20), (10, 7, 8), (5, 12, 4)])
def test_gradients_agree_with_the_exact_reduced_kkt_system(
    instances: Any, reference: Any, horizon: int, n_assets: int, batch: int
) -> None:
    instance = instances(batch, horizon, n_assets, seed=horizon * 100 + n_assets)
    upstream = torch.randn(batch, horizon, n_assets, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    layer = MultiPeriodMeanVariance(n_assets, horizon, risk_aversion=AVERSION)
    found, grads = gradients(layer, instance, upstream)
    assert found.certified.all()
    compared = 0
    for b in range(batch):
        if found.margin[b] < 1e-7:
            continue
        exact = reference(
            instance,
            b,
            found.weights[b].detach().numpy(),
            {"turnover": found.turnover_dual[b]},
            upstream[b].numpy(),
            AVERSION,
            LIMIT,
        )
        for name, value in exact.items():
            size = max(1.0, float(np.abs(value).max()))
            got = grads[name][b].reshape(value.shape).numpy()
            np.testing.assert_allclose(got / size, value / size, rtol=0, atol=1e-9, err_msg=f"{name} of {b}")
        compared += 1
    assert compared >= 0.7 * batch


def difference(run: Callable[[float], Tensor], step: float) -> float:
    """Central difference of fourth order."""
    near, far = run(step) - run(-step), run(2 * step) - run(-2 * step)
    return float((8.0 * near - far) / (12.0 * step))


@pytest.mark.parametrize("horizon", [1, 5, 20, 60])
def test_gradients_agree_with_central_differences(instances: Any, horizon: int) -> None:
    instance = instances(6, horizon, 7, seed=horizon)
    generator = torch.Generator().manual_seed(horizon)
    upstream = torch.randn(6, horizon, 7, dtype=torch.float64, generator=generator)
    layer = MultiPeriodMeanVariance(7, horizon)
    returns, covariance, previous = instance.leaves()
    aversion = torch.tensor(AVERSION, dtype=torch.float64, requires_grad=True)
    limit = torch.tensor(LIMIT, dtype=torch.float64, requires_grad=True)
    cost = torch.full((7,), 2e-4, dtype=torch.float64, requires_grad=True)
    arguments = {
        "returns": returns,
        "covariance": covariance,
        "previous": previous,
        "aversion": aversion,
        "limit": limit,
        "cost": cost,
    }

    def value(**changed: Tensor) -> Tensor:
        now = arguments | changed
        weights = layer(
            now["returns"],
            now["covariance"],
            now["previous"],
            risk_aversion=now["aversion"],
            turnover_limit=now["limit"],
            transaction_cost=now["cost"],
        )
        return (weights * upstream).sum((1, 2))

    total = value()
    grads = torch.autograd.grad(total.sum(), list(arguments.values()))
    steps = {"returns": 1e-8, "covariance": 1e-9, "previous": 1e-6, "aversion": 1e-4, "limit": 1e-6, "cost": 1e-8}
    for (name, base), grad in zip(arguments.items(), grads, strict=True):
        direction = torch.randn(base.shape, dtype=torch.float64, generator=generator)
        if name == "covariance":
            direction = direction + direction.mT
        if name == "previous":
            direction = direction - direction.mean(-1, keepdim=True)

        def run(step: float, name: str = name, base: Tensor = base, direction: Tensor = direction) -> Tensor:
            with torch.no_grad():
                return value(**{name: base + step * direction}).sum()

        expected = difference(run, steps[name])
        assert float((grad * direction).sum()) == pytest.approx(expected, rel=1e-6, abs=1e-6), name


def test_a_plan_at_a_vertex_has_gradient_zero() -> None:
    layer = MultiPeriodMeanVariance(3, 2, turnover_limit=0.3)
    returns = torch.tensor([[[0.05, 0.0, -0.05], [0.05, 0.0, -0.05]]], dtype=torch.float64, requires_grad=True)
    covariance = (1e-4 * torch.eye(3, dtype=torch.float64))[None].requires_grad_()
    weights = layer(returns, covariance, torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64))
    torch.testing.assert_close(weights[0, 0], torch.tensor([0.35, 0.3, 0.35], dtype=torch.float64))
    grads = torch.autograd.grad((weights * torch.arange(6.0).reshape(1, 2, 3)).sum(), (returns, covariance))
    for grad in grads:
        assert grad.abs().max() < 1e-9


def test_when_no_asset_trades_only_held_weights_matter() -> None:
    layer = MultiPeriodMeanVariance(3, 2, transaction_cost=0.1)
    returns = torch.zeros(1, 2, 3, dtype=torch.float64, requires_grad=True)
    held = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64, requires_grad=True)
    weights = layer(returns, 1e-4 * torch.eye(3, dtype=torch.float64), held)
    torch.testing.assert_close(weights, held[:, None].expand(1, 2, 3))
    upstream = torch.tensor([[[1.0, 2.0, 4.0], [0.5, 0.25, 0.125]]], dtype=torch.float64)
    grads = torch.autograd.grad((weights * upstream).sum(), (returns, held))
    assert grads[0].abs().max() < 1e-9
    # Along changes that keep the sum of weights, w moves one to one with what is held.
    along = torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64)
    assert float((grads[1] * along).sum()) == pytest.approx(float((upstream.sum(1) * along).sum()), abs=1e-9)


def test_a_slack_turnover_budget_has_derivative_zero(instances: Any) -> None:
    instance = instances(4, 3, 5, seed=5)
    layer = MultiPeriodMeanVariance(5, 3)
    limit = torch.tensor(10.0, dtype=torch.float64, requires_grad=True)
    returns, covariance, previous = instance.leaves()
    weights = layer(returns, covariance, previous, turnover_limit=limit)
    grads = torch.autograd.grad((weights**2).sum(), (limit, previous, returns))
    assert grads[0] == 0.0
    assert grads[1].abs().max() == 0.0
    free = MultiPeriodMeanVariance(5, 3)(returns, covariance, previous)
    torch.testing.assert_close(torch.autograd.grad((free**2).sum(), returns)[0], grads[2])


def test_ties_between_identical_assets_give_finite_gradients() -> None:
    returns = torch.full((1, 4, 3), 1e-3, dtype=torch.float64, requires_grad=True)
    covariance = (1e-4 * torch.eye(3, dtype=torch.float64)).requires_grad_()
    held = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    weights = MultiPeriodMeanVariance(3, 4, turnover_limit=0.5)(returns, covariance, held)
    for grad in torch.autograd.grad((weights**3).sum(), (returns, covariance, held)):
        assert torch.isfinite(grad).all()


def test_gradcheck_through_five_rebalances_with_drift(instances: Any) -> None:
    instance = instances(5, 3, 4, seed=11)
    layer = MultiPeriodMeanVariance(4, 3, turnover_limit=0.4, transaction_cost=1e-4)
    realised = torch.from_numpy(np.random.default_rng(2).normal(0.0, 0.02, (5, 4)))
    start = torch.full((1, 4), 0.25, dtype=torch.float64)

    def sequence(forecasts: Tensor, covariances: Tensor, held: Tensor) -> Tensor:
        wealth = []
        for t in range(5):
            # In units of 1e-3, so that gradcheck's steps are small beside the arguments.
            weights = layer(1e-3 * forecasts[t : t + 1], 1e-4 * covariances[t : t + 1], held)[:, 0]
            wealth.append((weights * realised[t]).sum(-1))
            held = drift_weights(weights, realised[t : t + 1])
        return torch.cat([torch.cat(wealth), held.flatten()])

    forecasts = (1e3 * instance.returns).requires_grad_()
    covariances = (1e4 * instance.covariance).requires_grad_()
    symmetric = torch.func.vmap(lambda matrix: 0.5 * (matrix + matrix.T))
    assert torch.autograd.gradcheck(
        lambda f, c: sequence(f, symmetric(c), start), (forecasts, covariances), eps=1e-6, atol=1e-7, rtol=1e-6
    )


def test_dual_numbers_are_refused_by_the_compiled_solver_and_served_by_a_black_box(instances: Any) -> None:
    returns, covariance, previous = (leaf.detach() for leaf in instances(1, 3, 4, seed=1).leaves())
    direction = torch.randn(returns.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    layer = MultiPeriodMeanVariance(4, 3, turnover_limit=LIMIT, solver="piqp")
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(returns, direction)
        with pytest.raises(AllocationError, match="solver='piqp'"):
            MultiPeriodMeanVariance(4, 3, turnover_limit=LIMIT)(dual, covariance, previous)
        tangent = torch.autograd.forward_ad.unpack_dual(layer(dual, covariance, previous)).tangent
    step = 1e-6
    ahead, behind = (layer(returns + sign * step * direction, covariance, previous) for sign in (1.0, -1.0))
    assert torch.allclose(tangent, (ahead - behind) / (2.0 * step), atol=1e-5)
    assert float(tangent.abs().max()) > 1e-3


def test_transforms_are_refused(instances: Any) -> None:
    returns, covariance, previous = (leaf.detach() for leaf in instances(1, 3, 4, seed=1).leaves())
    layer = MultiPeriodMeanVariance(4, 3, turnover_limit=LIMIT)
    for transform, said in ((torch.func.jacrev, r"torch\.func"), (torch.func.jacfwd, "forward-mode")):
        with pytest.raises(AllocationError, match=said):
            transform(lambda forecasts: layer(forecasts, covariance, previous))(returns)
