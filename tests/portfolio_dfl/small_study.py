"""A study of two seconds on embedded prices, and what is asked of studies that were interrupted or moved elsewhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from portfolio_dfl.config import StudyConfig
from portfolio_dfl.study_result import StudyResult
from portfolio_dfl.tracking.mlflow_store import StudyStore, open_store

__all__ = ["EXPERIMENT", "WINDOWS", "metrics_on_record", "same_weights", "small", "statuses", "store_of"]

EXPERIMENT = "small"
#: Windows that the study trains: seven for each of two strategies.
WINDOWS = 14

_SMALL = {
    "name": EXPERIMENT,
    "data": {"source": "embedded", "start": "2018-01-02", "end": "2018-12-31"},
    "covariance": {"window": 10},
    "allocation": {"horizon": 2},
    "forecasting": {"lookback": 10},
    "training": {"samples": 20, "realised_window": 5, "retrain_every": 10, "epochs": 2},
    "backtest": {"start": "2018-06-01", "end": "2018-08-31"},
    "evaluation": {"bootstrap": 100},
}


def small(folder: Path, *overrides: str) -> StudyConfig:
    """The study, recorded in a folder of runs."""
    return StudyConfig.parse(_SMALL).override([f"tracking.folder={folder}", *overrides])


def same_weights(one: StudyResult, other: StudyResult) -> bool:
    """Whether all strategies hold the same weights to the last bit."""
    return one.weights.keys() == other.weights.keys() and all(
        frame.equals(other.weights[label]) for label, frame in one.weights.items()
    )


def store_of(folder: Path, experiment: str = EXPERIMENT) -> StudyStore:
    """The records of a folder of runs."""
    return open_store(folder, experiment=experiment)


def statuses(folder: Path, experiment: str = EXPERIMENT) -> dict[str, str]:
    """Status of every MLflow run by its name, a parent's name before its children's."""
    store = store_of(folder, experiment)
    runs = store.client.search_runs([store.experiment_id], max_results=1000)
    names = {run.info.run_id: run.info.run_name for run in runs}
    parents = {run.info.run_id: run.data.tags.get("mlflow.parentRunId") for run in runs}
    return {
        f"{names[parent]}/{run.info.run_name}" if (parent := parents[run.info.run_id]) else run.info.run_name: (
            run.info.status
        )
        for run in runs
    }


def metrics_on_record(folder: Path, run_name: str) -> dict[str, Counter[tuple[str, int]]]:
    """How often each metric of a study is recorded at each step, for the parent ("") and for each child by name."""
    store = store_of(folder)
    parent = store.find_run({"run_folder": run_name})
    assert parent is not None
    children = store.client.search_runs([store.experiment_id], f"tags.`mlflow.parentRunId` = '{parent}'")
    found = {}
    for run in [store.client.get_run(parent), *children]:
        name = "" if run.info.run_id == parent else str(run.info.run_name)
        assert name not in found
        histories = [store.client.get_metric_history(run.info.run_id, metric) for metric in run.data.metrics]
        found[name] = Counter((entry.key, entry.step) for history in histories for entry in history)
    return found
