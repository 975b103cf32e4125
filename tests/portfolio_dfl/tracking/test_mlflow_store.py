"""MLflow records: what is written, where, and how runs end whatever happens."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import subprocess
import sys
import textwrap
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Thread

import mlflow
import pytest

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.tracking.mlflow_store import StudyStore, TrackedRun, download_model, open_store, tracked_run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> StudyStore:
    return open_store(tmp_path_factory.mktemp("runs"), experiment="study")


def status(store: StudyStore, run_id: str) -> str:
    return str(store.client.get_run(run_id).info.status)


def test_a_run_holds_what_was_logged(store: StudyStore, tmp_path: Path) -> None:
    artifact = tmp_path / "note.txt"
    artifact.write_text("hello")
    with tracked_run(store, "main", tags={"kind": "study"}) as parent:
        parent.log_params({"training.epochs": 3, "long": "x" * 2000})
        with tracked_run(store, "child", parent=parent) as child:
            child.log_series({0: {"loss": 1.0}, 1: {"loss": 0.5}})
            child.log_file(artifact, "notes")
    run = store.client.get_run(parent.run_id)
    assert run.data.params["training.epochs"] == "3"
    assert len(run.data.params["long"]) == 500
    assert store.client.get_run(child.run_id).data.tags["mlflow.parentRunId"] == parent.run_id
    history = store.client.get_metric_history(child.run_id, "loss")
    assert [(point.step, point.value) for point in history] == [(0, 1.0), (1, 0.5)]
    assert [entry.path for entry in store.client.list_artifacts(child.run_id, "notes")] == ["notes/note.txt"]
    assert {status(store, parent.run_id), status(store, child.run_id)} == {"FINISHED"}


def test_numbers_that_are_none_are_left_out(store: StudyStore) -> None:
    with tracked_run(store, "nan") as run:
        run.log_metrics({"good": 1.0, "nan": float("nan"), "inf": float("inf")})
    assert store.client.get_run(run.run_id).data.metrics == {"good": 1.0}


def test_more_metrics_than_one_request_holds_are_all_kept(store: StudyStore) -> None:
    with tracked_run(store, "many") as run:
        run.log_series({step: {"a": float(step), "b": 0.0} for step in range(700)})
        assert run.logged_steps("a") == set(range(700))


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ValueError("no"), "FAILED"), (KeyboardInterrupt(), "KILLED"), (SystemExit(143), "KILLED")],
)
def test_a_run_ends_as_what_happened(store: StudyStore, error: BaseException, expected: str) -> None:
    ids: list[str] = []

    def fail() -> None:
        with tracked_run(store, "outer") as outer, tracked_run(store, "inner", parent=outer) as inner:
            ids.extend([outer.run_id, inner.run_id])
            raise error

    with pytest.raises(type(error)):
        fail()
    assert [status(store, run_id) for run_id in ids] == [expected, expected]


def test_a_run_that_goes_on_keeps_its_identity(store: StudyStore) -> None:
    with tracked_run(store, "long", tags={"place": "here"}) as first:
        first.log_metrics({"loss": 1.0}, step=0)
    found = store.find_run({"place": "here"})
    with tracked_run(store, "long", resume=found) as second:
        assert second.run_id == first.run_id
        assert second.logged_steps("loss") == {0}
    assert status(store, first.run_id) == "FINISHED"


def test_neither_environment_nor_an_active_run_redirects(
    store: StudyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", elsewhere)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "other")
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(elsewhere)
    try:
        mlflow.create_experiment("mine", artifact_location=(tmp_path / "artifacts").as_uri())
        monkeypatch.delenv("MLFLOW_RUN_ID")
        monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
        with mlflow.start_run() as active:
            with tracked_run(store, "independent") as run:
                run.log_metrics({"loss": 1.0})
            assert mlflow.active_run().info.run_id == active.info.run_id
        assert active.info.run_id != run.run_id
        assert mlflow.get_run(active.info.run_id).data.metrics == {}
    finally:
        mlflow.set_tracking_uri(before)
    assert store.client.get_run(run.run_id).info.experiment_id == store.experiment_id


def test_a_server_that_does_not_answer_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match=r"no MLflow server answers at http://127.0.0.1:9"):
        open_store(tmp_path, experiment="study", uri="http://127.0.0.1:9")


def test_a_server_that_is_gone_is_named_by_its_address_and_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    run = TrackedRun(StudyStore("http://127.0.0.1:9", "study", "1"), "0" * 32)
    with pytest.raises(TrackingError, match=r"^MLflow did not take metrics: the server at http://127.0.0.1:9 failed: "):
        run.log_metrics({"loss": 1.0})


@pytest.mark.parametrize("chosen", [None, "2"])
def test_a_server_is_tried_for_a_minute_or_as_often_as_the_user_says(
    store: StudyStore, chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
    monkeypatch.delenv(name, raising=False)
    if chosen is not None:
        monkeypatch.setenv(name, chosen)
    seen = []
    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", lambda *_, **__: seen.append(os.environ[name]))
    with tracked_run(store, "main") as run:
        run.log_metrics({"loss": 1.0})
    assert seen == [chosen or "5"]
    assert os.environ.get(name) == chosen


def test_what_is_no_server_of_mlflow_is_named_at_once(tmp_path: Path) -> None:
    """Something that answers, though not in HTTP; and an address that is none."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        uri = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def greet() -> None:
            with listener.accept()[0] as connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
                connection.recv(1000)

        talker = Thread(target=greet)
        talker.start()
        with pytest.raises(TrackingError, match=f"no MLflow server answers at {uri}"):
            open_store(tmp_path, experiment="study", uri=uri)
        talker.join()
    with pytest.raises(TrackingError, match="no MLflow server answers at http://a b"):
        open_store(tmp_path, experiment="study", uri="http://a b")


