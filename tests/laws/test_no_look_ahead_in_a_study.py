"""The law that makes a backtest one, for whole studies: no price after a date changes a weight decided up to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from torch import Tensor, nn

from portfolio_dfl.config.study import STRATEGIES, StudyConfig
from portfolio_dfl.data.sources import EmbeddedSource
from portfolio_dfl.forecasting import PREDICTORS
from portfolio_dfl.risk.build import COVARIANCES
from portfolio_dfl.strategies.table import lanes
from portfolio_dfl.strategies.walk import WalkTask, take_walk
from portfolio_dfl.study.plan import resolve_plan
from portfolio_dfl.study.run import run_study
from portfolio_dfl.training.losses import LOSSES

#: Decide without a look at returns, by their definition.
BLIND = ("equal_weight", "buy_and_hold")
CAUSAL = [name for name in STRATEGIES if name != "perfect_foresight"]
TRAINED = [name for name in CAUSAL if lanes([name], [0])[0].trained]
STUDY = {
    "name": "law",
    "covariance": {"window": 10},
    "allocation": {"horizon": 2},
    "forecasting": {"lookback": 10},
    "training": {"samples": 20, "realised_window": 5, "retrain_every": 10, "epochs": 2},
    "backtest": {"start": "2018-06-01", "end": "2018-08-01"},
    "evaluation": {"bootstrap": 100},
}


class Yesterday(nn.Module):
    """A user's own predictor, named in the configuration by its import path."""

    def __init__(self, n_assets: int, lookback: int, horizon: int) -> None:
        super().__init__()
        self.horizon = horizon
        self.map = nn.Linear(n_assets, n_assets)

    def forward(self, features: Tensor) -> Tensor:
        forecasts: Tensor = self.map(features[:, -1:])
        return 0.1 * forecasts.expand(-1, self.horizon, -1)


#: Covariances, schedules, and what needs company of its own; the date after which prices change; what else is set.
CHOSEN: list[tuple[str, dict[str, Any]]] = [
    (
        "2018-06-12",
        {
            "forecasting.predictor": "linear",
            "forecasting.options": {"start": 0.1},
            "covariance.estimator": "rolling",
            "training.loss": "decision",
            "training.batch_size": 1,
            "training.epochs": 1,
            "backtest.lag": 1,
        },
    ),
    (
        "2018-06-28",  # a day before a retraining
        {
            "forecasting.predictor": "momentum",
            "covariance.estimator": "ewma",
            "training.loss": "regret",
            "training.expanding": True,
            "training.warm_start": True,
            "training.two_stage": "least_squares",
        },
    ),
    (
        "2018-06-29",  # of a retraining itself
        {
            "forecasting.predictor": "mlp",
            "covariance.estimator": "ledoit_wolf",
            "training.loss": "net_utility",
            "training.validation_samples": 6,
            "training.patience": 1,
            "training.epochs": 4,
            "allocation.transaction_cost": 0.0005,
        },
    ),
    (
        "2018-07-06",
        {
            "forecasting.predictor": "gru",
            "covariance.estimator": "oas",
            "training.loss": "sharpe",
            "training.expanding": True,
            "training.validation_samples": 5,
            "training.risk_scaling": True,
        },
    ),
    (
        "2018-07-18",
        {
            "forecasting.predictor": "tcn",
            "covariance.estimator": "factor",
            "training.loss": "spo_plus",
            "training.warm_start": True,
            "training.batch_size": 7,
            "allocation.horizon": 6,
        },
    ),
    (
        "2018-07-24",
        {
            "forecasting.predictor": "user",
            "forecasting.scaled": False,
            "covariance.estimator": "ledoit_wolf",
            "training.loss": {"mse": [1.0, 0.0], "decision": [0.0, 1.0]},
            "training.batch_size": 1,
            "training.gradient_clip": 1.0,
        },
    ),
    (
        "2018-07-31",
        {
            "forecasting.predictor": "linear",
            "covariance.estimator": "ewma",
            "training.loss": "mse",
            "training.initialise": "least_squares",
            "training.warm_start": True,
            "training.validation_samples": 6,
            "training.weight_decay": 0.1,
        },
    ),
]


