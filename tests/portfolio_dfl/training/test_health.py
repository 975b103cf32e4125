"""Health of a window's gradients, for every kind of limit, and counted where training failed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.training.losses import MeanSquaredError
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.window import WindowTask, train_window

PolicyFactory = Callable[..., PredictOptimisePolicy]


@pytest.fixture
def task(make_policy: PolicyFactory, returns: pd.DataFrame) -> WindowTask:
    return make_policy().task(returns)


class AlwaysElsewhere(nn.Module):
    """Forecasts that want another asset at every stage, so that every limit on trading binds."""

    def __init__(self, n_assets: int, lookback: int, horizon: int) -> None:
        super().__init__()
        wanted = torch.zeros(horizon, n_assets, dtype=torch.float64)
        for stage in range(horizon):
            wanted[stage, stage % n_assets] = 0.2
        self.level = nn.Parameter(wanted)

    def forward(self, features: Tensor) -> Tensor:
        return self.level.expand(len(features), -1, -1)


@pytest.mark.parametrize(
    ("limit", "share"),
    [
        (0.2, 1.0),
        ([0.2, 0.3], 1.0),
        ([0.2, 10.0], 0.5),  # nobody trades more than 2: the second stage is never at its limit
        ([10.0, math.inf], 0.0),
        (torch.tensor([0.2, 0.3], dtype=torch.float64), 1.0),
        (torch.tensor(0.2, dtype=torch.float64), 1.0),
    ],
    ids=str,
)
def test_the_share_of_stages_at_their_turnover_limit_is_that_of_each_stage(
    limit: float | Sequence[float] | Tensor, share: float, task: WindowTask
) -> None:
    layer = MultiPeriodMeanVariance(n_assets=3, horizon=2, risk_aversion=10.0, turnover_limit=limit)
    spec = PredictorSpec(AlwaysElsewhere, scaled=False)
    window = train_window(replace(task, layer=layer, predictor=spec))
    assert not window.failed
    assert window.health.turnover_active_share == share


def test_without_a_turnover_limit_there_is_no_such_share(task: WindowTask) -> None:
    layer = MultiPeriodMeanVariance(n_assets=3, horizon=2, risk_aversion=10.0, turnover_limit=None)
    window = train_window(replace(task, layer=layer))
    assert not window.failed
    assert math.isnan(window.health.turnover_active_share)
    assert math.isfinite(window.health.bounds_active_share)


def test_squared_error_solves_nothing_and_has_no_shares_of_plans(task: WindowTask) -> None:
    health = train_window(replace(task, settings=replace(task.settings, loss=MeanSquaredError()))).health
    assert math.isnan(health.bounds_active_share)
    assert math.isfinite(health.forecast_gradient_norm)


def test_a_problem_without_solution_is_counted_as_a_layer_failure_and_divergence_is_not(task: WindowTask) -> None:
    covariance = task.samples.covariance.clone()
    covariance[4] = -covariance[4]
    unsolvable = train_window(replace(task, samples=replace(task.samples, covariance=covariance)))
    diverged = train_window(replace(task, settings=replace(task.settings, learning_rate=1e6, epochs=10)))
    assert (unsolvable.failed, unsolvable.health.layer_failures) == (True, 1)
    assert (diverged.failed, diverged.health.layer_failures) == (True, 0)
    assert train_window(task).health.layer_failures == 0
