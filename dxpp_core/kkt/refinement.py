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

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg.blas import idamax
from scipy.sparse.linalg import LinearOperator, gmres, splu

from ..errors import NonConvexError
from ..matrices import Factor, System
from ..matrices.base import RIDGE
from ..matrices.compact import CompactFactor
from .penalty import STIFFNESS

__all__ = [
    "ActiveRows",
    "KKTSolution",
    "hold",
    "largest",
    "refine",
    "solve_by_kkt_factor",
    "solve_by_least_squares",
    "undetermined_directions",
]

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

_STEPS = 14
# A step of refinement that gains less than this has stalled.
_PROGRESS = 0.25
_KRYLOV = 40
_SOFTER = 1e-2
# Regularisation of the KKT matrix in the fallback, in units of the equilibrated program.
_SHIFT = 1e-13
# Search for undetermined directions: how many at most, powers of the inverse, and how little they may bend the program.
_DIRECTIONS = 48
_POWERS = 8
_FLAT = 1e-9
_EPS = float(np.finfo(np.float64).eps)
_NOTHING = np.zeros(0)


def largest(v: Vector) -> float:
    """Largest magnitude in a vector that has entries, by one BLAS call."""
    return abs(float(v[idamax(v)]))


@dataclass(slots=True)
class ActiveRows:
    """An active set of a scaled program: masks, stiffnesses and the factor of its penalty Hessian.

    ``free`` is 0 where an active bound pins a variable and 1 elsewhere; None where no bound is active.
    """

    rows: Mask
    box: Mask | None
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


def hold(system: System, rows: Mask, box: Mask | None) -> ActiveRows:
    """Factor the penalty Hessian that holds these rows and bounds."""
    pinned = box if box is not None and box.any() else None
    free = None if pinned is None else np.where(pinned, 0.0, 1.0)
    unit = np.where(rows, 1.0 / system.squared_row_norms(rows, box), 0.0) if rows.size else np.zeros(0)
    try:
        kappa = STIFFNESS * unit
        factor = system.factor(kappa, pinned)
    except NonConvexError:
        # Rounding of stiff rows has drowned a small curvature: hold them less stiffly, at the price of more steps.
        kappa = _SOFTER * STIFFNESS * unit
        factor = system.factor(kappa, pinned)
    return ActiveRows(rows, box, kappa, factor, free)


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
    if start is None and isinstance(active.factor, CompactFactor):
        return _refine_compact(active, active.factor, g, d, d_box)
    rows, box, kappa, free = active.rows, active.box, active.kappa, active.free
    has_rows = rows.size > 0
    v, s = np.zeros(g.size) if start is None else start.v.copy(), np.zeros(rows.size)
    if free is not None and box is not None:
        v = v * free if d_box is None else np.where(box, d_box, v)
    r1, r2 = -g, np.zeros(rows.size)
    if has_rows and d is not None:
        r2 = np.where(rows, d, 0.0)
    # A point of the equilibrated program is measured against its units, which are one; a right-hand side against
    # itself.
    terms = size_v = 0.0
    if start is not None or (free is not None and d_box is not None):
        size_v = largest(v)
        r1 = r1 - system.P_dot(v)
        if has_rows:
            r2 = np.where(rows, r2 - system.C_dot(v), 0.0)
    if start is not None:
        terms, size_v = 1.0, max(size_v, 1.0)
        if has_rows:
            s = np.where(rows, start.s, 0.0)
            r1 -= system.Ct_dot(s)
    rhs = r1 if free is None else r1 * free
    # What stiffnesses make of the rows' residuals is no term of the equations: it goes with the first step.
    terms = max(terms, largest(rhs))
    if has_rows and (d is not None or size_v > 0.0):
        pull = system.Ct_dot(kappa * r2)
        rhs = rhs + (pull if free is None else pull * free)
        size_v = max(size_v, largest(r2))
    best_size = size = row_size = np.inf
    for _ in range(_STEPS):
        dv = active.factor.solve(rhs)
        v += dv
        Pdv = system.P_dot(dv)
        r1 -= Pdv
        size_v = max(size_v, largest(dv))
        row_size = 0.0
        if has_rows:
            r2 -= system.C_dot(dv)
            r2 *= rows
            ds = kappa * r2
            s -= ds
            # −back: what the change of the multipliers adds to stationarity.
            back = system.Ct_dot(ds)
            row_size = largest(r2) / (size_v or 1.0)
            r1 += back
            rhs = r1 + back
            if free is not None:
                rhs *= free
                back *= free
            terms = max(terms, largest(back))
        else:
            rhs = r1 if free is None else r1 * free
        if free is not None:
            Pdv *= free
        terms = max(terms, largest(Pdv))
        size = max(largest(r1 if free is None else r1 * free) / (terms or 1.0), row_size)
        if size <= 2.0 * _EPS or not size <= _PROGRESS * best_size:
            break
        best_size = size
    s_box = None
    if box is not None:
        s_box = np.zeros(g.size) if free is None else np.where(box, r1, 0.0)
    return KKTSolution(v, s, s_box, size, row_size)


