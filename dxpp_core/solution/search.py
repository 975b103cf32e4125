"""Find the point of a scaled program: ask a solver, polish its answer, and ask again where the polish is rejected."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..errors import QPError, SolverError
from ..kkt.active_set import Point, guess_active, polish
from ..matrices import System
from ..options import Options, Timings
from ..program.units import ScaledVectors
from ..solvers.base import RawSolution, SolverProblem, Status
from .diagnosis import explain_failure

__all__ = ["FAR", "find_point", "for_solver"]

Array = NDArray[np.float64]
# Whether a point (x, y, z_box) of a program with these vectors, found in so many iterations, led to its solution.
Settle = Callable[[ScaledVectors, Array, Array, Array | None, int], bool]

# Where compiled loops will polish the point, the solver is first asked for one of this accuracy: that tells
# most active sets, and to correct the others costs less than an iteration.  Else, and after a rejected polish, for a
# tenth of the tolerance that the certificate must meet, and then for less.
_ROUGH = 1e-5
_SHARE = 1e-1
_SHARES = (_SHARE, 1e-3, 1e-5)
_FINEST = 1e-13
# In units of x: limits farther away than this are not shown to a solver.
FAR = 1e8


def _asked_tolerances(options: Options, *, rough: bool) -> list[float]:
    """What the solver is asked for, one after the other, until a point is accepted."""
    asked = [max(share * options.tolerance, _FINEST) for share in _SHARES]
    return [_ROUGH, *asked] if rough and asked[0] < _ROUGH else asked


def find_point(
    system: System,
    vectors: ScaledVectors,
    options: Options,
    timings: Timings,
    batch_element: tuple[int, ...],
    precision: float = 0.0,
    settle: Settle | None = None,
) -> tuple[Point | None, RawSolution]:
    """The polished point of one scaled program, or the solver's where no polish is accepted.

    ``precision``: relative rounding with which the limits are known, if they came in lower precision than float64.
    ``settle`` is shown each of the solver's points first; None in place of a point where it took one.
    """
    problem = for_solver(system, vectors)
    for tolerance in _asked_tolerances(options, rough=settle is not None):
        start = time.perf_counter()
        try:
            raw = options.solver(problem, tolerance)
        except QPError as error:
            error.batch_element = error.batch_element or batch_element or None
            raise
        timings.solve += time.perf_counter() - start
        if raw.status in (Status.INFEASIBLE, Status.UNBOUNDED):
            explain_failure(system, vectors, batch_element, precision=precision)
        start = time.perf_counter()
        raw = _unscale_duals(raw, problem, vectors)
        y = np.concatenate([raw.y, raw.z]) if raw.z.size else raw.y
        if settle is not None and settle(vectors, raw.x, y, raw.z_box, raw.iterations):
            timings.polish += time.perf_counter() - start
            return None, raw
        guess = guess_active(system, vectors, raw.x, y, raw.z_box)
        point = polish(system, vectors, guess) if options.polish and np.isfinite(raw.x).all() else None
        timings.polish += time.perf_counter() - start
        if point is not None:
            return point, raw
        if not options.polish and raw.status is Status.SOLVED:
            break
    return guess, raw


def for_solver(system: System, vectors: ScaledVectors) -> SolverProblem:
    """The scaled program as solvers see it: without bounds beyond 1e8 units of x, and with larger h cut to that.

    The certificate is taken with the true limits: a solution that makes use of the difference is refused.
    """
    p, size = system.n_eq, vectors.dual_size
    P, G, A = system.solver_matrices(size)
    q, h, lb, ub = vectors.q, vectors.d[p:], vectors.lb, vectors.ub
    if size > 1.0:
        q = q / size
    if not vectors.limits <= FAR:
        if h.size:
            h = np.minimum(h, FAR)
        if lb is not None:
            lb = np.where(lb < -FAR, -np.inf, lb)
        if ub is not None:
            ub = np.where(ub > FAR, np.inf, ub)
    return SolverProblem(P, q, G, h if h.size else None, A, vectors.d[:p] if p else None, lb, ub, system.structure)


def _unscale_duals(raw: RawSolution, problem: SolverProblem, vectors: ScaledVectors) -> RawSolution:
    """The solver's point with its multipliers in the units of the equilibrated program, zeros where it gave none."""
    size = vectors.dual_size

    def filled(name: str, found: Array | None, length: int) -> Array:
        if found is not None and found.shape == (length,):
            # Copies: a solver may write its next result where this one is.
            return size * found if name != "x" and size > 1.0 else found.copy()
        if name != "x" and (found is None or not found.size):
            return np.zeros(length)
        shape = None if found is None else list(found.shape)
        raise SolverError(f"the solver returned {name} of shape {shape} where [{length}] was expected")

    raw.x = filled("x", raw.x, problem.q.size)
    raw.y = filled("y", raw.y, 0 if problem.b is None else problem.b.size)
    raw.z = filled("z", raw.z, 0 if problem.h is None else problem.h.size)
    raw.z_box = None if vectors.lb is None and vectors.ub is None else filled("z_box", raw.z_box, problem.q.size)
    return raw
