"""The layer as its users meet it: shapes, dtypes, errors, warm starts, threads, pickles."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.errors import AllocationError


@pytest.fixture
def layer() -> MultiPeriodMeanVariance:
    return MultiPeriodMeanVariance(4, 3, risk_aversion=8.0, turnover_limit=0.3)


def test_importing_the_package_neither_compiles_nor_loads_numba() -> None:
    code = "import sys, portfolio_dfl.allocation; raise SystemExit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_batch_is_its_elements_and_threads_change_nothing(layer: MultiPeriodMeanVariance, instances: Any) -> None:
    instance = instances(9, 3, 4, seed=1)
    together = layer(instance.returns, instance.covariance, instance.previous)
    for b in range(9):
        one = layer(instance.returns[b : b + 1], instance.covariance[b : b + 1], instance.previous[b : b + 1])
        assert torch.equal(one[0], together[b])
    alone = MultiPeriodMeanVariance(4, 3, risk_aversion=8.0, turnover_limit=0.3, threads=1)
    assert torch.equal(alone(instance.returns, instance.covariance, instance.previous), together)


def test_float32_is_computed_in_float64_and_returned_in_float32(layer: MultiPeriodMeanVariance, instances: Any) -> None:
    instance = instances(2, 3, 4, seed=2)
    returns = instance.returns.float().requires_grad_()
    weights = layer(returns, instance.covariance.float(), instance.previous.float())
    assert weights.dtype == torch.float32
    weights.square().sum().backward()
    assert returns.grad is not None
    assert returns.grad.dtype == torch.float32
    exact = layer(instance.returns.float().double(), instance.covariance.float().double(), instance.previous.float())
    torch.testing.assert_close(weights.double(), exact, rtol=0, atol=1e-6)


def test_learned_parameters_receive_gradients_and_are_saved(instances: Any) -> None:
    instance = instances(3, 2, 4, seed=3)
    layer = MultiPeriodMeanVariance(
        4,
        2,
        risk_aversion=torch.nn.Parameter(torch.tensor(5.0, dtype=torch.float64)),
        turnover_limit=[0.3, 0.1],
        transaction_cost=torch.nn.Parameter(torch.full((4,), 1e-4, dtype=torch.float64)),
    )
    layer(instance.returns, instance.covariance, instance.previous).square().sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
    assert set(layer.state_dict()) == {"risk_aversion", "turnover_limit", "transaction_cost"}


def test_a_layer_survives_pickling_and_its_text_names_every_setting(
    layer: MultiPeriodMeanVariance, instances: Any
) -> None:
    instance = instances(2, 3, 4, seed=4)
    copy = pickle.loads(pickle.dumps(layer))
    arguments = (instance.returns, instance.covariance, instance.previous)
    assert torch.equal(copy(*arguments), layer(*arguments))
    assert repr(layer) == repr(copy)
    for text in ("n_assets=4", "horizon=3", "risk_aversion=8.0", "turnover_limit=0.3", "solver='auto'"):
        assert text in repr(layer)


def test_a_warm_start_settles_neighbours_and_falls_back_elsewhere(instances: Any) -> None:
    instance = instances(40, 10, 7, seed=5)
    layer = MultiPeriodMeanVariance(7, 10, turnover_limit=0.2)
    first = layer(instance.returns, instance.covariance, instance.previous, return_solution=True)
    assert not first.warm_hits.any()
    same = layer(instance.returns, instance.covariance, instance.previous, warm_start=first, return_solution=True)
    assert same.warm_hits.all()
    assert (same.iterations == 0).all()
    torch.testing.assert_close(same.weights, first.weights, rtol=0, atol=1e-12)
    moved = instance.returns * (1.0 + 0.02 * torch.randn(40, 10, 7, dtype=torch.float64))
    cold = layer(moved, instance.covariance, instance.previous)
    near = layer(moved, instance.covariance, instance.previous, warm_start=first, return_solution=True)
    assert near.warm_hits.mean() > 0.5
    torch.testing.assert_close(near.weights, cold, rtol=0, atol=1e-9)
    far = layer(-moved, instance.covariance, instance.previous, warm_start=first, return_solution=True)
    torch.testing.assert_close(far.weights, layer(-moved, instance.covariance, instance.previous), rtol=0, atol=1e-9)


def test_errors_name_the_date_and_what_is_wrong(layer: MultiPeriodMeanVariance, instances: Any) -> None:
    instance = instances(3, 3, 4, seed=6)
    dates = pd.date_range("2020-01-01", periods=3)
    broken = instance.returns.clone()
    broken[1, 0, 0] = torch.nan
    with pytest.raises(AllocationError, match=r"2020-01-02.*NaN"):
        layer(broken, instance.covariance, instance.previous, dates=dates)
    covariance = instance.covariance.clone()
    covariance[2] -= 2e-4 * torch.eye(4, dtype=torch.float64)
    with pytest.raises(AllocationError, match=r"batch element 2.*negative eigenvalue"):
        layer(instance.returns, covariance, instance.previous)
    held = instance.previous.clone()
    held[0] *= 2.0
    with pytest.raises(AllocationError, match=r"batch element 0.*turnover limit 0.3"):
        layer(instance.returns, instance.covariance, held)
    with pytest.raises(AllocationError, match="must be positive"):
        layer(instance.returns, instance.covariance, instance.previous, risk_aversion=-1.0)
    with pytest.raises(AllocationError, match="must be positive"):
        layer(instance.returns, instance.covariance, instance.previous, turnover_limit=0.0)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((2, 4, 4), (2, 4, 4), (2, 4)), r"takes \[B, 3, 4\]"),
        (((2, 3, 4), (3, 4, 4), (2, 4)), "covariance is"),
        (((2, 3, 4), (2, 4, 4), (3, 4)), "previous_weights is"),
    ],
)
def test_misshapen_arguments_are_refused(layer: MultiPeriodMeanVariance, shapes: Any, words: str) -> None:
    with pytest.raises(AllocationError, match=words):
        layer(*(torch.zeros(shape, dtype=torch.float64) for shape in shapes))


def test_a_black_box_that_cannot_is_said_in_the_layers_words(instances: Any) -> None:
    instance = instances(1, 15, 7, seed=7)
    layer = MultiPeriodMeanVariance(7, 15, turnover_limit=0.2, solver="gurobi")
    with pytest.raises(AllocationError, match="200 variables"):
        layer(instance.returns, instance.covariance, instance.previous)


def test_objective_units_and_asset_order_do_not_matter(instances: Any) -> None:
    instance = instances(4, 5, 6, seed=8)
    layer = MultiPeriodMeanVariance(6, 5, turnover_limit=0.2)
    weights = layer(instance.returns, instance.covariance, instance.previous)
    for unit in (1e-6, 1e6):
        scaled = layer(unit * instance.returns, unit * instance.covariance, instance.previous)
        torch.testing.assert_close(scaled, weights, rtol=0, atol=1e-11)
    order = torch.from_numpy(np.random.default_rng(0).permutation(6))
    permuted = layer(
        instance.returns[..., order], instance.covariance[:, order][..., order], instance.previous[:, order]
    )
    torch.testing.assert_close(permuted, weights[..., order], rtol=0, atol=1e-11)


def test_near_contradictions_of_budgets_are_settled(instances: Any) -> None:
    instance = instances(6, 20, 7, seed=20)
    limits = 0.2 + 1e-8 * torch.randn(6, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    layer = MultiPeriodMeanVariance(7, 20, transaction_cost=2e-4)
    found = layer(instance.returns, instance.covariance, instance.previous, turnover_limit=limits, return_solution=True)
    assert found.certified.all()