def _refine_compact(
    active: ActiveRows, factor: CompactFactor, g: Vector, d: Vector | None, d_box: Vector | None
) -> KKTSolution:
    """`refine` from zero, compiled."""
    kernel, room = _compact_kernel()
    n, m = g.size, active.rows.size
    out = np.empty(2 * n + m + room(n, m))
    size, row_size = kernel(
        factor.P,
        factor.C,
        factor.L,
        active.rows,
        factor.held,
        active.kappa,
        g,
        _NOTHING if d is None else d,
        _NOTHING if d_box is None or active.free is None else d_box,
        out,
    )
    s_box = None if active.box is None else out[n + m : 2 * n + m]
    return KKTSolution(out[:n], out[n : n + m], s_box, size, row_size)


@cache
def _compact_kernel() -> tuple[Callable[..., tuple[float, float]], Callable[[int, int], int]]:
    """Imported when first needed: Numba takes its time."""
    from ..kernels.compact import refine_compact, room_for

    return refine_compact, room_for


def undetermined_directions(system: System, active: ActiveRows, g: Vector) -> Vector:
    """Orthonormal directions [k, n] that ``g`` sees and along which x is not determined.

    They span the part of ``g`` in the common null space of P, the active rows and the active bounds.  There H is
    nothing but its ridge ε, so powers of ε H⁻¹ leave that part and remove the rest; each direction found is checked
    against P and the rows themselves, which tells it from one of small curvature.
    """
    size = float(np.sqrt(g.dot(g)))
    left, found = g, np.zeros((0, g.size))
    for _ in range(_DIRECTIONS):
        w = left
        for _ in range(_POWERS):
            w = RIDGE * active.factor.solve(w)
            if active.box is not None:
                w = np.where(active.box, 0.0, w)
        w = w - found.T @ (found @ w)
        length = float(np.sqrt(w.dot(w)))
        if not length > 1e-9 * size:
            break
        w /= length
        bend = float(np.abs(system.P_dot(w)).max())
        if active.rows.size:
            bend = max(bend, float(np.abs(np.where(active.rows, system.C_dot(w), 0.0)).max()))
        if bend > _FLAT:
            break
        found = np.concatenate([found, w[None]])
        left = left - w.dot(left) * w
    return found


