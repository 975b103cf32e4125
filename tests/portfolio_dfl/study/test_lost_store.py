"""Studies whose MLflow store fails while they work."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from small_study import WINDOWS, brief, small, statuses

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.study.run import resume_study, run_study
from portfolio_dfl.study.sweep import run_sweep


def rename(database: Path, before: str, after: str) -> None:
    """Take a table away from MLflow, or give it back."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"ALTER TABLE {before} RENAME TO {after}")


def test_a_study_that_its_store_broke_off_says_how_it_goes_on(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"

    def lose(stage: str, done: int, total: int) -> None:
        if done == 3:
            rename(database, "metrics", "lost")

    with pytest.raises(TrackingError, match=r"^MLflow did not take metrics: .*`portfolio-dfl resume") as caught:
        run_study(brief(tmp_path), progress=lose)
    message = str(caught.value)
    named = re.search(r"`portfolio-dfl resume (\S+)` continues the study$", message)
    assert named is not None
    assert "\n" not in message
    rename(database, "lost", "metrics")
    result = resume_study(named[1])
    assert len(result.windows) == WINDOWS
    assert set(statuses(tmp_path).values()) == {"FINISHED"}


def test_a_search_that_its_store_broke_off_says_how_it_goes_on(tmp_path: Path) -> None:
    config = small(tmp_path, "sweep.space={training.epochs: [1]}", "sweep.trials=1", "sweep.days=20")

    def lose(stage: str, done: int, total: int) -> None:
        if done == total:
            rename(tmp_path / "mlflow.db", "metrics", "lost")

    with pytest.raises(TrackingError, match="the same sweep goes on where it stopped"):
        run_sweep(config, progress=lose)
