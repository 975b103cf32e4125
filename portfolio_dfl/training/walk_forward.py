"""Training along the calendar: when to retrain, and many windows at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
from joblib import Parallel, delayed

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.training.settings import TrainingSettings
from portfolio_dfl.training.window import TrainedWindow, WindowTask, train_window

__all__ = [
    "TrainedWindow",
    "TrainingSettings",
    "WindowTask",
    "retraining_dates",
    "train_window",
    "train_windows",
]


def retraining_dates(dates: pd.DatetimeIndex, every: int = 20) -> pd.DatetimeIndex:
    """The first of the decision dates and every `every`-th after it."""
    if every < 1:
        raise TrainingError(f"retraining happens every {every} decision dates; at least 1 is needed")
    return dates[::every]


def train_windows(
    tasks: Sequence[WindowTask],
    *,
    workers: int = 1,
    finished: Mapping[str, TrainedWindow] | None = None,
    on_window: Callable[[TrainedWindow], None] | None = None,
) -> list[TrainedWindow]:
    """Train independent windows, in order of the tasks whatever the number of processes.

    Parameters
    ----------
    tasks : sequence of WindowTask
    workers : int
        Processes; 1 stays in this one.
    finished : mapping, optional
        Windows trained before, by `WindowTask.key`: they are taken, not trained again.
    on_window : callable, optional
        Told of each newly trained window as it arrives, in order: to show progress or to store it for a
        resumption.
    """
    finished = finished or {}
    keys = [task.key for task in tasks]
    missing = [(key, task) for key, task in zip(keys, tasks, strict=True) if key not in finished]
    trained: dict[str, TrainedWindow] = {}
    arriving = Parallel(n_jobs=workers, return_as="generator")(delayed(train_window)(task) for _, task in missing)
    for window in arriving:
        trained[window.key] = window
        if on_window is not None:
            on_window(window)
    return [finished[key] if key in finished else trained[key] for key in keys]
