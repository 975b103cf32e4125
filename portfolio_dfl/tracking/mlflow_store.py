"""MLflow records: one experiment a study, a parent run a configuration, a child run a strategy and seed.

Everything goes through an explicit client: neither ``MLFLOW_*`` environment variables nor an active run of
the caller redirect what is written here, and nothing here changes them for long. Only the process that runs the study
writes.
"""

from __future__ import annotations

import math
import os
import posixpath
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.execution.interruption import uninterrupted
from portfolio_dfl.execution.process import SharedChange, variable
from portfolio_dfl.tracking.places import (
    StoreError,
    artifact_folder,
    database_of,
    keep_artifacts_beside,
    refusal,
    restored,
    sqlite_uri,
)

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

__all__ = [
    "StoreError",
    "StudyStore",
    "TrackedRun",
    "download_model",
    "moved_along",
    "open_store",
    "recorded_at",
    "reported",
    "tracked_run",
]

# The store's own limits on one request.
_METRICS_A_BATCH = 1000
_PARAMS_A_BATCH = 100
# MLflow keeps long values only up to its column width; the YAML artifact holds them whole.
_PARAM_LENGTH = 500
_KEY_LENGTH = 250
_SERVER_PATIENCE_S = 10.0
# Stores that leave it to their users where artifacts lie: MLflow's own choice is the working directory.
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
_ERROR = "error"
# Tags that MLflow itself reads.
_PARENT, _SOURCE = "mlflow.parentRunId", "mlflow.source.name"
# Under which a study's facts tell where its records are.
_STORE_FACT, _RUN_FACT = "mlflow_store", "mlflow_run"
_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"


@dataclass(frozen=True)
class StudyStore:
    """An MLflow experiment, open for writing.

    Attributes
    ----------
    uri : str
        Tracking URI: ``sqlite:///…`` or a server's address.
    experiment, experiment_id : str
        Name and identifier of the experiment.
    """

    uri: str
    experiment: str
    experiment_id: str

    @property
    def client(self) -> MlflowClient:
        """A client bound to this store, whatever the environment says."""
        file = self.uri.removeprefix("sqlite:///")
        return _client(self.uri, None if file == self.uri else Path(file))

    def find_run(self, tags: Mapping[str, str], *, parent: TrackedRun | None = None) -> str | None:
        """Identifier of the newest run that has all these tags, among those nested under a parent if it is given."""
        if parent is not None:
            tags = {_PARENT: parent.run_id, **tags}
        wanted = " and ".join(f"tags.`{name}` = {_quoted(value)}" for name, value in tags.items())
        with reported("a search", self.uri):
            order = ["attributes.start_time DESC"]
            runs = self.client.search_runs([self.experiment_id], wanted, order_by=order, max_results=1)
        return str(runs[0].info.run_id) if runs else None

    def page(self, host: str = "") -> str:
        """Address of the experiment's runs table, in the machine-learning view."""
        base = (host or self.uri).rstrip("/")
        return f"{base}/#/experiments/{self.experiment_id}/runs?workflowType=machine_learning"


def open_store(folder: str | os.PathLike[str], *, experiment: str, uri: str | None = None) -> StudyStore:
    """Open, and where needed create, the experiment that a study is recorded in.

    Parameters
    ----------
    folder : path
        Where the local store lies: ``mlflow.db`` and the artifacts. With a server both lie there; with another
        database the artifacts alone lie here.
    experiment : str
        Name of the experiment.
    uri : str, optional
        Address of a tracking server, or another store's URI; by default SQLite in ``folder``.

    Raises
    ------
    TrackingError
        If the server does not answer, the store cannot be opened, or the experiment was deleted.
    """
    from filelock import FileLock

    root = Path(folder).resolve()
    artifacts = artifact_folder(root, experiment).as_uri()
    if uri is not None:
        _require_store(uri)
        location = artifacts if _is_database(uri) else None
        return StudyStore(uri, experiment, _experiment_id(_client(uri), uri, experiment, location))
    database = root / "mlflow.db"
    local = sqlite_uri(database)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrackingError(f"{root} cannot be a folder of runs: {error.strerror}; choose another") from error
    # Several first users of a fresh SQLite store would each create its tables.
    with FileLock(str(root / ".mlflow.lock"), timeout=300):
        if not database.exists():
            _create(database)
        _require_database(local, database)
        client = _client(local, database)
        keep_artifacts_beside(database)
        return StudyStore(local, experiment, _experiment_id(client, local, experiment, artifacts))