def solve_by_kkt_factor(
    system: System, active: ActiveRows, g: Vector, d: Vector | None, d_box: Vector | None, begin: KKTSolution
) -> KKTSolution:
    """The same system by a sparse LU factorisation of the KKT matrix itself, for what holds refinement up.

    Nearly dependent rows and curvatures near the ridge of H converge slowly there.  Here the matrix is regularised by
    1e-13 only, and GMRES (SciPy), with its factor as preconditioner, solves for corrections of recomputed residuals.
    """
    n = g.size
    held = np.flatnonzero(active.rows)
    held_box = np.zeros(0, dtype=np.intp) if active.box is None else np.flatnonzero(active.box)
    B = sparse.vstack([system.sparse_rows()[held], sparse.identity(n, format="csr")[held_box]], format="csr")
    m = B.shape[0]
    P = system.sparse_P()
    K = sparse.bmat([[P, B.T], [B, None]], format="csc") if m else sparse.csc_matrix(P)
    shift = sparse.diags(np.concatenate([np.full(n, _SHIFT), np.full(m, -_SHIFT)]))
    try:
        factor = splu(sparse.csc_matrix(K + shift))
    except RuntimeError:
        return begin
    preconditioner = LinearOperator(K.shape, factor.solve)
    rhs_rows = np.zeros(held.size) if d is None else d[held]
    rhs_box = np.zeros(held_box.size) if d_box is None else d_box[held_box]
    target = np.concatenate([-g, rhs_rows, rhs_box])
    size_target = float(np.abs(target).max(initial=0.0))

    def left_by(u: Vector) -> tuple[Vector, float, float]:
        """Residual, its size, and the size of the terms it is the difference of."""
        curvature, pull = P @ u[:n], B.T @ u[n:]
        left = target - np.concatenate([curvature + pull, B @ u[:n]])
        terms = max(size_target, *(float(np.abs(part).max(initial=0.0)) for part in (curvature, pull)))
        return left, float(np.abs(left).max(initial=0.0)), terms

    best = np.concatenate([begin.v, begin.s[held], np.zeros(0) if begin.s_box is None else begin.s_box[held_box]])
    left, size, terms = left_by(best)
    for _ in range(_STEPS):
        step = factor.solve(left)
        new = left_by(best + step)
        if not new[1] < 0.1 * size:
            step, _ = gmres(K, left, M=preconditioner, rtol=1e-10, atol=0.0, restart=_KRYLOV, maxiter=1)
            new = left_by(best + step)
        if not new[1] < 0.5 * size:
            break
        best, (left, size, terms) = best + step, new
    s, s_box = np.zeros(active.rows.size), np.zeros(n)
    s[held], s_box[held_box] = best[n : n + held.size], best[n + held.size :]
    row_residual = float(np.abs(left[n:]).max(initial=0.0)) / (float(np.abs(best[:n]).max()) or 1.0)
    return KKTSolution(best[:n], s, None if active.box is None else s_box, size / (terms or 1.0), row_residual)


def solve_by_least_squares(
    system: System, active: ActiveRows, g: Vector, d: Vector | None, d_box: Vector | None
) -> KKTSolution:
    """The same system by an orthogonal factorisation of the KKT matrix itself: the last resort, O((n + m)³).

    For nearly dependent rows, where refinement stalls; where the system has no solution, its least-squares solution of
    smallest norm, which drops the part of g that no v can meet.
    """
    P, C = system.dense()
    n, n_held = g.size, int(active.rows.sum())
    held_box = np.zeros(0, dtype=np.intp) if active.box is None else np.flatnonzero(active.box)
    B = np.concatenate([C[active.rows], np.eye(n)[held_box]])
    rhs_rows = np.zeros(n_held) if d is None else d[active.rows]
    rhs_box = np.zeros(held_box.size) if d_box is None else d_box[held_box]
    K = np.block([[P, B.T], [B, np.zeros((B.shape[0], B.shape[0]))]])
    rhs = np.concatenate([-g, rhs_rows, rhs_box])
    U, sigma, Vt = np.linalg.svd(K)
    keep = sigma > sigma[0] * K.shape[0] * _EPS
    inverse = (Vt[keep].T / sigma[keep]) @ U[:, keep].T
    solution = inverse @ rhs
    for _ in range(3):
        solution += inverse @ (rhs - K @ solution)
    left = rhs - K @ solution
    s, s_box = np.zeros(active.rows.size), np.zeros(n)
    s[active.rows], s_box[held_box] = solution[n : n + n_held], solution[n + n_held :]
    residual = largest(left) / (largest(rhs) or 1.0)
    return KKTSolution(solution[:n], s, None if active.box is None else s_box, residual, residual)
