"""A run folder notices what is damaged, cut short or changed, and says what to do."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path

import pytest
from small_study import WINDOWS, brief, records, same_weights, start, statuses

from portfolio_dfl.errors import ConfigError, TrackingError
from portfolio_dfl.study.folder import RunFolder
from portfolio_dfl.study.result import StudyResult, load_result
from portfolio_dfl.study.run import resume_study, run_study


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    return run_study(brief(tmp_path_factory.mktemp("runs")))


@pytest.fixture
def copied(done: StudyResult, tmp_path: Path) -> Path:
    return Path(shutil.copytree(done.folder, tmp_path / done.folder.name))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(bytes(content))


def test_damaged_windows_are_trained_again_and_said_to_be(done: StudyResult, caplog: pytest.LogCaptureFixture) -> None:
    windows = sorted((done.folder / "windows").iterdir())
    untouched = {path: path.stat().st_mtime_ns for path in windows[3:]}
    before = records(done.config.tracking.folder, done.folder.name)
    cut(windows[0])
    flip(windows[1])
    windows[2].write_bytes(b"")
    again = resume_study(done.folder)
    assert same_weights(done, again)
    assert {path: path.stat().st_mtime_ns for path in untouched} == untouched
    assert len(list((done.folder / "windows").iterdir())) == WINDOWS
    assert [str(path) in message for path, message in zip(windows, caplog.messages, strict=False)] == [True] * 3
    assert records(done.config.tracking.folder, done.folder.name) == before


@pytest.mark.parametrize("name", ["config.yaml", "prices.parquet", "data_flags.parquet"])
@pytest.mark.parametrize("damage", [cut, flip])
def test_a_run_whose_beginning_is_damaged_is_refused(copied: Path, name: str, damage: object) -> None:
    assert callable(damage)
    damage(copied / name)
    with pytest.raises(TrackingError, match=r"is not what it was started with.*start it again"):
        resume_study(copied)
    (copied / name).unlink()
    with pytest.raises(TrackingError, match=f"no run|is not complete.*{name}"):
        resume_study(copied)


@pytest.mark.parametrize("name", ["strategies/equal_weight/weights.parquet", "tables/metrics.parquet", "facts.json"])
@pytest.mark.parametrize("damage", [cut, flip])
def test_a_damaged_result_is_not_read(copied: Path, name: str, damage: object) -> None:
    assert callable(damage)
    damage(copied / name)
    with pytest.raises(TrackingError, match=rf"{name} cannot be used.*portfolio-dfl resume {copied.name}"):
        load_result(copied)
    (copied / "SHA256SUMS").write_bytes(b"")
    with pytest.raises(TrackingError, match=r"config\.yaml, prices\.parquet, data_flags\.parquet changed or damaged"):
        load_result(copied)


def test_only_where_a_study_runs_may_change_when_it_goes_on(done: StudyResult, copied: Path) -> None:
    with pytest.raises(ConfigError, match=r"execution\.\*, and nothing else"):
        resume_study(copied, overrides=["training.epochs=3"])
    for window in list((done.folder / "windows").iterdir())[:4]:
        window.unlink()
    again = resume_study(done.folder, overrides=["execution.backend=loky", "execution.workers=2"])
    assert same_weights(done, again)
    assert again.config == done.config


def test_what_is_broken_off_says_how_it_goes_on(tmp_path: Path) -> None:
    def stop(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        run_study(brief(tmp_path), progress=stop)
    (note,) = stopped.value.__notes__
    (run,) = tmp_path.glob("small-*")
    assert note == f"run {run.name} was broken off; `portfolio-dfl resume {run}` continues it"


def test_a_beginning_that_only_one_run_has_names_it(copied: Path) -> None:
    root = copied.parent
    assert RunFolder.open(copied.name[:-3], root).path == copied.resolve()
    shutil.copytree(copied, root / f"{copied.name}x")
    assert RunFolder.open(copied.name, root).path == copied.resolve()
    with pytest.raises(TrackingError, match=f"2 runs under .* begin with {copied.name[:-1]}: {copied.name}, "):
        RunFolder.open(copied.name[:-1], root)


def test_what_a_broken_off_write_leaves_is_removed(copied: Path) -> None:
    (copied / "windows" / ".abc.pt.partial").write_bytes(b"half")
    folder = RunFolder.open(copied)
    with folder.held():
        assert not list(copied.rglob(".*.partial"))


def _run_with_little_room(folder: Path) -> None:
    """No file may grow beyond 20,000 bytes once the run folder stands, as on a disk that is nearly full."""

    def take_the_room(stage: str, done: int, total: int) -> None:
        if done == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

    advice = r"^cannot write \S+\.pt: File too large; .*once that is mended, `portfolio-dfl resume \S+` continues"
    with pytest.raises(TrackingError, match=advice):
        run_study(brief(folder), progress=take_the_room)


def test_a_full_disk_is_named_and_the_study_goes_on_later(done: StudyResult, tmp_path: Path) -> None:
    process = start(_run_with_little_room, tmp_path)
    process.join()
    assert process.exitcode == 0
    (run,) = tmp_path.glob("small-*")
    assert len(list((run / "windows").iterdir())) == 3
    assert same_weights(done, resume_study(run))
    assert set(statuses(tmp_path).values()) == {"FINISHED"}