def download_model(folder: str | os.PathLike[str], model: str, *, uri: str | None = None) -> Path:
    """Local folder of a registered model, ``models:/NAME/VERSION``.

    Parameters
    ----------
    folder : path
        Where the local store lies.
    model : str
    uri : str, optional
        Address of the server, or another store's URI, that is looked in instead; nothing is made there.

    Raises
    ------
    TrackingError
        If there is no store, the server does not answer, or the name or version is not in it.
    """
    from mlflow.artifacts import download_artifacts

    name, _, version = model.removeprefix("models:/").partition("/")
    database = database_of(Path(folder).resolve())
    # MLflow would make a store to look for the model in.
    if uri is None and not database.is_file():
        raise TrackingError(
            f"no MLflow store in {folder}, so no {model}; name the folder of runs it was registered in, or its server "
            "with --uri"
        )
    if uri is not None:
        if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
            raise TrackingError(f"no MLflow store at {uri}, so no {model}")
        _require_store(uri)
    store = uri or sqlite_uri(database)
    client = _client(store, database if uri is None else None)
    if uri is None:
        keep_artifacts_beside(database)
    with variable("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false"), reported(f"the request for {model}", store):
        source = client.get_model_version(name, version).source
        return Path(download_artifacts(artifact_uri=source, tracking_uri=store))


def recorded_at(facts: Mapping[str, str]) -> tuple[str, str]:
    """Tracking URI and identifier of the run that a study's facts name."""
    return facts[_STORE_FACT], facts[_RUN_FACT]


def moved_along(facts: Mapping[str, str], folder: Path) -> dict[str, str]:
    """A study's facts with the local store where its folder of runs is now."""
    return {**facts, _STORE_FACT: sqlite_uri(folder.resolve() / "mlflow.db")}


class TrackedRun:
    """An MLflow run that is being written.

    NaN and infinities are left out: MLflow would draw them as numbers. What a run that goes on has on record already
    is not recorded twice.
    """

    def __init__(self, store: StudyStore, run_id: str, *, resumed: bool = False) -> None:
        self.store = store
        self.run_id = run_id
        self._client = store.client
        self._earlier: dict[str, set[tuple[int, float]]] | None = None if resumed else {}

    @property
    def facts(self) -> dict[str, str]:
        """Where the records are, for :func:`recorded_at` to find."""
        return {_STORE_FACT: self.store.uri, _RUN_FACT: self.run_id}

    def log_params(self, params: Mapping[str, object]) -> None:
        """Record parameters by name; nested values should be flat already."""
        from mlflow.entities import Param

        entries = [Param(_key(name), _short(value)) for name, value in params.items()]
        with reported("parameters", self.store.uri):
            for begin in range(0, len(entries), _PARAMS_A_BATCH):
                self._client.log_batch(self.run_id, params=entries[begin : begin + _PARAMS_A_BATCH])

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Record numbers at one step, in one request."""
        self.log_series({step: metrics})

    def log_series(self, series: Mapping[int, Mapping[str, float]]) -> None:
        """Record numbers at many steps, a thousand a request."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        entries = [
            Metric(name, float(value), now, step)
            for step, metrics in series.items()
            for name, value in metrics.items()
            if math.isfinite(value) and (step, float(value)) not in self._recorded(name)
        ]
        with reported("metrics", self.store.uri):
            for begin in range(0, len(entries), _METRICS_A_BATCH):
                self._client.log_batch(self.run_id, metrics=entries[begin : begin + _METRICS_A_BATCH])

    def logged_steps(self, metric: str) -> set[int]:
        """Steps at which a metric was recorded before, as after an interruption."""
        with reported("metrics", self.store.uri):
            return {int(entry.step) for entry in self._client.get_metric_history(self.run_id, metric)}

    def _recorded(self, metric: str) -> set[tuple[int, float]]:
        """Steps and values of a metric from before an interruption."""
        with reported("metrics", self.store.uri):
            if self._earlier is None:
                names = self._client.get_run(self.run_id).data.metrics
                histories = {name: self._client.get_metric_history(self.run_id, name) for name in names}
                self._earlier = {
                    name: {(int(entry.step), float(entry.value)) for entry in history}
                    for name, history in histories.items()
                }
        return self._earlier.get(metric, set())

    def set_tags(self, tags: Mapping[str, object]) -> None:
        """Record tags; a tag set again is replaced."""
        from mlflow.entities import RunTag

        with reported("tags", self.store.uri):
            self._client.log_batch(self.run_id, tags=[RunTag(name, str(value)) for name, value in tags.items()])

    def log_file(self, path: str | os.PathLike[str], folder: str | None = None) -> None:
        """Store a copy of a file among the run's artifacts."""
        with reported(f"artifact {Path(path).name}", self.store.uri):
            self._client.log_artifact(self.run_id, str(path), folder)

    def end(self, status: str) -> None:
        """Give the run its last status: FINISHED, FAILED or KILLED."""
        with reported(f"the end of run {self.run_id}", self.store.uri):
            self._client.set_terminated(self.run_id, status=status)

    def log_folder(self, path: str | os.PathLike[str], folder: str) -> None:
        """Store a copy of a folder's contents among the run's artifacts."""
        with reported(f"artifacts {Path(path).name}", self.store.uri):
            self._client.log_artifacts(self.run_id, str(path), folder)


