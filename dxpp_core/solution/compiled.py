"""A batch of dense programs solved and differentiated by compiled loops, all elements at once; a single one is a batch.

What the loops leave (a doubtful active set, a row that is weakly active, no solution) is for a solver and for the
general way, which writes into the same arrays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kkt.active_set import CONVERGED, CORRECTIONS, EXACT_ROWS, FROM_NOTHING, WEAK
from ..kkt.differentiability import DifferentiabilityWarning, probe
from ..kkt.penalty import STIFFNESS
from ..matrices.base import RIDGE
from ..matrices.compact import CompactMatrices, responses, stack
from ..options import Options, Timings
from ..program.layout import Layout
from ..program.problem import Element, QuadraticProgram
from ..program.units import ScaledVectors
from ..threads import share
from .base import TRUSTED, Sensitivities, shares_of_bounds
from .map import SolutionMap
from .search import FAR, Settle, find_point

__all__ = ["CompiledSolution"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_ABSENT, _NO_RESPONSE = np.empty((1, 0)), np.empty((1, 0, 0))
# Multiply-adds that are worth a thread.
_WORTH_A_THREAD = 200_000


class CompiledSolution:
    """A solved batch of programs that have compact matrices.

    Parameters
    ----------
    layout : Layout
    systems : sequence of CompactMatrices
        The matrices of the batch, each once.
    of_system : array [size] of int
        Which of them are whose.
    vectors : sequence of array
        q, b, h, lb and ub, [size, ·], [1, ·] where all elements share one, or None; they are kept.
    options : Options
    program : callable
        The program as the general way takes it, made when it is asked for.
    """

    def __init__(
        self,
        layout: Layout,
        systems: Sequence[CompactMatrices],
        of_system: NDArray[np.intp],
        vectors: Sequence[Array | None],
        options: Options,
        program: Callable[[], QuadraticProgram],
    ) -> None:
        start = time.perf_counter()
        self.layout, self.options, self._systems, self._program = layout, options, systems, program
        self._of_system = of_system
        self._vectors = tuple([_ABSENT if part is None else np.ascontiguousarray(part) for part in vectors])
        self._matrices = stack(systems)
        P = self._matrices[0]
        n, m, p, size = layout.n, layout.m + layout.p, layout.p, layout.size
        kernels = _kernels()
        self._signs = np.empty((size, m + 3 * n), dtype=np.bool_)
        self._store = np.empty((size, kernels.store_size(P[0], m)))
        self._facts = np.zeros((size, len(kernels.FACTS)))
        own = self._store[:, 2 * n + 3 * m :]
        self.x, self.y, self.z, self.z_box = (
            own[:, :n],
            own[:, n : n + p],
            own[:, n + p : n + m],
            own[:, n + m :][:, :n],
        )
        self.direct = np.zeros(size, dtype=np.bool_)
        self.warnings: list[DifferentiabilityWarning] = []
        self.timings = Timings()
        self._general: SolutionMap | None = None
        # A thread's share is to be worth its start: a factor, or products with the rows and what they are beside P.
        work = size * ((n + m) ** 2 if P.ndim == 3 else n * (m + 8) + m * m * n // 2)
        self._threads = min(options.threads, 1 + work // _WORTH_A_THREAD)
        self.timings.prepare += time.perf_counter() - start

    # ---- forward ---------------------------------------------------------------------------------------------------

    @classmethod
    def solve(
        cls,
        layout: Layout,
        systems: Sequence[CompactMatrices],
        of_system: NDArray[np.intp],
        vectors: Sequence[Array | None],
        options: Options,
        program: Callable[[], QuadraticProgram],
        ready: Element | None = None,
    ) -> CompiledSolution:
        """Solve every element; raises the error of the first that has no solution, naming it.

        ``ready``: a single element in equilibrated form, if it is at hand: the program is made where a solver's points
        do not lead to its solution, and then only.
        """
        solution = cls(layout, systems, of_system, vectors, options, program)
        left = solution._find_directly() if options.direct else range(layout.size)
        for k in left:
            if ready is not None and solution._ask_for(ready):
                break
            solution._elsewhere().solve_element(k, partial(solution._settle_with, k))
        return solution

    def _ask_for(self, ready: Element) -> bool:
        """Whether a solver's first points lead to the solution of the only element."""
        found, settle = False, self._settle_with(0, ready)

        def settled(vectors: ScaledVectors, x: Array, y: Array, z_box: Array | None, iterations: int) -> bool:
            nonlocal found
            found = settle(vectors, x, y, z_box, iterations)
            return True  # a second point is for the general way to ask for

        find_point(ready.system, ready.vectors, self.options, self.timings, (), settle=settled)
        return found

    def _find_directly(self) -> Sequence[int]:
        """Solve what needs no solver; the elements that are left."""
        left = self.layout.size
        if all(system.direct for system in self._systems):
            start = time.perf_counter()
            if self._matrices[0].ndim == 2 and self._systems[0].few_rows:
                left = self._run(_NO_RESPONSE, FROM_NOTHING)
            if left and self._systems[0].has_response:
                left = self._run(responses(self._systems, self._threads), CORRECTIONS)
            self.timings.polish += time.perf_counter() - start
        if not left:
            self.direct[:] = True
            return ()
        np.greater(self._facts[:, 0], 0.0, out=self.direct)
        left_over: list[int] = np.flatnonzero(~self.direct).tolist()
        return left_over

    def _run(self, response: Array, corrections: int, begin: Array = _ABSENT, only: slice = slice(None)) -> int:
        """The kernel over a slice of the batch; how many of it are left."""
        kernels, signs = _kernels(), self._signs[only]
        n, m = self.layout.n, self.layout.m + self.layout.p
        P, others, traits = self._matrices
        arguments = (
            P,
            others,
            response,
            self._of_system[only],
            traits,
            self.layout.p,
            *(part if len(part) == 1 else part[only] for part in self._vectors),
            kernels.bars,
            self.options.tolerance,
            corrections,
            FAR,
            begin,
            signs,
            self._store[only],
            self._facts[only],
        )
        scratch = kernels.scratch_size(n, m, response.shape[1])
        return share(kernels.solve_batch, arguments, len(signs), self._threads, scratch)

    def _settle_with(self, k: int, element: Element) -> Settle:
        """Reads active sets of the k-th element off a solver's points."""
        layout = self.layout

        def settle(vectors: ScaledVectors, x: Array, y: Array, z_box: Array | None, iterations: int) -> bool:
            D, E, back, p = element.system.D, element.system.E, vectors.alpha / vectors.c, layout.p
            begin = np.zeros((1, 2 * layout.n + layout.m + p))
            own_x, own_y, own_z = begin[0, : layout.n], begin[0, layout.n : -layout.n], begin[0, -layout.n :]
            own_x[:] = vectors.alpha * D * x
            own_y[:p] = back * (E * y)[:p]
            own_y[p:][slice(None) if element.limited is None else element.limited] = back * (E * y)[p:]
            if z_box is not None:
                own_z[:] = back * z_box / D
            if not np.isfinite(begin).all() or self._run(_NO_RESPONSE, CORRECTIONS, begin, slice(k, k + 1)):
                return False
            self._facts[k, 4] = iterations
            return True

        return settle

    def _elsewhere(self) -> SolutionMap:
        """The general way over the same arrays, for elements that are left."""
        if self._general is None:
            self._general = SolutionMap(self._program(), self.options, (self.x, self.y, self.z, self.z_box))
            self._general.warnings, self._general.timings = self.warnings, self.timings
            left = self._facts[:, 0] == 0.0
            self.z[left], self.z_box[left] = 0.0, 0.0
        return self._general

    # ---- what is known ---------------------------------------------------------------------------------------------

    @property
    def compiled(self) -> Mask:
        """Which elements compiled loops solved, [size]."""
        return self._facts[:, 0] > 0.0

    @property
    def _solved_elsewhere(self) -> dict[int, Any]:
        return {} if self._general is None else self._general.elements

    @property
    def iterations(self) -> NDArray[np.int64]:
        """Iterations of the black box, or active sets tried where none was called."""
        found = self._facts[:, 4].astype(np.int64)
        for k, one in self._solved_elsewhere.items():
            if not self._facts[k, 0]:
                found[k] = one.iterations
        return found

    def certificates(self) -> Mapping[str, Array]:
        """Residuals of every element, by name."""
        found = {name: self._facts[:, 1 + i].copy() for i, name in enumerate(("primal", "dual", "gap"))}
        for k, one in self._solved_elsewhere.items():
            if not self._facts[k, 0]:
                for name, values in found.items():
                    values[k] = getattr(one.certificate, name)
        return found

    def multipliers(self) -> Array:
        """Multipliers [size, p + m] that enter the gradients of the rows."""
        n, m = self.layout.n, self.layout.m + self.layout.p
        return self._store[:, 3 * n + 3 * m : 3 * n + 4 * m]

    # ---- derivatives -----------------------------------------------------------------------------------------------

    def adjoint(
        self,
        x_bar: Array | None,
        y_bar: Array | None,
        z_bar: Array | None,
        z_box_bar: Array | None,
        *,
        of_rows: bool,
    ) -> Sensitivities:
        """See :class:`~dxpp_core.solution.base.Solution`."""
        layout, d = self.layout, None
        if y_bar is not None or z_bar is not None:
            d = np.zeros((layout.size, layout.p + layout.m))
            for part, bar in ((d[:, : layout.p], y_bar), (d[:, layout.p :], z_bar)):
                if bar is not None:
                    part[:] = bar
        found, others = self._sensitivities(None if x_bar is None else -x_bar, d, z_box_bar, of_rows=of_rows)
        for k in others:
            self._elsewhere().write_adjoint(found, k, x_bar, y_bar, z_bar, z_box_bar)
        return found

    def tangent(
        self, g: Array, d: Array, d_lower: Array | None, d_upper: Array | None, *, of_rows: bool
    ) -> Sensitivities:
        """See :class:`~dxpp_core.solution.base.Solution`."""
        d_box = None
        if d_lower is not None or d_upper is not None:
            d_box = np.zeros_like(g)
            for weight, change in zip(self._shares(), (d_lower, d_upper), strict=True):
                if change is not None:
                    d_box += np.where(weight > 0.0, weight * change, 0.0)
        found, others = self._sensitivities(g, d, d_box, of_rows=of_rows)
        for k in others:
            self._elsewhere().write_tangent(found, k, g, d, d_lower, d_upper)
        return found

    def _sensitivities(
        self, g: Array | None, d: Array | None, d_box: Array | None, *, of_rows: bool
    ) -> tuple[Sensitivities, list[int]]:
        """Solve K[v; s; s_box] = [−g; d; d_box] for all elements; those that only the general way can, for it."""
        start = time.perf_counter()
        kernels, layout = _kernels(), self.layout
        n, m, size = layout.n, layout.p + layout.m, layout.size
        P, others, _ = self._matrices
        found, sizes = np.empty((size, 2 * n + m)), np.empty((size, 2))
        arguments = (
            P,
            others,
            self._of_system,
            self._signs,
            self._store,
            self._facts,
            *(_ABSENT if part is None else np.ascontiguousarray(part) for part in (g, d, d_box)),
            probe(m) if of_rows else _ABSENT[0],
            TRUSTED,
            found,
            sizes,
        )
        scratch = kernels.scratch_size(n, m, 0)
        left = share(kernels.differentiate_batch, arguments, size, self._threads, scratch)
        self.timings.sensitivity += time.perf_counter() - start
        for_others = self._left_for_others(sizes, of_rows=of_rows) if left else []
        found[for_others] = 0.0
        return Sensitivities(found[:, :n], found[:, n : n + m], found[:, n + m :]), for_others

    def _left_for_others(self, sizes: Array, *, of_rows: bool) -> list[int]:
        plain = self._facts[:, 0] > 0.0
        general, left = self._elsewhere(), []
        for k in np.flatnonzero(~plain | ~(sizes[:, 0] <= TRUSTED) | (sizes[:, 1] > 0.0)).tolist():
            if k not in general.elements:
                general.adopt(k, self._signs_of(k))
            depends = of_rows and general.warn_about_dependent_rows(k)
            if not plain[k] or not sizes[k, 0] <= TRUSTED or depends:
                left.append(k)
        return left

    def _signs_of(self, k: int) -> tuple[Mask, Mask, Mask]:
        n, m = self.layout.n, self.layout.p + self.layout.m
        signs = self._signs[k]
        return signs[:m], signs[m : m + n], signs[m + n : m + 2 * n]

    def _shares(self) -> tuple[Array, Array]:
        """The shares of what holds each variable that belong to its lower and to its upper bound, [size, n]."""
        n, m = self.layout.n, self.layout.p + self.layout.m
        lower, upper = (self._signs[:, start : start + n].astype(np.float64) for start in (m, m + n))
        lb, ub = self._vectors[3], self._vectors[4]
        fixed = np.equal(lb, ub) if lb.shape[1] and ub.shape[1] else None
        return shares_of_bounds(lower, upper, fixed)

    def split_between_bounds(self, s_box: Array) -> tuple[Array, Array]:
        """The parts of s_box [size, n] that belong to lb and to ub."""
        lower, upper = self._shares()
        of_lower, of_upper = lower * s_box, upper * s_box
        if self._general is not None and self._general.elements:
            for mine, other in zip((of_lower, of_upper), self._general.split_between_bounds(s_box), strict=True):
                others = list(self._general.elements)
                mine[others] = other[others]
        return of_lower, of_upper


@cache
def _kernels() -> SimpleNamespace:
    """Imported when first needed: Numba takes its time."""
    from ..kernels import batch, layout, settle

    return SimpleNamespace(
        solve_batch=batch.solve_batch,
        differentiate_batch=batch.differentiate_batch,
        scratch_size=batch.scratch_size,
        store_size=layout.store_size,
        FACTS=layout.FACTS,
        bars=settle.Bars(STIFFNESS, RIDGE, WEAK, CONVERGED, EXACT_ROWS),
    )
