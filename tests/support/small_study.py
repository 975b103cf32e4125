"""A study of two seconds on embedded prices, and what is asked of studies that were interrupted or moved elsewhere."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.study.result import StudyResult
from portfolio_dfl.tracking.mlflow_store import StudyStore, open_store

__all__ = [
    "EXPERIMENT",
    "WINDOWS",
    "Record",
    "brief",
    "empty_store",
    "records",
    "same_weights",
    "small",
    "start",
    "statuses",
    "store_of",
]

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

# Everything that a study imports.
_PRELOADED = """
arch.bootstrap cvxpy exchange_calendars lightning.pytorch mlflow.pyfunc mlflow.store.tracking.sqlalchemy_store numba
plotly.express plotly.subplots portfolio_dfl.backtest.evaluation portfolio_dfl.backtest.inference
optuna portfolio_dfl.data.panel portfolio_dfl.data.sources portfolio_dfl.study.run portfolio_dfl.study.sweep
portfolio_dfl.tracking.model
portfolio_dfl.training.fitting portfolio_dfl.training.policies pyarrow.parquet skfolio sklearn.covariance small_study
"""


@cache
def _fresh_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        open_store(folder, experiment="Default")
        return (Path(folder) / "mlflow.db").read_bytes()


def empty_store(folder: Path) -> Path:
    """A folder of runs with an empty store: MLflow takes over a second to make the tables of each anew."""
    folder.mkdir(exist_ok=True)
    database = folder / "mlflow.db"
    if not database.exists():
        database.write_bytes(_fresh_database())
    return folder


def small(folder: Path, *overrides: str) -> StudyConfig:
    """The study, recorded in a folder of runs; one that is there is given a store, one to be made is left to MLflow."""
    if folder.is_dir():
        empty_store(folder)
    return StudyConfig.parse(_SMALL).override([f"tracking.folder={folder}", *overrides])


def brief(folder: Path, *overrides: str) -> StudyConfig:
    """The study with fewer strategies and figures."""
    strategies = "backtest.strategies=[decision_focused, two_stage, equal_weight]"
    return small(folder, strategies, "evaluation.bootstrap=0", *overrides)


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


@dataclass(frozen=True)
class Record:
    """What MLflow holds of one run: how often each metric at each step, the parameters, the artifacts' paths."""

    metrics: Counter[tuple[str, int]]
    params: dict[str, str]
    artifacts: set[str]


def records(folder: Path, run_name: str) -> dict[str, Record]:
    """The records of a study, of its parent ("") and of each child by name."""
    store = store_of(folder)
    parent = store.find_run({"run_folder": run_name})
    assert parent is not None
    children = store.client.search_runs([store.experiment_id], f"tags.`mlflow.parentRunId` = '{parent}'")
    found = {}
    for run in [store.client.get_run(parent), *children]:
        name = "" if run.info.run_id == parent else str(run.info.run_name)
        assert name not in found
        histories = [store.client.get_metric_history(run.info.run_id, metric) for metric in run.data.metrics]
        found[name] = Record(
            Counter((entry.key, entry.step) for history in histories for entry in history),
            dict(run.data.params),
            set(_artifacts(store, run.info.run_id, None)),
        )
    return found


def _artifacts(store: StudyStore, run_id: str, folder: str | None) -> Iterator[str]:
    for entry in store.client.list_artifacts(run_id, folder):
        yield entry.path
        if entry.is_dir:
            yield from _artifacts(store, run_id, entry.path)


def start(function: Callable[..., Any], *arguments: Any) -> BaseProcess:
    """A child of a process that has everything imported: starting afresh takes longer than the study."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED.split())
    process = context.Process(target=function, args=arguments)
    process.start()
    return process