@contextmanager
def tracked_run(
    store: StudyStore,
    name: str,
    *,
    parent: TrackedRun | None = None,
    resume: str | None = None,
    tags: Mapping[str, object] | None = None,
    source: str | None = None,
) -> Iterator[TrackedRun]:
    """A run that ends as what happened: FINISHED, FAILED after an error, KILLED after Ctrl-C or a signal.

    Parameters
    ----------
    store : StudyStore
        Where the run is recorded.
    name : str
        Name shown in the runs table.
    parent : TrackedRun, optional
        Run that this one is nested under.
    resume : str, optional
        Identifier of a run that was interrupted and goes on; anything else about it stays as it was.
    tags : mapping, optional
        Tags known at the start.
    source : str, optional
        Program that the runs table shows as the run's source.
    """
    client = store.client
    run_id = resume
    try:
        with reported(f"run {name}", store.uri):
            if run_id is None:
                first = {_PARENT: parent.run_id} if parent else {}
                first |= {_SOURCE: source} if source else {}
                first |= {key: str(value) for key, value in (tags or {}).items()}
                run_id = str(client.create_run(store.experiment_id, run_name=name, tags=first).info.run_id)
            else:
                client.update_run(run_id, status="RUNNING")
                if _ERROR in client.get_run(run_id).data.tags:
                    client.delete_tag(run_id, _ERROR)
        run = TrackedRun(store, run_id, resumed=resume is not None)
        yield run
        run.end("FINISHED")
    except BaseException as error:
        if run_id is not None:
            _end_after(error, TrackedRun(store, run_id))
        raise


def _end_after(error: BaseException, run: TrackedRun) -> None:
    """End a run that an error, Ctrl-C or a signal broke off; trouble on the way matters less than that did."""
    failed = isinstance(error, Exception)  # others are KeyboardInterrupt and SystemExit
    try:
        with uninterrupted():
            if _is_server(run.store.uri):
                _require_answer(run.store.uri)
            if failed:
                run.set_tags({_ERROR: f"{type(error).__name__}: {error}"[:_PARAM_LENGTH]})
            run.end("FAILED" if failed else "KILLED")
    except TrackingError as trouble:
        error.add_note(f"run {run.run_id} could not be ended: {trouble}")


