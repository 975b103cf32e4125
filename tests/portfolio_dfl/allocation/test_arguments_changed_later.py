"""A plan's gradient is that of the arguments as they were at the call, whatever becomes of them or of the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from portfolio_dfl.allocation import AllocationSolution, BoxLimits, MultiPeriodMeanVariance, TrackingCost

Change = Callable[[Tensor], None]
NAMES = ("returns", "covariance", "previous", "risk_aversion", "turnover_limit", "transaction_cost")
N, H = 3, 2


def _with_autograd(tensor: Tensor) -> None:
    with torch.no_grad():
        tensor.mul_(2.0)


def _behind_its_back(tensor: Tensor) -> None:
    tensor.data.mul_(2.0)


def _through_numpy(tensor: Tensor) -> None:
    tensor.detach().numpy()[...] *= 2.0


CHANGES = (_with_autograd, _behind_its_back, _through_numpy)


def _arguments(draw: Callable[..., Any], batch: int) -> dict[str, Tensor]:
    instance = draw(batch, H, N, seed=1)
    return {
        "returns": instance.returns,
        "covariance": instance.covariance,
        "previous": instance.previous,
        "risk_aversion": torch.full((batch,), 50.0, dtype=torch.float64),
        "turnover_limit": torch.full((batch, H), 0.3, dtype=torch.float64),
        "transaction_cost": torch.full((batch, H, N), 1e-4, dtype=torch.float64),
    }


def _plan(layer: MultiPeriodMeanVariance, data: dict[str, Tensor]) -> AllocationSolution:
    given = dict(data)
    return layer(given.pop("returns"), given.pop("covariance"), given.pop("previous"), **given, return_solution=True)


def _gradients(
    layer: MultiPeriodMeanVariance,
    data: dict[str, Tensor],
    wanted: tuple[str, ...],
    change: Change | None,
    changed: str,
) -> dict[str, Tensor]:
    leaves = {name: value.clone().requires_grad_(name in wanted) for name, value in data.items()}
    plan = _plan(layer, leaves)
    loss = (
        plan.weights * torch.linspace(-1.0, 1.0, plan.weights.numel(), dtype=torch.float64).view_as(plan.weights)
    ).sum()
    if change is not None:
        change(plan.weights if changed == "plan" else leaves[changed])
    found = torch.autograd.grad(loss, [leaves[name] for name in wanted])
    return dict(zip(wanted, found, strict=True))


@pytest.mark.parametrize("solver", ["native", "piqp"])
@pytest.mark.parametrize("batch", [1, 3])
def test_an_argument_changed_after_the_call_changes_no_gradient(
    instances: Callable[..., Any], solver: str, batch: int
) -> None:
    data, layer = _arguments(instances, batch), MultiPeriodMeanVariance(N, H, solver=solver)
    for wanted in (NAMES, ("covariance",), ("risk_aversion",), ("returns",)):
        expected = _gradients(layer, data, wanted, None, "")
        assert max(float(gradient.abs().max()) for gradient in expected.values()) > 1e-4
        for changed in (*NAMES, "plan"):
            for change in CHANGES:
                try:
                    found = _gradients(layer, data, wanted, change, changed)
                except RuntimeError:
                    assert change is _with_autograd
                    continue
                for name in wanted:
                    assert torch.equal(found[name], expected[name]), (wanted, changed, change.__name__, name)


def test_a_parameter_stepped_between_the_passes_changes_no_gradient(instances: Callable[..., Any]) -> None:
    data = _arguments(instances, 2)
    aversion = torch.nn.Parameter(torch.tensor(50.0, dtype=torch.float64))
    layer = MultiPeriodMeanVariance(N, H, risk_aversion=aversion)
    covariance = data["covariance"].requires_grad_()
    expected = torch.autograd.grad(layer(data["returns"], covariance, data["previous"])[..., 0].sum(), covariance)[0]
    plan = layer(data["returns"], covariance, data["previous"])
    with torch.no_grad():
        aversion.mul_(2.0)
    assert torch.equal(torch.autograd.grad(plan[..., 0].sum(), covariance)[0], expected)


def test_a_solution_changed_in_place_starts_the_next_call_as_it_was(instances: Callable[..., Any]) -> None:
    data, layer = _arguments(instances, 2), MultiPeriodMeanVariance(N, H)
    first = _plan(layer, data)
    for part in (first.weights.numpy(), first.budget_dual, first.turnover_dual):
        part[...] = np.nan
    second = _plan(layer, data | {"warm_start": first})  # type: ignore[dict-item]
    assert second.warm_hits.all()


@pytest.mark.parametrize("solver", ["native", "piqp"])
def test_limits_are_those_of_the_time_the_layer_was_made(instances: Callable[..., Any], solver: str) -> None:
    data = _arguments(instances, 1)
    benchmark, upper = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.6, 0.7])
    layer = MultiPeriodMeanVariance(N, H, limits=[BoxLimits(0.0, upper), TrackingCost(benchmark, 100.0)], solver=solver)
    before = _plan(layer, data).weights
    benchmark[:], upper[:] = [0.5, 0.3, 0.2], [0.4, 0.4, 0.4]
    assert torch.equal(_plan(layer, data).weights, before)
