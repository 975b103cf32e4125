"""Work spread over processes and clusters: the same results, errors that say where, and lost workers made up for."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from calls import die, die_once, kill, linger, multiplied, square, write_into
from small_study import WINDOWS, same_weights, small, start, statuses

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError, PortfolioError, TrainingError
from portfolio_dfl.execution.fan_out import Backend, connected, fan_out
from portfolio_dfl.execution.own_sources import find_sources
from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.risk import RollingCovariance
from portfolio_dfl.study.result import StudyResult
from portfolio_dfl.study.run import resume_study, run_study
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.settings import TrainingSettings
from portfolio_dfl.training.window import WindowTask, train_window

# A cluster that stands still is a failure, not a wait: this long is enough on a machine busy with other things.
pytestmark = pytest.mark.timeout(90)

# On loopback, without a token in the home folder and without reports of use.  Ray gives its workers way to everything
# else (15 steps of niceness): on a busy machine they would stand still.
_RAY = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_worker_niceness": "0",
}
_RAY_CLUSTER = """
    import sys, ray
    cluster = ray.init(
        num_cpus=2, object_store_memory=100 * 2**20, include_dashboard=False, _temp_dir=sys.argv[1],
        _node_ip_address="127.0.0.1", log_to_driver=False, logging_level="ERROR",
    )
    print(cluster.address_info["gcs_address"], flush=True)
    sys.stdin.read()
    ray.shutdown()
"""
# Its worker, once lost, stays away.
_LONELY_DASK_CLUSTER = """
    import asyncio, sys
    from distributed import Scheduler
    async def serve():
        async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
            options = ["--no-nanny", "--no-dashboard", "--nthreads", "1", "--local-directory", sys.argv[1]]
            worker = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "distributed.cli.dask_worker", scheduler.address, *options,
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                while not scheduler.workers:
                    await asyncio.sleep(0.05)
                print(scheduler.address, flush=True)
                await asyncio.to_thread(sys.stdin.read)
            finally:
                if worker.returncode is None:
                    worker.kill()
                await worker.wait()
    asyncio.run(serve())
"""
_DASK_CLUSTER = """
    import sys
    from distributed import LocalCluster
    if __name__ == "__main__":
        with LocalCluster(
            n_workers=2, threads_per_worker=4, host="127.0.0.1", dashboard_address=None, memory_limit=0,
            local_directory=sys.argv[1],
        ) as cluster:
            print(cluster.scheduler_address, flush=True)
            sys.stdin.read()
"""


def _cluster(script: str, folder: Path) -> Iterator[str]:
    """Address of a cluster of two workers that a process of its own keeps up as long as its input is open."""
    file = folder / "cluster.py"
    file.write_text(textwrap.dedent(script))
    environment = {**os.environ, **_RAY, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(file), str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            assert address, "the cluster did not start"
            yield address
            process.stdin.close()
            process.wait(timeout=60)
        finally:
            process.kill()  # one that hangs; its workers end with it


@pytest.fixture(scope="module")
def dask_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("distributed")
    yield from _cluster(_DASK_CLUSTER, tmp_path_factory.mktemp("dask"))


@pytest.fixture
def lonely_dask_address(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("distributed")
    yield from _cluster(_LONELY_DASK_CLUSTER, tmp_path)


@pytest.fixture(scope="module")
def ray_address() -> Iterator[str]:
    pytest.importorskip("ray")
    folder = Path(tempfile.mkdtemp(prefix="ray"))  # names of sockets must be short
    try:
        yield from _cluster(_RAY_CLUSTER, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def ray_environment() -> Iterator[None]:
    """Set before the first test here, for ray reads its settings when it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _RAY.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module", params=["dask", "ray"])
def cluster(request: pytest.FixtureRequest) -> tuple[Backend, str]:
    return request.param, request.getfixturevalue(f"{request.param}_address")


@pytest.fixture(scope="module")
def connection(cluster: tuple[Backend, str]) -> Iterator[tuple[Backend, str]]:
    with connected(*cluster):
        yield cluster


