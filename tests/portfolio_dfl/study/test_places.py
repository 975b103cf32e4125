"""A run finds its store and its sources from wherever one stands, and after it was moved with them."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from pathlib import Path

import pytest
from small_study import brief

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.sources import EmbeddedSource
from portfolio_dfl.study.folder import RunFolder
from portfolio_dfl.study.live import advise
from portfolio_dfl.study.places import at_home, located
from portfolio_dfl.study.result import load_result
from portfolio_dfl.study.run import TrainedStudy, resume_study, train_study
from portfolio_dfl.tracking.mlflow_store import download_model, open_store, tracked_run

TODAY = dt.date(2018, 9, 7)
BRIEF = ["training.epochs=1", "backtest.end=2018-06-20", "backtest.strategies=[decision_focused]"]


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> TrainedStudy:
    """A study of relative paths that was started in the folder ``a`` and stopped after its training."""
    start = tmp_path_factory.mktemp("project") / "a"
    start.mkdir()
    EmbeddedSource().load().to_csv(start / "prices.csv")
    config = brief(Path("runs"), "data.source=prices.csv", "tracking.register_as=it's", *BRIEF)
    before = Path.cwd()
    os.chdir(start)
    try:
        return train_study(config)
    finally:
        os.chdir(before)


@pytest.fixture
def project(interrupted: TrainedStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, moved to ``a b``; one stands in another folder."""
    here = tmp_path / "b"
    here.mkdir()
    monkeypatch.chdir(here)
    return Path(shutil.copytree(interrupted.folder.parent.parent, tmp_path / "a b"))


def test_a_run_that_was_moved_with_its_store_goes_on_there(
    interrupted: TrainedStudy, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(interrupted.folder.parent.rglob("*"))
    run = project / "runs" / interrupted.folder.name
    done = resume_study(run)
    assert done.store == f"sqlite:///{project / 'runs' / 'mlflow.db'}"
    assert list(Path.cwd().iterdir()) == []
    assert sorted(interrupted.folder.parent.rglob("*")) == before  # nothing is written where it lay
    assert {path.name for path in (project / "runs" / "artifacts").rglob("report.html")} == {"report.html"}
    monkeypatch.chdir(run)
    assert resume_study(".").run_id == done.run_id
    assert load_result(".").store == done.store
    by_run, by_name = advise(".", today=TODAY), advise("models:/it's/1", root=project / "runs", today=TODAY)
    assert by_run.target.equals(by_name.target)
    assert download_model(project / "runs", "models:/it's/1").is_relative_to(project)


def test_a_run_under_another_name_has_the_records_it_had(project: Path) -> None:
    (run,) = (project / "runs").glob("small-*")
    done = resume_study(run)
    renamed = run.rename(run.with_name("the best one"))
    assert resume_study(renamed).run_id == done.run_id
    copied = Path(shutil.copytree(renamed, renamed.with_name("copied")))
    assert resume_study(copied).run_id == done.run_id  # the original has no folder of its name any more


def test_a_run_moved_away_alone_writes_to_the_store_it_was_started_with(
    interrupted: TrainedStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    alone = tmp_path / interrupted.folder.name
    shutil.move(interrupted.folder, alone)
    try:
        assert RunFolder.open(alone).config().tracking.folder == interrupted.folder.parent
    finally:
        shutil.move(alone, interrupted.folder)


def test_paths_recorded_as_relative_ones_start_where_the_study_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of before hold them as they were typed."""
    (tmp_path / "project" / "runs").mkdir(parents=True)
    (tmp_path / "project" / "prices.csv").touch()
    recorded = StudyConfig.parse({"data": {"source": "prices.csv"}, "tracking": {"folder": "./runs"}})
    monkeypatch.chdir(tmp_path)
    config = at_home(recorded, tmp_path / "project" / "runs")
    assert config.tracking.folder == tmp_path / "project" / "runs"
    assert config.data.source == str(tmp_path / "project" / "prices.csv")
    assert at_home(recorded.override(["data.source=yahoo"]), tmp_path).data.source == "yahoo"


def test_a_study_that_starts_has_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "etf7.csv").touch()
    config = located(
        StudyConfig.parse({"data": {"source": "etf7.csv"}, "tracking": {"folder": "x/../r", "uri": "sqlite:///s.db"}})
    )
    assert config.data.source == str(tmp_path / "etf7.csv")
    assert config.tracking.folder == tmp_path / "r"
    assert config.tracking.uri == f"sqlite:///{tmp_path / 's.db'}"
    assert located(StudyConfig()).data.source == "embedded"


def test_artifacts_of_a_store_that_was_moved_are_written_beside_it(tmp_path: Path) -> None:
    """Within one process too, though MLflow remembers places."""
    note = tmp_path / "note.txt"
    note.write_text("x")
    with tracked_run(open_store(tmp_path / "old", experiment="Default"), "first") as run:
        run.log_file(note)
    (tmp_path / "old").rename(tmp_path / "n e w")
    store = open_store(tmp_path / "n e w", experiment="Default")
    with tracked_run(store, "first", resume=run.run_id) as again:
        again.log_file(note, "again")
    assert not (tmp_path / "old").exists()
    assert [entry.path for entry in store.client.list_artifacts(run.run_id)] == ["again", "note.txt"]
