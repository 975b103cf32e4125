"""Spread independent work over processes or machines; the results are the same wherever it runs.

``sequential`` and ``loky`` (joblib's processes) need nothing else. ``dask`` and ``ray`` connect to a cluster
that is already running, and leave to it what they are good at: moving work and trying again where a worker was
lost.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Generic, Literal, TypeVar

from portfolio_dfl.errors import ConfigError, PortfolioError
from portfolio_dfl.execution.environment import require_readable_environment
from portfolio_dfl.execution.own_sources import installed_sources

__all__ = ["Backend", "connected", "fan_out"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Backend = Literal["sequential", "loky", "dask", "ray"]

# How often ray may lose the worker of one piece of work before it gives up; dask has its own setting.
_RETRIES = 3
#: Seconds that a cluster may take to answer.
PATIENCE_S = 20
#: Seconds that results are waited for before the cluster is looked at.
LOOK_S = 20
#: Seconds that a cluster may be without workers before a study ends; new ones may be on their way.
DESERTED_S = 300
_RESUME = "resume the study: what was finished is kept"


def fan_out(
    function: Callable[[Argument], Result],
    arguments: Sequence[Argument],
    *,
    names: Sequence[str],
    backend: Backend = "sequential",
    workers: int = 1,
    address: str | None = None,
) -> Iterator[tuple[int, Result]]:
    """Call a function on each argument and yield (position, result) as results arrive, in any order.

    Parameters
    ----------
    function : callable
        Pure, importable and picklable, as are its arguments and results.
    arguments : sequence
        One call each.
    names : sequence of str
        What each call is, for its error.
    backend : {"sequential", "loky", "dask", "ray"}
        Where the calls run.
    workers : int
        Processes of ``loky``; the others know their own.
    address : str, optional
        Of the running cluster, for ``dask`` (``tcp://host:8786``) and ``ray`` (``host:6379``).

    Raises
    ------
    ConfigError
        If a backend is not installed or its cluster does not answer.
    PortfolioError
        If processes died and the backend gave up, as when memory runs out; or the cluster was lost.

    Errors of ``function`` itself keep their type, whichever process they come from; a ``PortfolioError`` begins
    with the call's name, any other carries it as a note.
    """
    if not arguments:
        return iter(())
    call: _Call[Argument, Result] = _Call(function)
    calls = list(zip(range(len(arguments)), names, arguments, strict=True))
    if backend == "sequential":
        return (call(*each) for each in calls)
    if backend == "loky":
        return _loky(call, calls, workers)
    if address is None:
        raise ConfigError(f"execution.backend {backend} needs execution.address, that of a running cluster")
    if backend == "dask":
        return _dask(call, calls, address)
    return _ray(call, calls, address)


@contextmanager
def connected(backend: Backend, address: str | None = None) -> Iterator[None]:
    """Keep workers from one :func:`fan_out` to the next; ray would start new ones for each."""
    if backend == "ray" and address is not None:
        with _ray_connection(address):
            yield
    else:
        yield


class _Call(Generic[Argument, Result]):
    """A call that returns its position too, for results that arrive in any order, and names its errors."""

    def __init__(self, function: Callable[[Argument], Result]) -> None:
        self.function = function
        self.sources = installed_sources()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Own parts are found here too from now on: this is unpickled before the arguments that are of them."""
        self.__dict__.update(state)
        self.sources.install()

    def __call__(self, position: int, name: str, argument: Argument) -> tuple[int, Result]:
        try:
            return position, self.function(argument)
        except PortfolioError as error:
            raise type(error)(f"{name}: {error}") from error
        except Exception as error:
            error.add_note(f"This was raised by: {name}")
            raise


def _loky(
    call: _Call[Argument, Result], calls: Sequence[tuple[int, str, Argument]], workers: int
) -> Iterator[tuple[int, Result]]:
    require_readable_environment()
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    guarded = delayed(_guarded)
    called = (guarded(os.getpid(), call, *each) for each in calls)
    try:
        # Large arrays are shared between processes; mode "c" lets a call write into its own without touching others'.
        parallel = Parallel(n_jobs=workers, backend="loky", return_as="generator_unordered", mmap_mode="c")
        yield from parallel(called)
    except BrokenProcessPool as error:
        raise PortfolioError(
            f"a worker process died, most often because memory ran out; use fewer execution.workers and {_RESUME}"
        ) from error


def _guarded(parent: int, call: _Call[Argument, Result], *each: Any) -> tuple[int, Result]:
    _end_with(parent)
    return call(*each)


@cache
def _end_with(parent: int) -> None:
    """End this process when its parent is gone: it would wait for ever for somebody to take its results."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _dask(
    call: _Call[Argument, Result], calls: Sequence[tuple[int, str, Argument]], address: str
) -> Iterator[tuple[int, Result]]:
    import cloudpickle

    try:
        from distributed import CancelledError, Client
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker, NoWorkerError
    except ImportError as error:
        raise ConfigError("execution.backend dask is not installed: pip install 'portfolio-dfl[dask]'") from error
    _require_listener("dask", address)
    try:
        client = Client(address, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(f"cannot connect to a dask cluster at {address}: {error}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError as error:
            raise ConfigError(f"the dask cluster at {address} has no workers; start some") from error
        # As bytes: the scheduler unpickles what it is sent, and has no parts of the user's own.
        pickled = [(position, name, cloudpickle.dumps(argument)) for position, name, argument in calls]
        names = {client.submit(_run_pickled, call, *each, pure=False): each[1] for each in pickled}
        waiting = set(names)
        try:
            while waiting:
                finished, waiting = _wait_for_dask(client, waiting, address)
                for future in finished:
                    yield future.result()
        except (KilledWorker, NoWorkerError) as error:
            name = next(name for future, name in names.items() if future.key == error.task)
            if isinstance(error, KilledWorker):
                reason = f"its workers died {error.allowed_failures + 1} times"
            else:  # only where the scheduler has a bound: distributed.scheduler.no-workers-timeout
                reason = f"it had no worker for {error.timeout:.0f} s"
            raise PortfolioError(f"{name}: dask gave up, for {reason}; {_RESUME}") from error
        except (CancelledError, CommClosedError) as error:
            raise PortfolioError(f"the dask cluster at {address} was lost; start it again and {_RESUME}") from error


def _wait_for_dask(client: Any, waiting: set[Any], address: str) -> tuple[set[Any], set[Any]]:
    """Futures that are finished, one at least, and those that are not."""
    from distributed import wait

    while True:
        try:
            with client.as_current():
                finished, unfinished = wait(waiting, timeout=LOOK_S, return_when="FIRST_COMPLETED")
            return finished, unfinished
        except TimeoutError:  # the work takes long, or the workers are gone: dask itself would wait for ever
            try:
                client.wait_for_workers(1, timeout=DESERTED_S)
            except TimeoutError as error:
                raise PortfolioError(_deserted("dask", address)) from error


def _ray(
    call: _Call[Argument, Result], calls: Sequence[tuple[int, str, Argument]], address: str
) -> Iterator[tuple[int, Result]]:
    with _ray_connection(address) as ray:
        remote = ray.remote(max_retries=_RETRIES)(_run_on_ray)
        shared = ray.put(call)
        pickled = [(position, name, ray.cloudpickle.dumps(argument)) for position, name, argument in calls]
        names = {remote.remote(shared, *each): each[1] for each in pickled}
        waiting, deserted_s = list(names), 0
        while waiting:
            finished, waiting = ray.wait(waiting, num_returns=1, timeout=LOOK_S)
            deserted_s = 0 if finished or ray.cluster_resources().get("CPU") else deserted_s + LOOK_S
            if deserted_s >= DESERTED_S:  # ray itself would wait for ever
                raise PortfolioError(_deserted("ray", address))
            for done in finished:
                try:
                    yield ray.get(done)
                except ray.exceptions.RayTaskError as error:
                    raise error.cause from error
                except ray.exceptions.RayError as error:
                    raise PortfolioError(f"{names[done]}: ray gave up: {error}; {_RESUME}") from error


@contextmanager
def _ray_connection(address: str) -> Iterator[Any]:
    """The module, connected; a connection that is there already is used and left."""
    try:
        import ray
    except ImportError as error:
        raise ConfigError("execution.backend ray is not installed: pip install 'portfolio-dfl[ray]'") from error
    if ray.is_initialized():
        yield ray
        return
    _require_listener("ray", address)
    try:
        with _own_handlers():
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(f"cannot connect to a ray cluster at {address}: {error}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _run_on_ray(call: _Call[Argument, Result], position: int, name: str, argument: bytes) -> tuple[int, Result]:
    """Make a call whose argument comes as bytes.

    The arrays of what ray itself sends cannot be written to, and compiled functions take them for another type: every
    worker would compile those first.
    """
    return _run_pickled(call, position, name, argument)


def _run_pickled(call: _Call[Argument, Result], position: int, name: str, argument: bytes) -> tuple[int, Result]:
    """Make a call whose argument comes as bytes, unpickled once own parts are found."""
    return call(position, name, pickle.loads(argument))


def _deserted(backend: Backend, address: str) -> str:
    return f"the {backend} cluster at {address} had no worker for {DESERTED_S} s; start some and {_RESUME}"


def _require_listener(backend: Backend, address: str) -> None:
    """Ask whether anything listens at all: where nothing does, ray would try for minutes."""
    host, _, port = address.rpartition("://")[-1].rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(f"execution.address {address} is no address of a {backend} cluster; write host:port")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE_S).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"no {backend} cluster answers at {address}: {error}") from error


@contextmanager
def _own_handlers() -> Iterator[None]:
    """Put signal handlers back that a library replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