# Of everything that a study can have something, and a predictor whose training draws: threads of a worker would take
# each other's numbers.
_RICH = (
    "features={momentum: {builtin: momentum, options: {windows: [5, 10]}}, fear: {source: FILE, lag: 1}}",
    "allocation.limits={max_weight: {'*': 0.5}, groups: {calm: {tickers: [QUAL, USMV], min: 0.2, max: 0.8}}}",
    "costs={rate: {'*': 0.0005, SIZE: 0.001}}",
    *("forecasting.predictor=gru", "forecasting.options={hidden: 4}", "forecasting.prior=equilibrium"),
    *("training.gradient=smoothed", "training.retrain_every=2", "training.learning_rate=0.01"),
    *("backtest.rebalance=weekly", "training.loss=loss_of_mine:Earned"),
)
_LOSS = """
class Earned:
    def __call__(self, outcome):
        return -(outcome.samples.future_returns * outcome.weights).sum(-1).mean()
"""


def rich(folder: Path, *overrides: str) -> StudyConfig:
    """The study with features, limits, costs, smoothing and a loss of the user's own, decided every week."""
    (folder.parent / "loss_of_mine.py").write_text(_LOSS)
    dates = pd.bdate_range("2017-12-01", "2019-01-15")
    fear = pd.DataFrame({"fear": 10.0 + np.random.default_rng(2).random(len(dates))}, index=dates.rename("date"))
    fear.to_csv(folder.parent / "fear.csv")
    texts = (each.replace("FILE", str(folder.parent / "fear.csv")) for each in _RICH)
    return small(folder, *texts, *overrides).beside(folder.parent)


