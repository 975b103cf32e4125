"""When windows are trained, in which order and where: the numbers are the same."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest
import torch

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.walk_forward import TrainedWindow, WindowTask, retraining_dates, train_windows

PolicyFactory = Callable[..., PredictOptimisePolicy]


@pytest.fixture
def tasks(make_policy: PolicyFactory, returns: pd.DataFrame) -> list[WindowTask]:
    policy = make_policy(predictor=PredictorSpec("mlp", {"hidden": 3}))
    return policy.tasks(returns, returns.index[[40, 50, 60, 70]])


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


def test_order_does_not_matter(tasks: list[WindowTask]) -> None:
    forwards, backwards = train_windows(tasks), train_windows(tasks[::-1])
    assert equal(parameters(forwards), parameters(backwards[::-1]))
    assert [window.date for window in forwards] == [task.date for task in tasks]


def test_other_processes_give_the_same_numbers(tasks: list[WindowTask]) -> None:
    spread = parameters(train_windows(tasks, workers=2))
    # In reverse the windows meet other workers in another order.
    assert equal(spread, parameters(train_windows(tasks[::-1], workers=2))[::-1])
    assert equal(spread, parameters(train_windows(tasks)))


def test_finished_windows_are_taken_and_the_rest_trained(tasks: list[WindowTask]) -> None:
    finished = {window.key: window for window in train_windows(tasks[:2])}
    arrived: list[pd.Timestamp] = []
    windows = train_windows(tasks, finished=finished, on_window=lambda window: arrived.append(window.date))
    assert arrived == [tasks[2].date, tasks[3].date]
    assert windows[0] is finished[tasks[0].key]
    assert equal(parameters(windows), parameters(train_windows(tasks)))
