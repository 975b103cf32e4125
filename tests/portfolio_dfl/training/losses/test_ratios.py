"""Losses of the literature on a path of net returns, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.errors import TrainingError
from portfolio_dfl.forecasting import LinearPredictor
from portfolio_dfl.training.decision import DecisionModel, Outcome
from portfolio_dfl.training.losses import build_loss
from portfolio_dfl.training.samples import Samples

# One asset is held throughout, so that its returns are the net ones: no trade, no cost.
NET = [0.02, -0.01, -0.03, 0.01, 0.04, -0.02]
OTHER = [0.01, 0.00, -0.01, 0.02, 0.00, -0.01]


def held_throughout(stage: int = 1) -> Outcome:
    count = len(NET)
    dates = pd.bdate_range("2021-01-01", periods=count)
    future = torch.tensor([NET, OTHER], dtype=torch.float64).T.unsqueeze(1)
    eyes = torch.eye(2, dtype=torch.float64).repeat(count, 1, 1)
    samples = Samples(dates, torch.zeros(count, 2, 2).double(), future, eyes, eyes, dates, stage)
    layer = MultiPeriodMeanVariance(n_assets=2, horizon=1, risk_aversion=8.0, turnover_limit=None)
    held = torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(count, 1)
    outcome = Outcome(DecisionModel(LinearPredictor(2, 2, 1), layer), samples, held)
    outcome.weights = held.unsqueeze(1)
    return outcome


NUMBERS = np.array(NET)
ACTIVE = NUMBERS - (NUMBERS + np.array(OTHER)) / 2
DOWNSIDE = np.sqrt((0.01**2 + 0.03**2 + 0.02**2) / 6)
# Wealth: 1.02, 1.0098, 0.979506, 0.98930106, 1.0288731, 1.00829563; peaks: 1.02 until the fifth.
DRAWDOWNS = [0.0, 0.01, 1 - 0.99 * 0.97, 1 - 0.99 * 0.97 * 1.01, 0.0, 0.02]


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("executed_utility", {}, -(NUMBERS.mean() - 4.0 * NUMBERS.var(ddof=1))),
        ("log_wealth", {}, -np.log1p(NUMBERS).mean()),
        ("sortino", {"floor": 1e-9}, -NUMBERS.mean() / (DOWNSIDE + 1e-9)),
        (
            "sortino",
            {"minimum": 0.05, "floor": 1e-9},
            1.0 * (0.05 - NUMBERS.mean()) / np.sqrt(((NUMBERS - 0.05) ** 2).mean()),
        ),
        ("drawdown", {"tail": 0.1}, max(DRAWDOWNS)),
        ("drawdown", {"tail": 0.5}, np.sort(DRAWDOWNS)[-3:].mean()),
        ("drawdown", {"tail": 1.0}, np.mean(DRAWDOWNS)),
        ("tracking_error", {}, ACTIVE.std(ddof=1)),
        ("tracking_error", {"benchmark": [0.0, 1.0]}, (NUMBERS - OTHER).std(ddof=1)),
        ("tracking_error", {"benchmark": [1.0, 0.0]}, 0.0),
        ("information_ratio", {"floor": 1e-9}, -ACTIVE.mean() / (ACTIVE.std(ddof=1) + 1e-9)),
    ],
)
def test_by_hand(name: str, options: dict[str, Any], expected: float) -> None:
    assert float(build_loss(name, {name: options})(held_throughout())) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_drawdowns_of_stages_of_two_days_are_those_of_two_paths() -> None:
    # From 1: 1.02, 0.9894, 1.0290; and 0.99, 0.9999, 0.9799.
    expected = [0.0, 0.03, 0.0, 0.01, 1 - 0.99 * 1.01, 1 - 0.99 * 1.01 * 0.98]
    found = build_loss("drawdown", {"drawdown": {"tail": 1.0}})(held_throughout(stage=2))
    assert float(found) == pytest.approx(np.mean(expected))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("drawdown", {"tail": 0.0}, "tail of the loss 'drawdown' must be above 0"),
        ("sortino", {"floor": 0.0}, "floor"),
        ("tracking_error", {"benchmark": [0.5, 0.4]}, "must sum to 1, they sum to 0.9"),
        ("information_ratio", {"benchmark": [0.5, 0.25, 0.25]}, "has 3 weights for 2 assets"),
    ],
)
def test_options_without_a_meaning_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        build_loss(name, {name: options})(held_throughout())


@pytest.mark.parametrize("name", ["log_wealth", "drawdown"])
def test_a_path_that_loses_everything_is_refused(name: str) -> None:
    outcome = held_throughout()
    outcome.samples.future_returns[2, 0, 0] = -1.0
    with pytest.raises(TrainingError, match="loses all wealth"):
        build_loss(name)(outcome)