def _client(uri: str, file: Path | None = None) -> MlflowClient:
    """A client; ``file`` is the store of a folder of runs, which nobody gave a URI of."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    import logging

    from alembic.util import CommandError
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient
    from sqlalchemy.exc import SQLAlchemyError

    for chatty in ("alembic", "mlflow.store"):  # one line a table on a fresh store, one a model version
        logging.getLogger(chatty).setLevel(logging.WARNING)
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # prints whole tracebacks of what it raises
    try:
        return MlflowClient(tracking_uri=uri, registry_uri=uri)
    except CommandError as error:
        raise _unopened(uri, file, f"another version of MLflow wrote it ({error})") from error
    except (MlflowException, SQLAlchemyError) as error:
        raise _unopened(uri, file, error) from error


def _unopened(uri: str, file: Path | None, error: object) -> TrackingError:
    reason = str(error).strip().partition("\n")[0]
    advice = "correct tracking.uri, or set it to null for a local store" if file is None else restored(reason)
    return TrackingError(f"MLflow cannot open {file or uri}: {reason}; {advice}")


def _create(database: Path) -> None:
    """Make a fresh SQLite store under another name first: one whose making was broken off could never be opened."""
    draft = database.with_name(f".{database.name}.partial")
    for leftover in database.parent.glob(f"{draft.name}*"):
        leftover.unlink()
    with reported("its tables", sqlite_uri(database)):
        _client(f"sqlite:///{draft}", database).search_experiments(max_results=1)
    os.replace(draft, database)


def _experiment_id(client: MlflowClient, uri: str, name: str, location: str | None) -> str:
    from mlflow.exceptions import MlflowException

    with reported(f"experiment {name}", uri):
        found = client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(client.create_experiment(name, artifact_location=location))
            except MlflowException:  # somebody else was faster
                found = client.get_experiment_by_name(name)
                if found is None:
                    raise
    if found.lifecycle_stage != "active":
        raise TrackingError(
            f"MLflow experiment {name} was deleted; restore it in MLflow or choose another tracking.experiment"
        )
    return str(found.experiment_id)


def _is_server(uri: str) -> bool:
    return uri.partition("://")[0] in ("http", "https")


def _is_database(uri: str) -> bool:
    return uri.partition("://")[0].partition("+")[0] in _DATABASES


def _require_store(uri: str) -> None:
    """Try to reach what somebody gave the URI of."""
    if _is_server(uri):
        _require_answer(uri)
    elif _is_database(uri):
        _require_database(uri, None)
    elif uri.partition("://")[0] == "databricks":
        _require_credentials(uri)


def _require_answer(uri: str) -> None:
    """Ask once with a short patience: MLflow itself would retry for minutes."""
    try:
        with urlopen(f"{uri.rstrip('/')}/health", timeout=_SERVER_PATIENCE_S):
            return
    except (OSError, HTTPException, ValueError) as error:
        raise TrackingError(
            f"no MLflow server answers at {uri} ({error}); start it, correct tracking.uri, "
            "or set it to null for a local store"
        ) from error


def _require_database(uri: str, file: Path | None) -> None:
    """Connect once, for the same reason."""
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.exc import SQLAlchemyError

    try:
        url = make_url(uri)
        if url.get_backend_name() == "sqlite" and url.database:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)  # as MLflow does
        engine = create_engine(url)
        try:
            engine.connect().close()
        finally:
            engine.dispose()
    except (SQLAlchemyError, ImportError, OSError, ValueError) as error:
        raise _unopened(uri, file, error) from error


def _require_credentials(uri: str) -> None:
    """Look for what Databricks is entered with; MLflow itself would ask for it in half a page."""
    import logging

    from mlflow.exceptions import MlflowException
    from mlflow.utils import databricks_utils

    logging.getLogger("mlflow.utils.databricks_utils").setLevel(logging.ERROR)
    try:
        databricks_utils.get_databricks_host_creds(uri)  # type: ignore[no-untyped-call]
    except MlflowException as error:
        raise TrackingError(
            f"MLflow finds no credentials for {uri}; run `databricks auth login` or set DATABRICKS_HOST and "
            "DATABRICKS_TOKEN, correct tracking.uri, or set it to null for a local store"
        ) from error


@contextmanager
def reported(what: str, uri: str) -> Iterator[None]:
    """Name what a store did not take or give; of a local store, its file."""
    from mlflow.exceptions import MlflowException

    file = uri.removeprefix("sqlite:///")
    place = "" if file == uri else f" ({file})"
    try:
        with uninterrupted(), _impatient:
            yield
    except MlflowException as error:
        raise StoreError(f"MLflow did not take {what}: {_reason(error)}{place}") from error
    except OSError as error:
        if error.errno is None or error.strerror is None:
            raise
        at = f" ({error.filename})" if error.filename else place
        raise StoreError(f"MLflow did not take {what}: {error.strerror}{at}") from error


def _fewer_tries() -> AbstractContextManager[None]:
    return nullcontext() if _RETRIES in os.environ else variable(_RETRIES, "5")


# A server that fails is tried for one minute and not for four, unless the user has set another number of tries. For as
# long no signal is heard, and what a server that comes back later missed is recorded when the study goes on.
_impatient = SharedChange(_fewer_tries)


def _reason(error: Exception) -> str:
    """What went wrong, in one line: in a database's words; of requests, whom they went to and what came of the last."""
    refused = refusal(error)
    if refused is not None:
        return refused
    text = str(error).strip().partition("\n")[0]
    request = re.match(r"API request to (\w+://[^/\s]+)", text)
    if request is None:
        return text
    # What requests raises holds what urllib3 raised, which holds the reason.
    raised = error.__context__
    inner = raised.args[0] if raised is not None and raised.args else None
    reason = getattr(inner, "reason", None) or raised or text
    return f"the server at {request[1]} failed: {str(reason).rpartition(': ')[2]}"


def _quoted(value: str) -> str:
    """A text in MLflow's language of searches, which has no escapes."""
    if "'" not in value:
        return f"'{value}'"
    if '"' not in value:
        return f'"{value}"'
    raise TrackingError(f"MLflow cannot look for {value}: a name must not hold both kinds of quotes")


def _key(name: str) -> str:
    """A parameter's name in the letters that MLflow takes; it also refuses what a path would be shortened to."""
    letters = re.sub(r"[^/\w.\- :]", "_", name)[:_KEY_LENGTH]
    return letters if posixpath.normpath(letters) == letters else letters.replace("/", "_")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _PARAM_LENGTH else f"{text[: _PARAM_LENGTH - 1]}…"
