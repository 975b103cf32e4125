"""No look-ahead: whatever happens after a date, nothing decided up to that date changes by a single bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.backtest.policy import roll
from portfolio_dfl.forecasting import PREDICTORS, PredictorSpec
from portfolio_dfl.risk import (
    OAS,
    CovarianceEstimator,
    EWMACovariance,
    LedoitWolf,
    RollingCovariance,
    covariance_path,
)
from portfolio_dfl.training.losses import LOSSES, build_loss
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.samples import Samples, build_samples
from portfolio_dfl.training.settings import TrainingSettings

DAYS, START, EVERY = 64, 36, 8
COVARIANCES: Mapping[str, CovarianceEstimator] = {
    "rolling": RollingCovariance(8),
    "ewma": EWMACovariance(8, halflife=3.0),
    "ledoit_wolf": LedoitWolf(8),
    "oas": OAS(8),
}
STEPS: Mapping[str, Mapping[str, Any]] = {
    "whole window": {},
    "one pass": {"batch_size": 1, "epochs": 1},
    "batches, stopped early": {"batch_size": 4, "validation_samples": 6, "patience": 1},
    "stopped early": {"validation_samples": 6, "patience": 1},
}
SCHEDULES: Mapping[str, Mapping[str, Any]] = {
    **{
        f"{'expanding' if expanding else 'rolling'}, {'warm' if warm else 'from scratch'}, {steps}": {
            "expanding": expanding,
            "warm_start": warm,
            "settings": settings,
            "samples": 20 if "validation_samples" in settings else 10,
        }
        for expanding, warm, (steps, settings) in product((False, True), (False, True), STEPS.items())
    },
    "least squares": {"settings": {"method": "least_squares"}},
    "least squares first": {"settings": {"initialise": "least_squares"}},
    "learned risk": {"risk_scaling": True},
    "mixture": {"settings": {"loss": build_loss({"mse": [1.0, 0.0], "decision": [0.0, 1.0]})}},
}


def prices() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    steps = np.exp(rng.normal(0, 0.01, (DAYS, 3)))
    index = pd.bdate_range("2022-01-03", periods=DAYS)
    return pd.DataFrame(100 * steps.cumprod(axis=0), index=index, columns=["A", "B", "C"])


def make_policy(*, settings: Mapping[str, Any] | None = None, **options: Any) -> PredictOptimisePolicy:
    quick: dict[str, Any] = {"epochs": 2, "learning_rate": 0.02, **(settings or {})}
    layer = MultiPeriodMeanVariance(n_assets=3, horizon=2, risk_aversion=10.0, turnover_limit=0.5)
    everything: dict[str, Any] = {"lookback": 5, "realised_window": 4, "samples": 10, **options}
    covariance = everything.pop("covariance", COVARIANCES["rolling"])
    return PredictOptimisePolicy(layer, covariance, settings=TrainingSettings(**quick), **everything)


def decided(make: Callable[[], PredictOptimisePolicy], wide: pd.DataFrame, end: pd.Timestamp) -> pd.DataFrame:
    returns = wide.pct_change().iloc[1:]
    return roll(make(), returns, start=returns.index[START], end=end, retrain_every=EVERY)


def assert_nothing_moves(make: Callable[[], PredictOptimisePolicy], dates: tuple[int, ...]) -> None:
    wide = prices()
    full = decided(make, wide, wide.index[-1])
    assert full.diff().abs().sum().sum() > 0  # the strategy trades at all
    rng = np.random.default_rng(3)
    for position in dates:
        date = wide.index[position]
        shaken = wide.copy()
        shaken.loc[shaken.index > date] *= np.exp(rng.normal(0, 0.2, (DAYS - 1 - position, 3)))
        again = decided(make, shaken, wide.index[-1])
        pd.testing.assert_frame_equal(again.loc[:date], full.loc[:date], check_exact=True)
        # Right after the date the data do differ, and so do the decisions: the test would see a change.
        assert not again.loc[again.index > date].equals(full.loc[full.index > date])


@pytest.mark.parametrize("name", sorted(PREDICTORS))
def test_prices_after_a_date_change_no_weight_up_to_it_for_every_predictor(name: str) -> None:
    assert_nothing_moves(lambda: make_policy(predictor=PredictorSpec(name)), (START + 4, START + 9, START + 17))


@pytest.mark.parametrize("name", sorted(COVARIANCES))
def test_prices_after_a_date_change_no_weight_up_to_it_for_every_covariance(name: str) -> None:
    assert_nothing_moves(lambda: make_policy(covariance=COVARIANCES[name]), (START + 9,))


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_prices_after_a_date_change_no_weight_up_to_it_for_every_loss(name: str) -> None:
    assert_nothing_moves(lambda: make_policy(settings={"loss": build_loss(name)}), (START + 9,))


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_prices_after_a_date_change_no_weight_up_to_it_for_every_schedule(name: str) -> None:
    assert_nothing_moves(lambda: make_policy(**SCHEDULES[name]), (START + 9,))


@pytest.mark.parametrize(("horizon", "realised_window"), [(1, 2), (2, 6), (6, 2)])
def test_the_newest_return_that_training_depends_on_is_the_decision_dates(horizon: int, realised_window: int) -> None:
    """Found by moving returns one by one in a frame that goes on after the date, not read off any setting."""
    returns = prices().pct_change().iloc[1:]
    date = returns.index[START]

    def samples_at_date(frame: pd.DataFrame) -> Samples:
        everything = build_samples(
            frame,
            lookback=5,
            horizon=horizon,
            realised_window=realised_window,
            covariance=covariance_path(frame, COVARIANCES["rolling"]),
        )
        return everything.usable_at(date)

    before = samples_at_date(returns)
    used = []
    for position in range(len(returns)):
        moved = returns.copy()
        moved.iloc[position] += 0.01
        after = samples_at_date(moved)
        tensors = ("features", "future_returns", "realised_covariance", "covariance")
        if any(not torch.equal(getattr(before, name), getattr(after, name)) for name in tensors):
            used.append(position)
    assert max(used) == START
    assert before.label_end[-1] == date
    assert returns.index.get_loc(before.dates[-1]) == START - max(horizon, realised_window)


def test_windows_record_label_ends_at_or_before_their_date_and_validation_is_embargoed() -> None:
    wide = prices()
    returns = wide.pct_change().iloc[1:]
    policy = make_policy(**SCHEDULES["rolling, from scratch, stopped early"])
    roll(policy, returns, start=returns.index[START], retrain_every=EVERY)
    assert len(policy.windows) == 4
    for window in policy.windows:
        assert window.last_label_end <= window.date
        task = policy.task(returns.loc[: window.date])
        training, validation = task.samples.split_validation(6)
        assert training.label_end[-1] <= validation.dates[0]
        assert window.n_training == len(training)


def test_covariances_of_a_task_are_those_estimated_up_to_each_sample() -> None:
    returns = prices().pct_change().iloc[1:]
    task = make_policy().task(returns)
    dates, path = covariance_path(returns, COVARIANCES["rolling"])
    positions = dates.get_indexer(task.samples.dates)
    np.testing.assert_array_equal(task.samples.covariance.numpy(), path[positions])
