"""Smoothed plans: their derivatives against finite differences, units, what they tend to, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from portfolio_dfl.allocation import BoxLimits, GroupLimits, MultiPeriodMeanVariance
from portfolio_dfl.allocation.smoothing import Smoothing, perturbations
from portfolio_dfl.errors import AllocationError

N = 5
COST = 2e-4
LIMITS = [BoxLimits(upper=0.75)]
# Steps for each argument: differences of the piecewise affine map must not meet a kink.
SIZES = {"returns": 1e-3, "covariance": 1e-5, "previous": 1e-2, "aversion": 1.0, "limit": 1e-2, "cost": 1e-5}
STEPS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)


def arguments(instance: Any) -> dict[str, Tensor]:
    returns, covariance, previous = instance.leaves()
    numbers = (
        torch.tensor(10.0, dtype=torch.float64),
        torch.tensor(0.4, dtype=torch.float64),
        torch.full((N,), COST, dtype=torch.float64),
    )
    aversion, limit, cost = (number.requires_grad_() for number in numbers)
    return dict(zip(SIZES, (returns, covariance, previous, aversion, limit, cost), strict=True))


def plan(layer: MultiPeriodMeanVariance, given: dict[str, Tensor], smoothing: Smoothing | None) -> Tensor:
    return layer(
        given["returns"],
        given["covariance"],
        given["previous"],
        risk_aversion=given["aversion"],
        turnover_limit=given["limit"],
        transaction_cost=given["cost"],
        smoothing=smoothing,
    )


@pytest.mark.parametrize("horizon", [1, 5, 20])
@pytest.mark.parametrize(
    ("smoothing", "limits"),
    [
        (Smoothing("barrier", 1e-6, value="smoothed"), LIMITS),
        (Smoothing("barrier", 1e-5, value="smoothed"), [*LIMITS, GroupLimits([0, 1], upper=0.9)]),
        (Smoothing("barrier", 1e-4, value="smoothed"), []),
        (Smoothing("penalty", 1e-5, value="smoothed", height=0.02), LIMITS),
        (Smoothing("penalty", 1e-4, value="smoothed", height=0.02), []),
        (Smoothing("perturbation", 1e-3, 4, value="smoothed"), LIMITS),
    ],
    ids=lambda part: f"{part.way} {part.strength}" if isinstance(part, Smoothing) else f"{len(part)} limits",
)
def test_derivatives_agree_with_finite_differences(
    instances: Any, horizon: int, smoothing: Smoothing, limits: list[Any]
) -> None:
    layer = MultiPeriodMeanVariance(N, horizon, limits=limits)
    given = arguments(instances(2, horizon, N, seed=horizon))
    generator = torch.Generator().manual_seed(1)
    upstream = torch.randn(2, horizon, N, dtype=torch.float64, generator=generator)
    gradients = torch.autograd.grad((plan(layer, given, smoothing) * upstream).sum(), list(given.values()))
    for (name, value), gradient in zip(given.items(), gradients, strict=True):
        direction = torch.randn(value.shape, dtype=torch.float64, generator=generator)
        if name == "covariance":
            direction = 0.5 * (direction + direction.transpose(-1, -2))
        if name == "previous":
            direction = direction - direction.mean(-1, keepdim=True)

        def along(
            step: float, name: str = name, value: Tensor = value, direction: Tensor = SIZES[name] * direction
        ) -> Tensor:
            with torch.no_grad():
                return (plan(layer, given | {name: value + step * direction}, smoothing) * upstream).sum()

        expected = float((gradient * SIZES[name] * direction).sum())
        errors = []
        for step in STEPS:
            near, far = along(step) - along(-step), along(2 * step) - along(-2 * step)
            errors.append(abs(float(8.0 * near - far) / (12.0 * step) - expected))
            if errors[-1] <= 1e-6 * max(abs(expected), 1e-4):
                break
        assert min(errors) <= 1e-6 * max(abs(expected), 1e-4), f"{name}: {min(errors):.2e} beside {expected:.2e}"


@pytest.mark.parametrize("way", ["barrier", "penalty", "perturbation"])
def test_forecasts_costs_and_strength_in_other_units_leave_plans_and_directions(instances: Any, way: Any) -> None:
    instance = instances(4, 5, N, seed=3)
    layer = MultiPeriodMeanVariance(N, 5, turnover_limit=0.2)
    found = []
    for unit in (1.0, 250.0):
        smoothing = Smoothing(way, 1e-4 * unit, value="smoothed")
        returns = (unit * instance.returns).requires_grad_()
        weights = layer(
            returns, unit * instance.covariance, instance.previous, transaction_cost=COST * unit, smoothing=smoothing
        )
        (gradient,) = torch.autograd.grad(weights[..., 0].sum(), returns)
        found.append((weights.detach(), unit * gradient))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("way", ["barrier", "penalty", "perturbation"])
def test_the_value_is_the_exact_plan_and_the_derivative_the_smoothed_one(instances: Any, way: Any) -> None:
    instance = instances(4, 5, N, seed=4)
    layer = MultiPeriodMeanVariance(N, 5, turnover_limit=0.2, transaction_cost=COST)
    returns, covariance, previous = instance.leaves()
    exact = layer(instance.returns, instance.covariance, instance.previous)
    lent = layer(returns, covariance, previous, smoothing=Smoothing(way))
    smooth = layer(returns, covariance, previous, smoothing=Smoothing(way, value="smoothed"))
    torch.testing.assert_close(lent.detach(), exact, rtol=0, atol=0)
    assert not torch.equal(smooth.detach(), exact)
    upstream = torch.randn(exact.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for one, other in zip(
        torch.autograd.grad((lent * upstream).sum(), (returns, covariance)),
        torch.autograd.grad((smooth * upstream).sum(), (returns, covariance)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("way", ["barrier", "penalty", "perturbation"])
def test_plans_tend_to_the_exact_one_and_move_where_it_does_not(instances: Any, way: Any) -> None:
    instance = instances(6, 3, N, seed=5, scale=1e-2)
    layer = MultiPeriodMeanVariance(N, 3, risk_aversion=1.0)
    returns, covariance, previous = instance.leaves()
    exact = layer(returns, covariance, previous)
    (gradient,) = torch.autograd.grad(exact[..., 0].sum(), returns)
    still = gradient.flatten(1).norm(dim=1) < 1e-9
    assert still.any()
    distances = []
    for strength in (1e-2, 1e-4, 1e-6):
        smoothing = Smoothing(way, strength, samples=16, value="smoothed")
        weights = layer(returns, covariance, previous, smoothing=smoothing)
        distances.append(float((weights - exact).detach().abs().max()))
        if strength == 1e-2:
            (gradient,) = torch.autograd.grad(weights[..., 0].sum(), returns)
            moves = gradient.flatten(1).norm(dim=1)[still] > 1e-9
            # Where all of sixteen perturbed plans are vertices, their mean has no derivative either.
            assert moves.any() if way == "perturbation" else moves.all()
    # Of an affine piece, perturbed forecasts that stay on it have the exact plan as their mean.
    assert distances[0] > distances[1] >= distances[2]
    assert way == "perturbation" or distances[1] > distances[2]
    assert distances[2] < 0.05


def test_a_perturbed_plan_is_the_mean_of_exact_plans(instances: Any) -> None:
    instance = instances(3, 2, N, seed=6)
    layer = MultiPeriodMeanVariance(N, 2, turnover_limit=0.2)
    smoothing = Smoothing("perturbation", 1e-3, 4, value="smoothed")
    shifts = perturbations(smoothing, (3, 2, N))
    torch.testing.assert_close(shifts.sum(0), torch.zeros(3, 2, N, dtype=torch.float64), rtol=0, atol=1e-17)
    plans = [layer(instance.returns + shift, instance.covariance, instance.previous) for shift in shifts]
    found = layer(instance.returns, instance.covariance, instance.previous, smoothing=smoothing)
    torch.testing.assert_close(found, torch.stack(plans).mean(0), rtol=0, atol=1e-14)


def test_an_asset_whose_weight_is_fixed_stays_there(instances: Any) -> None:
    instance = instances(2, 2, N, seed=7)
    fixed = np.array([0.2, 0.0, 0.0, 0.0, 0.0])
    layer = MultiPeriodMeanVariance(N, 2, limits=[BoxLimits(fixed, np.array([0.2, 1.0, 1.0, 1.0, 1.0]))])
    returns, covariance, previous = instance.leaves()
    weights = layer(returns, covariance, previous, smoothing=Smoothing("barrier", 1e-5, value="smoothed"))
    torch.testing.assert_close(weights[..., 0], torch.full((2, 2), 0.2, dtype=torch.float64), rtol=0, atol=1e-12)
    (gradient,) = torch.autograd.grad(weights[..., 1].sum(), returns)
    assert (gradient[..., 0] == 0.0).all()
    assert (gradient[..., 1] > 0.0).all()


def test_what_cannot_be_smoothed_is_refused(instances: Any) -> None:
    instance = instances(1, 2, N, seed=8)
    inputs = (instance.returns, instance.covariance, instance.previous)
    with pytest.raises(AllocationError, match="come in pairs"):
        Smoothing("perturbation", samples=3)
    with pytest.raises(AllocationError, match="strength"):
        Smoothing(strength=0.0)
    with pytest.raises(AllocationError, match="way"):
        Smoothing("sigmoid")  # type: ignore[arg-type]
    with pytest.raises(AllocationError, match="take way='perturbation'"):
        MultiPeriodMeanVariance(N, 2, solver="piqp")(*inputs, smoothing=Smoothing("barrier"))
    with pytest.raises(AllocationError, match="take way='barrier'"):
        MultiPeriodMeanVariance(N, 2, limits=[GroupLimits([0, 1], upper=0.5)])(*inputs, smoothing=Smoothing("penalty"))
    with pytest.raises(AllocationError, match="no solution object"):
        MultiPeriodMeanVariance(N, 2)(*inputs, smoothing=Smoothing(), return_solution=True)
    with pytest.raises(AllocationError, match="batch element 0: an expected return"):
        MultiPeriodMeanVariance(N, 2)(
            torch.full_like(inputs[0], torch.nan), *inputs[1:], smoothing=Smoothing(value="smoothed")
        )