@pytest.fixture(scope="module")
def sequential(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    return run_study(rich(tmp_path_factory.mktemp("runs")))


def busy_worker(part: str) -> int:
    """A worker process of the clusters that this process started, by a part of its command line."""
    psutil = pytest.importorskip("psutil")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # ended in the meantime
                if part in " ".join(process.cmdline()):
                    return int(process.pid)
        time.sleep(0.01)
    raise AssertionError(f"no process runs {part}")


@pytest.mark.parametrize(("backend", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_a_cluster_that_does_not_answer_is_named(backend: Backend, module: str) -> None:
    """First of all: later this process is connected to clusters that do."""
    pytest.importorskip(module)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"no {backend} cluster answers at {nobody}"):
            list(fan_out(square, [1], names=["one"], backend=backend, address=nobody))
    with pytest.raises(ConfigError, match=f"here is no address of a {backend} cluster; write host:port"):
        list(fan_out(square, [1], names=["one"], backend=backend, address="here"))


@pytest.mark.timeout(300)
def test_a_study_on_a_cluster_finds_the_same(
    cluster: tuple[Backend, str], sequential: StudyResult, tmp_path: Path
) -> None:
    """The same weights, also where a worker is killed after the first window."""
    backend, address = cluster
    worker = {"dask": "multiprocessing.spawn", "ray": "ray::_run_on_ray"}[backend]
    killed: list[int] = []

    def kill_a_worker(stage: str, done: int, total: int) -> None:
        if done == 1 and not killed:
            killed.append(busy_worker(worker))
            os.kill(killed[0], signal.SIGKILL)

    config = rich(tmp_path, f"execution.backend={backend}", f"execution.address={address}")
    result = run_study(config, progress=kill_a_worker)
    assert killed
    assert same_weights(sequential, result)
    assert len(list((result.folder / "windows").iterdir())) == WINDOWS
    assert set(statuses(tmp_path).values()) == {"FINISHED"}


@pytest.mark.timeout(300)
def test_a_killed_study_goes_on_in_other_processes_to_the_same(sequential: StudyResult, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    process = start(run_study, rich(runs))
    while not (finished := list(runs.glob("small-*/windows/[!.]*"))):
        assert process.is_alive()
        time.sleep(0.002)
    process.kill()
    process.join()
    run = finished[0].parents[1]
    assert len(list((run / "windows").glob("[!.]*"))) < WINDOWS
    assert same_weights(resume_study(run, overrides=["execution.backend=loky", "execution.workers=2"]), sequential)


_PARTS = {
    "parts_of_mine": """
from helper_of_mine import FACTOR

class Number:
    def __init__(self, value):
        self.value = value

    def multiplied(self):
        return FACTOR * self.value
""",
    "helper_of_mine": "FACTOR = 3\n",
}


def test_parts_of_the_users_own_reach_workers_that_have_no_files(
    connection: tuple[Backend, str], tmp_path: Path
) -> None:
    for name, source in _PARTS.items():
        (tmp_path / f"{name}.py").write_text(source)
    find_sources(["parts_of_mine"], [tmp_path])
    part = import_module("parts_of_mine").Number
    for name in _PARTS:
        (tmp_path / f"{name}.py").unlink()
    backend, address = connection
    try:
        found = dict(fan_out(multiplied, [part(1), part(2)], names=["one", "two"], backend=backend, address=address))
    finally:
        find_sources(_PARTS)  # which are gone, and found here no more
    assert found == {0: 3, 1: 6}


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_of_one_dask_worker_train_what_one_trains(threads: int, tmp_path: Path) -> None:
    """With what draws: dropout, and initial values of every kind; the worker here is this very process."""
    distributed = pytest.importorskip("distributed")
    tasks = _windows()
    alone = [train_window(task).state for task in tasks]
    cluster = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=threads,
        processes=False,
        protocol="tcp",
        host="127.0.0.1",
        dashboard_address=None,
        memory_limit=0,
        local_directory=str(tmp_path),
    )
    names = [str(number) for number in range(len(tasks))]
    with cluster:
        address = cluster.scheduler_address
        found = dict(fan_out(train_window, tasks, names=names, backend="dask", address=address))
    for number, state in enumerate(alone):
        assert state is not None
        window = found[number]
        assert window.state is not None
        assert all(torch.equal(state[name], window.state[name]) for name in state)


def _windows() -> list[WindowTask]:
    """Two of each predictor that draws."""
    rng = np.random.default_rng(1)
    index = pd.bdate_range("2021-01-01", periods=60)
    returns = pd.DataFrame(rng.normal(3e-4, 0.01, (60, 3)), index=index, columns=list("ABC"))
    drawing = [
        PredictorSpec("mlp", {"hidden": 4, "dropout": 0.5}),
        PredictorSpec("gru", {"hidden": 4}),
        PredictorSpec("linear", {"start": 0.01}),
    ]
    layer = MultiPeriodMeanVariance(n_assets=3, horizon=2, risk_aversion=10.0, turnover_limit=0.5)
    settings = TrainingSettings(epochs=3, learning_rate=0.01)
    small: dict[str, Any] = {"lookback": 6, "realised_window": 4, "samples": 12, "settings": settings}
    return [
        PredictOptimisePolicy(layer, RollingCovariance(8), predictor=spec, seed=seed, **small).task(returns)
        for seed in range(2)
        for spec in drawing
    ]


def test_results_carry_their_position(connection: tuple[Backend, str]) -> None:
    backend, address = connection
    found = dict(fan_out(square, [0, 1, 2, 5], names=list("abcd"), backend=backend, address=address))
    assert found == {0: 0, 1: 1, 2: 4, 3: 25}


def test_a_call_may_write_into_its_argument(connection: tuple[Backend, str]) -> None:
    """As it may at home: ray's own arrays are for reading only, and compiled code is made for the one or the other."""
    backend, address = connection
    assert list(fan_out(write_into, [np.ones(3)], names=["one"], backend=backend, address=address)) == [(0, 6.0)]


def test_a_process_may_write_into_a_large_argument() -> None:
    """Which joblib shares between processes; one call's changes are no other's."""
    large = np.ones(200_000)
    found = dict(fan_out(write_into, [large] * 3, names=list("abc"), backend="loky", workers=2))
    assert found == dict.fromkeys(range(3), 400_000.0)
    assert large.sum() == 200_000


def test_errors_of_a_worker_say_where_they_happened(connection: tuple[Backend, str]) -> None:
    backend, address = connection
    with pytest.raises(TrainingError, match=r"^the fourth: three is too many$"):
        list(fan_out(square, [0, 3], names=["the first", "the fourth"], backend=backend, address=address))
    with pytest.raises(ZeroDivisionError, match="four") as caught:
        list(fan_out(square, [0, 4], names=["the first", "the fifth"], backend=backend, address=address))
    assert caught.value.__notes__ == ["This was raised by: the fifth"]


@pytest.mark.parametrize(("backend", "workers"), [("sequential", 1), ("loky", 2)])
def test_errors_of_a_process_say_where_they_happened(backend: Backend, workers: int) -> None:
    with pytest.raises(TrainingError, match=r"^the fourth: three is too many$"):
        list(fan_out(square, [0, 3], names=["the first", "the fourth"], backend=backend, workers=workers))
    with pytest.raises(ZeroDivisionError, match="four") as caught:
        list(fan_out(square, [0, 4], names=["the first", "the fifth"], backend=backend, workers=workers))
    assert caught.value.__notes__ == ["This was raised by: the fifth"]


def test_a_lost_workers_call_is_tried_again_by_the_cluster(connection: tuple[Backend, str], tmp_path: Path) -> None:
    backend, address = connection
    places = [tmp_path / "one", tmp_path / "two"]
    found = dict(fan_out(die_once, places, names=["one", "two"], backend=backend, address=address))
    assert sorted(found) == [0, 1]
    assert all(place.exists() for place in places)


def test_a_call_that_kills_every_worker_is_given_up_with_its_name(
    connection: tuple[Backend, str], tmp_path: Path
) -> None:
    backend, address = connection
    with pytest.raises(PortfolioError, match=rf"the deadly one: {backend} gave up.*resume the study"):
        list(fan_out(die, [tmp_path], names=["the deadly one"], backend=backend, address=address))


def test_a_cluster_that_stays_without_workers_is_waited_for_no_longer_than_a_bound(
    lonely_dask_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the scheduler has none of its own, which is usual."""
    monkeypatch.setattr("portfolio_dfl.execution.fan_out.LOOK_S", 1)
    monkeypatch.setattr("portfolio_dfl.execution.fan_out.DESERTED_S", 1)
    options = {"names": ["one"], "backend": "dask", "address": lonely_dask_address}
    with pytest.raises(PortfolioError, match=r"dask cluster at .* had no worker for 1 s; start some and resume"):
        list(fan_out(die, [tmp_path], **options))
    monkeypatch.setattr("portfolio_dfl.execution.fan_out.PATIENCE_S", 1)
    with pytest.raises(ConfigError, match=r"dask cluster at .* has no workers; start some"):
        list(fan_out(square, [1], **options))


def test_a_cluster_that_is_lost_is_said_to_be_lost(lonely_dask_address: str, tmp_path: Path) -> None:
    cluster = busy_worker(str(tmp_path / "cluster.py"))
    with pytest.raises(PortfolioError, match=r"dask cluster at .* was lost; start it again and resume"):
        list(fan_out(kill, [cluster], names=["one"], backend="dask", address=lonely_dask_address))


def test_work_that_takes_longer_than_a_look_at_the_cluster_is_waited_for(
    connection: tuple[Backend, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, address = connection
    monkeypatch.setattr("portfolio_dfl.execution.fan_out.LOOK_S", 1)
    assert list(fan_out(linger, [2.5], names=["one"], backend=backend, address=address)) == [(0, 2.5)]


def test_a_process_that_dies_is_said_to_have_died(tmp_path: Path) -> None:
    with pytest.raises(PortfolioError, match=r"a worker process died.*resume the study"):
        list(fan_out(die, [tmp_path] * 2, names=["one", "two"], backend="loky", workers=2))


@pytest.mark.parametrize(("backend", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_a_backend_that_is_not_installed_says_how_to_install_it(
    backend: Backend, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not there
    with pytest.raises(ConfigError, match=rf"pip install 'portfolio-dfl\[{backend}\]'"):
        list(fan_out(square, [1], names=["one"], backend=backend, address="127.0.0.1:1"))


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    script = "import sys, pathlib, calls; calls.spread_sleepers(pathlib.Path(sys.argv[1]))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=environment) as process:
        while len(pids := [int(path.name) for path in tmp_path.iterdir()]) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
