"""A fit is on one CPU in one process, whatever Lightning's variables and those of a cluster's job say."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lightning.pytorch as pl
import pandas as pd
import pytest
import torch
from small_study import brief
from torch.utils.data import DataLoader, TensorDataset

from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.study.run import run_study
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.trainer import fit_quietly
from portfolio_dfl.training.window import TrainedWindow, WindowTask, train_window

PolicyFactory = Callable[..., PredictOptimisePolicy]

# Values that Lightning takes for these arguments, and that change what it does or end it; "0" for the others.
_HOSTILE = {
    "accelerator": "gpu",
    "accumulate_grad_batches": "4",
    "barebones": "True",
    "callbacks": "rich_progress_bar",
    "default_root_dir": "/nowhere/at/all",
    "detect_anomaly": "True",
    "deterministic": "True",
    "devices": "2",
    "fast_dev_run": "1",
    "gradient_clip_algorithm": "value",
    "gradient_clip_val": "1e-9",
    "max_time": "00:00:00:00",
    "min_epochs": "50",
    "num_nodes": "2",
    "overfit_batches": "1",
    "plugins": "no_such_plugin",
    "precision": "16-true",
    "profiler": "no_such_profiler",
    "strategy": "ddp_spawn",
    "val_check_interval": "1000",
}
_JOBS = {
    "torchrun": {
        "TORCHELASTIC_RUN_ID": "7",
        "RANK": "3",
        "LOCAL_RANK": "1",
        "GROUP_RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "10.255.255.1",
        "MASTER_PORT": "29500",
    },
    "Slurm": {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NAME": "study",
        "SLURM_NTASKS": "4",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_PROCID": "3",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "SLURM_NODELIST": "node[1-2]",
    },
    "LSF": {
        "LSB_JOBID": "7",
        "LSB_DJOB_RANKFILE": "/nowhere/at/all",
        "JSM_NAMESPACE_SIZE": "4",
        "JSM_NAMESPACE_RANK": "3",
        "JSM_NAMESPACE_LOCAL_RANK": "1",
    },
    "Kubeflow": {"KUBERNETES_PORT": "tcp://10.0.0.1:443", "MASTER_ADDR": "m", "MASTER_PORT": "1", "RANK": "1"},
    "by hand": {"LOCAL_RANK": "1", "NODE_RANK": "1", "WORLD_SIZE": "4", "MASTER_PORT": "none", "STANDALONE_PORT": "x"},
}


@pytest.fixture
def task(make_policy: PolicyFactory, returns: pd.DataFrame) -> WindowTask:
    dropped = PredictorSpec("mlp", {"hidden": 4, "dropout": 0.5})
    policy = make_policy(predictor=dropped, settings={"validation_samples": 2, "gradient_clip": 1.0, "epochs": 4})
    return policy.task(returns)


def same(one: TrainedWindow, other: TrainedWindow) -> bool:
    assert one.state is not None
    assert other.state is not None
    equal = all(torch.equal(one.state[name], other.state[name]) for name in one.state)
    return equal and one.losses == other.losses and one.validation_losses == other.validation_losses


def test_no_argument_of_the_trainer_is_taken_from_the_environment(
    task: WindowTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever it has, in this version of Lightning and the next."""
    alone = train_window(task)
    for name in inspect.signature(pl.Trainer).parameters:
        monkeypatch.setenv(f"PL_TRAINER_{name.upper()}", _HOSTILE.get(name, "0"))
    assert same(train_window(task), alone)


@pytest.mark.parametrize("job", _JOBS)
def test_a_fit_is_no_part_of_the_job_that_it_runs_in(
    task: WindowTask, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    alone = train_window(task)
    for name, value in _JOBS[job].items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    assert same(train_window(task), alone)
    assert dict(os.environ) == before


def test_a_fit_needs_no_working_directory(task: WindowTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = train_window(task)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert same(train_window(task), alone)


class _Line(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.slope = torch.nn.Parameter(torch.zeros(()))
        self.steps = 0

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def training_step(self, batch: list[torch.Tensor], batch_index: int) -> torch.Tensor:
        self.steps += 1
        return (self.slope - batch[0].mean()).square()


def test_any_fit_goes_through_the_same_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the tasks too, with loaders instead of a data module."""
    for name, value in _JOBS["torchrun"].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PL_TRAINER_FAST_DEV_RUN", "1")
    module = _Line()
    fit_quietly(module, DataLoader(TensorDataset(torch.ones(6)), batch_size=2), epochs=5, validate=False)
    assert module.steps == 15


_DROPPED = ("forecasting.predictor=mlp", "forecasting.options={dropout: 0.5}")
_STUDY = """
import json, sys
from pathlib import Path
from small_study import brief
from portfolio_dfl.study.run import run_study
result = run_study(brief(Path("runs"), *sys.argv[1:]))
print(json.dumps(result.metrics.to_numpy(float).tolist()))
"""
# Read by libraries when they are imported, so that only a new process meets them.
_EVERYTHING = {
    **_JOBS["torchrun"],
    **_JOBS["Slurm"],
    "PL_TRAINER_FAST_DEV_RUN": "1",
    "PL_GLOBAL_SEED": "11",
    "MLFLOW_TRACKING_URI": "http://127.0.0.1:9",
    "MLFLOW_REGISTRY_URI": "http://127.0.0.1:9",
    "MLFLOW_EXPERIMENT_NAME": "elsewhere",
    "MLFLOW_RUN_ID": "0" * 32,
    "MLFLOW_ACTIVE_MODEL_ID": "m-0",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "true",
    "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING": "true",
    "MLFLOW_TRACKING_TOKEN": "nobody's",
    "RAY_ADDRESS": "127.0.0.1:9",
    "DASK_SCHEDULER_ADDRESS": "tcp://127.0.0.1:9",
    "OPTUNA_STORAGE": "sqlite:///elsewhere.db",
    "OMP_NUM_THREADS": "3",
    "MKL_NUM_THREADS": "3",
    "OPENBLAS_NUM_THREADS": "3",
    "NUMBA_NUM_THREADS": "1",
    "LOKY_MAX_CPU_COUNT": "1",
    "JOBLIB_MULTIPROCESSING": "0",
    "ARCH_DISABLE_NUMBA": "1",
    "PYTHONHASHSEED": "7",
    "TZ": "Pacific/Kiritimati",
    "LC_ALL": "C",
}


@pytest.mark.timeout(240)
def test_a_study_finds_the_same_in_an_environment_full_of_other_things(tmp_path: Path) -> None:
    alone = run_study(brief(tmp_path / "alone", *_DROPPED)).metrics.to_numpy(float).tolist()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    paths = os.pathsep.join([str(Path(__file__).parents[2] / "support"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", _STUDY, *_DROPPED],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **_EVERYTHING, "PYTHONPATH": paths},
        cwd=elsewhere,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.strip().splitlines()[-1]) == alone
    assert [path.name for path in elsewhere.iterdir()] == ["runs"]  # nothing went to another place


def test_the_seed_of_lightning_is_not_ours(task: WindowTask, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = train_window(task)
    monkeypatch.setenv("PL_GLOBAL_SEED", "3")
    monkeypatch.setenv("PL_SEED_WORKERS", "1")
    assert same(train_window(task), alone)
    assert not same(train_window(replace(task, seed=1)), alone)
