"""Trained parameters do not depend on how the plans were found: cold or warm, in one thread or two, by which solver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.data.panel import build_panel
from portfolio_dfl.data.sources import open_source
from portfolio_dfl.risk import RollingCovariance
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.window import TrainedWindow, WindowTask, train_window

QUICKSTART: dict[str, Any] = {"risk_aversion": 10.0, "turnover_limit": 0.2, "transaction_cost": 5e-4}


class FromTheLastPlan(MultiPeriodMeanVariance):
    """Tries the active sets of the epoch before first."""

    last: Any = None

    def forward(self, *inputs: Any, **options: Any) -> Any:
        if not inputs[0].requires_grad:
            return super().forward(*inputs, **options)
        self.last = super().forward(*inputs, **options, warm_start=self.last, return_solution=True)
        return self.last.weights


@pytest.fixture(scope="module")
def task() -> WindowTask:
    returns = build_panel(open_source("embedded").load()).returns
    layer = MultiPeriodMeanVariance(returns.shape[1], 5, threads=1, **QUICKSTART)
    history = returns.loc[: pd.Timestamp("2021-12-15")]
    return PredictOptimisePolicy(layer, RollingCovariance(20), samples=40).task(history)


@pytest.fixture(scope="module")
def cold(task: WindowTask) -> TrainedWindow:
    return train_window(task)


@pytest.mark.parametrize("way", ["warm", "two threads", "piqp"])
def test_parameters_after_twenty_epochs_agree(task: WindowTask, cold: TrainedWindow, way: str) -> None:
    N = task.layer.n_assets
    layer = {
        "warm": lambda: FromTheLastPlan(N, 5, threads=1, **QUICKSTART),
        "two threads": lambda: MultiPeriodMeanVariance(N, 5, threads=2, **QUICKSTART),
        "piqp": lambda: MultiPeriodMeanVariance(N, 5, solver="piqp", **QUICKSTART),
    }[way]()
    found = train_window(replace(task, layer=layer))
    assert task.settings.epochs == 20
    assert cold.state is not None
    assert found.state is not None
    assert cold.health.zero_gradient_share > 0.2
    for name, value in cold.state.items():
        assert float((found.state[name] - value).abs().max()) <= 1e-8, name
