"""Plans under factor risk are those of the same problem with a dense covariance, and so are their gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from portfolio_dfl import (
    AllocationError,
    BoxLimits,
    CashAsset,
    GroupLimits,
    Limit,
    MultiPeriodMeanVariance,
    Smoothing,
    TrackingCost,
)
from portfolio_dfl.risk import FactorCovariance

F64 = torch.float64


def problem(B: int, H: int, N: int, K: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Returns, exposures, factor covariance, specific variance and held weights."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(B, K, K))
    parts = (
        rng.normal(0.0, 1e-3, (B, H, N)),
        rng.normal(0.0, 1e-2, (B, N, K)),
        root @ root.transpose(0, 2, 1) / K + 0.1 * np.eye(K),
        rng.uniform(0.005, 0.02, (B, N)) ** 2,
        rng.dirichlet(np.full(N, 20.0), B),
    )
    r, F, omega, d, w0 = (torch.from_numpy(part) for part in parts)
    return r, F, omega, d, w0


def limits(kind: str, N: int) -> Sequence[Limit]:
    third = list(range(N // 3))
    return {
        "long only": [],
        "largest weight": [BoxLimits(0.0, max(0.25, 2.5 / N))],
        "fixed and short": [BoxLimits([0.05] + [-0.1] * (N - 1), [0.05] + [0.4] * (N - 1))],
        "groups": [GroupLimits(third, 0.25, 0.42, "first"), GroupLimits([N - 1, N - 2], 0.0, 0.35, "last")],
        "tracking": [TrackingCost(np.full(N, 1.0 / N).tolist(), 4.0), BoxLimits(0.0, 0.6)],
        "cash": [CashAsset(N - 1)],
    }[kind]


KINDS = ("long only", "largest weight", "fixed and short", "groups", "tracking", "cash")


@pytest.mark.parametrize("seed", range(30))
def test_weights_and_gradients_are_those_of_the_dense_problem(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    kind = KINDS[seed % len(KINDS)]
    N, H, K, B = int(rng.integers(6, 25)), int(rng.integers(1, 6)), int(rng.integers(1, 5)), 2
    given_parts = problem(B, H, N, K, seed)
    upstream = torch.from_numpy(rng.normal(size=(B, H, N)))
    found = []
    for way in ("factored", "dense"):
        r, F, omega, d, w0 = (part.clone().requires_grad_() for part in given_parts)
        lam = torch.tensor(10.0, dtype=F64, requires_grad=True)
        tau = torch.full((H,), 0.3, dtype=F64, requires_grad=True)
        cost = torch.full((N,), 5e-4 * (seed % 2), dtype=F64, requires_grad=True)
        layer = MultiPeriodMeanVariance(
            N, H, limits=limits(kind, N), solver="factored" if way == "factored" else "auto"
        )
        risk = FactorCovariance(F, omega, d)
        solution = layer(
            r,
            risk if way == "factored" else risk.dense(),
            w0,
            risk_aversion=lam,
            turnover_limit=tau,
            transaction_cost=cost,
            return_solution=True,
        )
        assert solution.certified.all()
        assert solution.certificate.max() < 1e-8
        gradients = torch.autograd.grad(solution.weights, (r, F, omega, d, w0, lam, tau, cost), upstream)
        found.append((solution, gradients))
    (ours, by_factors), (dense, by_blocks) = found
    assert ours.solver == "factored"
    torch.testing.assert_close(ours.weights, dense.weights, rtol=0.0, atol=1e-9)
    # Five of the thirty have a weakly active row, where either side's derivative is right.
    strict = (ours.margin > 1e-9).all()
    for mine, other in zip(by_factors, by_blocks, strict=True):
        if strict:
            torch.testing.assert_close(mine, other, rtol=1e-7, atol=1e-8 * float(1.0 + other.abs().max()))


def test_gradients_are_those_of_finite_differences() -> None:
    B, H, N, K = 1, 3, 9, 2
    parts = problem(B, H, N, K, 5)
    layer = MultiPeriodMeanVariance(
        N,
        H,
        turnover_limit=0.25,
        transaction_cost=3e-4,
        limits=[BoxLimits(0.0, 0.4), GroupLimits([0, 1, 2], 0.2, 0.35, "first")],
        solver="factored",
    )
    upstream = torch.from_numpy(np.random.default_rng(0).normal(size=(B, H, N)))

    def loss(*values: Tensor) -> Tensor:
        r, F, omega, d, w0 = values
        weights: Tensor = layer(r, FactorCovariance(F, omega, d), w0)
        return (weights * upstream).sum()

    leaves = [part.clone().requires_grad_() for part in parts]
    gradients = torch.autograd.grad(loss(*leaves), leaves)
    rng = np.random.default_rng(1)
    for place, gradient in enumerate(gradients):
        size = float(parts[place].abs().mean())
        direction = torch.from_numpy(rng.normal(size=tuple(parts[place].shape))) * size
        if place == 2:
            direction = direction + direction.transpose(1, 2)
        if place == 4:
            direction = direction - direction.mean()
        step = 1e-5
        moved = [[*parts[:place], parts[place] + sign * step * direction, *parts[place + 1 :]] for sign in (1, -1)]
        difference = float((loss(*moved[0]) - loss(*moved[1])) / (2.0 * step))
        assert float((gradient * direction).sum()) == pytest.approx(difference, rel=1e-5, abs=1e-6)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 999))
def test_the_order_of_assets_means_nothing(seed: int) -> None:
    r, F, omega, d, w0 = problem(1, 3, 12, 3, seed)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(12))
    layer = MultiPeriodMeanVariance(12, 3, turnover_limit=0.2, transaction_cost=2e-4, solver="factored")
    plain = layer(r, FactorCovariance(F, omega, d), w0)
    turned = layer(r[:, :, order], FactorCovariance(F[:, order], omega, d[:, order]), w0[:, order])
    torch.testing.assert_close(plain[:, :, order], turned, rtol=0.0, atol=1e-9)


def test_few_assets_are_planned_with_dense_blocks_unless_asked_otherwise() -> None:
    r, F, omega, d, w0 = problem(1, 2, 6, 2, 0)
    risk = FactorCovariance(F, omega, d)
    assert MultiPeriodMeanVariance(6, 2)(r, risk, w0, return_solution=True).solver == "native"
    r, F, omega, d, w0 = problem(1, 2, 60, 2, 0)
    risk = FactorCovariance(F, omega, d)
    assert MultiPeriodMeanVariance(60, 2)(r, risk, w0, return_solution=True).solver == "factored"


def test_results_do_not_depend_on_threads() -> None:
    r, F, omega, d, w0 = problem(4, 2, 10, 2, 3)
    plans = [
        MultiPeriodMeanVariance(10, 2, turnover_limit=0.2, solver="factored", threads=threads)(
            r, FactorCovariance(F, omega, d), w0
        )
        for threads in (1, 2)
    ]
    assert torch.equal(*plans)


@pytest.mark.parametrize(
    ("part", "value", "words"),
    [
        (3, -1e-4, "2024-01-03: the covariance has a negative eigenvalue"),
        (1, float("nan"), "2024-01-03: an expected return, covariance, previous weight or cost is NaN"),
    ],
)
def test_what_is_wrong_with_an_element_is_said_with_its_date(part: int, value: float, words: str) -> None:
    parts = list(problem(2, 2, 8, 2, 1))
    parts[part][1, 0] = value
    r, F, omega, d, w0 = parts
    layer = MultiPeriodMeanVariance(8, 2, solver="factored")
    with pytest.raises(AllocationError, match=words):
        layer(r, FactorCovariance(F, omega, d), w0, dates=["2024-01-02", "2024-01-03"])


def test_shapes_that_do_not_fit_the_layer_are_named() -> None:
    r, F, omega, d, w0 = problem(1, 2, 8, 2, 1)
    with pytest.raises(AllocationError, match=r"this layer takes \[B, 3, 8\] and \[B, 8, K\]"):
        MultiPeriodMeanVariance(8, 3, solver="factored")(r, FactorCovariance(F, omega, d), w0)


def test_a_smoothed_plan_is_that_of_the_dense_problem() -> None:
    r, F, omega, d, w0 = problem(3, 2, 12, 3, seed=8)
    upstream = torch.randn(3, 2, 12, dtype=F64, generator=torch.Generator().manual_seed(0))
    for value in ("exact", "smoothed"):
        smoothing = Smoothing("perturbation", 1e-3, 4, value=value)  # type: ignore[arg-type]
        found = []
        for solver in ("factored", "auto"):
            layer = MultiPeriodMeanVariance(12, 2, turnover_limit=0.3, transaction_cost=2e-4, solver=solver)
            forecasts, risk = r.clone().requires_grad_(), FactorCovariance(F, omega, d)
            weights = layer(forecasts, risk if solver == "factored" else risk.dense(), w0, smoothing=smoothing)
            (weights * upstream).sum().backward()
            assert forecasts.grad is not None
            found.append((weights.detach(), forecasts.grad))
        torch.testing.assert_close(found[0][0], found[1][0], rtol=0.0, atol=1e-8)
        torch.testing.assert_close(found[0][1], found[1][1], rtol=0.0, atol=1e-6 * float(found[1][1].abs().max()))


def test_only_perturbations_smooth_plans_under_factor_risk() -> None:
    r, F, omega, d, w0 = problem(1, 1, 8, 2, seed=1)
    layer = MultiPeriodMeanVariance(8, 1, solver="factored")
    with pytest.raises(AllocationError, match="take way='perturbation'"):
        layer(r, FactorCovariance(F, omega, d), w0, smoothing=Smoothing("barrier"))
