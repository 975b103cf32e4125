"""Spread independent work over processes or machines; the results are the same wherever it runs.

``sequential`` and ``loky`` (joblib's processes) need nothing else. ``dask`` and ``ray`` connect to a cluster
that is already running, and leave to it what they are good at: moving work and trying again where a worker was
lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Literal, TypeVar

from portfolio_dfl.errors import ConfigError, PortfolioError

__all__ = ["Backend", "fan_out"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Backend = Literal["sequential", "loky", "dask", "ray"]

# How often an engine may lose the worker of one piece of work before it gives up.
_RETRIES = 3


def fan_out(
    function: Callable[[Argument], Result],
    arguments: Sequence[Argument],
    *,
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
        If a process died, as it does when memory runs out.

    Errors of ``function`` itself are raised as they are.
    """
    if not arguments:
        return iter(())
    if backend == "sequential":
        return ((position, function(argument)) for position, argument in enumerate(arguments))
    if backend == "loky":
        return _loky(function, arguments, workers)
    if address is None:
        raise ConfigError(f"execution.backend {backend} needs execution.address, that of a running cluster")
    if backend == "dask":
        return _dask(function, arguments, address)
    return _ray(function, arguments, address)


class _Numbered(Generic[Argument, Result]):
    """A call that returns its position too, for results that arrive in any order."""

    def __init__(self, function: Callable[[Argument], Result]) -> None:
        self.function = function

    def __call__(self, position: int, argument: Argument) -> tuple[int, Result]:
        return position, self.function(argument)


def _loky(
    function: Callable[[Argument], Result], arguments: Sequence[Argument], workers: int
) -> Iterator[tuple[int, Result]]:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    call = delayed(_Numbered(function))
    calls = (call(position, argument) for position, argument in enumerate(arguments))
    try:
        yield from Parallel(n_jobs=workers, backend="loky", return_as="generator_unordered")(calls)
    except BrokenProcessPool as error:
        raise PortfolioError(
            "a worker process died, most often because memory ran out; use fewer execution.workers "
            "and resume the study: what was finished is kept"
        ) from error


def _dask(
    function: Callable[[Argument], Result], arguments: Sequence[Argument], address: str
) -> Iterator[tuple[int, Result]]:
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise ConfigError("execution.backend dask is not installed: pip install 'portfolio-dfl[dask]'") from error
    try:
        client = Client(address, timeout="20s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(f"no dask scheduler answers at {address}: {error}") from error
    with client:
        positions = {
            client.submit(function, argument, pure=False, retries=0): position
            for position, argument in enumerate(arguments)
        }
        for future, result in as_completed(list(positions), with_results=True):
            yield positions[future], result


def _ray(
    function: Callable[[Argument], Result], arguments: Sequence[Argument], address: str
) -> Iterator[tuple[int, Result]]:
    try:
        import ray
    except ImportError as error:
        raise ConfigError("execution.backend ray is not installed: pip install 'portfolio-dfl[ray]'") from error
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(f"no ray cluster answers at {address}: {error}") from error
    try:
        remote = ray.remote(max_retries=_RETRIES)(function)
        waiting = {remote.remote(argument): position for position, argument in enumerate(arguments)}
        while waiting:
            (done,), _ = ray.wait(list(waiting), num_returns=1)
            position = waiting.pop(done)
            try:
                yield position, ray.get(done)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from error
    finally:
        if started:
            ray.shutdown()
