"""Every limit that adds rows: gradients against the exact KKT system and finite differences, and laws they all keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dxpp_core import solve_qp
from dxpp_core.reference import reduced_kkt_gradients
from portfolio_dfl.allocation import (
    ActiveShare,
    BoxLimits,
    CashAsset,
    ExposureLimits,
    GrossLeverage,
    GroupLimits,
    Limit,
    MultiPeriodMeanVariance,
    NetExposure,
    NoTrade,
    TrackingErrorLimit,
    TradeLimits,
)
from portfolio_dfl.allocation.compliance import violations
from portfolio_dfl.allocation.limits import Limits
from portfolio_dfl.allocation.standard_form import StandardForm

N, H, TURNOVER, AVERSION, COST = 5, 3, 0.7, 10.0, 5e-4
HELD = torch.tensor([0.11, 0.23, 0.19, 0.17, 0.30], dtype=torch.float64)
BENCHMARK = (0.15, 0.2, 0.2, 0.2, 0.25)
LIMITS: dict[str, tuple[Limit, ...]] = {
    "groups": (GroupLimits((0, 1), 0.3, 0.5), GroupLimits((1, 2), upper=0.45, name="other")),
    "exposure": (ExposureLimits((1.3, 0.2, 0.9, -0.1, 0.6), 0.45, 0.55, "beta"),),
    "active share": (ActiveShare(BENCHMARK, 0.3),),
    "gross": (BoxLimits(-0.3, 0.7), GrossLeverage(1.3)),
    "gross, net, cash": (
        BoxLimits((-0.4, -0.4, -0.4, -0.4, 0.0), 1.0),
        GrossLeverage(1.0),
        NetExposure(0.1, 0.45),
        CashAsset(4),
    ),
    "largest trades": (TradeLimits((0.05, 0.1, np.inf, 0.2, 0.15)),),
    "no trade": (NoTrade((0, 3)), GroupLimits((2, 3), upper=0.4)),
}
TRACKING = {
    "tracking error": (TrackingErrorLimit(BENCHMARK, 1.5e-3),),
    "tracking error and groups": (TrackingErrorLimit(BENCHMARK, 2e-3), GroupLimits((0, 1), upper=0.4)),
}
ALL = LIMITS | TRACKING


# No limit is at a kink there, where one-sided derivatives differ.
SMOOTH = dict.fromkeys(ALL, 6) | {"exposure": 2}


def problem(instances: Any, seed: int, batch: int = 2) -> Any:
    instance = instances(batch, H, N, seed=seed, scale=3e-3)
    instance.previous[:] = HELD
    return instance


def arguments(instance: Any) -> tuple[Tensor, ...]:
    """Returns, covariance, previous weights, λ, τ and c as leaves."""
    parameters = (
        torch.full((1,), AVERSION, dtype=torch.float64),
        torch.full((1, H), TURNOVER, dtype=torch.float64),
        torch.full((1, H, N), COST, dtype=torch.float64),
    )
    return (*instance.leaves(), *(parameter.requires_grad_() for parameter in parameters))


def decide(limits: tuple[Limit, ...], given: tuple[Tensor, ...], **options: Any) -> Tensor:
    layer = MultiPeriodMeanVariance(given[0].shape[2], given[0].shape[1], limits=limits, **options)
    weights: Tensor = layer(*given[:3], risk_aversion=given[3], turnover_limit=given[4], transaction_cost=given[5])
    return weights


def upstream(weights: Tensor) -> Tensor:
    return torch.randn(weights.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", LIMITS)
def test_gradients_agree_with_the_reduced_kkt_system(instances: Any, name: str) -> None:
    given = arguments(problem(instances, SMOOTH[name]))
    weights = decide(LIMITS[name], given)
    asked = upstream(weights)
    found = torch.autograd.grad((weights * asked).sum(), given)
    form = StandardForm(H, Limits.collect(N, LIMITS[name]))
    returns, covariance, previous, *parameters = given
    data = form.assemble(returns, covariance[:, None], previous, *parameters)
    dense = [part.to_dense() if part.is_sparse else part for part in (data.P, data.q, data.h, data.lb, data.ub)]
    total = torch.zeros((), dtype=torch.float64)
    with torch.no_grad():
        exact = solve_qp(data.P, data.q, data.G, data.h, data.A, data.b, data.lb, data.ub, solver="piqp")
    for b in range(len(returns)):
        x, G = exact.x[b].numpy(), data.G.to_dense().numpy()
        bar = np.zeros_like(x)
        bar[: H * N] = asked[b].numpy().ravel()
        lb, ub, h = (part[b].detach().numpy() for part in (data.lb, data.ub, data.h))
        reference = reduced_kkt_gradients(
            dense[0][b].detach().numpy(),
            G,
            data.A.to_dense().numpy(),
            x,
            exact.y[b].numpy(),
            exact.z[b].numpy(),
            active=h - G @ x < 1e-9,
            at_lower=x - lb < 1e-9,
            at_upper=ub - x < 1e-9,
            x_bar=bar,
        )
        for part, gradient in zip(
            dense, (reference.P, reference.q, reference.h, reference.lb, reference.ub), strict=True
        ):
            finite = torch.isfinite(part[b].detach()) & (torch.from_numpy(gradient) != 0.0)
            total = total + (part[b][finite] * torch.from_numpy(gradient)[finite]).sum()
    for mine, theirs in zip(found, torch.autograd.grad(total, given), strict=True):
        assert float((mine - theirs).abs().max()) <= 1e-6 * float(theirs.abs().max()) + 1e-12


@pytest.mark.parametrize("name", ALL)
def test_gradients_agree_with_finite_differences(instances: Any, name: str) -> None:
    given = arguments(problem(instances, SMOOTH[name]))
    weights = decide(ALL[name], given)
    asked = upstream(weights)
    found = torch.autograd.grad((weights * asked).sum(), given)
    generator = torch.Generator().manual_seed(11)
    for place, size in enumerate((1e-3, 1e-4, 1.0, AVERSION, TURNOVER, COST)):
        direction = size * torch.randn(given[place].shape, dtype=torch.float64, generator=generator)
        if place == 1:
            direction = direction + direction.transpose(1, 2)
        if place == 2:
            direction = direction - direction.mean(1, keepdim=True)

        def value(step: float, place: int = place, direction: Tensor = direction) -> float:
            moved = [part.detach() for part in given]
            moved[place] = moved[place] + step * direction
            return float((decide(ALL[name], tuple(moved)) * asked).sum())

        step = 1e-5
        numeric = (value(step) - value(-step)) / (2.0 * step)
        assert float((found[place] * direction).sum()) == pytest.approx(numeric, rel=1e-6, abs=2e-6)


@pytest.mark.parametrize("name", ALL)
def test_every_decision_keeps_to_its_limits(instances: Any, name: str) -> None:
    instance = problem(instances, seed=2, batch=12)
    given = tuple(part.detach() for part in arguments(instance))
    weights = decide(ALL[name], given).numpy()
    before = np.concatenate([given[2].numpy()[:, None], weights[:, :-1]], axis=1)
    limits = Limits.collect(N, ALL[name])
    for stage in range(H):
        broken = violations(
            limits,
            weights[:, stage],
            before[:, stage],
            turnover_limit=TURNOVER,
            covariance=given[1].numpy(),
        )
        assert all(amount.max() < 1e-8 for amount in broken.values()), broken


def _permuted(limits: tuple[Limit, ...], order: list[int]) -> tuple[Limit, ...]:
    """The same limits of assets in another order; ``order`` names the old place of each new one."""
    place = {old: new for new, old in enumerate(order)}

    def moved(limit: Limit) -> Limit:
        fields: dict[str, Any] = {}
        for key, value in vars(limit).items():
            if key == "asset":
                fields[key] = place[value]
            elif key == "assets":
                fields[key] = tuple(place[asset] for asset in value)
            else:
                fields[key] = tuple(value[old] for old in order) if isinstance(value, tuple) else value
        return type(limit)(**fields)

    return tuple(moved(limit) for limit in limits)


@pytest.mark.parametrize("name", ALL)
def test_assets_in_another_order_have_their_weights_in_it(instances: Any, name: str) -> None:
    returns, covariance, previous, *parameters = (part.detach() for part in arguments(problem(instances, seed=5)))
    order = [3, 0, 4, 2, 1]
    weights = decide(ALL[name], (returns, covariance, previous, *parameters))
    others = (returns[..., order], covariance[:, order][:, :, order], previous[:, order], *parameters)
    torch.testing.assert_close(decide(_permuted(ALL[name], order), others), weights[..., order], rtol=0, atol=1e-8)


def _slack(limit: Limit) -> Limit | None:
    """The limit so far away that nothing reaches it."""
    far: dict[type[Limit], Callable[[Any], Limit]] = {
        GroupLimits: lambda one: GroupLimits(one.assets, -9.0, 9.0, one.name),
        ExposureLimits: lambda one: ExposureLimits(one.exposures, -9.0, 9.0, one.name),
        ActiveShare: lambda one: ActiveShare(one.benchmark, 9.0),
        GrossLeverage: lambda one: GrossLeverage(9.0),
        NetExposure: lambda one: NetExposure(-9.0, 9.0),
        TradeLimits: lambda one: TradeLimits(9.0),
        TrackingErrorLimit: lambda one: TrackingErrorLimit(one.benchmark, 9.0),
    }
    make = far.get(type(limit))
    return None if make is None else make(limit)


@pytest.mark.parametrize("name", [name for name in ALL if name != "no trade"])
def test_a_limit_that_nothing_reaches_changes_nothing(instances: Any, name: str) -> None:
    given = arguments(problem(instances, seed=6))
    plain = tuple(limit for limit in ALL[name] if _slack(limit) is None)
    far = tuple(_slack(limit) or limit for limit in ALL[name])
    one, other = decide(plain, given, solver="piqp"), decide(far, given, solver="piqp")
    torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
    asked = upstream(one)
    gradients = (torch.autograd.grad((weights * asked).sum(), given) for weights in (one, other))
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ALL)
def test_returns_risk_aversion_and_costs_in_other_units_change_nothing(instances: Any, name: str) -> None:
    given = tuple(part.detach() for part in arguments(problem(instances, seed=8)))
    returns, covariance, previous, aversion, turnover, cost = given
    scaled = decide(ALL[name], (100.0 * returns, covariance, previous, 100.0 * aversion, turnover, 100.0 * cost))
    torch.testing.assert_close(decide(ALL[name], given), scaled, rtol=0, atol=1e-8)
