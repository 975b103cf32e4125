"""The native solver with rows that couple weights: against a black box, the reduced KKT system, and differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from dxpp_core import solve_qp
from dxpp_core.reference import reduced_kkt_gradients
from portfolio_dfl.allocation import (
    ActiveShare,
    AllocationSolution,
    BoxLimits,
    CashAsset,
    ExposureLimits,
    GrossLeverage,
    GroupLimits,
    Limit,
    MultiPeriodMeanVariance,
    NetExposure,
    NoTrade,
    TradeLimits,
)
from portfolio_dfl.allocation.limits import Limits
from portfolio_dfl.allocation.standard_form import StandardForm
from portfolio_dfl.errors import AllocationError

Array = NDArray[np.float64]
BATCH, HORIZON, ASSETS = 5, 3, 6
EQUAL = (1.0 / ASSETS,) * ASSETS
LONG_SHORT = BoxLimits(-0.4, 0.8)
NAMES = ("returns", "covariance", "previous", "aversion", "limit", "cost")

CASES: dict[str, Sequence[Limit]] = {
    "group": [GroupLimits((0, 1), 0.2, 0.4)],
    "three groups": [GroupLimits((0, 1), upper=0.3), GroupLimits((1, 2, 3), 0.3, 0.6), GroupLimits((4, 5), 0.1, 0.5)],
    "fixed group": [GroupLimits((0, 1, 2), 0.45, 0.45)],
    "exposure of other units": [ExposureLimits((130.0, 20.0, 90.0, -10.0, 60.0, 0.0), 40.0, 55.0)],
    "neutral exposure": [LONG_SHORT, ExposureLimits((1.3, 0.2, 0.9, -0.1, 0.6, -2.0), 0.0, 0.0)],
    "leverage": [LONG_SHORT, GrossLeverage(1.3)],
    "leverage and groups": [LONG_SHORT, GrossLeverage(1.5), GroupLimits((0, 1), -0.1, 0.3), GroupLimits((3, 4), 0.2)],
    "active share": [ActiveShare(EQUAL, 0.2)],
    "active share and leverage": [LONG_SHORT, ActiveShare(EQUAL, 0.5), GrossLeverage(1.2)],
    "leverage beside cash": [LONG_SHORT, CashAsset(5), GrossLeverage(0.9), NetExposure(0.2, 0.6)],
    "no leverage beside cash": [CashAsset(5), GrossLeverage(0.7)],
    "repeated group": [GroupLimits((0, 1), upper=0.3, name="one"), GroupLimits((0, 1), upper=0.3, name="other")],
    "group and its complement": [GroupLimits((0, 1), upper=0.3), GroupLimits((2, 3, 4, 5), 0.7)],
    "group of all": [GroupLimits(range(6), upper=1.0), GroupLimits((0,), upper=0.1)],
    "largest trades": [TradeLimits(0.1)],
    "assets not traded": [NoTrade((1, 3))],
    "trades and groups": [TradeLimits((0.05, 0.2, np.inf, 0.1, 0.3, 0.1)), GroupLimits((0, 1), 0.0, 0.9), CashAsset(2)],
    "trades and leverage": [LONG_SHORT, TradeLimits(0.15), NoTrade((0,)), GrossLeverage(1.4)],
    "fully capped": [BoxLimits(0.0, (0.1, 0.1, 1.0, 1.0, 1.0, 1.0)), GroupLimits((0, 1), 0.2)],
}


def settings(limits: Sequence[Limit], **changed: Any) -> dict[str, Any]:
    return {"turnover_limit": 1.2, "transaction_cost": 5e-4, "limits": limits, "threads": 1} | changed


def leaves(instance: Any, turnover: float = 1.2) -> dict[str, Tensor]:
    given = (
        *instance.leaves(),
        torch.tensor(10.0, dtype=torch.float64),
        torch.tensor(turnover, dtype=torch.float64),
        torch.linspace(2e-4, 8e-4, ASSETS, dtype=torch.float64),
    )
    return {name: leaf.detach().clone().requires_grad_() for name, leaf in zip(NAMES, given, strict=True)}


def plan(layer: MultiPeriodMeanVariance, of: dict[str, Tensor], **more: Any) -> Any:
    return layer(
        of["returns"],
        of["covariance"],
        of["previous"],
        risk_aversion=of["aversion"],
        turnover_limit=of["limit"],
        transaction_cost=of["cost"],
        **more,
    )


def push() -> Tensor:
    return torch.randn(BATCH, HORIZON, ASSETS, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def gradients(layer: MultiPeriodMeanVariance, of: dict[str, Tensor]) -> tuple[AllocationSolution, dict[str, Tensor]]:
    found: AllocationSolution = plan(layer, of, return_solution=True)
    return found, dict(zip(NAMES, torch.autograd.grad((found.weights * push()).sum(), list(of.values())), strict=True))


def exact(layer: MultiPeriodMeanVariance, of: dict[str, Tensor]) -> dict[str, Tensor]:
    """Gradients by the reduced KKT system of the standard form, whose numbers torch differentiates."""
    form = StandardForm(HORIZON, Limits.collect(ASSETS, layer.limits))
    data = form.assemble(
        of["returns"],
        of["covariance"][:, None],
        of["previous"],
        of["aversion"].reshape(1),
        of["limit"].expand(1, HORIZON),
        of["cost"].expand(1, HORIZON, ASSETS),
    )
    solved = solve_qp(data.P, data.q, data.G, data.h, data.A, data.b, data.lb, data.ub, solver="piqp")
    quadratic, G, A = data.P.to_dense(), data.G.to_dense().numpy(), data.A.to_dense().numpy()
    wide = torch.zeros(BATCH, form.n_variables, dtype=torch.float64)
    wide[:, : HORIZON * ASSETS] = push().reshape(BATCH, -1)
    total = torch.zeros((), dtype=torch.float64)
    for b in range(BATCH):
        x, y, z = (part[b].detach().numpy() for part in (solved.x, solved.y, solved.z))
        truth = reduced_kkt_gradients(
            quadratic[b].detach().numpy(),
            G,
            A,
            x,
            y,
            z,
            active=data.h[b].detach().numpy() - G @ x < 1e-9,
            at_lower=x - data.lb[b].detach().numpy() < 1e-9,
            at_upper=data.ub[b].detach().numpy() - x < 1e-9,
            x_bar=wide[b].numpy(),
        )
        for given, gradient in (
            (quadratic[b], truth.P),
            (data.q[b], truth.q),
            (data.h[b], truth.h),
            (data.lb[b], truth.lb),
            (data.ub[b], truth.ub),
        ):
            finite = torch.isfinite(given)
            total = total + (given[finite] * torch.from_numpy(gradient)[finite]).sum()
    return dict(zip(NAMES, torch.autograd.grad(total, list(of.values())), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_weights_and_gradients_are_those_of_the_standard_form(instances: Any, name: str) -> None:
    instance = instances(BATCH, HORIZON, ASSETS, seed=len(name), scale=4e-3)
    of = leaves(instance)
    layer = MultiPeriodMeanVariance(ASSETS, HORIZON, solver="native", **settings(CASES[name]))
    found, grads = gradients(layer, of)
    assert found.solver == "native"
    assert found.certified.all()
    assert found.certificate.max() < 1e-10
    other, theirs = gradients(MultiPeriodMeanVariance(ASSETS, HORIZON, solver="piqp", **settings(CASES[name])), of)
    assert (found.weights - other.weights).abs().max() < 1e-9
    truth = exact(layer, of)
    for gradient in (grads, truth):
        # Held weights sum to 1: along changes of their sum multipliers may be anything.
        gradient["previous"] = gradient["previous"] - gradient["previous"].mean(-1, keepdim=True)
    for of_name in NAMES:
        # At a vertex whose rows depend on one another the limit has two one-sided derivatives (see the next test).
        if of_name != "limit":
            torch.testing.assert_close(grads[of_name], truth[of_name], rtol=1e-9, atol=1e-9, msg=of_name)
    for of_name in ("returns", "covariance"):
        torch.testing.assert_close(grads[of_name], theirs[of_name], rtol=1e-9, atol=1e-9, msg=of_name)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_finite_differences(instances: Any, name: str) -> None:
    instance = instances(BATCH, HORIZON, ASSETS, seed=len(name), scale=4e-3)
    of = leaves(instance)
    layer = MultiPeriodMeanVariance(ASSETS, HORIZON, solver="auto", **settings(CASES[name]))
    # One of each parameter for each instance, so that each instance has its own gradient.
    of["aversion"] = of["aversion"].detach().expand(BATCH).clone().requires_grad_()
    of["limit"] = of["limit"].detach().expand(BATCH, HORIZON).clone().requires_grad_()
    of["cost"] = of["cost"].detach().expand(BATCH, HORIZON, ASSETS).clone().requires_grad_()
    found, grads = gradients(layer, of)
    generator = torch.Generator().manual_seed(1)
    steps = {"returns": 1e-8, "covariance": 1e-9, "previous": 1e-6, "aversion": 1e-4, "limit": 1e-6, "cost": 1e-8}
    compared = 0
    for of_name, step in steps.items():
        direction = torch.randn(of[of_name].shape, dtype=torch.float64, generator=generator)
        if of_name == "covariance":
            direction = direction + direction.mT
        if of_name == "previous":
            direction = direction - direction.mean(-1, keepdim=True)
        moved = {}
        for count in (-2, -1, 1, 2):
            with torch.no_grad():
                weights = plan(layer, of | {of_name: of[of_name] + count * step * direction})
                moved[count] = ((weights - found.weights) * push()).sum((1, 2))
        expected = (8.0 * (moved[1] - moved[-1]) - (moved[2] - moved[-2])) / (12.0 * step)
        got = (grads[of_name] * direction).reshape(BATCH, -1).sum(1)
        size = torch.clamp(expected.abs(), min=1.0)
        # A row that is about to let go, or rows at a vertex that depend on one another: two different one-sided values.
        smooth = (moved[1] + moved[-1]).abs() < 1e-3 * step * size
        assert (((got - expected) / size).abs()[smooth] < max(1e-6, 1e-14 / step)).all(), of_name
        compared += int(smooth.sum())
    assert compared >= 0.7 * BATCH * len(steps)


@pytest.mark.parametrize("name", ["three groups", "fixed group", "active share and leverage", "trades and leverage"])
def test_a_warm_start_and_a_factor_made_again_change_nothing(
    instances: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = instances(BATCH, HORIZON, ASSETS, seed=len(name), scale=4e-3)
    of = leaves(instance)
    layer = MultiPeriodMeanVariance(ASSETS, HORIZON, solver="native", **settings(CASES[name]))
    found, grads = gradients(layer, of)
    again = plan(layer, of, warm_start=found, return_solution=True)
    assert again.warm_hits.all()
    assert not again.iterations.any()
    torch.testing.assert_close(again.weights, found.weights, rtol=0, atol=1e-12)
    monkeypatch.setattr("portfolio_dfl.allocation.native.KEEP_BYTES", 0)
    for one, other in zip(gradients(layer, of)[1].values(), grads.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_multipliers_balance_the_gradient_and_are_zero_where_a_row_is_slack(instances: Any) -> None:
    instance = instances(BATCH, HORIZON, ASSETS, seed=4, scale=4e-3)
    rows = [LONG_SHORT, GroupLimits((0, 1), upper=0.3), GrossLeverage(1.3)]
    layer = MultiPeriodMeanVariance(ASSETS, HORIZON, solver="native", **settings(rows))
    found = layer(instance.returns, instance.covariance, instance.previous, return_solution=True)
    assert found.native is not None
    coupling = found.native.coupling
    assert coupling is not None
    weights = found.weights.numpy()
    group, distance = coupling.theta[..., 0], coupling.theta[..., 1]
    assert (coupling.theta >= 0.0).all()
    assert np.abs(group * (0.3 - weights[..., :2].sum(-1))).max() < 1e-14
    assert np.abs(distance * (1.3 - np.abs(weights).sum(-1))).max() < 1e-14
    assert group.max() > 1e-4
    assert distance.max() > 1e-4
    member = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    sides = np.where(np.abs(weights) > 1e-11, np.sign(weights) * distance[..., None], coupling.pin[..., 0, :])
    pressure = found.native.found.pressure
    following = np.concatenate([pressure[:, 1:], np.zeros((BATCH, 1, ASSETS))], axis=1)
    total = 10.0 * np.einsum("bij,bsj->bsi", instance.covariance.numpy(), weights) - instance.returns.numpy()
    total += found.budget_dual[..., None] - found.lower_dual + found.upper_dual + pressure - following
    assert np.abs(total + group[..., None] * member + sides).max() < 1e-14


def test_without_such_limits_nothing_is_kept_for_them(instances: Any) -> None:
    instance = instances(1, 2, 4, seed=1)
    for limits in ([], [GroupLimits(range(4), upper=1.0)], [GrossLeverage(1.5)]):
        layer = MultiPeriodMeanVariance(4, 2, limits=limits)
        found = layer(*instance.leaves(), return_solution=True)
        assert found.native.rows is None
        assert found.native.coupling is None


def test_held_weights_that_cannot_reach_a_group_are_refused_by_date(instances: Any) -> None:
    instance = instances(2, 2, 5, seed=5)
    held = torch.tensor([[0.2, 0.2, 0.2, 0.2, 0.2], [0.6, 0.1, 0.1, 0.1, 0.1]], dtype=torch.float64)
    for solver in ("auto", "native"):
        layer = MultiPeriodMeanVariance(
            5, 2, turnover_limit=0.3, limits=[GroupLimits((0, 1), upper=0.4)], solver=solver
        )
        with pytest.raises(AllocationError, match="2024-01-03"):
            layer(instance.returns, instance.covariance, held, dates=["2024-01-02", "2024-01-03"])
        assert layer(instance.returns[:1], instance.covariance[:1], held[:1])[..., :2].sum(-1).max() < 0.4 + 1e-12
