"""A limit on the tracking error: it holds at every stage, and its optimum is that of the cone program."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import torch

from portfolio_dfl.allocation import GroupLimits, MultiPeriodMeanVariance, TrackingErrorLimit
from portfolio_dfl.errors import AllocationError

N = 5
BENCHMARK = (0.2,) * N


def errors(weights: torch.Tensor, instance: Any) -> torch.Tensor:
    away = weights - 0.2
    return torch.einsum("bhi,bij,bhj->bh", away, instance.covariance, away).sqrt()


@pytest.mark.parametrize("horizon", [1, 4])
@pytest.mark.parametrize("limit", [5e-4, 2e-3, 4e-3])
def test_it_holds_at_every_stage_and_binds_where_the_plan_would_go_further(
    instances: Any, horizon: int, limit: float
) -> None:
    instance = instances(12, horizon, N, seed=horizon, scale=4e-3)
    instance.previous[:] = 0.2
    settings: dict[str, Any] = {"turnover_limit": 0.5, "transaction_cost": 3e-4}
    free = MultiPeriodMeanVariance(N, horizon, **settings)(instance.returns, instance.covariance, instance.previous)
    layer = MultiPeriodMeanVariance(N, horizon, limits=[TrackingErrorLimit(BENCHMARK, limit)], **settings)
    weights = layer(instance.returns, instance.covariance, instance.previous)
    found = errors(weights, instance)
    assert float((found - limit).max()) < 1e-8 * limit
    beyond = (errors(free, instance) > limit).any(1)
    assert beyond.any()
    np.testing.assert_allclose(found[beyond].max(1).values, limit, rtol=1e-8)
    torch.testing.assert_close(weights[~beyond], free[~beyond], rtol=0, atol=1e-9)


def test_it_is_the_solution_of_the_cone_program(instances: Any) -> None:
    instance = instances(1, 2, N, seed=3, scale=4e-3)
    instance.previous[:] = 0.2
    limit, aversion, cost, turnover = 2e-3, 10.0, 3e-4, 0.5
    layer = MultiPeriodMeanVariance(
        N,
        2,
        risk_aversion=aversion,
        turnover_limit=turnover,
        transaction_cost=cost,
        limits=[TrackingErrorLimit(BENCHMARK, limit), GroupLimits((0, 1), upper=0.45)],
    )
    weights = layer(instance.returns, instance.covariance, instance.previous)[0].numpy()
    root = np.linalg.cholesky(instance.covariance[0].numpy()).T
    plan = cp.Variable((2, N))
    loss, rules, before = 0.0, [plan >= 0, cp.sum(plan, axis=1) == 1], instance.previous[0].numpy()
    for stage in range(2):
        now = plan[stage]
        trade = cp.norm1(now - before)
        loss += -1e3 * (instance.returns[0, stage].numpy() @ now - cost * trade)
        loss += 1e3 * aversion / 2 * cp.sum_squares(root @ now)
        rules += [trade <= turnover, now[0] + now[1] <= 0.45, cp.norm2(1e2 * root @ (now - 0.2)) <= 1e2 * limit]
        before = now
    cp.Problem(cp.Minimize(loss), rules).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(weights, plan.value, atol=2e-6)


def test_a_start_too_far_from_the_benchmark_is_told_with_its_date_and_what_can_be_reached(instances: Any) -> None:
    instance = instances(2, 1, N, seed=1)
    instance.previous[:] = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    layer = MultiPeriodMeanVariance(N, 1, turnover_limit=0.1, limits=[TrackingErrorLimit(BENCHMARK, 1e-4)])
    with pytest.raises(
        AllocationError, match=r"^monday: no plan .*error of 0.0001: the nearest reaches 0.\d+ at stage 1"
    ):
        layer(instance.returns, instance.covariance, instance.previous, dates=["monday", "tuesday"])


def test_one_limit_a_plan(instances: Any) -> None:
    twice = [TrackingErrorLimit(BENCHMARK, 1e-3), TrackingErrorLimit((1.0, 0.0, 0.0, 0.0, 0.0), 1e-3)]
    with pytest.raises(AllocationError, match="one limit on the tracking error"):
        MultiPeriodMeanVariance(N, 1, limits=twice)
    with pytest.raises(AllocationError, match="must be positive"):
        TrackingErrorLimit(BENCHMARK, 0.0)
