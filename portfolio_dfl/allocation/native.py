"""The compiled solver seen from Python: arrays in, arrays out, threads over the batch."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NativeGradients", "NativeResult", "NativeSolver"]

_Array = NDArray[np.float64]
_Signs = NDArray[np.int8]

# Above this many bytes a factor is not kept for the backward pass but made again there.
_KEEP_BYTES = 256 * 2**20
_FACTS = 10

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def _run(kernel: Callable[..., None], arguments: tuple[Any, ...], batch: int, threads: int) -> None:
    """Share the instances of a batch between threads (the kernels hold no lock)."""
    workers = min(threads, batch)
    if workers <= 1:
        kernel(0, 1, *arguments)
        return
    # Threads do not survive a fork: a child process gets a pool of its own.
    pool = _pools.get((os.getpid(), workers))
    if pool is None:
        pool = _pools[os.getpid(), workers] = ThreadPoolExecutor(workers - 1, thread_name_prefix="allocation")
    others = [pool.submit(kernel, worker, workers, *arguments) for worker in range(1, workers)]
    kernel(0, workers, *arguments)
    for other in others:
        other.result()


@dataclass(slots=True)
class NativeResult:
    """Everything the solver found, batch first; multipliers in the units of the problem as it was given.

    ``pull`` is the gradient of the Lagrangian at held weights (positive: the lower bound's multiplier, negative: the
    upper's); ``pressure`` the multiplier of w_s − w_{s−1}. ``facts`` columns: status, iterations, polish
    attempts, warm start hit, stationarity, primal and dual violation (scaled problem), margin, scale, residual of the
    last backward pass.
    """

    weights: _Array
    hold: _Signs
    trade: _Signs
    spent: _Signs
    pull: _Array
    pressure: _Array
    nu: _Array
    theta: _Array
    facts: _Array
    kept: bool
    C: _Array
    q: _Array
    sigma: _Array


@dataclass(slots=True)
class NativeGradients:
    """Gradients of a scalar with respect to the parameters of every instance."""

    returns: _Array
    covariance: _Array
    previous: _Array
    aversion: _Array
    turnover: _Array
    cost: _Array


class NativeSolver:
    """The interior-point solver of one structure.

    Parameters
    ----------
    lower, upper, counted : array [N]
        Bounds of the weights (infinite: none) and, 1 or 0, whether an asset's trades count.
    threads : int, optional
        Threads over the batch. Default: ``NUMBA_NUM_THREADS`` (which joblib sets in its workers), else the CPUs that
        this process may use.
    """

    def __init__(self, lower: _Array, upper: _Array, counted: _Array, threads: int | None = None) -> None:
        self.lower = lower
        self.upper = upper
        self.counted = counted
        self.threads = threads

    def _count_threads(self) -> int:
        if self.threads is None:
            from joblib import cpu_count

            self.threads = int(os.environ.get("NUMBA_NUM_THREADS") or cpu_count())
        return self.threads

    def solve(
        self,
        returns: _Array,
        covariance: _Array,
        previous: _Array,
        aversion: _Array,
        turnover: _Array,
        cost: _Array,
        *,
        warm: NativeResult | None = None,
        keep: bool = True,
    ) -> NativeResult:
        """Solve a batch.

        Parameters
        ----------
        returns : array [B, H, N]
        covariance : array [B, K, N, N], K = 1 or H
        previous : array [B, N]
        aversion : array [1] or [B]
        turnover : array [1, H] or [B, H], infinite where there is no limit
        cost : array [1, H, N] or [B, H, N]
        warm : NativeResult, optional
            An earlier solution of the same shape whose active set is tried first.
        keep : bool
            Whether a backward pass may follow (its factor is kept).
        """
        from portfolio_dfl.allocation.kernels.batch import solve_batch

        B, H, N = returns.shape
        kept = keep and 8 * B * H * N * N <= _KEEP_BYTES
        stages = B if kept else 0
        if warm is None:
            result = NativeResult(
                np.empty((B, H, N)),
                np.empty((B, H, N), np.int8),
                np.empty((B, H, N), np.int8),
                np.empty((B, H), np.int8),
                np.empty((B, H, N)),
                np.empty((B, H, N)),
                np.empty((B, H)),
                np.empty((B, H)),
                np.empty((B, _FACTS)),
                kept,
                np.empty((stages, H, N, N)),
                np.empty((stages, H, N)),
                np.empty((stages, H)),
            )
        else:
            result = NativeResult(
                warm.weights.copy(),
                warm.hold.copy(),
                warm.trade.copy(),
                warm.spent.copy(),
                np.empty((B, H, N)),
                warm.pressure.copy(),
                warm.nu.copy(),
                warm.theta.copy(),
                np.empty((B, _FACTS)),
                kept,
                np.empty((stages, H, N, N)),
                np.empty((stages, H, N)),
                np.empty((stages, H)),
            )
        arguments = (
            returns,
            covariance,
            previous,
            aversion,
            turnover,
            cost,
            self.lower,
            self.upper,
            self.counted,
            warm is not None,
            result.hold,
            result.trade,
            result.spent,
            result.weights,
            result.pull,
            result.pressure,
            result.nu,
            result.theta,
            result.facts,
            kept,
            result.C,
            result.q,
            result.sigma,
        )
        _run(solve_batch, arguments, B, self._count_threads())
        return result

    def differentiate(
        self,
        upstream: _Array,
        covariance: _Array,
        previous: _Array,
        aversion: _Array,
        result: NativeResult,
    ) -> NativeGradients:
        """Vector-Jacobian product at a solution; arrays as in `solve`, upstream [B, H, N]."""
        from portfolio_dfl.allocation.kernels.batch import differentiate_batch

        B, H, N = upstream.shape
        gradients = NativeGradients(
            np.empty((B, H, N)),
            np.empty(covariance.shape),
            np.empty((B, N)),
            np.empty(B),
            np.empty((B, H)),
            np.empty((B, H, N)),
        )
        arguments = (
            upstream,
            covariance,
            previous,
            aversion,
            self.counted,
            result.hold,
            result.trade,
            result.spent,
            result.weights,
            result.facts,
            result.kept,
            result.C,
            result.q,
            result.sigma,
            gradients.returns,
            gradients.covariance,
            gradients.previous,
            gradients.aversion,
            gradients.turnover,
            gradients.cost,
        )
        _run(differentiate_batch, arguments, B, self._count_threads())
        return gradients
