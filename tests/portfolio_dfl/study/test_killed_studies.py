"""SIGKILL at random moments: a study goes on to the same bits, does nothing twice, and leaves nothing open."""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import pandas as pd
import pytest
from small_study import EXPERIMENT, WINDOWS, Record, brief, records, same_weights, small, start, statuses

from portfolio_dfl.study.result import StudyResult
from portfolio_dfl.study.run import resume_study, run_study
from portfolio_dfl.study.span import decision_span, load_panel
from portfolio_dfl.study.sweep import run_sweep, validation_score

# How often each of them is killed, early ones and late ones.
_STUDIES, _KILLS = 5, 2


def new_run(folder: Path, earlier: set[Path], process: BaseProcess) -> Path:
    """The run folder that a process makes, as soon as it is there."""
    while not (found := set(folder.glob(f"{EXPERIMENT}-*")) - earlier):
        assert process.is_alive()
        time.sleep(0.002)
    return found.pop()


def finished_windows(run: Path) -> int:
    return len(list((run / "windows").glob("[!.]*")))


@dataclass(frozen=True)
class Undisturbed:
    """A study that nobody interrupts, and how long one takes from the moment its folder is there."""

    result: StudyResult
    records: dict[str, Record]
    seconds: float


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def undisturbed(folder: Path) -> Undisturbed:
    result = run_study(brief(folder))
    start(run_study, brief(folder)).join()  # the first child waits for the imports
    earlier = set(folder.iterdir())
    process = start(run_study, brief(folder))
    new_run(folder, earlier, process)
    begin = time.monotonic()
    process.join()
    assert process.exitcode == 0
    return Undisturbed(result, records(folder, result.folder.name), time.monotonic() - begin)


def killed(process: BaseProcess, run: Path, windows: int, delay: float) -> bool:
    """Kill a process a moment after that many windows are finished; whether it was still at work."""
    while process.is_alive() and finished_windows(run) < windows:
        time.sleep(0.002)
    time.sleep(delay)
    process.kill()
    process.join()
    return process.exitcode != 0


def test_studies_killed_ten_times_go_on_to_the_same_bits(undisturbed: Undisturbed, folder: Path) -> None:
    moments = random.Random(8)
    interrupted = 0
    for study in range(_STUDIES):
        earlier = set(folder.iterdir())
        process = start(run_study, brief(folder))
        run = new_run(folder, earlier, process)
        for kill in range(_KILLS):
            if kill:
                process = start(resume_study, run)
            # A share of the windows, not of the time that another run took: the machine may be quicker by now.
            share = (kill * _STUDIES + study) / (_KILLS * _STUDIES - 1)
            interrupted += killed(process, run, int(share * WINDOWS), undisturbed.seconds * moments.random() / 10)
        finished = {path: path.stat() for path in (run / "windows").glob("[!.]*")}
        resumed = resume_study(run)
        assert same_weights(undisturbed.result, resumed)
        after = {path: path.stat() for path in (run / "windows").iterdir()}
        assert len(after) == WINDOWS
        for path, stat in finished.items():
            assert (after[path].st_ino, after[path].st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns)
        assert records(folder, run.name) == undisturbed.records
        assert not list(run.rglob(".*.partial"))
    assert interrupted >= _STUDIES * _KILLS - 2
    assert set(statuses(folder).values()) == {"FINISHED"}


def test_a_killed_search_goes_on_to_the_trials_it_would_have_had(tmp_path: Path) -> None:
    space = "sweep.space={training.learning_rate: {low: 0.0001, high: 0.01, log: true}, allocation.horizon: [1, 2]}"
    searched = [small(tmp_path / name, space, "sweep.days=20", "sweep.trials=8") for name in ("calm", "killed")]
    calm = run_sweep(searched[0])
    database = tmp_path / "killed" / "sweeps.db"
    for trials in (2, 5):
        process = start(run_sweep, searched[1])
        while trials_in(database, "COMPLETE") < trials or not trials_in(database, "RUNNING"):
            assert process.is_alive()
            time.sleep(0.002)
        process.kill()
        process.join()
        assert trials_in(database, "COMPLETE") < 8
    resumed = run_sweep(searched[1])
    assert len(resumed.trials) == 8
    pd.testing.assert_frame_equal(resumed.trials, calm.trials, check_exact=True)
    assert resumed.score == calm.score
    assert resumed.best.override([f"tracking.folder={tmp_path / 'calm'}"]) == calm.best
    records = statuses(tmp_path / "killed")
    assert set(records.values()) == {"FINISHED"}
    assert sum("/trial" in name for name in records) == 8
    returns = load_panel(resumed.best).returns
    known = returns.loc[: decision_span(resumed.best, returns).dates[0]]
    assert validation_score(resumed.best, known, known.index[-21], known.index[-2]) == resumed.score


def trials_in(database: Path, state: str) -> int:
    if not database.exists():
        return 0
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'trials'").fetchall():
            return 0
        return int(connection.execute("SELECT count(*) FROM trials WHERE state = ?", [state]).fetchone()[0])
