"""Optional limits and costs: what each does, that they compose, and what cannot be satisfied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from portfolio_dfl.allocation import (
    ActiveShare,
    BenchmarkBand,
    BoxLimits,
    CashAsset,
    ExposureLimits,
    GroupLimits,
    Limit,
    MultiPeriodMeanVariance,
    TrackingCost,
    append_cash,
)
from portfolio_dfl.errors import AllocationError

EQUAL = (0.2,) * 5
NATIVE: list[tuple[Limit, ...]] = [
    (BoxLimits(0.05, 0.4),),
    (BoxLimits(-0.3, 0.7),),
    (BoxLimits((0.0, 0.0, 0.2, 0.0, 0.1), (1.0, 0.5, 0.2, 0.3, 1.0)),),
    (BenchmarkBand(EQUAL, 0.1),),
    (CashAsset(4),),
    (TrackingCost(EQUAL, 20.0),),
    (BoxLimits(0.0, 0.5), BenchmarkBand(EQUAL, 0.15), CashAsset(0), TrackingCost(EQUAL, 5.0)),
]


def solve(layer: MultiPeriodMeanVariance, instance: Any) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    leaves = instance.leaves()
    weights = layer(*leaves)
    upstream = torch.randn(weights.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return weights, torch.autograd.grad((weights * upstream).sum(), leaves)


@pytest.mark.parametrize("limits", NATIVE, ids=lambda limits: "+".join(type(limit).__name__ for limit in limits))
@pytest.mark.parametrize("turnover", [0.6, None])
def test_native_and_black_box_agree_under_limits(
    instances: Any, limits: tuple[Limit, ...], turnover: float | None
) -> None:
    instance = instances(4, 3, 5, seed=len(limits))
    instance.previous[:] = torch.tensor(EQUAL, dtype=torch.float64)
    settings: dict[str, Any] = {"turnover_limit": turnover, "transaction_cost": 5e-4, "limits": limits}
    weights, gradients = solve(MultiPeriodMeanVariance(5, 3, solver="native", **settings), instance)
    others, references = solve(MultiPeriodMeanVariance(5, 3, solver="piqp", **settings), instance)
    torch.testing.assert_close(weights, others, rtol=0, atol=1e-9)
    for gradient, reference in zip(gradients[:2], references[:2], strict=True):
        torch.testing.assert_close(gradient, reference, rtol=1e-6, atol=1e-6)


def test_boxes_are_kept_and_may_allow_short_positions(instances: Any) -> None:
    instance = instances(8, 2, 5, seed=1, scale=3e-3)
    weights = MultiPeriodMeanVariance(5, 2, limits=[BoxLimits(-0.2, 0.6)])(*instance.leaves()).detach()
    assert weights.min() == pytest.approx(-0.2)
    assert weights.max() == pytest.approx(0.6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(8, 2, dtype=torch.float64))


def test_groups_and_active_share_are_kept(instances: Any) -> None:
    instance = instances(4, 2, 5, seed=2, scale=5e-3)
    layer = MultiPeriodMeanVariance(
        5, 2, turnover_limit=1.5, limits=[GroupLimits((0, 1), 0.3, 0.5, "stocks"), ActiveShare(EQUAL, 0.3)]
    )
    weights, gradients = solve(layer, instance)
    weights = weights.detach()
    group = weights[..., :2].sum(-1)
    assert group.min() > 0.3 - 1e-9
    assert group.max() < 0.5 + 1e-9
    share = 0.5 * (weights - 0.2).abs().sum(-1)
    assert share.max() == pytest.approx(0.3, abs=1e-9)
    for gradient in gradients:
        assert torch.isfinite(gradient).all()


def test_an_exposure_is_kept_and_one_of_ones_and_zeros_is_a_group(instances: Any) -> None:
    instance = instances(4, 2, 5, seed=3, scale=5e-3)
    beta = torch.tensor([1.3, 0.2, 0.9, -0.1, 0.6], dtype=torch.float64)
    layer = MultiPeriodMeanVariance(5, 2, limits=[ExposureLimits(beta.tolist(), 0.45, 0.55, "beta")])
    weights, gradients = solve(layer, instance)
    held = weights.detach() @ beta
    assert held.min() > 0.45 - 1e-9
    assert held.max() < 0.55 + 1e-9
    assert float(gradients[0].abs().max()) > 0.0
    group = MultiPeriodMeanVariance(5, 2, limits=[GroupLimits((0, 1), 0.3, 0.4)])
    same = MultiPeriodMeanVariance(5, 2, limits=[ExposureLimits((1.0, 1.0, 0.0, 0.0, 0.0), 0.3, 0.4)])
    for one, other in zip(solve(group, instance)[1], solve(same, instance)[1], strict=True):
        torch.testing.assert_close(one, other)


def test_cash_is_free_to_trade_and_tracking_pulls_to_the_benchmark(instances: Any) -> None:
    instance = instances(3, 2, 4, seed=4)
    returns, covariance = append_cash(instance.returns, instance.covariance, 1e-4)
    assert returns.shape == (3, 2, 5)
    assert covariance[:, 4].abs().max() == 0.0
    held = torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0]], dtype=torch.float64).expand(3, 5)
    weights = MultiPeriodMeanVariance(5, 2, turnover_limit=0.25, limits=[CashAsset()])(returns, covariance, held)
    assert weights[:, 0, :4].sum(-1).max() == pytest.approx(0.25)
    strong = MultiPeriodMeanVariance(5, 2, limits=[TrackingCost(EQUAL, 1e6)])
    instance = instances(3, 2, 5, seed=4)
    torch.testing.assert_close(strong(*instance.leaves()), torch.full((3, 2, 5), 0.2).double(), rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (lambda: [BoxLimits(0.0, 0.19)], r"sum to 0.95.*no portfolio is fully invested"),
        (lambda: [BoxLimits(0.3)], "exceeds 1"),
        (lambda: [BoxLimits(0.3, 0.2)], "lower limit 0.3 exceeds upper limit 0.2"),
        (lambda: [BoxLimits((0.1, 0.2))], "2 entries for 5 assets"),
        (
            lambda: [BoxLimits(0.0, 0.3), GroupLimits((0, 1), lower=0.7, name="stocks")],
            r"cannot be met.*'stocks' at least 0.7.*miss one another by 0.1;",
        ),
        (lambda: [GroupLimits((0, 7))], "names asset 7"),
        (
            lambda: [BoxLimits(0.0, (0.0, 1.0, 1.0, 1.0, 1.0)), ActiveShare(EQUAL, 0.1)],
            "cannot be met.*active share at most 0.1",
        ),
        (lambda: [ExposureLimits((0.5,) * 5, lower=0.6, name="beta")], "cannot be met.*'beta' at least 0.6"),
        (lambda: [ExposureLimits(EQUAL, 0.3, 0.2, "beta")], "no number lies between 0.3 and 0.2"),
        (lambda: [ExposureLimits((0.1, 0.2), 0.3)], "2 entries for 5 assets"),
        (lambda: [ExposureLimits((0.1, 0.2, np.inf, 0.1, 0.1), 0.3)], "inf at asset 2"),
        (lambda: [BenchmarkBand((0.5,) * 5, 0.1)], "sum to 2.5"),
        (lambda: [ActiveShare(EQUAL, 0.0)], "must be positive"),
        (lambda: [TrackingCost(EQUAL, -1.0)], "at least 0"),
        (lambda: [CashAsset(9)], "asset 9"),
    ],
)
def test_limits_that_cannot_be_satisfied_are_refused_before_solving(
    limits: Callable[[], list[Limit]], words: str
) -> None:
    with pytest.raises(AllocationError, match=words):
        MultiPeriodMeanVariance(5, 2, limits=limits())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: BoxLimits(float("nan")), "BoxLimits: lower limit is nan"),
        (lambda: BoxLimits(0.0, (0.5, float("nan"))), "BoxLimits: upper limit is nan"),
        (lambda: BoxLimits((0.1, 0.3), 0.2), "lower limit 0.3 exceeds upper limit 0.2"),
        (lambda: BoxLimits(torch.tensor([0.1, 0.3]), 0.2), "lower limit 0.3 exceeds upper limit 0.2"),
        (lambda: BoxLimits(float("inf")), "lower limit is inf"),
        (lambda: BoxLimits(upper=float("-inf")), "upper limit is -inf"),
        (lambda: BoxLimits("little"), "a number is needed"),
        (lambda: BoxLimits((0.1, 0.2), (0.3, 0.4, 0.5)), "2 lower and 3 upper limits"),
        (lambda: BenchmarkBand(EQUAL, -0.1), "deviation is -0.1; it must be at least 0"),
        (lambda: BenchmarkBand(EQUAL, float("nan")), "deviation is nan"),
        (lambda: BenchmarkBand((0.5, float("nan")), 0.1), "BenchmarkBand.benchmark is nan"),
        (lambda: BenchmarkBand((0.5, 0.6), 0.1), "sum to 1.1"),
        (lambda: GroupLimits(()), "group 'group' holds no asset"),
        (lambda: GroupLimits((0, -1), name="stocks"), "asset of group 'stocks' must be at least 0"),
        (lambda: GroupLimits((0.5,)), "a whole number is needed"),
        (lambda: GroupLimits((0,), 0.5, 0.4, "stocks"), "'stocks': lower limit 0.5 exceeds upper limit 0.4"),
        (lambda: GroupLimits((0,), float("nan")), "group 'group': lower limit is nan"),
        (lambda: ExposureLimits((0.5, np.nan), 0.1), "'exposure' holds NaN at asset 1"),
        (lambda: ExposureLimits((0.5, np.inf), 0.1), "inf at asset 1"),
        (lambda: ExposureLimits((0.5,), 0.2, 0.1), "no number lies between 0.2 and 0.1"),
        (lambda: ExposureLimits((0.5,), float("inf")), "lower limit is inf"),
        (lambda: ActiveShare(EQUAL, -0.1), "limit is -0.1; it must be positive"),
        (lambda: ActiveShare((2.0,), 0.1), "sum to 2"),
        (lambda: TrackingCost(EQUAL, float("nan")), "aversion is nan; it must be at least 0 and finite"),
        (lambda: TrackingCost((0.0, 0.0), 1.0), "sum to 0"),
        (lambda: CashAsset(0.5), "CashAsset.asset is 0.5"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused_by_the_limits_own_constructor(
    make: Callable[[], Limit], words: str
) -> None:
    with pytest.raises(AllocationError, match=words):
        make()


def test_costs_and_turnover_limits_may_be_arrays(instances: Any) -> None:
    instance = instances(2, 3, 5, seed=6)
    costs, turnover = np.linspace(0.0, 1e-3, 5), np.array([0.3, np.inf, 0.2])
    given = MultiPeriodMeanVariance(5, 3, transaction_cost=costs, turnover_limit=turnover)
    written = MultiPeriodMeanVariance(5, 3, transaction_cost=costs.tolist(), turnover_limit=turnover.tolist())
    assert torch.equal(given(*instance.leaves()), written(*instance.leaves()))
    scalar = MultiPeriodMeanVariance(5, 3, risk_aversion=np.array(10.0), transaction_cost=np.float32(0.0))
    assert torch.equal(scalar(*instance.leaves()), MultiPeriodMeanVariance(5, 3)(*instance.leaves()))


def test_held_weights_outside_the_limits_need_turnover_enough(instances: Any) -> None:
    instance = instances(1, 2, 5, seed=5)
    held = torch.tensor([[0.6, 0.1, 0.1, 0.1, 0.1]], dtype=torch.float64)
    capped = [BoxLimits(0.0, 0.4)]
    with pytest.raises(AllocationError, match=r"batch element 0.*turnover limit 0.3"):
        MultiPeriodMeanVariance(5, 2, turnover_limit=0.3, limits=capped)(instance.returns, instance.covariance, held)
    found = MultiPeriodMeanVariance(5, 2, turnover_limit=0.5, limits=capped)
    assert found(instance.returns, instance.covariance, held).max() < 0.4 + 1e-12
