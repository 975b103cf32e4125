"""When windows are trained, in which order and where: the numbers are the same."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest
import torch

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.execution.fan_out import fan_out
from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.walk_forward import retraining_dates
from portfolio_dfl.training.window import TrainedWindow, WindowTask, train_window

PolicyFactory = Callable[..., PredictOptimisePolicy]


@pytest.fixture
def tasks(make_policy: PolicyFactory, returns: pd.DataFrame) -> list[WindowTask]:
    policy = make_policy(predictor=PredictorSpec("mlp", {"hidden": 3}))
    return [policy.task(returns.iloc[: last + 1]) for last in (40, 50, 60, 70)]


def parameters(windows: list[TrainedWindow]) -> list[torch.Tensor]:
    flat = []
    for window in windows:
        assert window.state is not None
        flat.append(torch.cat([value.flatten() for value in window.state.values()]))
    return flat


def equal(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(map(torch.equal, first, second))


def test_retraining_happens_on_the_first_date_and_every_so_many_after_it() -> None:
    dates = pd.bdate_range("2021-01-01", periods=45)
    assert list(retraining_dates(dates, 20)) == [dates[0], dates[20], dates[40]]
    with pytest.raises(TrainingError, match="at least 1"):
        retraining_dates(dates, 0)


def spread(tasks: list[WindowTask]) -> list[TrainedWindow]:
    """Trained in two other processes, in the order of the tasks."""
    names = [str(task.date) for task in tasks]
    windows = dict(fan_out(train_window, tasks, names=names, backend="loky", workers=2))
    return [windows[position] for position in range(len(tasks))]


def test_order_does_not_matter(tasks: list[WindowTask]) -> None:
    forwards, backwards = [train_window(task) for task in tasks], [train_window(task) for task in tasks[::-1]]
    assert equal(parameters(forwards), parameters(backwards[::-1]))
    assert [window.date for window in forwards] == [task.date for task in tasks]


def test_other_processes_give_the_same_numbers(tasks: list[WindowTask]) -> None:
    elsewhere = parameters(spread(tasks))
    # In reverse the windows meet other workers in another order.
    assert equal(elsewhere, parameters(spread(tasks[::-1]))[::-1])
    assert equal(elsewhere, parameters([train_window(task) for task in tasks]))
