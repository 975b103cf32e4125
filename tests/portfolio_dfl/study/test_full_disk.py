"""A disk that takes no more while a study or a search works: one line names the place and how to go on."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_study import brief, small, start, statuses

from portfolio_dfl.cli import main
from portfolio_dfl.errors import TrackingError
from portfolio_dfl.study.page import write_study_report
from portfolio_dfl.study.result import load_result
from portfolio_dfl.study.run import resume_study, run_study
from portfolio_dfl.study.sweep import run_sweep

SHORT = ["backtest.end=2018-06-20", "training.epochs=1"]
SPACE = ["sweep.space={training.epochs: [1, 2]}", "sweep.trials=2", "sweep.days=20"]


def _limit(size: int) -> None:
    """No file of this process may grow beyond so many bytes, as on a disk without room."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _run_in_a_room(room: int, folder: Path, config: Path, errors: Path) -> None:
    """The store may grow by so many bytes, and no file beyond its size: windows are small, the report is larger."""
    with errors.open("wb") as file:
        os.dup2(file.fileno(), 2)
    _limit((folder / "mlflow.db").stat().st_size + room)
    sys.argv = ["portfolio-dfl", "run", str(config)]
    main()


def _search_while_trials_cannot_be_kept(folder: Path) -> None:
    def take_the_room(stage: str, done: int, total: int) -> None:
        if done == 1:
            _limit(1000)

    advice = r"^Optuna did not take a trial: disk I/O error \(\S+/sweeps\.db\); once that is mended, the same sweep"
    with pytest.raises(TrackingError, match=advice):
        run_sweep(small(folder, *SPACE), progress=take_the_room)


@pytest.mark.parametrize(
    ("room", "message"),
    [
        (0, "MLflow did not take {what}: disk I/O error ({runs}/mlflow.db)"),
        (200_000, "cannot write to {run}/report.html: File too large"),
    ],
)
def test_a_file_that_cannot_grow_is_named_in_one_line(room: int, message: str, tmp_path: Path) -> None:
    config, errors, runs = tmp_path / "small.yaml", tmp_path / "errors", tmp_path / "runs"
    runs.mkdir()
    config.write_text(brief(runs, *SHORT).to_yaml(), encoding="utf-8")
    process = start(_run_in_a_room, room, runs, config, errors)
    process.join()
    (run,) = runs.glob("small-*")
    (told,) = errors.read_text(encoding="utf-8").splitlines()
    assert process.exitcode == 2
    what = told.removeprefix("error: MLflow did not take ").partition(":")[0]
    reason = message.format(what=what, runs=runs, run=run)
    assert told == f"error: {reason}; once that is mended, `portfolio-dfl resume {run}` continues the study"
    assert resume_study(run).folder == run
    assert set(statuses(runs).values()) == {"FINISHED"}


def test_a_search_whose_trials_cannot_be_kept_goes_on_later(tmp_path: Path) -> None:
    process = start(_search_while_trials_cannot_be_kept, tmp_path)
    process.join()
    assert process.exitcode == 0
    assert len(run_sweep(small(tmp_path, *SPACE)).trials) == 2


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=False).returncode:
        pytest.skip("only root may mount a file system, and not in every container")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def leave(room: int, disk: Path) -> None:
    """Let so many kilobytes more fit onto a disk."""
    state = os.statvfs(disk)
    used = (state.f_blocks - state.f_bfree) * state.f_frsize // 1024
    subprocess.run(["mount", "-o", f"remount,size={used + room}k", disk], check=True)


@pytest.mark.parametrize(
    ("room", "message"),
    [
        (0, "mlflow.db: database or disk is full; make room on its disk"),
        (100, "mlflow.db); once that is mended, `portfolio-dfl resume"),
        (400, "No space left on device; once that is mended, `portfolio-dfl resume"),
    ],
)
def test_a_disk_that_fills_is_named_in_one_line(
    room: int, message: str, disk: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = disk.with_suffix(".yaml")
    config.write_text(brief(disk, *SHORT).to_yaml(), encoding="utf-8")
    leave(room, disk)
    monkeypatch.setattr(sys, "argv", ["portfolio-dfl", "run", str(config)])
    with pytest.raises(SystemExit) as left:
        main()
    (told,) = capfd.readouterr().err.splitlines()
    assert left.value.code == 2
    assert str(disk) in told
    assert message in told


def test_a_report_that_does_not_fit_is_named(disk: Path) -> None:
    result = run_study(brief(disk, *SHORT))
    leave(0, disk)
    with pytest.raises(TrackingError, match=r"^cannot write to \S+/report\.html: No space left on device$"):
        write_study_report(load_result(result.folder))