@pytest.mark.parametrize(
    "uri", ["foo://x", "sqlite://x", "sqlite+foo:///x.db", "mysql+cymysql://host/x", "sqlite:////sys/x.db", "garbage"]
)
def test_a_store_that_cannot_be_opened_is_named(uri: str, tmp_path: Path) -> None:
    if uri == "garbage":
        (tmp_path / "text.db").write_text("no database " * 100)
        uri = f"sqlite:///{tmp_path / 'text.db'}"
    with pytest.raises(TrackingError, match=rf"^MLflow cannot open {re.escape(uri)}: .*; correct tracking\.uri"):
        open_store(tmp_path, experiment="study", uri=uri)


def spoil(file: Path, how: str) -> None:
    """Put something else in the place of a folder's store."""
    if how == "a folder":
        file.mkdir()
    elif how == "bytes":
        file.write_bytes(bytes(range(256)) * 10)
    else:
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
            database.execute("INSERT INTO alembic_version VALUES ('later')")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("how", ["bytes", "a folder", "a later version"])
def test_a_local_store_that_cannot_be_opened_is_named_by_its_file(how: str, tmp_path: Path) -> None:
    """Nobody gave a URI that could be corrected."""
    file = tmp_path / "mlflow.db"
    spoil(file, how)
    with pytest.raises(TrackingError, match=rf"^MLflow cannot open {re.escape(str(file))}: .*move it away") as caught:
        open_store(tmp_path, experiment="study")
    assert "tracking.uri" not in str(caught.value)
    if file.is_file():
        with pytest.raises(TrackingError, match=rf"^MLflow cannot open {re.escape(str(file))}: "):
            download_model(tmp_path, "models:/decisions/1")


def test_another_database_leaves_artifacts_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    note = tmp_path / "note.txt"
    note.write_text("hello")
    store = open_store(tmp_path / "runs", experiment="study", uri=f"sqlite:///{tmp_path / 'other.db'}")
    with tracked_run(store, "main") as run:
        run.log_file(note)
    assert len(list((tmp_path / "runs" / "artifacts" / "study").rglob("note.txt"))) == 1
    assert not (tmp_path / "mlruns").exists()


def test_a_deleted_experiment_is_refused_with_the_way_out(tmp_path: Path) -> None:
    gone = open_store(tmp_path, experiment="gone")
    gone.client.delete_experiment(gone.experiment_id)
    with pytest.raises(TrackingError, match="was deleted"):
        open_store(tmp_path, experiment="gone")


def _log_one(folder: Path, number: int) -> str:
    with tracked_run(open_store(folder, experiment="shared"), f"run {number}") as run:
        run.log_series({step: {"value": float(number)} for step in range(20)})
        return run.run_id


def test_first_users_of_a_fresh_store_do_not_collide(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4) as pool:
        ids = list(pool.map(_log_one, [tmp_path] * 4, range(4)))
    store = open_store(tmp_path, experiment="shared")
    assert [len(store.client.get_metric_history(run_id, "value")) for run_id in ids] == [20] * 4


def test_a_termination_signal_closes_the_run_as_killed(tmp_path: Path) -> None:
    script = textwrap.dedent(
        f"""
        import os, signal
        from portfolio_dfl.execution.interruption import closed_on_signal
        from portfolio_dfl.tracking.mlflow_store import open_store, tracked_run
        store = open_store({str(tmp_path)!r}, experiment="study")
        with closed_on_signal(), tracked_run(store, "main") as run:
            print(run.run_id, flush=True)
            os.kill(os.getpid(), signal.SIGTERM)
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 143
    assert status(open_store(tmp_path, experiment="study"), done.stdout.strip()) == "KILLED"
