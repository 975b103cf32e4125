"""Trainings that differ in their seed alone are told apart from those that draw something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pandas as pd
import pytest
import torch
from torch import Tensor

from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.training.decision import Outcome
from portfolio_dfl.training.losses import DecisionLoss
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.replicates import are_replicates
from portfolio_dfl.training.window import train_window


@dataclass(frozen=True)
class NoisyLoss:
    """A loss that samples."""

    def __call__(self, outcome: Outcome) -> Tensor:
        return DecisionLoss()(outcome) * (1.0 + torch.rand(()))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        ({"predictor": PredictorSpec("pooled", ensemble=2)}, True),
        ({"settings": {"method": "least_squares"}}, True),
        ({"predictor": PredictorSpec("linear", {"start": 0.01})}, False),
        ({"predictor": PredictorSpec("mlp")}, False),
        ({"settings": {"loss": NoisyLoss()}}, False),
    ],
)
def test_tasks_are_replicates_where_two_seeds_train_to_the_same(
    returns: pd.DataFrame,
    make_policy: Callable[..., PredictOptimisePolicy],
    options: dict[str, object],
    expected: bool,
) -> None:
    task = make_policy(**options).task(returns.iloc[:60])
    states = [train_window(replace(task, seed=seed)).state or {} for seed in (0, 7)]
    assert states[0]
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items()) == expected
    assert are_replicates(task, 7) == expected
