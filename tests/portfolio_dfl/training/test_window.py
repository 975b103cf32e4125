"""One training window: what it learns from, when it stops, how it fails, and that it repeats."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.errors import DataError, TrainingError
from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.training.decision import Outcome
from portfolio_dfl.training.losses import MeanSquaredError
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.settings import TrainingSettings
from portfolio_dfl.training.window import TrainedWindow, WindowTask, load_state, train_window

PolicyFactory = Callable[..., PredictOptimisePolicy]


@pytest.fixture
def task(make_policy: PolicyFactory, returns: pd.DataFrame) -> WindowTask:
    return make_policy().task(returns)


def same(first: Mapping[str, Tensor] | None, second: Mapping[str, Tensor] | None) -> bool:
    assert first is not None
    assert second is not None
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def without_time(window: TrainedWindow) -> TrainedWindow:
    return replace(window, seconds=0.0, state=None)


def test_training_lowers_the_decision_loss(task: WindowTask) -> None:
    settings = replace(task.settings, epochs=15)
    window = train_window(replace(task, settings=settings))
    assert len(window.losses) == 15
    assert window.losses[-1] < window.losses[0]
    assert not window.failed


def test_squared_error_training_approaches_least_squares(task: WindowTask) -> None:
    gradient = TrainingSettings(loss=MeanSquaredError(), epochs=300, learning_rate=0.02)
    closed = TrainingSettings(method="least_squares", ridge=0.0)
    losses = []
    for settings in (gradient, closed):
        window = train_window(replace(task, settings=settings))
        model = task.build_model()
        assert window.state is not None
        load_state(model, window.state)
        losses.append(float(MeanSquaredError()(Outcome(model, task.samples, torch.empty(0))).detach()))
    assert losses[1] < 1e-20  # fewer samples than coefficients: the closed form interpolates
    start = float(task.samples.future_returns.square().mean())
    assert losses[0] < 0.02 * start


def test_the_same_task_gives_the_same_window_bit_for_bit(task: WindowTask) -> None:
    mlp = replace(task, predictor=PredictorSpec("mlp", {"hidden": 4, "dropout": 0.2}))
    first = train_window(mlp)
    torch.manual_seed(123)  # the state of global generators is of no consequence
    second = train_window(pickle.loads(pickle.dumps(mlp)))
    assert same(first.state, second.state)
    assert without_time(first) == without_time(second) or first.losses == second.losses
    assert first.key == second.key


def test_training_leaves_torch_as_it_found_it(task: WindowTask) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    train_window(replace(task, predictor=PredictorSpec("mlp", {"hidden": 4})))
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


def test_another_seed_gives_other_initial_values(task: WindowTask) -> None:
    mlp = replace(task, predictor=PredictorSpec("mlp", {"hidden": 4}))
    assert not same(train_window(mlp).state, train_window(replace(mlp, seed=1)).state)


def test_key_tells_tasks_apart_and_survives_pickling(task: WindowTask, returns: pd.DataFrame) -> None:
    assert pickle.loads(pickle.dumps(task)).key == task.key
    others = [
        replace(task, seed=1),
        replace(task, settings=replace(task.settings, epochs=4)),
        replace(task, predictor=PredictorSpec("mlp")),
        replace(task, samples=task.samples.slice(1, 12)),
        replace(task, risk_scaling=True),
        replace(
            task,
            layer=MultiPeriodMeanVariance(n_assets=3, horizon=2, risk_aversion=11.0, turnover_limit=0.5),
        ),
    ]
    assert len({task.key, *(other.key for other in others)}) == 1 + len(others)


def test_a_trained_window_survives_pickling(task: WindowTask) -> None:
    window = train_window(task)
    copy = pickle.loads(pickle.dumps(window))
    assert same(window.state, copy.state)
    assert (copy.date, copy.losses, copy.health) == (window.date, window.losses, window.health)


def test_samples_with_unfinished_labels_are_refused(task: WindowTask) -> None:
    with pytest.raises(TrainingError, match="not complete"):
        replace(task, date=task.samples.dates[-1])


def test_validation_stops_early_and_keeps_the_best_epoch(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    settings = {"epochs": 60, "learning_rate": 0.1, "validation_samples": 8, "patience": 3}
    task = make_policy(samples=40, settings=settings).task(returns)
    window = train_window(task)
    training, _ = task.samples.split_validation(8)
    assert (window.n_training, window.n_validation) == (len(training), 8)
    assert len(window.validation_losses) < 60
    best = int(np.argmin(window.validation_losses))
    assert len(window.validation_losses) - 1 - best <= 3
    # Trained for as many epochs as the best took, nothing held out: the same parameters.
    again = train_window(
        replace(
            task,
            samples=training,
            settings=replace(task.settings, epochs=best + 1, validation_samples=0),
        )
    )
    assert same(window.state, again.state)


def test_scales_come_from_the_training_samples_only(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    task = make_policy(samples=40, settings={"validation_samples": 8}).task(returns)
    state = train_window(task).state
    assert state is not None
    training, _ = task.samples.split_validation(8)
    days = training.features.reshape(-1, 3)
    torch.testing.assert_close(state["predictor.deviation"], days.std(dim=0))


def test_a_validation_slice_without_room_is_an_error_not_a_failed_window(task: WindowTask) -> None:
    with pytest.raises(DataError, match="validation"):
        train_window(replace(task, settings=replace(task.settings, validation_samples=10)))


@dataclass(frozen=True)
class NotANumberLater:
    """Squared error that turns into NaN in the second half of training."""

    def __call__(self, outcome: Outcome) -> Tensor:
        loss = MeanSquaredError()(outcome)
        return loss * float("nan") if outcome.progress > 0.5 else loss


def test_a_loss_that_is_not_a_number_fails_the_window_and_says_when(task: WindowTask) -> None:
    window = train_window(replace(task, settings=replace(task.settings, loss=NotANumberLater())))
    assert window.failed
    assert window.failure == "TrainingError: loss is nan in epoch 3"
    assert window.last_label_end == task.samples.label_end[-1]


def test_a_problem_without_solution_fails_the_window_and_names_the_date(task: WindowTask) -> None:
    covariance = task.samples.covariance.clone()
    covariance[4] = -covariance[4]
    window = train_window(replace(task, samples=replace(task.samples, covariance=covariance)))
    assert window.failed
    assert str(window.failure).startswith("AllocationError")
    assert str(task.samples.dates[4].date()) in str(window.failure)


def test_divergence_fails_the_window(task: WindowTask) -> None:
    window = train_window(replace(task, settings=replace(task.settings, learning_rate=1e6, epochs=10)))
    assert window.failed
    assert "diverged" in str(window.failure)


def test_a_warm_start_begins_where_the_other_window_ended(task: WindowTask) -> None:
    first = train_window(task)
    still = replace(task.settings, learning_rate=1e-300, epochs=1)
    warm = train_window(replace(task, initial_state=first.state, settings=still))
    assert same(first.state, warm.state)


def test_parameters_of_another_predictor_are_refused(task: WindowTask) -> None:
    state = train_window(task).state
    model = replace(task, predictor=PredictorSpec("mlp", {"hidden": 4})).build_model()
    assert state is not None
    with pytest.raises(TrainingError, match="do not belong"):
        load_state(model, state)


def test_learned_risk_scaling_takes_gradients_from_the_decision(task: WindowTask) -> None:
    state = train_window(replace(task, risk_scaling=True)).state
    assert state is not None
    assert state["covariance_scaling.log_scale"].abs().sum() > 0


def test_the_layer_is_left_as_it_was_given_even_if_it_has_parameters(task: WindowTask) -> None:
    aversion = nn.Parameter(torch.tensor(10.0, dtype=torch.float64))
    layer = MultiPeriodMeanVariance(n_assets=3, horizon=2, risk_aversion=aversion, turnover_limit=0.5)
    window = train_window(replace(task, layer=layer))
    assert aversion.item() == 10.0
    assert window.state is not None
    assert not any(name.startswith("layer") for name in window.state)


def test_gradient_health_is_recorded(task: WindowTask) -> None:
    health = train_window(task).health
    assert health.steps == 3
    for name, value in health.as_dict().items():
        assert np.isfinite(value), name
    assert 0 <= health.zero_gradient_share <= 1
    assert 0 <= health.bounds_active_share < 1


class Overconfident(nn.Module):
    """Forecasts so far apart that every portfolio holds one asset: the decision does not react to them."""

    def __init__(self, n_assets: int, lookback: int, horizon: int) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.linspace(-0.2, 0.2, n_assets).repeat(horizon, 1))

    def forward(self, features: Tensor) -> Tensor:
        return self.level.expand(len(features), -1, -1)


def test_portfolios_at_a_vertex_show_as_zero_gradients(task: WindowTask) -> None:
    loose = MultiPeriodMeanVariance(n_assets=3, horizon=2, risk_aversion=10.0, turnover_limit=2.0)
    health = train_window(replace(task, layer=loose, predictor=PredictorSpec(Overconfident, scaled=False))).health
    assert health.zero_gradient_share == 1.0
    assert health.bounds_active_share == pytest.approx(2 / 3)
    assert health.forecast_inflation > 5


def test_training_writes_no_files_and_says_nothing(
    task: WindowTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train_window(task)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")
    assert [str(warning.message) for warning in caught] == []


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"batch_size": 0}, {"patience": 0}, {"learning_rate": 0.0}, {"ridge": -1.0}]
)
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(TrainingError, match=next(iter(wrong))):
        TrainingSettings(**wrong)
