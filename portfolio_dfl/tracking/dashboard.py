"""MLflow's own dashboard, opened on a study's runs."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.execution.interruption import uninterrupted
from portfolio_dfl.tracking.mlflow_store import StudyStore
from portfolio_dfl.tracking.places import database_of, keep_artifacts_beside, sqlite_uri

__all__ = ["Dashboard", "start_dashboard", "study_pages"]

_HOST = "127.0.0.1"
_START_PATIENCE_S = 300.0
_END_PATIENCE_S = 10.0

_running: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class Dashboard:
    """A running MLflow server on this machine, which ends with this process at the latest.

    Attributes
    ----------
    page : str
        Address of the newest study's runs table.
    comparison : str
        Address of the charts of that study's strategies alone.
    """

    page: str
    comparison: str
    process: subprocess.Popen[bytes]

    def __str__(self) -> str:
        return f"runs        {self.page}\ncomparison  {self.comparison}"

    def _repr_html_(self) -> str:
        links = (
            f'<a href="{escape(address)}">{name}</a>'
            for name, address in (("runs", self.page), ("charts", self.comparison))
        )
        return f"<p>MLflow's dashboard: {', '.join(links)}; <code>stop()</code> ends it</p>"

    def wait(self) -> None:
        """Serve until interrupted: by Ctrl-C, or a signal that unwinds the stack."""
        try:
            self.process.wait()
        except KeyboardInterrupt:
            pass
        finally:
            self.stop()

    def stop(self) -> None:
        """End the server and the processes it started."""
        _end(self.process)


def start_dashboard(
    folder: str | os.PathLike[str],
    *,
    port: int = 5000,
    open_browser: bool = True,
    waiting: Callable[[], None] | None = None,
) -> Dashboard:
    """Start MLflow's dashboard on the local store in ``folder`` and open the newest study in it.

    Parameters
    ----------
    folder : path
        Folder of runs, as in ``tracking.folder``, or one of its runs.
    port : int
        Port on the loopback interface.
    open_browser : bool
        Whether to open the page.
    waiting : callable, optional
        Called a few times a second until the server answers, which takes some 20 seconds.

    Raises
    ------
    TrackingError
        If there is no store, the port is taken, or the server does not come up.
    """
    database = database_of(Path(folder).resolve())
    if not database.is_file():
        raise TrackingError(f"no MLflow store at {database}; run a study first, or name its folder with --folder")
    with socket.socket() as probe:
        if probe.connect_ex((_HOST, port)) == 0:
            raise TrackingError(f"port {port} is in use; choose another with --port")
    uri, address = sqlite_uri(database), f"http://{_HOST}:{port}"
    page, comparison = study_pages(uri, address)
    keep_artifacts_beside(database)
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--host",
        _HOST,
        "--port",
        str(port),
        "--workers",
        "1",
    ]
    # No signal may fall between a server's start and the note that it is to be ended.
    with uninterrupted():
        process = subprocess.Popen(
            [*command, "--backend-store-uri", uri, "--default-artifact-root", (database.parent / "artifacts").as_uri()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Jobs are for judging language models; eight processes would wait for some.
            env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            # A group of its own, which can be ended as a whole.
            start_new_session=True,
        )
        _running.append(process)
    try:
        _await_answer(process, f"{address}/health", waiting)
        if open_browser:
            webbrowser.open(page)
    except BaseException:
        _end(process)
        raise
    return Dashboard(page, comparison, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads its group, and the group."""
    if process not in _running:  # its number may be another's by now
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_END_PATIENCE_S)
    _running.remove(process)


@atexit.register
def _end_all() -> None:
    while _running:
        _end(_running[-1])


def _await_answer(process: subprocess.Popen[bytes], url: str, waiting: Callable[[], None] | None) -> None:
    deadline = time.monotonic() + _START_PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise TrackingError(f"MLflow's server stopped at once with code {process.returncode}")
        try:
            with urlopen(url, timeout=2.0):
                return
        except (URLError, TimeoutError, ConnectionError):
            time.sleep(0.25)
        if waiting is not None:
            waiting()
    raise TrackingError(f"MLflow's server did not answer within {_START_PATIENCE_S:.0f} seconds")


def study_pages(uri: str, address: str) -> tuple[str, str]:
    """Addresses of the newest study's runs and of the charts of its children."""
    client = StudyStore(uri, "", "").client
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    order = ["attributes.start_time DESC"]
    parents = client.search_runs(experiments, "tags.kind = 'study'", order_by=order, max_results=1)
    if not parents:
        return f"{address}/#/experiments", f"{address}/#/experiments"
    parent = parents[0].info
    page = StudyStore(uri, "", parent.experiment_id).page(address)
    # Sorted by date, MLflow folds children away under their parent; sorted by a metric it shows them all.
    page += f"&orderByKey={quote('metrics.`sharpe`')}&orderByAsc=false"
    only = quote(f"tags.`mlflow.parentRunId` = '{parent.run_id}'")
    return page, f"{page}&compareRunsMode=CHART&searchFilter={only}"
