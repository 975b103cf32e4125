"""Several studies at once: on one store they lose nothing; on one run folder there is only one."""

from __future__ import annotations

import logging
import os
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from small_study import EXPERIMENT, brief, records, same_weights, start, statuses, store_of

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.study.folder import RunFolder
from portfolio_dfl.study.run import resume_study, run_study


def test_four_studies_at_once_on_a_fresh_store_lose_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    config = brief(folder, "tracking.register_as=shared")
    processes = [start(run_study, config) for _ in range(4)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    runs = [path.name for path in folder.glob(f"{EXPERIMENT}-*")]
    assert len(runs) == 4
    alone = run_study(config)
    expected = records(folder, alone.folder.name)
    assert set(expected) == {"", "decision_focused-seed0", "two_stage-seed0", "equal_weight"}
    for run in runs:
        assert records(folder, run) == expected
    assert set(statuses(folder).values()) == {"FINISHED"}
    versions = store_of(folder).client.search_model_versions("name = 'shared'")
    assert sorted(int(version.version) for version in versions) == [1, 2, 3, 4, 5]


def test_studies_of_several_threads_find_what_they_find_one_after_the_other(tmp_path: Path) -> None:
    """With predictors that draw, in dropout and for their first values; and the process is left as it was."""
    dropped = ["forecasting.predictor=mlp", "forecasting.options={dropout: 0.5}", "training.learning_rate=0.01"]
    configs = [brief(tmp_path, *dropped), brief(tmp_path, "forecasting.options={start: 0.01}")]
    alone = [run_study(config) for config in configs]
    before = _process_state()
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(run_study, configs))
    assert _process_state() == before
    for one, other in zip(alone, together, strict=True):
        assert same_weights(one, other)
        assert one.metrics.equals(other.metrics)
    assert set(statuses(tmp_path).values()) == {"FINISHED"}


def _process_state() -> list[object]:
    return [
        dict(os.environ),
        list(warnings.filters),
        {name: logging.getLogger(name).level for name in ("lightning.pytorch", "mlflow", "mlflow.store", "alembic")},
        torch.get_num_threads(),
        torch.get_rng_state().tolist(),
        torch.get_default_dtype(),
        signal.getsignal(signal.SIGTERM),
    ]


def test_a_run_that_is_worked_on_is_not_resumed_beside(tmp_path: Path) -> None:
    refused = []

    def resume_beside(stage: str, done: int, total: int) -> None:
        if not refused:
            (run,) = tmp_path.glob(f"{EXPERIMENT}-*")
            with pytest.raises(TrackingError, match=f"another process is working on run {run.name}") as caught:
                resume_study(run)
            refused.append(caught)

    run = run_study(brief(tmp_path), progress=resume_beside)
    assert refused
    with RunFolder.open(run.folder).held(), pytest.raises(TrackingError, match="another process is working"):
        resume_study(run.folder)
    assert set(statuses(tmp_path).values()) == {"FINISHED"}
