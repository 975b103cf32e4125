"""Training that follows smoothed derivatives: samples teach again, decisions stay exact, and old keys hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
import torch

from portfolio_dfl.allocation import MultiPeriodMeanVariance, Smoothing
from portfolio_dfl.training.decision import Outcome
from portfolio_dfl.training.settings import TrainingSettings
from portfolio_dfl.training.window import WindowTask, load_state, train_window


@pytest.fixture
def task(make_policy: Any, returns: pd.DataFrame) -> WindowTask:
    # With costs of 1 % most plans do not trade, and most samples have no exact gradient.
    layer = MultiPeriodMeanVariance(n_assets=3, horizon=2, turnover_limit=0.5, transaction_cost=0.01)
    found: WindowTask = make_policy(layer=layer, samples=30).task(returns)
    return found


def smoothed(task: WindowTask, smoothing: Smoothing | None, **options: Any) -> WindowTask:
    return replace(task, settings=replace(task.settings, smoothing=smoothing, **options))


@pytest.mark.parametrize("way", ["barrier", "perturbation"])
def test_samples_without_exact_gradient_teach(task: WindowTask, way: Any) -> None:
    exact = train_window(task)
    found = train_window(smoothed(task, Smoothing(way, 2e-2 if way == "perturbation" else None)))
    assert exact.health.zero_gradient_share > 0.6
    assert found.health.zero_gradient_share < exact.health.zero_gradient_share
    assert found.health.zero_gradient_share == 0.0 or way == "perturbation"


def test_losses_are_of_exact_plans_and_decisions_too(task: WindowTask) -> None:
    exact, found = train_window(task), train_window(smoothed(task, Smoothing()))
    assert found.losses[0] == exact.losses[0]
    assert found.state is not None
    model = task.build_model()
    load_state(model, found.state)
    samples = task.samples
    held = torch.full((len(samples), 3), 1.0 / 3.0, dtype=torch.float64)
    with torch.no_grad():
        decided = Outcome(model, samples, held, smoothing=None).weights
        lent = Outcome(model, samples, held, smoothing=Smoothing()).weights
    torch.testing.assert_close(lent, decided, rtol=0, atol=0)


@pytest.mark.parametrize("way", ["barrier", "penalty", "perturbation"])
def test_a_step_of_training_has_no_units(way: Any, make_policy: Any, returns: pd.DataFrame) -> None:
    """Returns, costs and strength a hundredth, λ a hundred times as large: the same plans after a step from equal
    weights. (Later steps start from weights that returns have drifted, and drift has units.)"""
    plans = []
    for unit in (1.0, 0.01):
        layer = MultiPeriodMeanVariance(
            n_assets=3, horizon=2, risk_aversion=10.0 / unit, turnover_limit=0.5, transaction_cost=1e-3 * unit
        )
        settings = {"smoothing": Smoothing(way, 1e-4 * unit), "epochs": 1, "learning_rate": 0.1}
        task = make_policy(layer=layer, samples=20, settings=settings).task(unit * returns)
        window = train_window(task)
        assert window.state is not None
        model = task.build_model()
        load_state(model, window.state)
        held = torch.full((20, 3), 1.0 / 3.0, dtype=torch.float64)
        with torch.no_grad():
            plans.append((Outcome(model, task.samples, held).weights, torch.tensor(window.losses) / unit))
    for one, other in zip(*plans, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)  # the ε of Adam has units


def test_what_is_not_smoothed_keeps_its_key(task: WindowTask) -> None:
    settings = task.settings
    assert "smoothing" not in repr(settings)
    keys = {
        task.key,
        smoothed(task, Smoothing()).key,
        smoothed(task, Smoothing(strength=2e-5)).key,
        smoothed(task, Smoothing(), smoothing_schedule="to_exact").key,
    }
    assert len(keys) == 4
    assert smoothed(task, None, smoothing_schedule="to_exact").key == task.key


def test_the_strength_falls_evenly_towards_none() -> None:
    settings = TrainingSettings(epochs=4, smoothing=Smoothing(strength=1e-4), smoothing_schedule="to_exact")
    strengths = [found.size for epoch in range(4) if (found := settings.smoothing_at(epoch)) is not None]
    assert strengths == pytest.approx([1e-4, 7.5e-5, 5e-5, 2.5e-5])
    assert TrainingSettings().smoothing_at(0) is None
