"""One small dense program, from arguments to gradients, without what batches and sparse matrices ask for.

At n = 20 a solver takes less time than Python takes for the bookkeeping of :mod:`dxpp_core.solution.map`.  Here are
only the solver and three compiled calls around it, on matrices that were met before.  Whatever is not a plain case
(a batch, a missing limit, a row that is weakly active, a doubtful active set, no solution) is left to the general way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from ..kkt.active_set import CORRECTIONS, FROM_NOTHING, LIMITS, Certificate, Point, compact_point
from ..kkt.differentiability import dependent_rows
from ..matrices import System
from ..options import Options, Timings
from ..program.problem import NAMES, Element, QuadraticProgram
from ..program.recognition import known_small_system
from ..program.units import Scaled, scale, too_small
from ..solvers.base import RawSolution, SolverProblem, Status
from .map import TRUSTED, SolutionMap, SolvedElement
from .search import FAR, first_tolerance

__all__ = ["SmallSolution", "solve_small"]

Array = NDArray[np.float64]

_NOTHING = np.zeros(0)
_FROM_NOTHING = (_NOTHING, _NOTHING, _NOTHING, _NOTHING)
_NOT_FOUND = (False, np.inf, np.inf, np.inf, 0.0, 0)
_NO_SOLUTION = (Status.INFEASIBLE, Status.UNBOUNDED)


@dataclass(slots=True, eq=False)
class SmallSolution:
    """A solved program: results in the user's units, and gradients from the factor of its polish.

    ``masks`` and ``state`` are what the compiled polish left behind; ``own`` is the part of ``state`` with x, the
    multipliers of the rows and those of the bounds in the user's units.
    """

    arrays: Sequence[Array | None]
    options: Options
    system: System
    scaled: Scaled
    masks: NDArray[np.bool_]
    state: Array
    own: Array
    residuals: tuple[float, float, float]
    iterations: int
    direct: bool
    seconds: tuple[float, float, float]
    sensitivity: float = 0.0
    dependent: bool | None = None

    def parts(self) -> tuple[Array, Array, Array, Array]:
        """Copies of x, y, z and z_box: a user may change a result in place."""
        n, m, own = self.scaled.n, self.scaled.m, self.own.copy()
        to_z = n + self.system.n_eq
        return own[:n], own[n:to_z], own[to_z : n + m], own[n + m :]

    def gradients(self, bars: Sequence[Array | None], wanted: tuple[bool, ...]) -> list[tuple[int, Array]] | None:
        """Gradients of the wanted arguments for cotangents of x, y, z and z_box; None where refinement fails.

        ``wanted``: of the call and of its eight arguments; the gradients come with their places in it.  The formulas
        are those of :mod:`dxpp_core.solution.gradients`.
        """
        start = time.perf_counter()
        if any(wanted[3:]) and self.has_dependent_rows():
            return None
        kernels, _ = _kernels()
        system, scaled, compact = self.system, self.scaled, self.system.compact_arrays
        assert compact is not None
        n, m, p = scaled.n, scaled.m, system.n_eq
        out = np.empty(4 * n + 2 * m + kernels.room_for(n, m))
        x_bar, y_bar, z_bar, z_box_bar = bars
        residual = kernels.differentiate_compact(
            *compact,
            p,
            scaled.c,
            self.masks,
            self.state,
            _NOTHING if x_bar is None else np.ascontiguousarray(x_bar),
            _NOTHING if y_bar is None else np.ascontiguousarray(y_bar),
            _NOTHING if z_bar is None else np.ascontiguousarray(z_bar),
            _NOTHING if z_box_bar is None else np.ascontiguousarray(z_box_bar),
            out,
        )
        self.sensitivity += time.perf_counter() - start
        if not residual <= TRUSTED:
            return None
        _, of_P, of_q, of_G, of_h, of_A, of_b, of_lb, of_ub = wanted
        v = out[:n]
        gradients = [(2, -v)] if of_q else []
        if of_P:
            vx = np.outer(v, self.own[:n])
            gradients.append((1, -0.5 * (vx + vx.T)))
        if of_G or of_h or of_A or of_b:
            x, y, s = self.own[:n], self.own[n : n + m], out[n : n + m]
            for place, of_matrix, of_vector, rows in ((3, of_G, of_h, slice(p, m)), (5, of_A, of_b, slice(p))):
                if of_matrix:
                    gradients.append((place, -(np.outer(y[rows], v) + np.outer(s[rows], x))))
                if of_vector:
                    gradients.append((place + 1, s[rows]))
        if of_lb or of_ub:
            lower, upper = self._split_between_bounds(out[n + m : 2 * n + m])
            gradients += [(7, lower)] if of_lb else []
            gradients += [(8, upper)] if of_ub else []
        return gradients

    def _split_between_bounds(self, s_box: Array) -> tuple[Array, Array]:
        """The parts of s_box that belong to lb and to ub; both bounds of a fixed variable get half."""
        n, m = self.scaled.n, self.scaled.m
        of_lower, of_upper = (self.masks[start : start + n].astype(np.float64) for start in (m, m + n))
        fixed = self.scaled.vectors().fixed
        if fixed is not None:
            of_lower[fixed] = of_upper[fixed] = 0.5
        return of_lower * s_box, of_upper * s_box

    def point(self) -> Point:
        """The same point as the general way holds it."""
        bounded = self.scaled.has_lb or self.scaled.has_ub
        point = compact_point(self.system, bounded, self.masks, self.state, Certificate(*self.residuals))
        point.direct = self.direct
        return point

    def has_dependent_rows(self) -> bool:
        """Whether active rows are linearly dependent: then gradients of rows and limits are a choice."""
        if self.dependent is None:
            active = self.point().active
            assert active is not None
            self.dependent = dependent_rows(self.system, active) is not None
        return self.dependent

    def lift(self) -> SolutionMap:
        """The same solution as the general way holds it."""
        element = Element(self.system, self.scaled.vectors(), None)
        # The arguments' numbers were read at the call and may have changed since: what is left of them are shapes.
        shapes = [None if array is None else np.broadcast_to(0.0, array.shape) for array in self.arrays]
        program = QuadraticProgram(dict(zip(NAMES, shapes, strict=True)), {})
        x, y, z, z_box = (part[None] for part in self.parts())
        elements = [SolvedElement(element, self.point(), Certificate(*self.residuals), self.iterations)]
        timings = Timings(*self.seconds, self.sensitivity)
        return SolutionMap(program, self.options, x, y, z, z_box, timings=timings, elements=elements)


def solve_small(arrays: Sequence[Array | None], options: Options) -> SmallSolution | None:
    """Solve a program of float64 arrays in the order of ``NAMES``; None where that is for the general way."""
    start = time.perf_counter()
    P, q, G, h, A, b, lb, ub = arrays
    system = known_small_system(P, G, A)
    if system is None or q is None or (h is None) != (G is None) or (b is None) != (A is None):
        return None
    n, m, p, compact = system.D.size, system.E.size, system.n_eq, system.compact_arrays
    length = q.shape
    if length != (n,) or not (lb is None or lb.shape == length) or not (ub is None or ub.shape == length):
        return None
    if not (h is None or h.shape == (m - p,)) or not (b is None or b.shape == (p,)):
        return None
    scaled = scale(system, q, b, h, lb, ub)
    if compact is None or not scaled.plain or scaled.limits > FAR:
        return None
    kernels, settle = _kernels()
    masks, state = np.empty(m + 3 * n, dtype=np.bool_), np.empty(kernels.state_size(compact[0], m))
    given = (
        *compact,
        p,
        scaled.numbers,
        scaled.has_lb,
        scaled.has_ub,
        _NOTHING if lb is None else np.ascontiguousarray(lb),
        _NOTHING if ub is None else np.ascontiguousarray(ub),
        scaled.alpha,
        scaled.c,
        scaled.dual_size,
        *LIMITS,
    )
    prepared = answered = time.perf_counter()
    direct = options.direct and system.direct
    found = settle(*given, FROM_NOTHING, *_FROM_NOTHING, masks, state) if direct else _NOT_FOUND
    iterations = found[5]
    if not _good(found, options):
        raw = options.solver(_problem(system, scaled), first_tolerance(options))
        answered = time.perf_counter()
        start_from = _start(raw, n, m, p, scaled.has_lb or scaled.has_ub)
        if start_from is None:
            return None
        iterations, direct = raw.iterations, False
        found = settle(*given, CORRECTIONS, *start_from, masks, state)
        if not _good(found, options):
            return None
    own_start = 2 * n + 3 * m
    return SmallSolution(
        arrays,
        options,
        system,
        scaled,
        masks,
        state,
        state[own_start : own_start + 2 * n + m],
        found[1:4],
        iterations,
        direct,
        (prepared - start, answered - prepared, time.perf_counter() - answered),
    )


def _good(found: tuple[bool, float, float, float, float, int], options: Options) -> bool:
    plain, primal, dual, gap, size_x, _ = found
    return plain and max(primal, dual, gap) <= options.tolerance and not too_small(size_x)


def _problem(system: System, scaled: Scaled) -> SolverProblem:
    """The program as solvers see it: all limits are near, and the multipliers are not large."""
    p = system.n_eq
    q, d, lb, ub = scaled.parts()
    P, G, A = system.solver_matrices(1.0)
    return SolverProblem(P, q, G, d[p:] if d.size > p else None, A, d[:p] if p else None, lb, ub, system.structure)


def _start(raw: RawSolution, n: int, m: int, p: int, bounded: bool) -> tuple[Array, Array, Array, Array] | None:
    """A solver's point; None where it has none, or left out multipliers."""
    if raw.status in _NO_SOLUTION or raw.x is None or raw.y is None or raw.z is None:
        return None
    z_box = _NOTHING if raw.z_box is None else raw.z_box
    if (raw.x.shape, raw.y.shape, raw.z.shape, z_box.shape) != ((n,), (p,), (m - p,), (n if bounded else 0,)):
        return None
    return raw.x, raw.y, raw.z, z_box


@cache
def _kernels() -> tuple[ModuleType, Callable[..., tuple[bool, float, float, float, float, int]]]:
    """Imported when first needed: Numba takes its time."""
    from ..kernels import compact
    from ..kernels.settle import settle

    return compact, settle
