"""The reduced KKT system solved to machine precision with one factor of the penalty Hessian.

The system is K [v; s] = [−g; d] on the active rows B, K = [[P, Bᵀ], [B, 0]].  With stiffness κ and the factor of
H = P + BᵀκB the augmented-Lagrangian iteration

    dv = H⁻¹(r₁ + Bᵀκ r₂),   r₂ ← r₂ − B dv,   ds = −κ r₂,   r₁ ← r₁ − P dv − Bᵀds

gains a factor of about κ a step, whether or not the rows of B are independent.  Variables at active bounds are pinned:
known, and removed from the system.  The residuals are carried along, not recomputed: so r₂ never becomes rounding noise
that κ would blow up in s, and a step costs one product with each of P, B and Bᵀ.  The same iteration polishes the
solver's point (g = q, d = right-hand sides, started there), solves for adjoints, and for tangents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import idamax

from ..errors import NonConvexError
from ..matrices import Factor, System
from .penalty import STIFFNESS

__all__ = [
    "ActiveRows",
    "KKTSolution",
    "factor_active_set",
    "largest",
    "refine",
]

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

_STEPS = 14
# A step of refinement that gains less than this has stalled.
_PROGRESS = 0.25
_SOFTER = 1e-2
_EPS = float(np.finfo(np.float64).eps)


def largest(v: Vector) -> float:
    """Largest magnitude in a vector that has entries, by one BLAS call."""
    return abs(float(v[idamax(v)]))


@dataclass(slots=True)
class ActiveRows:
    """An active set of a scaled program: masks, stiffnesses and the factor of its penalty Hessian.

    ``free`` is 0 where an active bound pins a variable and 1 elsewhere; None where no bound is active.
    """

    rows: Mask
    at_bound: Mask | None
    kappa: Vector
    factor: Factor
    free: Vector | None = None
    kappa_box: Vector | None = None


@dataclass(slots=True)
class KKTSolution:
    """v, s (zero on inactive rows), s_box, and the largest residuals left, relative to the terms they are made of.

    ``row_residual`` is that of C v = d alone: rounding where the rows are independent, or dependent and consistent.
    """

    v: Vector
    s: Vector
    s_box: Vector | None
    residual: float = np.inf
    row_residual: float = np.inf


def factor_active_set(system: System, rows: Mask, at_bound: Mask | None) -> ActiveRows:
    """Factor the penalty Hessian of an active set: these rows stiff, variables at these bounds pinned."""
    pinned = at_bound if at_bound is not None and at_bound.any() else None
    free = None if pinned is None else np.where(pinned, 0.0, 1.0)
    unit = np.where(rows, 1.0 / system.squared_row_norms(rows, at_bound), 0.0) if rows.size else np.zeros(0)
    try:
        kappa = STIFFNESS * unit
        factor = system.factor(kappa, pinned)
    except NonConvexError:
        # Rounding of stiff rows has drowned a small curvature: make them less stiff, at the price of more steps.
        kappa = _SOFTER * STIFFNESS * unit
        factor = system.factor(kappa, pinned)
    return ActiveRows(rows, at_bound, kappa, factor, free)


def refine(
    system: System,
    active: ActiveRows,
    g: Vector,
    d: Vector | None,
    d_box: Vector | None,
    start: KKTSolution | None = None,
) -> KKTSolution:
    """Solve P v + Cᵀs + s_box = −g, C v = d on the active rows, v = d_box on the active bounds.

    Parameters
    ----------
    g : (n,); d : (m,) or None for zero; d_box : (n,) or None for zero
        Entries of ``d`` and ``d_box`` on inactive rows and bounds are ignored.
    start : KKTSolution, optional
        Where to begin; components that the system does not determine stay where they begin.
    """
    state = _begin(system, active, g, d, d_box, start)
    best = np.inf
    for _ in range(_STEPS):
        state.step()
        if state.residual <= 2.0 * _EPS or not state.residual <= _PROGRESS * best:
            break
        best = state.residual
    return state.solution()


@dataclass(slots=True)
class _Refinement:
    """Where refinement stands: v and s, the residuals r₁ and r₂ that they leave, and what H⁻¹ is applied to next.

    ``terms`` and ``size_v`` are the largest magnitudes so far among the terms of stationarity and in v: what the
    residuals are measured against.
    """

    system: System
    active: ActiveRows
    v: Vector
    s: Vector
    r1: Vector
    r2: Vector
    rhs: Vector
    terms: float
    size_v: float
    residual: float = np.inf
    row_residual: float = np.inf

    def step(self) -> None:
        """One step of the iteration, and the residuals it leaves."""
        dv = self.active.factor.solve(self.rhs)
        curvature = self.system.P_dot(dv)
        self.v += dv
        self.r1 -= curvature
        self.size_v = max(self.size_v, largest(dv))
        self.row_residual = 0.0
        if self.s.size:
            self._step_of_multipliers(dv)
        else:
            self.rhs = _free_part(self.active, self.r1)
        self.terms = max(self.terms, largest(_free_part(self.active, curvature)))
        left = largest(_free_part(self.active, self.r1))
        self.residual = max(left / (self.terms or 1.0), self.row_residual)

    def _step_of_multipliers(self, dv: Vector) -> None:
        self.r2 -= self.system.C_dot(dv)
        self.r2 *= self.active.rows
        ds = self.active.kappa * self.r2
        self.s -= ds
        # −back: what the change of the multipliers adds to stationarity.
        back = self.system.Ct_dot(ds)
        self.row_residual = largest(self.r2) / (self.size_v or 1.0)
        self.r1 += back
        self.rhs = _free_part(self.active, self.r1 + back)
        self.terms = max(self.terms, largest(_free_part(self.active, back)))

    def solution(self) -> KKTSolution:
        s_box = None
        if self.active.at_bound is not None:
            none_active = self.active.free is None
            s_box = np.zeros(self.v.size) if none_active else np.where(self.active.at_bound, self.r1, 0.0)
        return KKTSolution(self.v, self.s, s_box, self.residual, self.row_residual)


def _free_part(active: ActiveRows, vector: Vector) -> Vector:
    """The vector with zeros at pinned variables; itself where there are none."""
    return vector if active.free is None else vector * active.free


def _begin(
    system: System, active: ActiveRows, g: Vector, d: Vector | None, d_box: Vector | None, start: KKTSolution | None
) -> _Refinement:
    """The residuals of where refinement begins, and the right-hand side of its first step.

    A point of the equilibrated program is measured against its units, which are one; a right-hand side against itself.
    """
    rows, has_rows = active.rows, active.rows.size > 0
    v, s = np.zeros(g.size) if start is None else start.v.copy(), np.zeros(rows.size)
    if active.free is not None and active.at_bound is not None:
        v = v * active.free if d_box is None else np.where(active.at_bound, d_box, v)
    r1, r2 = -g, np.where(rows, d, 0.0) if has_rows and d is not None else np.zeros(rows.size)
    terms = size_v = 0.0
    if start is not None or (active.free is not None and d_box is not None):
        size_v = largest(v)
        r1 = r1 - system.P_dot(v)
        if has_rows:
            r2 = np.where(rows, r2 - system.C_dot(v), 0.0)
    if start is not None:
        terms, size_v = 1.0, max(size_v, 1.0)
        if has_rows:
            s = np.where(rows, start.s, 0.0)
            r1 -= system.Ct_dot(s)
    rhs = _free_part(active, r1)
    # What stiffnesses make of the rows' residuals is no term of the equations: it goes with the first step.
    terms = max(terms, largest(rhs))
    if has_rows and (d is not None or size_v > 0.0):
        rhs = rhs + _free_part(active, system.Ct_dot(active.kappa * r2))
        size_v = max(size_v, largest(r2))
    return _Refinement(system, active, v, s, r1, r2, rhs, terms, size_v)
