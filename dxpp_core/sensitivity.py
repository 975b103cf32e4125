"""The reduced KKT system solved to machine precision with one factor of the penalty Hessian.

The system is K [v; s] = [−g; d] on the active rows B, K = [[P, Bᵀ], [B, 0]].  With stiffness κ and the factor of
H = P + BᵀκB the augmented-Lagrangian iteration

    v ← v + H⁻¹(r₁ + Bᵀκ r₂),   s ← s + κ(B dv − r₂),   r₁ = −g − Pv − Bᵀs,   r₂ = d − Bv

gains a factor of about κ a step, whether or not the rows of B are independent.  The same iteration polishes the solver's
point (g = q, d = right-hand sides, started there), solves for adjoints, and for tangents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scipy import sparse
from scipy.sparse.linalg import LinearOperator, gmres, splu

from .factorization import Factor, System
from .factorization.base import RIDGE
from .penalty import STIFFNESS

__all__ = [
    "ActiveRows",
    "KKTSolution",
    "hold",
    "refine",
    "solve_by_kkt_factor",
    "solve_by_least_squares",
    "undetermined_directions",
]

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

_STEPS = 14
_KRYLOV = 40
# Regularisation of the KKT matrix in the fallback, in units of the equilibrated program.
_SHIFT = 1e-13
# Search for undetermined directions: how many at most, powers of the inverse, and how little they may bend the program.
_DIRECTIONS = 48
_POWERS = 8
_FLAT = 1e-9
_EPS = float(np.finfo(np.float64).eps)


@dataclass(slots=True)
class ActiveRows:
    """An active set of a scaled program: masks, stiffnesses and the factor of its penalty Hessian."""

    rows: Mask
    box: Mask | None
    kappa: Vector
    kappa_box: Vector | None
    factor: Factor


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
    kappa = rows * (STIFFNESS / system.row_norms() ** 2)
    kappa_box = None if box is None else box * STIFFNESS
    return ActiveRows(rows, box, kappa, kappa_box, system.factor(kappa, kappa_box))


def refine(
    system: System,
    active: ActiveRows,
    g: Vector,
    d: Vector,
    d_box: Vector | None,
    start: KKTSolution | None = None,
) -> KKTSolution:
    """Solve P v + Cᵀs + s_box = −g, C v = d on the active rows, v = d_box on the active bounds.

    Parameters
    ----------
    g : (n,); d : (m,); d_box : (n,) or None
        Entries of ``d`` and ``d_box`` on inactive rows and bounds are ignored.
    start : KKTSolution, optional
        Where to begin; components that the system does not determine stay where they begin.
    """
    rows, box, kappa, kappa_box = active.rows, active.box, active.kappa, active.kappa_box
    n_rows = rows.size
    # A point of the equilibrated program is measured against its units, which are one; a right-hand side against itself.
    floor = 0.0 if start is None else 1.0
    size_g = max(float(np.abs(g).max()), floor)
    size_d = floor
    if n_rows:
        d = np.where(rows, d, 0.0)
        size_d = max(size_d, float(np.abs(d).max()))
    if box is not None and d_box is not None:
        d_box = np.where(box, d_box, 0.0)
        size_d = max(size_d, float(np.abs(d_box).max()))
    if start is None:
        v, s, s_box = np.zeros(g.size), np.zeros(n_rows), None if box is None else np.zeros(g.size)
        r1, r2, r_box = -g, d, d_box
        size_v = 0.0
    else:
        v, s, s_box = (
            start.v,
            np.where(rows, start.s, 0.0),
            None if box is None else np.where(box, start.s_box, 0.0),
        )
        if box is not None:
            v = np.where(box, d_box, v)
        r1 = -(system.P_dot(v) + g)
        if n_rows:
            r1 -= system.Ct_dot(s)
            r2 = np.where(rows, d - system.C_dot(v), 0.0)
        else:
            r2 = d
        if box is not None:
            r1 -= s_box
            r_box = np.zeros(g.size)
        else:
            r_box = None
        size_v = float(np.abs(v).max())
    norms = system.row_norms() if n_rows else None
    best, best_size = KKTSolution(v, s, s_box), np.inf
    for _ in range(_STEPS):
        rhs = r1
        if n_rows:
            rhs = rhs + system.Ct_dot(kappa * r2)
        if r_box is not None:
            rhs = rhs + kappa_box * r_box
        dv = active.factor.solve(rhs)
        v = v + dv
        if n_rows:
            s = s + kappa * (system.C_dot(dv) - r2)
        if r_box is not None:
            s_box = s_box + kappa_box * (dv - r_box)
            v = np.where(box, d_box, v)
            r_box = np.zeros(g.size)
        Pv = system.P_dot(v)
        r1 = -(Pv + g)
        size_v = max(float(np.abs(v).max()), size_d)
        scale_1 = max(float(np.abs(Pv).max()), size_g)
        size = row_size = 0.0
        if n_rows:
            r2 = np.where(rows, d - system.C_dot(v), 0.0)
            worst = np.abs(r2)
            # Below rounding, r2 is noise; multiplied by κ it would spoil s.
            if (worst <= 8.0 * _EPS * norms * np.sqrt(v.dot(v)) + 4.0 * _EPS * size_d).all():
                r2 = np.zeros(n_rows)
            elif size_v > 0.0:
                size = float(worst.max()) / size_v
            row_size = size
            pull = system.Ct_dot(s)
            r1 -= pull
            scale_1 = max(scale_1, float(np.abs(pull).max()))
        if s_box is not None:
            r1 -= s_box
        if scale_1 > 0.0:
            size = max(size, float(np.abs(r1).max()) / scale_1)
        if size < best_size:
            stalled = size > 0.25 * best_size
            best, best_size = KKTSolution(v, s, s_box, size, row_size), size
        else:
            stalled = True
        if stalled or size <= 2.0 * _EPS:
            break
    return best


def undetermined_directions(system: System, active: ActiveRows, g: Vector) -> Vector:
    """Orthonormal directions [k, n] that ``g`` sees and along which x is not determined.

    They span the part of ``g`` in the common null space of P, the active rows and the active bounds.  There H is nothing
    but its ridge ε, so powers of ε H⁻¹ leave that part and remove the rest; each direction found is checked against P and
    the rows themselves, which tells it from one of small curvature.
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
    system: System, active: ActiveRows, g: Vector, d: Vector, d_box: Vector | None, begin: KKTSolution
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
    target = np.concatenate([-g, d[held], np.zeros(0) if d_box is None else d_box[held_box]])
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
    system: System, active: ActiveRows, g: Vector, d: Vector, d_box: Vector | None
) -> KKTSolution:
    """The same system by an orthogonal factorisation of the KKT matrix itself: the last resort, O((n + m)³).

    For nearly dependent rows, where refinement stalls; where the system has no solution, its least-squares solution of
    smallest norm, which drops the part of g that no v can meet.
    """
    P, C = system.dense()
    n = g.size
    held = [C[active.rows]]
    rhs_rows = [d[active.rows]]
    if active.box is not None and d_box is not None:
        held.append(np.eye(n)[active.box])
        rhs_rows.append(d_box[active.box])
    B = np.concatenate(held)
    K = np.block([[P, B.T], [B, np.zeros((B.shape[0], B.shape[0]))]])
    rhs = np.concatenate([-g, *rhs_rows])
    U, sigma, Vt = np.linalg.svd(K)
    keep = sigma > sigma[0] * K.shape[0] * _EPS
    inverse = (Vt[keep].T / sigma[keep]) @ U[:, keep].T
    solution = inverse @ rhs
    for _ in range(3):
        solution += inverse @ (rhs - K @ solution)
    left = np.abs(rhs - K @ solution).max() if rhs.size else 0.0
    s = np.zeros(active.rows.size)
    k = n + int(active.rows.sum())
    s[active.rows] = solution[n:k]
    s_box = None
    if active.box is not None:
        s_box = np.zeros(n)
        s_box[active.box] = solution[k:]
    scale = max(float(np.abs(rhs).max(initial=0.0)), 1e-300)
    return KKTSolution(solution[:n], s, s_box, float(left) / scale)
