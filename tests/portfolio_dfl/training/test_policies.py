"""Trained strategies: what they learn from, how they decide, and what a failed window does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from portfolio_dfl.allocation import MultiPeriodMeanVariance, drift_weights
from portfolio_dfl.allocation.smoothing import Smoothing
from portfolio_dfl.backtest.policy import Decision, Policy, roll
from portfolio_dfl.errors import AllocationError, DataError, TrainingError
from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.risk import RollingCovariance, StatisticalFactors
from portfolio_dfl.training.decision import Outcome
from portfolio_dfl.training.losses import DecisionLoss, MeanSquaredError
from portfolio_dfl.training.policies import DecisionFocusedPolicy, PredictOptimisePolicy, TwoStagePolicy
from portfolio_dfl.training.samples import label_length
from portfolio_dfl.training.settings import TrainingSettings
from portfolio_dfl.training.walk_forward import retraining_dates
from portfolio_dfl.training.window import train_window

PolicyFactory = Callable[..., PredictOptimisePolicy]
START = 40


def test_a_policy_fits_the_protocol_and_rolls(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    policy = make_policy()
    assert isinstance(policy, Policy)
    decisions: list[Decision] = []
    weights = roll(policy, returns, start=returns.index[START], retrain_every=20, on_decision=decisions.append)
    assert [window.date for window in policy.windows] == [returns.index[i] for i in (40, 60, 80)]
    assert not any(decision.failed for decision in decisions)
    assert len(weights) == 50
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-9)
    assert (weights.to_numpy() >= -1e-9).all()
    assert list(policy.forecasts) == list(weights.index)
    assert policy.forecasts[weights.index[0]].shape == (2, 3)


def test_training_uses_the_newest_samples_whose_labels_have_ended(
    make_policy: PolicyFactory, returns: pd.DataFrame
) -> None:
    date = returns.index[60]
    task = make_policy().task(returns.loc[:date])
    assert len(task.samples) == 12
    assert task.samples.label_end[-1] == date
    assert task.samples.dates[-1] == returns.index[60 - label_length(2, 4)]


def test_the_least_history_is_exactly_enough(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    policy = make_policy()
    needed = policy.returns_needed
    assert needed == 7 + 12 + 4
    assert len(policy.task(returns.iloc[:needed]).samples) == 12
    with pytest.raises(DataError, match=f"needs {needed} returns"):
        policy.task(returns.iloc[: needed - 1])


def test_a_longer_past_changes_nothing_for_a_rolling_window(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    policy = make_policy()
    assert policy.task(returns.iloc[20:70]).key == policy.task(returns.iloc[:70]).key


def test_an_expanding_window_learns_from_the_whole_past(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    task = make_policy(expanding=True).task(returns.iloc[:70])
    assert task.samples.dates[0] == returns.index[7]
    assert len(task.samples) == 70 - 7 - 4


def test_adopted_windows_give_the_same_weights_without_training_again(
    make_policy: PolicyFactory, returns: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = roll(make_policy(), returns, start=returns.index[START])
    policy = make_policy()
    dates = retraining_dates(pd.DatetimeIndex(plain.index), 20)
    policy.adopt(train_window(policy.task(returns.loc[:date])) for date in dates)
    monkeypatch.setattr("portfolio_dfl.training.policies.train_window", None)
    pd.testing.assert_frame_equal(roll(policy, returns, start=returns.index[START]), plain, check_exact=True)


def test_adopted_windows_of_other_data_are_not_used(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    policy = make_policy()
    policy.adopt([train_window(policy.task((returns * 1.1).iloc[:61]))])
    policy.fit(returns.iloc[:61])
    assert policy.windows[-1].key == policy.task(returns.iloc[:61]).key


def test_a_decision_before_training_is_refused(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    with pytest.raises(TrainingError, match="call fit first"):
        make_policy().decide(returns, np.full(3, 1 / 3))


def test_an_unknown_predictor_is_refused_at_once(make_policy: PolicyFactory) -> None:
    with pytest.raises(TrainingError, match="unknown predictor"):
        make_policy(predictor=PredictorSpec("transformer"))


def test_two_stage_differs_from_decision_focused_in_the_loss_alone() -> None:
    layer = MultiPeriodMeanVariance(n_assets=3, horizon=2, risk_aversion=10.0, turnover_limit=0.5)
    settings = TrainingSettings(loss=DecisionLoss(), epochs=7)
    focused = DecisionFocusedPolicy(layer, RollingCovariance(8), settings=settings)
    two_stage = TwoStagePolicy(layer, RollingCovariance(8), settings=settings)
    assert (focused.name, two_stage.name) == ("decision_focused", "two_stage")
    assert focused.settings == settings
    assert two_stage.settings == TrainingSettings(loss=MeanSquaredError(), epochs=7)


def test_a_warm_start_continues_from_the_window_before(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    policy = make_policy(warm_start=True)
    policy.fit(returns.iloc[:50])
    assert policy.task(returns.iloc[:60]).initial_state is policy.windows[0].state


class InfeasibleWithin(MultiPeriodMeanVariance):
    """The portfolio problem, without a solution for samples whose first covariance entry exceeds a bound."""

    bound = 1.0

    def forward(
        self, expected_returns: Tensor, covariance: Tensor, previous_weights: Tensor, **options: object
    ) -> Tensor:
        if bool((covariance[:, 0, 0] > self.bound).any()):
            raise AllocationError("no portfolio satisfies the constraints")
        weights: Tensor = super().forward(expected_returns, covariance, previous_weights, **options)
        return weights


def test_a_failed_window_holds_the_portfolio_and_does_not_poison_the_next(
    make_policy: PolicyFactory, returns: pd.DataFrame
) -> None:
    stormy = returns.copy()
    stormy.iloc[46:50, 0] *= 30.0  # in the training samples of day 60, and of that day alone
    layer = InfeasibleWithin(n_assets=3, horizon=2, risk_aversion=10.0, turnover_limit=0.5)
    layer.bound = 0.005
    policy = make_policy(layer=layer, warm_start=True)
    decisions: list[Decision] = []
    weights = roll(policy, stormy, start=stormy.index[START], retrain_every=20, on_decision=decisions.append)
    assert [window.failed for window in policy.windows] == [False, True, False]
    assert "no portfolio satisfies" in str(policy.windows[1].failure)
    # From the failed retraining to the next, what was held drifts and nothing is traded.
    values = stormy.to_numpy()
    for i in range(20, 40):
        held = drift_weights(weights.iloc[i - 1].to_numpy(), values[START + i])
        np.testing.assert_allclose(weights.iloc[i], held, rtol=1e-12)
    assert decisions[20].failed == "fit"
    # The window after it starts from the last that did not fail.
    successor = make_policy(layer=layer, warm_start=True)
    successor.use(policy.windows[0])
    assert successor.task(stormy.iloc[: START + 41]).key == policy.windows[2].key


@dataclass(frozen=True)
class ChecksLabels:
    """Squared error that insists on complete labels."""

    def __call__(self, outcome: Outcome) -> Tensor:
        assert torch.isfinite(outcome.samples.future_returns).all()
        assert torch.isfinite(outcome.samples.realised_covariance).all()
        return MeanSquaredError()(outcome)


def test_losses_never_meet_an_unfinished_label(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    policy = make_policy(settings={"loss": ChecksLabels(), "batch_size": 1})
    roll(policy, returns, start=returns.index[START])
    assert not any(window.failed for window in policy.windows)


def test_a_training_is_the_same_task_whatever_the_number_of_threads() -> None:
    """Else the walk would not know the windows trained beside it, and train each a second time."""
    rng = np.random.default_rng(0)
    names = [f"S{place}" for place in range(100)]
    values = 0.01 * (rng.normal(size=(290, 100)) + rng.normal(size=(290, 1)))
    history = pd.DataFrame(values, pd.bdate_range("2020-01-01", periods=290), names)
    policy = DecisionFocusedPolicy(
        MultiPeriodMeanVariance(n_assets=100, horizon=1, risk_aversion=10.0, turnover_limit=0.5),
        StatisticalFactors(window=250),
        predictor=PredictorSpec("linear"),
        lookback=5,
        samples=10,
        realised_window=4,
        settings=TrainingSettings(epochs=1),
    )
    keys = set()
    for threads in (1, 2):
        with threadpool_limits(threads):
            keys.add(policy.task(history).key)
    assert len(keys) == 1


def test_a_smoothing_that_factor_risk_does_not_take_is_refused_before_anything_is_trained() -> None:
    layer = MultiPeriodMeanVariance(n_assets=60, horizon=1, risk_aversion=10.0, turnover_limit=0.5)
    smoothed = TrainingSettings(smoothing=Smoothing("barrier"))
    with pytest.raises(TrainingError, match="take way='perturbation'"):
        DecisionFocusedPolicy(layer, StatisticalFactors(window=250), settings=smoothed)
    DecisionFocusedPolicy(layer, StatisticalFactors(window=250), settings=TrainingSettings())
