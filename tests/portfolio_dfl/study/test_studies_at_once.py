"""Several studies at once: on one store they lose nothing; on one run folder there is only one."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_study import EXPERIMENT, brief, records, start, statuses, store_of

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
