"""Numbers that cannot be meant are refused where they are given, not where they are first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.allocation.limits import ActiveShare, BenchmarkBand, BoxLimits, GroupLimits, TrackingCost
from portfolio_dfl.backtest.baselines import HistoricalMeanVariance, MinimumVariance, RiskParity
from portfolio_dfl.backtest.constrained import FirstStep
from portfolio_dfl.errors import PortfolioError
from portfolio_dfl.risk import RollingCovariance
from portfolio_dfl.training.losses import NetUtilityLoss, SharpeLoss
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.settings import TrainingSettings

NAN, INF, HALVES = float("nan"), float("inf"), (0.5, 0.5)


def layer(**options: Any) -> MultiPeriodMeanVariance:
    return MultiPeriodMeanVariance(2, 2, **options)


def first_step(**options: Any) -> FirstStep:
    return FirstStep(**({"risk_aversion": 1.0, "turnover_limit": 1.0} | options))


def policy(**options: Any) -> PredictOptimisePolicy:
    return PredictOptimisePolicy(layer(), RollingCovariance(4), **options)


PLANS = [layer, first_step, MinimumVariance, HistoricalMeanVariance]
WRONG: list[tuple[Callable[..., Any], str, Any]] = [
    *((make, "risk_aversion", value) for make in PLANS for value in (-1, 0.0, NAN, INF, "much")),
    *((make, "turnover_limit", value) for make in PLANS for value in (0.0, -0.1, NAN, [0.1, -0.1])),
    *((make, "transaction_cost", value) for make in PLANS for value in (-1e-9, NAN, INF)),
    (layer, "risk_aversion", torch.tensor(-1.0)),
    (layer, "risk_aversion", torch.nn.Parameter(torch.tensor(0.0))),
    (layer, "risk_aversion", None),
    (layer, "turnover_limit", torch.tensor([0.1, NAN])),
    (layer, "transaction_cost", [0.1, -0.1]),
    *((RiskParity, "turnover_limit", value) for value in (0.0, NAN, -1.0)),
    *((RiskParity, "max_weight", value) for value in (0.0, NAN, 1.1)),
    *((TrainingSettings, "ridge", value) for value in (-1.0, NAN, INF)),
    *((TrainingSettings, "weight_decay", value) for value in (-1.0, NAN)),
    *((TrainingSettings, "gradient_clip", value) for value in (0.0, NAN)),
    *((TrainingSettings, "learning_rate", value) for value in (0.0, NAN, INF)),
    (TrainingSettings, "method", "guess"),
    (TrainingSettings, "initialise", "warm"),
    *((policy, name, value) for name in ("lookback", "samples") for value in (0, -3, 2.5)),
    *((policy, "realised_window", value) for value in (1, NAN)),
    *((policy, "seed", value) for value in (-1, 0.5)),
    *((NetUtilityLoss, "cost_rate", value) for value in (-1.0, NAN)),
    *((SharpeLoss, "floor", value) for value in (-1.0, NAN)),
    (lambda lower: layer(limits=[BoxLimits(lower)]), "lower", NAN),
    *(
        (lambda deviation: layer(limits=[BenchmarkBand(HALVES, deviation)]), "deviation", value)
        for value in (-0.1, NAN)
    ),
    *((lambda group: layer(limits=[GroupLimits([0], 0.5, group)]), "group", value) for value in (0.4, NAN)),
    *((lambda limit: layer(limits=[ActiveShare(HALVES, limit)]), "limit", value) for value in (0.0, -1.0, NAN)),
    *((lambda aversion: layer(limits=[TrackingCost(HALVES, aversion)]), "aversion", value) for value in (-1, NAN, INF)),
]


@pytest.mark.parametrize(("make", "name", "value"), WRONG)
def test_it_is_refused_by_the_constructor_with_its_name(make: Callable[..., Any], name: str, value: Any) -> None:
    with pytest.raises(PortfolioError, match=name):
        make(**{name: value})


def test_what_is_meant_is_taken() -> None:
    layer(risk_aversion=torch.nn.Parameter(torch.tensor(2.0)), turnover_limit=[0.1, INF], transaction_cost=[0.0, 0.1])
    layer(risk_aversion=np.float64(3.0), turnover_limit=None, transaction_cost=torch.zeros(2))
    first_step(turnover_limit=INF)
    policy(lookback=np.int64(5), samples=3, seed=7)
    TrainingSettings(gradient_clip=INF, ridge=0)
    BoxLimits([-INF, 0.0], INF)
    RiskParity(max_weight=1.0)
