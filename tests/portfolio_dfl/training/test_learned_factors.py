"""Factors of the decision learned beside the forecasts: what they multiply, their gradients, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.errors import TrainingError
from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.training.decision import DecisionModel
from portfolio_dfl.training.learned_factors import LEARNABLE, read_factors
from portfolio_dfl.training.losses import MeanSquaredError
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.settings import TrainingSettings
from portfolio_dfl.training.window import train_window

PolicyFactory = Callable[..., PredictOptimisePolicy]
COSTLY = MultiPeriodMeanVariance(3, 2, risk_aversion=10.0, turnover_limit=0.5, transaction_cost=1e-3)


class Given(nn.Module):
    """Forecasts that do not depend on anything."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return torch.tensor([[[0.02, 0.0, -0.01], [0.01, 0.0, 0.01]]], dtype=torch.float64)


def moved(**factors: float) -> DecisionModel:
    model = DecisionModel(Given(), COSTLY, learned=tuple(factors))
    with torch.no_grad():
        for name, factor in factors.items():
            model.factors.log[name].fill_(float(np.log(factor)))
    return model


FEATURES = torch.zeros((1, 4, 3), dtype=torch.float64)
COVARIANCE = torch.diag(torch.tensor([0.04, 0.01, 0.02], dtype=torch.float64))[None]
HELD = torch.full((1, 3), 1.0 / 3.0, dtype=torch.float64)


def test_a_factor_multiplies_what_its_name_says() -> None:
    layer = COSTLY
    forecasts = Given()(FEATURES)
    for name, expected in (
        ("risk_aversion", layer(forecasts, COVARIANCE, HELD, risk_aversion=20.0)),
        ("transaction_cost", layer(forecasts, COVARIANCE, HELD, transaction_cost=2e-3)),
        ("forecasts", layer(2.0 * forecasts, COVARIANCE, HELD)),
    ):
        assert torch.allclose(moved(**{name: 2.0})(FEATURES, COVARIANCE, HELD), expected, rtol=0.0, atol=1e-12), name
        assert (expected - layer(forecasts, COVARIANCE, HELD)).abs().max() > 1e-4, name
    assert torch.equal(
        moved(**dict.fromkeys(LEARNABLE, 1.0))(FEATURES, COVARIANCE, HELD), layer(forecasts, COVARIANCE, HELD)
    )


@pytest.mark.parametrize("name", LEARNABLE)
def test_gradients_agree_with_finite_differences(name: str) -> None:
    direction = torch.tensor([[[1.0, -2.0, 0.5], [0.3, 1.0, -1.0]]], dtype=torch.float64)

    def value(factor: float) -> torch.Tensor:
        return (direction * moved(**{name: factor})(FEATURES, COVARIANCE, HELD)).sum()

    model = moved(**{name: 1.3})
    (direction * model(FEATURES, COVARIANCE, HELD)).sum().backward()
    gradient = model.factors.log[name].grad
    assert gradient is not None
    step = 1e-5
    difference = (value(1.3 * np.exp(step)) - value(1.3 * np.exp(-step))) / (2 * step)
    assert float(gradient) == pytest.approx(float(difference), rel=1e-6, abs=1e-9)
    assert abs(float(gradient)) > 1e-6


def test_training_moves_them_and_windows_keep_them(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    learned = make_policy(layer=COSTLY, settings={"learned": LEARNABLE, "schedule": "cosine"})
    plain = make_policy(layer=COSTLY)
    task = learned.task(returns)
    assert task.key != plain.task(returns).key
    window = train_window(task)
    assert window.state is not None
    factors = read_factors(window.state)
    assert set(factors) == set(LEARNABLE)
    assert all(factor > 0.0 for factor in factors.values())
    assert factors["forecasts"] != 1.0
    learned.fit(returns)
    assert learned.windows[-1].state is not None
    assert read_factors(learned.windows[-1].state) == factors
    learned.decide(returns, np.full(3, 1.0 / 3.0))
    assert read_factors(train_window(plain.task(returns)).state or {}) == {}


@pytest.mark.parametrize("schedule", ["cosine", "one_cycle"])
def test_a_schedule_ends_with_small_steps(schedule: str, make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    settings = {"loss": MeanSquaredError(), "epochs": 8, "learning_rate": 1e-4}
    window = train_window(make_policy(settings={**settings, "schedule": schedule}).task(returns))
    constant = train_window(make_policy(settings=settings).task(returns))
    assert window.state is not None
    assert constant.state is not None
    assert any(not torch.equal(window.state[name], constant.state[name]) for name in window.state)
    assert abs(window.losses[-1] - window.losses[-2]) < abs(constant.losses[-1] - constant.losses[-2])


def test_what_cannot_be_learned_is_refused(make_policy: PolicyFactory) -> None:
    with pytest.raises(TrainingError, match="least squares"):
        TrainingSettings(method="least_squares", learned=("forecasts",))
    with pytest.raises(TrainingError, match="each once"):
        TrainingSettings(learned=("forecasts", "forecasts"))
    with pytest.raises(TrainingError, match="counts no transaction cost"):
        make_policy(settings={"learned": ("transaction_cost",)})
    with pytest.raises(TrainingError, match="an ensemble has several"):
        make_policy(predictor=replace(PredictorSpec("linear"), ensemble=2), settings={"learned": ("forecasts",)})
