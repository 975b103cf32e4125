"""The compiled solver seen from Python: arrays in, arrays out, threads over the batch."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dxpp_core.threads import share
from portfolio_dfl.allocation.coupling import CouplingRows
from portfolio_dfl.execution.environment import require_readable_environment

if TYPE_CHECKING:
    from portfolio_dfl.allocation.kernels.coupling import CouplingFound, Given
    from portfolio_dfl.allocation.kernels.smoothed import Kept
    from portfolio_dfl.allocation.kernels.store import Found, Signs

__all__ = ["NativeGradients", "NativeResult", "NativeSolver", "SmoothedResult"]

_Array = NDArray[np.float64]

#: Above this many bytes a factor is not kept for the backward pass but made again there.
KEEP_BYTES = 256 * 2**20

# Gradients that nobody asked for: of covariance, previous weights, λ, τ and c.
_NOT_ASKED = (
    np.empty((0, 0, 0, 0)),
    np.empty((0, 0)),
    np.empty(0),
    np.empty((0, 0)),
    np.empty((0, 0, 0)),
)


@cache
def _kernels() -> tuple[Callable[..., int], Callable[..., int]]:
    """Imported when first needed: Numba takes its time."""
    from portfolio_dfl.allocation.kernels.differentiate import differentiate_batch
    from portfolio_dfl.allocation.kernels.solve import solve_batch

    return solve_batch, differentiate_batch


@cache
def _smoothed_kernels() -> tuple[Callable[..., int], Callable[..., int]]:
    from portfolio_dfl.allocation.kernels.smoothed import differentiate_smoothed, smooth_batch

    return smooth_batch, differentiate_smoothed


@cache
def _sizes(B: int, K: int, H: int, N: int, keep: bool, rows: tuple[int, int, int]) -> tuple[int, int, int]:
    """Numbers of signs, store and scratch; ``rows``: as in `CouplingRows.counts`."""
    from portfolio_dfl.allocation.kernels.coupling import coupling_scratch_size
    from portfolio_dfl.allocation.kernels.scratch import scratch_size
    from portfolio_dfl.allocation.kernels.store import signs_size, store_size

    return signs_size(B, H, N), store_size(B, H, N, keep), scratch_size(K, H, N) + coupling_scratch_size(*rows, H, N)


@dataclass(slots=True)
class NativeResult:
    """Everything the solver found, in flat arrays laid out by `kernels.store`, and how many instances are ``doubtful``.

    `found` and `active` name the parts: ``pull`` is the gradient of the Lagrangian at held weights (positive: the
    lower bound's multiplier, negative: the upper's), ``pressure`` the multiplier of w_s − w_{s−1}, all in the units
    of the problem as it was given. ``facts`` columns: status, iterations, polish attempts, warm start hit,
    stationarity, primal and dual violation (scaled problem), margin, scale, residual of the last backward pass.
    """

    weights: _Array
    signs: NDArray[np.int8]
    store: _Array
    kept: bool
    doubtful: int = 0
    rows: Given | None = None

    @property
    def found(self) -> Found:
        """Multipliers, facts and factor, as views."""
        from portfolio_dfl.allocation.kernels.store import view_store

        B, H, N = self.weights.shape
        return view_store(self.store, B, H, N, self.kept)

    @property
    def coupling(self) -> CouplingFound | None:
        """Active set and multipliers of the rows that couple weights, as views; None where there are none."""
        from portfolio_dfl.allocation.kernels.coupling import view_coupling

        B, H, N = self.weights.shape
        return None if self.rows is None else view_coupling(self.rows, B, H, N)

    @property
    def active(self) -> Signs:
        """The active set, as views."""
        from portfolio_dfl.allocation.kernels.store import view_signs

        B, H, N = self.weights.shape
        return view_signs(self.signs, B, H, N)


@dataclass(slots=True)
class SmoothedResult:
    """Smoothed plans [B, H, N], what their derivatives need, and how many were not found."""

    weights: _Array
    kept: Kept
    doubtful: int = 0


@dataclass(slots=True)
class NativeGradients:
    """Gradients of a scalar with respect to the parameters of every instance; empty where not asked for."""

    returns: _Array
    covariance: _Array
    previous: _Array
    aversion: _Array
    turnover: _Array
    cost: _Array


def _room_for_gradients(B: int, H: int, N: int, covariance: tuple[int, ...], returns_only: bool) -> NativeGradients:
    if returns_only:
        return NativeGradients(np.empty((B, H, N)), *_NOT_ASKED)
    return NativeGradients(
        np.empty((B, H, N)),
        np.empty(covariance),
        np.empty((B, N)),
        np.empty(B),
        np.empty((B, H)),
        np.empty((B, H, N)),
    )


class NativeSolver:
    """The interior-point solver of one structure.

    Parameters
    ----------
    lower, upper, counted : array [N]
        Bounds of the weights (infinite: none) and, 1 or 0, whether an asset's trades count.
    threads : int, optional
        Threads over the batch. Default: ``NUMBA_NUM_THREADS`` (which joblib sets in its workers), else the CPUs that
        this process may use.
    rows : CouplingRows, optional
        Limits that couple the weights of a stage, and those of single trades.
    """

    def __init__(
        self,
        lower: _Array,
        upper: _Array,
        counted: _Array,
        threads: int | None = None,
        rows: CouplingRows | None = None,
    ) -> None:
        require_readable_environment()
        self.box = np.stack([lower, upper, counted])
        self.threads = threads
        self._counts = (0, 0, 0) if rows is None else rows.counts
        self._rows = None if rows is None else rows.numbers

    def count_threads(self) -> int:
        """Threads over a batch."""
        if self.threads is None:
            from joblib import cpu_count

            self.threads = int(os.environ.get("NUMBA_NUM_THREADS") or cpu_count())
        return self.threads

    def _room(self, numbers: _Array, B: int, H: int, N: int) -> Given:
        from portfolio_dfl.allocation.kernels.coupling import coupling_size

        size = coupling_size(*self._counts, B, H, N)
        return *self._counts, numbers, np.zeros(size, np.int8), np.zeros(size)

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
        B, H, N = returns.shape
        kept = keep and 8 * B * H * N * N <= KEEP_BYTES
        signs, store, scratch = _sizes(B, covariance.shape[1], H, N, kept, self._counts)
        result = NativeResult(np.empty((B, H, N)), np.empty(signs, np.int8), np.empty(store), kept)
        if self._rows is not None:
            result.rows = self._room(self._rows, B, H, N)
        if warm is not None:
            result.weights[:] = warm.weights
            result.signs[:] = warm.signs
            multipliers = B * (2 * H * N + 2 * H)
            result.store[:multipliers] = warm.store[:multipliers]
            if result.rows is not None and warm.rows is not None:
                result.rows[4][:] = warm.rows[4]
                result.rows[5][:] = warm.rows[5]
        arguments = (
            returns,
            covariance,
            previous,
            aversion,
            turnover,
            cost,
            self.box,
            warm is not None,
            result.signs,
            result.weights,
            result.store,
            kept,
            result.rows,
        )
        result.doubtful = share(_kernels()[0], arguments, B, self.threads or self.count_threads(), scratch)
        return result

    def differentiate(
        self,
        upstream: _Array,
        covariance: _Array,
        previous: _Array,
        aversion: _Array,
        result: NativeResult,
        *,
        returns_only: bool = False,
    ) -> NativeGradients:
        """Vector-Jacobian product at a solution; arrays as in `solve`, upstream [B, H, N]."""
        B, H, N = upstream.shape
        gradients = _room_for_gradients(B, H, N, covariance.shape, returns_only)
        arguments = (
            upstream,
            covariance,
            previous,
            aversion,
            self.box,
            result.signs,
            result.weights,
            result.store,
            result.kept,
            returns_only,
            result.rows,
            gradients.returns,
            gradients.covariance,
            gradients.previous,
            gradients.aversion,
            gradients.turnover,
            gradients.cost,
        )
        scratch = _sizes(B, covariance.shape[1], H, N, result.kept, self._counts)[2]
        share(_kernels()[1], arguments, B, self.threads or self.count_threads(), scratch)
        return gradients

    def smooth(
        self,
        returns: _Array,
        covariance: _Array,
        previous: _Array,
        aversion: _Array,
        turnover: _Array,
        cost: _Array,
        *,
        strength: float,
        height: _Array,
        exact: _Array,
    ) -> SmoothedResult:
        """Smoothed plans of a batch (see `kernels.smoothed`); arrays as in `solve`.

        Parameters
        ----------
        strength : float
            μ of the barrier, or α δ of the penalty.
        height : array [B] or [0]
            α of the penalty; empty for the barrier.
        exact : array [B, H, N] or [0, H, N]
            Exact plans, from which the penalty's are looked for.
        """
        from portfolio_dfl.allocation.kernels.smoothed import Kept
        from portfolio_dfl.allocation.kernels.store import FACTS

        B, H, N = returns.shape
        stages, places = (B, H), (B, H, N)
        kept = Kept(
            np.empty(places),
            np.empty(places),
            np.empty(places),
            np.empty(stages),
            np.empty(stages),
            np.empty((B, H, N, N)),
            np.empty(places),
            np.empty(stages),
            np.empty((B, FACTS)),
        )
        result = SmoothedResult(np.empty(places), kept)
        rows = None if self._rows is None else self._room(self._rows, B, H, N)
        scratch = _sizes(B, covariance.shape[1], H, N, True, self._counts)[2]
        arguments = (
            returns,
            covariance,
            previous,
            aversion,
            turnover,
            cost,
            self.box,
            strength,
            height,
            exact,
            result.weights,
            kept,
            rows,
        )
        result.doubtful = share(_smoothed_kernels()[0], arguments, B, self.threads or self.count_threads(), scratch)
        return result

    def differentiate_smoothed(
        self,
        upstream: _Array,
        covariance: _Array,
        aversion: _Array,
        result: SmoothedResult,
        *,
        returns_only: bool = False,
    ) -> NativeGradients:
        """Vector-Jacobian product at a smoothed plan; arrays as in `smooth`, upstream [B, H, N]."""
        B, H, N = upstream.shape
        gradients = _room_for_gradients(B, H, N, covariance.shape, returns_only)
        lower, upper, counted = self.box
        arguments = (
            upstream,
            covariance,
            aversion,
            counted,
            (lower == upper).astype(np.float64),
            result.weights,
            result.kept,
            returns_only,
            gradients.returns,
            gradients.covariance,
            gradients.previous,
            gradients.aversion,
            gradients.turnover,
            gradients.cost,
        )
        scratch = _sizes(B, covariance.shape[1], H, N, True, self._counts)[2]
        share(_smoothed_kernels()[1], arguments, B, self.threads or self.count_threads(), scratch)
        return gradients
