"""What enters a training, found by moving returns one at a time and looking at what changes; no setting is believed.

Tight on both sides: nothing from after the decision date, nothing of the validation slice in what is fitted before
it, and no sample left out that could have been used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.errors import DataError
from portfolio_dfl.risk import OAS, CovarianceEstimator, EWMACovariance, LedoitWolf, RollingCovariance, covariance_path
from portfolio_dfl.training.losses import LOSSES, build_loss
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.samples import Samples, build_samples
from portfolio_dfl.training.settings import TrainingSettings
from portfolio_dfl.training.window import train_window

DAYS, LOOKBACK = 40, 5
ESTIMATORS: Mapping[str, CovarianceEstimator] = {
    "rolling": RollingCovariance(7),
    "ewma": EWMACovariance(7, halflife=3.0),
    "ledoit_wolf": LedoitWolf(7),
    "oas": OAS(7),
}
PARTS = ("features", "covariance", "future_returns", "realised_covariance")


@pytest.fixture(scope="module")
def returns() -> pd.DataFrame:
    values = np.random.default_rng(4).normal(0.0, 0.01, (DAYS, 3))
    return pd.DataFrame(values, index=pd.bdate_range("2022-01-03", periods=DAYS), columns=list("ABC"))


def moved(frame: pd.DataFrame, position: int) -> pd.DataFrame:
    """The same returns, those of one day changed."""
    other = frame.copy()
    other.iloc[position] *= np.array([1.5, -0.5, 2.0])
    return other


def changed(before: Samples, after: Samples, part: str) -> set[int]:
    """Which samples differ in a part."""
    one, other = (getattr(samples, part).flatten(1) for samples in (before, after))
    same = ((one == other) | (one.isnan() & other.isnan())).all(dim=1)
    return set(torch.nonzero(~same).flatten().tolist())


@pytest.mark.parametrize(("horizon", "realised"), [(1, 2), (2, 6), (6, 2)])
@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_a_return_reaches_the_samples_it_belongs_to_and_no_other(
    name: str, horizon: int, realised: int, returns: pd.DataFrame
) -> None:
    def samples_of(frame: pd.DataFrame) -> Samples:
        path = covariance_path(frame, ESTIMATORS[name])
        return build_samples(frame, lookback=LOOKBACK, horizon=horizon, realised_window=realised, covariance=path)

    before = samples_of(returns)
    days = returns.index.get_indexer(before.dates)  # the day of each sample
    newest_in_label = dict.fromkeys(range(len(before)), -1)
    for position in range(DAYS):
        after = samples_of(moved(returns, position))
        behind, ahead = position - days, days + np.array([[horizon], [realised]])
        reached = {
            "features": (behind <= 0) & (behind > -LOOKBACK),
            "covariance": (behind <= 0) & (behind > -7),
            "future_returns": (behind > 0) & (position <= ahead[0]) & (ahead[0] < DAYS),
            "realised_covariance": (behind > 0) & (position <= ahead[1]) & (ahead[1] < DAYS),
        }
        for part in PARTS:
            found = changed(before, after, part)
            if part != "future_returns":
                assert found == set(np.flatnonzero(reached[part])), (part, position)
            else:  # labels that are not complete hold what is known already
                assert set(np.flatnonzero(reached[part])) <= found, (part, position)
                assert all(0 < behind[sample] <= horizon for sample in found), (part, position)
            if part in PARTS[2:]:
                newest_in_label |= dict.fromkeys(found, position)
    complete = before.label_end.notna()
    assert complete.sum() == DAYS - max(horizon, realised) - days[0]
    for sample in np.flatnonzero(complete):
        assert before.label_end[sample] == returns.index[newest_in_label[sample]]


SCHEDULES: Mapping[str, dict[str, Any]] = {
    "rolling": {},
    "expanding": {"expanding": True},
    "warm_start": {"warm_start": True},
    "validation": {"settings": {"validation_samples": 4}},
    "one_pass": {"settings": {"batch_size": 1, "epochs": 1}},
}


def make_policy(*, settings: Mapping[str, Any] | None = None, **options: Any) -> PredictOptimisePolicy:
    layer = MultiPeriodMeanVariance(n_assets=3, horizon=2, risk_aversion=10.0, turnover_limit=0.5)
    quick = replace(TrainingSettings(epochs=3, learning_rate=0.02), **(settings or {}))
    everything = {"lookback": LOOKBACK, "realised_window": 4, "samples": 14, **options}
    return PredictOptimisePolicy(layer, ESTIMATORS["rolling"], settings=quick, **everything)


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_a_training_uses_every_sample_that_is_complete_and_no_other(name: str, returns: pd.DataFrame) -> None:
    """The newest label ends on the decision date itself: the embargo is as long as it must be and no longer."""
    policy = make_policy(**SCHEDULES[name])
    date = 30
    task = policy.task(returns.iloc[: date + 1])
    assert task.samples.label_end.max() == returns.index[date] == task.date
    first = 6 if policy.expanding else date - 4 - 14 + 1
    assert task.samples.dates.equals(returns.index[first : date - 4 + 1])
    # From data: the newest return of the history moves labels; none after it is there to move anything.
    assert policy.task(moved(returns.iloc[: date + 1], date)).key != task.key
    assert policy.task(moved(returns, date + 1).iloc[: date + 1]).key == task.key


def test_training_begins_as_early_as_the_data_allow(returns: pd.DataFrame) -> None:
    policy = make_policy()
    needed = policy.returns_needed
    task = policy.task(returns.iloc[:needed])
    assert len(task.samples) == 14
    assert task.key != policy.task(moved(returns.iloc[:needed], 0)).key  # the very first return is used
    with pytest.raises(DataError, match=f"needs {needed} returns"):
        policy.task(returns.iloc[: needed - 1])


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_what_only_the_validation_slice_knows_moves_no_scale_and_no_step(loss: str, returns: pd.DataFrame) -> None:
    """Later returns may decide when to stop and which epoch to keep; nothing that is fitted."""
    settings = {"validation_samples": 4, "patience": 9, "epochs": 3, "loss": build_loss(loss)}
    policy = make_policy(samples=20, settings=settings)
    history = returns.iloc[:36]
    task = policy.task(history)
    training, validation = task.samples.split_validation(4)
    boundary = int(history.index.get_indexer([validation.dates[0]])[0])
    assert training.label_end.max() == validation.dates[0]  # tight here too
    window, seen = train_window(task), []
    for position in range(boundary + 1, len(history)):
        other = train_window(policy.task(moved(history, position)))
        assert other.losses == window.losses
        assert window.state is not None
        assert other.state is not None
        for scale in ("predictor.mean", "predictor.deviation"):
            assert torch.equal(other.state[scale], window.state[scale])
        seen.append(other.validation_losses != window.validation_losses)
    assert any(seen)
    if loss == "decision":  # it looks at the whole label, whose newest return on the training side is the boundary's
        assert train_window(policy.task(moved(history, boundary))).losses != window.losses


@pytest.mark.parametrize("validation_samples", [0, 4])
def test_scales_know_the_features_of_the_training_samples_alone(validation_samples: int, returns: pd.DataFrame) -> None:
    policy = make_policy(settings={"validation_samples": validation_samples})
    history = returns.iloc[:36]
    task = policy.task(history)
    samples = task.samples.split_validation(4)[0] if validation_samples else task.samples
    last = int(history.index.get_indexer([samples.dates[-1]])[0])
    first = int(history.index.get_indexer([samples.dates[0]])[0]) - LOOKBACK + 1
    reference = train_window(task).state
    assert reference is not None
    for position in (0, first - 1, first, last, last + 1, len(history) - 1):
        state = train_window(policy.task(moved(history, position))).state
        assert state is not None
        untouched = torch.equal(state["predictor.mean"], reference["predictor.mean"])
        assert untouched == (not first <= position <= last), position
