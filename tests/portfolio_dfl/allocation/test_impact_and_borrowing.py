"""Market impact and the cost of borrowing in the plan: the optimum, its gradients, and who refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import torch
from torch import Tensor

from portfolio_dfl.allocation import BoxLimits, CashAsset, GrossLeverage, MultiPeriodMeanVariance
from portfolio_dfl.errors import AllocationError

N, H = 4, 3
IMPACT = [0.02, 0.05, 0.01, 0.03]
BORROW = [2e-4, 5e-4, 1e-4, 3e-4]
LONG_SHORT = (BoxLimits(-0.6, 1.2), GrossLeverage(1.8))


def layer(limits: Any = (), **changes: Any) -> MultiPeriodMeanVariance:
    options = {"turnover_limit": 0.3, "transaction_cost": 2e-4, "market_impact": IMPACT, "limits": limits, **changes}
    return MultiPeriodMeanVariance(N, H, **options)


def by_hand(instance: Any, b: int, *, short: bool) -> np.ndarray:
    """The same problem in the words of cvxpy."""
    mu, sigma, held = instance.returns[b].numpy(), instance.covariance[b].numpy(), instance.previous[b].numpy()
    w, loss, rules, before = cp.Variable((H, N)), 0.0, [], held
    for s in range(H):
        trade = w[s] - before
        loss += -mu[s] @ w[s] + 5.0 * cp.quad_form(w[s], cp.psd_wrap(sigma)) + 2e-4 * cp.norm1(trade)
        loss += cp.sum(cp.multiply(IMPACT, cp.square(trade)))
        rules += [cp.sum(w[s]) == 1.0, cp.norm1(trade) <= 0.3]
        if short:
            loss += cp.sum(cp.multiply(BORROW, cp.neg(w[s])))
            rules += [w[s] >= -0.6, w[s] <= 1.2, cp.norm1(w[s]) <= 1.8]
        else:
            rules.append(w[s] >= 0.0)
        before = w[s]
    cp.Problem(cp.Minimize(1e3 * loss), rules).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13
    )
    found: np.ndarray = w.value
    return found


@pytest.mark.parametrize("short", [False, True], ids=["long only", "long-short"])
def test_the_plan_is_the_optimum_of_another_modelling_language(instances: Callable[..., Any], short: bool) -> None:
    instance = instances(4, H, N, seed=5)
    plan = layer(LONG_SHORT if short else (), borrow_cost=BORROW)
    weights = plan(instance.returns, instance.covariance, instance.previous)
    assert (weights.min() < -0.01) == short
    for b in range(4):
        np.testing.assert_allclose(weights[b].numpy(), by_hand(instance, b, short=short), atol=2e-6)


@pytest.mark.parametrize("short", [False, True], ids=["long only", "long-short"])
def test_gradients_agree_with_central_differences(instances: Callable[..., Any], short: bool) -> None:
    instance = instances(3, H, N, seed=8)
    limits = LONG_SHORT if short else ()
    returns, covariance, previous = instance.leaves()
    impact = torch.tensor(IMPACT, dtype=torch.float64, requires_grad=True)
    borrow = torch.tensor(BORROW, dtype=torch.float64, requires_grad=True)
    arguments = {"returns": returns, "covariance": covariance, "previous": previous, "impact": impact}
    if short:
        arguments["borrow"] = borrow
    upstream = torch.randn(3, H, N, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def value(**given: Tensor) -> Tensor:
        now = {"borrow": borrow} | arguments | given
        plan = layer(limits, market_impact=now["impact"], borrow_cost=now["borrow"])
        return (plan(now["returns"], now["covariance"], now["previous"]) * upstream).sum()

    grads = torch.autograd.grad(value(), list(arguments.values()))
    generator = torch.Generator().manual_seed(2)
    for (name, argument), grad in zip(arguments.items(), grads, strict=True):
        direction = torch.randn(argument.shape, dtype=torch.float64, generator=generator)
        if name == "covariance":
            direction = direction + direction.transpose(-1, -2)
        size = 1e-5 * float(argument.detach().abs().max())
        with torch.no_grad():
            there, back = (value(**{name: argument + sign * size * direction}) for sign in (1.0, -1.0))
        slope, exact = float(there - back) / (2.0 * size), float((grad * direction).sum())
        assert abs(slope - exact) <= 1e-6 * max(1.0, abs(exact)), name


def test_an_asset_that_stays_at_its_bound_has_a_gradient_of_its_neighbours_alone(
    instances: Callable[..., Any],
) -> None:
    """Held at 0 and kept there, its trade of 0 is no kink: the impact has no variables of its own."""
    instance = instances(1, 1, N, seed=3)
    returns, covariance, _ = instance.leaves()
    held = torch.tensor([[0.0, 0.4, 0.3, 0.3]], dtype=torch.float64)
    plan = MultiPeriodMeanVariance(N, 1, market_impact=IMPACT)
    returns = (returns.detach() + torch.tensor([-0.05, 0.0, 0.0, 0.0])).requires_grad_()
    weights = plan(returns, covariance, held)
    assert weights[0, 0, 0].abs() < 1e-9
    (grad,) = torch.autograd.grad(weights[0, 0, 1], returns)
    assert grad[0, 0, 0] == 0.0
    assert grad[0, 0, 1] > 0.0


def test_the_native_solver_refuses_both_with_advice() -> None:
    with pytest.raises(AllocationError, match=r"no market impact: take solver='auto'"):
        layer(solver="native")
    with pytest.raises(AllocationError, match=r"no cost of borrowing: take solver='auto'"):
        layer((BoxLimits(-1.0, 1.0),), market_impact=0.0, borrow_cost=BORROW, solver="native")


def test_long_only_plans_pay_nobody_for_borrowing_and_stay_native(instances: Callable[..., Any]) -> None:
    instance = instances(2, H, N, seed=1)
    plan = layer(market_impact=0.0, borrow_cost=BORROW, solver="native")
    free = layer(market_impact=0.0, solver="native")
    arguments = (instance.returns, instance.covariance, instance.previous)
    assert torch.equal(plan(*arguments), free(*arguments))


def test_cash_moves_without_impact(instances: Callable[..., Any]) -> None:
    instance = instances(2, H, N, seed=4)
    arguments = (instance.returns, instance.covariance, instance.previous)
    one = layer((CashAsset(3),), market_impact=[0.02, 0.05, 0.01, 0.0])(*arguments)
    other = layer((CashAsset(3),), market_impact=IMPACT)(*arguments)
    torch.testing.assert_close(one, other, rtol=0.0, atol=1e-12)


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(AllocationError, match="market_impact has 3 entries for 4 assets"):
        layer(market_impact=[0.1, 0.2, 0.3])
    with pytest.raises(AllocationError, match=r"borrow_cost is -0\.1"):
        layer(borrow_cost=-0.1)


def test_the_text_of_a_layer_tells_costs_apart_by_their_last_digit() -> None:
    texts = {repr(layer(transaction_cost=[1e-4, 2e-4, 3e-4, last])) for last in (4.00001e-4, 4.00002e-4)}
    texts |= {repr(layer(market_impact=[1e-4, 2e-4, 3e-4, last])) for last in (4.00001e-4, 4.00002e-4)}
    assert len(texts) == 4
