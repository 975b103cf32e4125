"""Newer samples count more: what each counts, in losses and in least squares, and which losses cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.training.decision import Outcome
from portfolio_dfl.training.losses import build_loss
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.settings import TrainingSettings
from portfolio_dfl.training.window import WindowTask, load_state, train_window

PolicyFactory = Callable[..., PredictOptimisePolicy]


@pytest.fixture
def task(make_policy: PolicyFactory, returns: pd.DataFrame) -> WindowTask:
    return make_policy().task(returns)


def test_a_sample_a_halflife_back_counts_half() -> None:
    shares = TrainingSettings(sample_halflife=3.0).shares(7)
    assert shares is not None
    assert float(shares.mean()) == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_allclose(shares[3:] / shares[:4], 2.0, rtol=1e-14)
    assert TrainingSettings().shares(7) is None


def outcome(task: WindowTask, shares: torch.Tensor | None) -> Outcome:
    model = task.build_model()
    held = torch.full((len(task.samples), 3), 1.0 / 3.0, dtype=torch.float64)
    return Outcome(model, task.samples, held, shares=shares)


@pytest.mark.parametrize("name", ["decision", "regret", "net_utility", "mse", "spo_plus"])
def test_whole_shares_are_repeated_samples(name: str, task: WindowTask) -> None:
    loss, count = build_loss(name), len(task.samples)
    chosen = torch.zeros(count, dtype=torch.float64)
    chosen[:4] = torch.tensor([3.0, 1.0, 0.0, 2.0], dtype=torch.float64)
    weighed = loss(outcome(task, chosen * count / 6.0))
    each = [
        float(loss(outcome(replace(task, samples=task.samples.slice(place, place + 1)), None))) for place in range(4)
    ]
    assert float(weighed.detach()) == pytest.approx((3.0 * each[0] + each[1] + 2.0 * each[3]) / 6.0, rel=1e-12)


@pytest.mark.parametrize("predictor", ["linear", "pooled"])
def test_least_squares_weighs_its_residuals(predictor: str, make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    """At the optimum the weighted residuals are orthogonal to the constant: their weighted mean is 0."""
    options = {"intercept": "asset"} if predictor == "pooled" else {}
    policy = make_policy(
        predictor=PredictorSpec(predictor, options),
        settings={"method": "least_squares", "ridge": 1.0, "sample_halflife": 4.0},
    )
    task = policy.task(returns)
    window = train_window(task)
    assert window.state is not None
    model = task.build_model()
    load_state(model, window.state)
    shares = task.settings.shares(len(task.samples))
    assert shares is not None
    with torch.no_grad():
        residuals = model.forecast(task.samples.inputs, task.samples.covariance) - task.samples.future_returns
    assert float((shares[:, None, None] * residuals).mean(dim=0).abs().max()) < 1e-12
    assert float(residuals.mean(dim=0).abs().max()) > 1e-6


def test_a_very_long_halflife_trains_as_none(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    plain, long, short = (
        train_window(make_policy(settings={"sample_halflife": halflife}).task(returns))
        for halflife in (None, 1e12, 2.0)
    )
    assert plain.state is not None
    assert long.state is not None
    assert short.state is not None
    assert len({plain.key, long.key, short.key}) == 3
    for name, value in plain.state.items():
        torch.testing.assert_close(long.state[name], value, rtol=0.0, atol=1e-9)
    assert any(not torch.allclose(short.state[name], value, atol=1e-6) for name, value in plain.state.items())


def test_losses_that_are_no_means_over_samples_are_refused() -> None:
    for name in ("sharpe", "cvar", "executed_utility"):
        with pytest.raises(TrainingError, match="no mean over samples"):
            TrainingSettings(loss=build_loss(name), sample_halflife=20.0)
    with pytest.raises(TrainingError, match="no mean over samples"):
        TrainingSettings(loss=build_loss({"mse": 0.5, "sharpe": 0.5}), sample_halflife=20.0)
    TrainingSettings(loss=build_loss({"mse": 0.5, "decision": 0.5}), sample_halflife=20.0)
