"""MLflow's dashboard and server: the study is there to see, and can be logged to over HTTP."""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_study import small

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.study.live import advise
from portfolio_dfl.study.run import run_study
from portfolio_dfl.tracking.dashboard import Dashboard, start_dashboard, study_pages
from portfolio_dfl.tracking.mlflow_store import open_store, tracked_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
QUIET += ["--disable-background-networking", "--disable-component-update"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def log_study(folder: Path, uri: str | None = None) -> None:
    store = open_store(folder, experiment="seen", uri=uri)
    with tracked_run(store, "the-study", tags={"kind": "study"}) as parent:
        for number, name in enumerate(("decision_focused", "equal_weight")):
            with tracked_run(store, name, parent=parent) as child:
                child.log_series({step: {"train_loss": float(step * number)} for step in range(3)})
                child.log_metrics({"sharpe": 0.5 + number})


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    log_study(folder)
    return folder


@pytest.fixture(scope="module")
def dashboard(logged: Path) -> Iterator[Dashboard]:
    running = start_dashboard(logged, port=free_port(), open_browser=False)
    yield running
    running.stop()


@pytest.mark.browser
def test_a_browser_sees_the_strategies_and_their_charts(dashboard: Dashboard) -> None:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = browser.new_page(viewport={"width": 1500, "height": 900})
        page.goto(dashboard.page)
        for name in ("the-study", "decision_focused", "equal_weight"):
            page.get_by_role("link", name=name).first.wait_for(timeout=120_000)
        page.goto("about:blank")
        page.goto(dashboard.comparison)
        page.locator(".js-plotly-plot").first.wait_for(timeout=120_000)
        browser.close()


def test_runs_are_logged_over_http(dashboard: Dashboard, tmp_path: Path) -> None:
    address = dashboard.page.split("/#/")[0]
    before = len(open_store(tmp_path, experiment="seen", uri=address).client.search_runs(["1"]))
    log_study(tmp_path, address)
    store = open_store(tmp_path, experiment="seen", uri=address)
    runs = store.client.search_runs([store.experiment_id])
    assert len(runs) == before + 3
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert store.experiment_id in study_pages(address, address)[0]
    assert not list(tmp_path.iterdir())


def test_a_model_that_a_server_holds_decides_as_the_run_does(dashboard: Dashboard, tmp_path: Path) -> None:
    address = dashboard.page.split("/#/")[0]
    wishes = ["backtest.strategies=[decision_focused]", "evaluation.bootstrap=0", "tracking.register_as=decisions"]
    done = run_study(small(tmp_path / "runs", *wishes, f"tracking.uri={address}"))
    fresh: dict[str, Any] = {"prices": "embedded", "today": dt.date(2018, 9, 5), "root": tmp_path / "runs"}
    advice = advise("models:/decisions/1", uri=address, **fresh)
    pd.testing.assert_frame_equal(advice.to_frame(), advise(done.folder, **fresh).to_frame())
    with pytest.raises(TrackingError, match=r"models:/decisions/1; name the folder .* or its server with --uri"):
        advise("models:/decisions/1", **fresh)
    with pytest.raises(TrackingError, match="models:/decisions/2"):
        advise("models:/decisions/2", uri=address, **fresh)
    with pytest.raises(TrackingError, match="leave out --uri"):
        advise(done.folder, uri=address, **fresh)


def test_looking_for_a_model_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match=r"no MLflow server answers at http://127\.0\.0\.1:1"):
        advise("models:/decisions/1", root=tmp_path, uri="http://127.0.0.1:1")
    with pytest.raises(TrackingError, match="no MLflow store at sqlite:///"):
        advise("models:/decisions/1", root=tmp_path, uri=f"sqlite:///{tmp_path / 'absent.db'}")
    assert not list(tmp_path.iterdir())


def test_a_taken_port_and_a_missing_store_are_named(dashboard: Dashboard, tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match="no MLflow store"):
        start_dashboard(tmp_path)
    (tmp_path / "mlflow.db").touch()
    port = int(dashboard.page.split("/#/")[0].rsplit(":", 1)[1])
    with pytest.raises(TrackingError, match=f"port {port} is in use"):
        start_dashboard(tmp_path, port=port)


def test_what_is_no_store_is_named_before_a_server_starts(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("no database " * 50)
    with pytest.raises(TrackingError, match=r"cannot open .*mlflow\.db.*move it away"):
        start_dashboard(tmp_path, port=free_port())


def processes_that_name(text: str) -> list[str]:
    """Command lines of running processes in which this text occurs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if text in line:
                found.append(line)
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_with_the_verb(logged: Path, number: signal.Signals) -> None:
    port = f"--port {free_port()} "
    verb = ["ui", "--folder", str(logged), *port.split(), "--no-browser"]
    asking = subprocess.Popen(
        [sys.executable, "-m", "portfolio_dfl.cli", *verb], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert asking.stdout is not None
    assert "http://127.0.0.1" in asking.stdout.readline()
    assert len(processes_that_name(port)) > 1
    asking.send_signal(number)
    asking.communicate(timeout=60)
    assert processes_that_name(port) == []


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_server_never_outlives_the_process_that_started_it(logged: Path) -> None:
    port = free_port()
    script = f"""
from portfolio_dfl.tracking.dashboard import start_dashboard
start_dashboard({str(logged)!r}, port={port}, open_browser=False)
raise KeyboardInterrupt  # before anyone waits for the server
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert "KeyboardInterrupt" in ended.stderr
    assert processes_that_name(f"--port {port} ") == []
