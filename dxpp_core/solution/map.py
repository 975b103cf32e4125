"""The map from the data of a batch of QPs to (x, y, z, z_box), with its derivatives, in NumPy.

Forward: equilibrate, solve by a black box, read off the active set, polish with one factor, certify.  Backward and
tangent: the same factor again (Algorithm 1 of the paper with the exact refinement of :mod:`dxpp_core.kkt.refinement`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import NotDifferentiableError, SolverAccuracyError
from ..kkt.active_set import Certificate, Point, certify, strict_rows
from ..kkt.differentiability import DifferentiabilityWarning, dependent_rows, loose_weak_rows
from ..kkt.penalty import plugin_stiffness
from ..kkt.refinement import ActiveRows, KKTSolution, factor_active_set, largest, refine
from ..kkt.stalled import solve_by_kkt_factor, solve_by_least_squares, undetermined_directions
from ..options import Options, Timings
from ..program.problem import Element, QuadraticProgram
from ..program.units import shrunk
from ..solvers.base import RawSolution, Status
from .base import TRUSTED, Sensitivities, shares_of_bounds
from .diagnosis import explain_failure
from .search import Settle, find_point

__all__ = ["SolutionMap", "SolvedElement"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# How often the unit of x may be reduced before a solution near zero is believed to be zero.
_RESCALINGS = 8
# Orthogonal factorisation of the whole KKT matrix is tried up to this many unknowns.
_LEAST_SQUARES_SIZE = 800
# A loss sees an undetermined direction if more than this share of its gradient lies along it.
_SEEN = 1e-7


@dataclass(slots=True)
class SolvedElement:
    """One solved element, in scaled units, with what its derivatives need."""

    element: Element
    point: Point
    certificate: Certificate
    iterations: int
    derivative_rows: ActiveRows | None = None
    all_rows: ActiveRows | None = None
    plugin_y: Array | None = None
    plugin_lower: Array | None = None
    depends: bool | None = None


class SolutionMap:
    """A batch solved one by one: results in the user's units and the linear maps of the derivatives.

    Parameters
    ----------
    program : QuadraticProgram
    options : Options
    results : tuple of array, optional
        Where x, y, z and z_box [size, ·] are written; the elements that are not solved here are left alone.
    """

    def __init__(
        self, program: QuadraticProgram, options: Options, results: tuple[Array, Array, Array, Array] | None = None
    ) -> None:
        self.program, self.options, self.layout = program, options, program.layout
        size, n, m, p = program.size, program.n, program.m, program.p
        if results is None:
            results = np.empty((size, n)), np.empty((size, p)), np.zeros((size, m)), np.zeros((size, n))
        self.x, self.y, self.z, self.z_box = results
        self.timings = Timings()
        self.warnings: list[DifferentiabilityWarning] = []
        self.elements: dict[int, SolvedElement] = {}
        self.direct = np.zeros(size, dtype=np.bool_)

    @classmethod
    def solve(cls, program: QuadraticProgram, options: Options) -> SolutionMap:
        """Solve every element; raises the error of the first that has no solution, naming it."""
        out = cls(program, options)
        for k in range(program.size):
            out.solve_element(k)
        return out

    @property
    def iterations(self) -> NDArray[np.int64]:
        """Iterations of the black box."""
        return np.array([self.elements[k].iterations for k in range(self.program.size)], dtype=np.int64)

    # ---- forward ---------------------------------------------------------------------------------------------------

    def solve_element(self, k: int, settle: Callable[[Element], Settle] | None = None) -> None:
        """Solve the k-th element, unless ``settle``, told of it, takes one of the solver's points."""
        start = time.perf_counter()
        element = self.program.element(k)
        self.timings.prepare += time.perf_counter() - start
        point, raw = self._find_point(k, element, settle)
        for _ in range(_RESCALINGS):
            # Measured against a unit that is far too large, any point near zero looks exact.
            smaller = None if point is None else shrunk(element.vectors, largest(point.x))
            if smaller is None:
                break
            element = replace(element, vectors=smaller)
            point, raw = self._find_point(k, element, settle)
        if point is None:
            return
        start = time.perf_counter()
        certificate = certify(element.system, element.vectors, point)
        if not certificate.worst <= self.options.tolerance:
            at, rounding = self.program.unravel(k), self.program.limits_precision
            verdict = raw.status.value if raw.status in (Status.INFEASIBLE, Status.UNBOUNDED) else ""
            explain_failure(element.system, element.vectors, at, precision=rounding, final=True, verdict=verdict)
            raise SolverAccuracyError(
                f"the solver stopped ({raw.message or raw.status.value}) at a point whose certificate is primal "
                f"{certificate.primal:.1e}, dual {certificate.dual:.1e}, gap {certificate.gap:.1e}; it misses the "
                f"tolerance {self.options.tolerance:.0e}: loosen tolerance= or choose another solver=",
                batch_element=at,
            )
        self.elements[k] = SolvedElement(element, point, certificate, raw.iterations)
        self._store(k, element, point)
        if not point.polished and self.options.polish:
            self._warn(DifferentiabilityWarning("not polished", self.program.unravel(k)))
        elif point.weak:
            self._warn_about_weak_rows(k, element, point)
        self.timings.polish += time.perf_counter() - start

    def _find_point(
        self, k: int, element: Element, settle: Callable[[Element], Settle] | None
    ) -> tuple[Point | None, RawSolution]:
        told = None if settle is None else settle(element)
        at, rounding = self.program.unravel(k), self.program.limits_precision
        return find_point(element.system, element.vectors, self.options, self.timings, at, rounding, told)

    def adopt(self, k: int, signs: tuple[Mask, Mask, Mask]) -> None:
        """Take over an element that was solved elsewhere, strictly active at these rows, lower and upper bounds."""
        element = self.program.element(k)
        system, vectors, (rows, lower, upper) = element.system, element.vectors, signs
        own_y = np.concatenate([self.y[k], self.z[k]])
        if element.limited is not None:
            stays = np.concatenate([np.ones(self.program.p, dtype=bool), element.limited])
            rows, own_y = rows[stays], own_y[stays]
        x, back = self.x[k] / (vectors.alpha * system.D), vectors.alpha / vectors.c
        y, z_box = own_y / (back * system.E), self.z_box[k] * system.D / back
        slack = vectors.d - system.C_dot(x) if vectors.d.size else vectors.d
        if vectors.lb is None and vectors.ub is None:
            point = Point(x, y, None, rows, None, None, slack, polished=True)
        else:
            point = Point(x, y, z_box, rows, lower, upper, slack, polished=True)
        self.elements[k] = SolvedElement(element, point, certify(system, vectors, point), 0)

    def _store(self, k: int, element: Element, point: Point) -> None:
        system, vectors, p = element.system, element.vectors, self.program.p
        self.x[k] = vectors.alpha * system.D * point.x
        back = vectors.alpha / vectors.c
        if point.y.size:
            y = back * system.E * point.y
            self.y[k] = y[:p]
            if element.limited is None:
                self.z[k] = y[p:]
            else:
                self.z[k, element.limited] = y[p:]
        if point.z_box is not None:
            self.z_box[k] = back * point.z_box / system.D
        if point.lower is not None and point.upper is not None and point.polished:
            # An active bound is met exactly, not up to the rounding of the scaling.
            for at_bound, bound in (
                (point.lower, self.program.value("lb", k)),
                (point.upper, self.program.value("ub", k)),
            ):
                if bound is not None:
                    np.copyto(self.x[k], bound, where=at_bound)

    def _warn(self, warning: DifferentiabilityWarning) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)
        if self.options.strict:
            raise NotDifferentiableError(
                f"the solution map is not differentiable here: {warning.kind}, {warning}",
                batch_element=warning.batch_element,
            )

    def _warn_about_weak_rows(self, k: int, element: Element, point: Point) -> None:
        rows, bounds = loose_weak_rows(element.system, element.vectors, point)
        if rows or bounds:
            p = self.program.p
            limited = element.numbers_of_limited(self.program.m)
            named = tuple(int(limited[i - p]) for i in rows)
            self._warn(DifferentiabilityWarning("weakly active", self.program.unravel(k), named, tuple(bounds)))

    def warn_about_dependent_rows(self, k: int) -> bool:
        """For derivatives with respect to rows or to what limits them: whether these depend on one another."""
        one = self.elements[k]
        if self.options.penalty is not None:
            return False
        if one.depends is None or self.options.strict:
            found = dependent_rows(one.element.system, self._derivative_rows(k))
            one.depends = found is not None
            if found is not None:
                p = self.program.p
                limited = one.element.numbers_of_limited(self.program.m)
                rows, equalities = limited[found[p:]].tolist(), np.flatnonzero(found[:p]).tolist()
                at = self.program.unravel(k)
                self._warn(DifferentiabilityWarning("dependent", at, tuple(rows), equalities=tuple(equalities)))
        return one.depends

    # ---- derivatives -----------------------------------------------------------------------------------------------

    def _derivative_rows(self, k: int) -> ActiveRows:
        """The active set of the derivative: strictly active rows only; made and factored once an element."""
        one = self.elements[k]
        if one.derivative_rows is None:
            system, point = one.element.system, one.point
            if self.options.penalty is not None:
                one.derivative_rows = self._plugin_rows(k)
            elif point.weak:
                rows, at_bound, _, _ = strict_rows(system, one.element.vectors, point)
                one.derivative_rows = factor_active_set(system, rows, at_bound)
            else:
                one.derivative_rows = point.active or factor_active_set(system, point.rows, point.at_bound)
        return one.derivative_rows

    def _plugin_rows(self, k: int) -> ActiveRows:
        """Stiffnesses of the paper in the user's units, carried over to the scaled program."""
        one = self.elements[k]
        assert self.options.penalty is not None
        system, vectors, point, p = one.element.system, one.element.vectors, one.point, self.program.p
        m_limited = point.y.size
        back = vectors.alpha / vectors.c
        y = back * system.E * point.y
        slack = vectors.alpha * point.slack / system.E if m_limited else point.y
        rows, at_bound = point.rows, point.at_bound
        multipliers, gaps, active = [y], [slack], [rows]
        if at_bound is not None and point.lower is not None and point.upper is not None and point.z_box is not None:
            z_box = back * point.z_box / system.D
            x = vectors.alpha * system.D * point.x
            for at_side, bound, sign in ((point.lower, vectors.lb, -1.0), (point.upper, vectors.ub, 1.0)):
                room = np.full(x.size, np.inf) if bound is None else sign * (vectors.alpha * system.D * bound - x)
                multipliers.append(np.where(at_side, np.abs(z_box), 0.0))
                gaps.append(room)
                active.append(at_side)
        kappa, one.plugin_y = plugin_stiffness(
            self.options.penalty, p, np.concatenate(multipliers), np.concatenate(gaps), np.concatenate(active)
        )
        one.plugin_y = one.plugin_y[:m_limited]
        kappa_rows = vectors.c * kappa[:m_limited] / system.E**2 if m_limited else kappa[:0]
        kappa_box = None
        if at_bound is not None:
            n = self.program.n
            lower, upper = kappa[m_limited : m_limited + n], kappa[m_limited + n :]
            kappa_box = vectors.c * system.D**2 * (lower + upper)
            # The share of the stiffness of a variable's bounds that is the lower one's.
            one.plugin_lower = lower / np.where(lower + upper > 0.0, lower + upper, 1.0)
        factor = system.factor(kappa_rows, None, kappa_box)
        return ActiveRows(kappa_rows > 0.0, at_bound, kappa_rows, factor, kappa_box=kappa_box)

    def _sensitivity(self, k: int, g: Array, d: Array | None, d_box: Array | None) -> KKTSolution:
        """Scaled solution of K[v; s; s_box] = [−g; d; d_box] at element k, by whatever method was chosen."""
        one = self.elements[k]
        system, active = one.element.system, self._derivative_rows(k)
        if self.options.penalty is not None:
            d = np.zeros(active.rows.size) if d is None else d
            rhs = -g + (system.Ct_dot(active.kappa * d) if d.size else 0.0)
            if active.kappa_box is not None and d_box is not None:
                rhs = rhs + active.kappa_box * d_box
            v = active.factor.solve(rhs)
            s = active.kappa * (system.C_dot(v) - d) if d.size else d
            s_box = None if active.kappa_box is None else active.kappa_box * (v if d_box is None else v - d_box)
            return KKTSolution(v, s, s_box, 0.0)
        found = refine(system, active, g, d, d_box)
        if found.residual <= TRUSTED:
            return found
        if one.point.weak:
            # Left out, the weakly active rows leave the solution undetermined: hold them.
            if one.all_rows is None:
                one.all_rows = one.point.active or factor_active_set(system, one.point.rows, one.point.at_bound)
            with_all = refine(system, one.all_rows, g, d, d_box)
            if with_all.residual <= TRUSTED:
                return with_all
        return self._hard_sensitivity(k, active, g, d, d_box, found)

    def _hard_sensitivity(
        self,
        k: int,
        active: ActiveRows,
        g: Array,
        d: Array | None,
        d_box: Array | None,
        found: KKTSolution,
    ) -> KKTSolution:
        """Where refinement fails: drop what the problem does not determine, and at last factor K itself."""
        system = self.elements[k].element.system
        free = undetermined_directions(system, active, g)
        along = free.T @ (free @ g)
        if float(np.abs(along).max(initial=0.0)) > _SEEN * float(np.abs(g).max()):
            self._warn(DifferentiabilityWarning("not unique", self.program.unravel(k)))
            g = g - along
            found = refine(system, active, g, d, d_box)
        if found.residual > TRUSTED:
            found = solve_by_kkt_factor(system, active, g, d, d_box, found)
        found.v = found.v - free.T @ (free @ found.v)
        unknowns = g.size + int(active.rows.sum()) + (0 if active.at_bound is None else int(active.at_bound.sum()))
        if found.residual > TRUSTED and unknowns <= _LEAST_SQUARES_SIZE:
            found = solve_by_least_squares(system, active, g, d, d_box)
        if found.residual > TRUSTED:
            self._warn(DifferentiabilityWarning("not unique", self.program.unravel(k)))
        return found

    def adjoint(
        self,
        x_bar: Array | None,
        y_bar: Array | None,
        z_bar: Array | None,
        z_box_bar: Array | None,
        *,
        of_rows: bool,
    ) -> Sensitivities:
        out = self._no_sensitivities()
        for k in self.elements:
            if of_rows:
                self.warn_about_dependent_rows(k)
            self.write_adjoint(out, k, x_bar, y_bar, z_bar, z_box_bar)
        return out

    def write_adjoint(
        self,
        out: Sensitivities,
        k: int,
        x_bar: Array | None,
        y_bar: Array | None,
        z_bar: Array | None,
        z_box_bar: Array | None,
    ) -> None:
        """The adjoint of one element; cotangents [size, ·]."""
        start = time.perf_counter()
        n, m, p = self.program.n, self.program.m, self.program.p
        element = self.elements[k].element
        system, c = element.system, element.vectors.c
        g = -c * system.D * x_bar[k] if x_bar is not None else np.zeros(n)
        d = None
        if y_bar is not None or z_bar is not None:
            d = np.zeros(system.E.size)
        if d is not None and y_bar is not None:
            d[:p] = system.E[:p] * y_bar[k]
        if d is not None and z_bar is not None and m:
            d[p:] = system.E[p:] * (z_bar[k] if element.limited is None else z_bar[k, element.limited])
        d_box = z_box_bar[k] / system.D if z_box_bar is not None else None
        self._write(out, k, self._sensitivity(k, g, d, d_box))
        self.timings.sensitivity += time.perf_counter() - start

    def _no_sensitivities(self) -> Sensitivities:
        size, n, m, p = self.program.size, self.program.n, self.program.m, self.program.p
        return Sensitivities(np.empty((size, n)), np.zeros((size, p + m)), np.zeros((size, n)))

    def tangent(
        self, g: Array, d: Array, d_lower: Array | None, d_upper: Array | None, *, of_rows: bool
    ) -> Sensitivities:
        out = self._no_sensitivities()
        for k in self.elements:
            if of_rows:
                self.warn_about_dependent_rows(k)
            self.write_tangent(out, k, g, d, d_lower, d_upper)
        return out

    def write_tangent(
        self, out: Sensitivities, k: int, g: Array, d: Array, d_lower: Array | None, d_upper: Array | None
    ) -> None:
        """The tangent of one element; perturbations [size, ·]."""
        start = time.perf_counter()
        p = self.program.p
        element, point = self.elements[k].element, self.elements[k].point
        system, c = element.system, element.vectors.c
        stays = d[k] if element.limited is None else np.concatenate([d[k, :p], d[k, p:][element.limited]])
        d_box = None
        if point.lower is not None and point.upper is not None:
            d_box = np.zeros(system.D.size)
            for weight, change in zip(self._shares(k), (d_lower, d_upper), strict=True):
                if change is not None:
                    d_box += np.where(weight > 0.0, weight * change[k], 0.0) / system.D
        self._write(out, k, self._sensitivity(k, c * system.D * g[k], system.E * stays, d_box))
        self.timings.sensitivity += time.perf_counter() - start

    def _write(self, out: Sensitivities, k: int, found: KKTSolution) -> None:
        element, p = self.elements[k].element, self.program.p
        system, c = element.system, element.vectors.c
        out.v[k] = system.D * found.v
        if found.s.size:
            s = system.E * found.s / c
            if element.limited is None:
                out.s[k] = s
            else:
                out.s[k, :p] = s[:p]
                out.s[k, p:][element.limited] = s[p:]
        if found.s_box is not None:
            np.divide(found.s_box, c * system.D, out=out.s_box[k])

    def _shares(self, k: int) -> tuple[Array, Array]:
        """The shares of what holds each variable that belong to its lower and to its upper bound."""
        self._derivative_rows(k)
        one = self.elements[k]
        lower, upper, share = one.point.lower, one.point.upper, one.plugin_lower
        if lower is None or upper is None:
            return np.zeros(self.program.n), np.zeros(self.program.n)
        if share is not None:
            return shares_of_bounds(share, 1.0 - share, one.element.vectors.fixed)
        return shares_of_bounds(lower.astype(np.float64), upper.astype(np.float64), one.element.vectors.fixed)

    def split_between_bounds(self, s_box: Array) -> tuple[Array, Array]:
        of_lower, of_upper = np.zeros_like(s_box), np.zeros_like(s_box)
        for k in self.elements:
            lower, upper = self._shares(k)
            of_lower[k], of_upper[k] = lower * s_box[k], upper * s_box[k]
        return of_lower, of_upper

    def multipliers(self) -> Array:
        y = np.concatenate([self.y, self.z], axis=1)
        if self.options.penalty is not None and not self.options.penalty.prune:
            p = self.program.p
            for k, one in self.elements.items():
                self._derivative_rows(k)
                assert one.plugin_y is not None
                limited = slice(None) if one.element.limited is None else one.element.limited
                y[k, :p], y[k, p:][limited] = one.plugin_y[:p], one.plugin_y[p:]
        return y

    def certificates(self) -> Mapping[str, Array]:
        return {
            name: np.array([getattr(self.elements[k].certificate, name) for k in range(self.program.size)])
            for name in ("primal", "dual", "gap")
        }