def covering(predictors: Iterable[str], losses: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
    """The chosen cases, and others with every predictor and loss that none of them names, as they are registered."""
    cases = [settings for _, settings in CHOSEN]
    left = zip_longest(
        (name for name in predictors if name not in {case["forecasting.predictor"] for case in cases}),
        (name for name in losses if name not in [case["training.loss"] for case in cases]),
        fillvalue=None,
    )
    others = [
        (
            "2018-07-03",
            {
                "forecasting.predictor": predictor or "linear",
                "covariance.estimator": "rolling",
                "training.loss": loss or "decision",
                "backtest.strategies": TRAINED,  # the others saw nothing new since the first case
            },
        )
        for predictor, loss in left
    ]
    return CHOSEN + others


COVERING = covering(PREDICTORS, LOSSES)


@pytest.fixture(scope="module")
def prices() -> pd.DataFrame:
    frame = EmbeddedSource().load().loc["2018-01-02":"2018-12-31"]
    assert len(frame) == 251
    return frame


def shaken(prices: pd.DataFrame, t: pd.Timestamp) -> pd.DataFrame:
    """The same prices with everything after t changed, by moves that prices may make."""
    later = prices.index > t
    other = prices.copy()
    noise = np.random.default_rng(t.day).lognormal(0.0, 0.05, (int(later.sum()), prices.shape[1]))
    other.loc[later] = other.loc[later].to_numpy() * noise
    return other


def configured(prices: pd.DataFrame, folder: Path, settings: Mapping[str, Any]) -> StudyConfig:
    folder.mkdir()
    prices.to_parquet(folder / "prices.parquet")
    source = {"source": str(folder / "prices.parquet"), "policies": {"jumps": "accept"}}
    config = StudyConfig.parse({**STUDY, "data": source, "tracking": {"folder": str(folder)}})
    return config.override([f"{key}={value!r}" for key, value in settings.items()])


def decided(prices: pd.DataFrame, folder: Path, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Target weights by date of decision, of every strategy that does not look ahead on purpose."""
    plan = resolve_plan(configured(prices, folder, {"backtest.strategies": CAUSAL, **settings}))
    first, last = plan.span.dates[0], plan.span.dates[-1]
    tasks = [WalkTask(plan.setting, lane, plan.returns, first, last, plan.retrain_every) for lane in plan.lanes]
    return {task.lane.strategy: take_walk(task).targets for task in tasks}


@pytest.mark.parametrize(
    ("date", "settings"),
    COVERING,
    ids=[f"{case['forecasting.predictor']}-{case['training.loss']}" for _, case in COVERING],
)
def test_no_decision_up_to_a_date_depends_on_prices_after_it(
    date: str, settings: dict[str, Any], prices: pd.DataFrame, tmp_path: Path
) -> None:
    if settings["forecasting.predictor"] == "user":
        settings = {**settings, "forecasting.predictor": f"{__name__}:Yesterday"}
    t = pd.Timestamp(date)
    expected = decided(prices, tmp_path / "as they were", settings)
    found = decided(shaken(prices, t), tmp_path / "shaken", settings)
    assert found.keys() == set(settings.get("backtest.strategies", CAUSAL))
    for strategy, weights in expected.items():
        assert t in weights.index
        pd.testing.assert_frame_equal(found[strategy].loc[:t], weights.loc[:t], check_exact=True)
        # The change did reach what came after, so that this test can fail.
        assert strategy in BLIND or not found[strategy].loc[t:].iloc[1:].equals(weights.loc[t:].iloc[1:]), strategy


def test_the_cases_cover_every_predictor_covariance_and_loss() -> None:
    cases = [settings for _, settings in COVERING]
    assert {case["forecasting.predictor"] for case in cases} == {*PREDICTORS, "user"}
    assert {case["covariance.estimator"] for case in cases} == set(COVARIANCES)
    losses = [case["training.loss"] for case in cases]
    assert {loss for loss in losses if isinstance(loss, str)} == set(LOSSES)
    assert any(isinstance(loss, dict) for loss in losses)
    for key in ("expanding", "warm_start", "validation_samples", "batch_size"):
        given = {bool(case.get(f"training.{key}")) for case in cases}
        assert given == {True, False}, key


def test_what_is_registered_anew_is_held_to_the_law_without_being_named_here() -> None:
    cases = [settings for _, settings in covering([*PREDICTORS, "new", "newer"], [*LOSSES, "new"])]
    assert [case for case in cases if case["forecasting.predictor"] in ("new", "newer")]
    assert {case["forecasting.predictor"] for case in cases} == {*PREDICTORS, "user", "new", "newer"}
    assert "new" in [case["training.loss"] for case in cases]


def test_no_weight_held_the_day_after_a_date_depends_on_prices_after_it(prices: pd.DataFrame, tmp_path: Path) -> None:
    """Through `run_study`, which trains ahead; weights held through a day were decided at the close before it."""
    t = pd.Timestamp("2018-07-06")
    results = [
        dict(run_study(configured(frame, tmp_path / name, {})).weights)
        for name, frame in (("as they were", prices), ("shaken", shaken(prices, t)))
    ]
    for strategy, weights in results[0].items():
        following = weights.index[weights.index.searchsorted(t) + 1]
        pd.testing.assert_frame_equal(results[1][strategy].loc[:following], weights.loc[:following], check_exact=True)
        if strategy not in ("Equal weight", "Buy and hold"):
            assert not results[1][strategy].loc[following:].iloc[1:].equals(weights.loc[following:].iloc[1:]), strategy
