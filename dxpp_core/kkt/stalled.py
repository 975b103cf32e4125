"""Where refinement stalls: what the program does not determine, and factors of the KKT matrix itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, gmres, splu

from ..matrices import System
from ..matrices.base import RIDGE
from .refinement import ActiveRows, KKTSolution, largest

__all__ = ["solve_by_kkt_factor", "solve_by_least_squares", "undetermined_directions"]

Vector = NDArray[np.float64]

# Corrections by the factor of the regularised KKT matrix; regularisation in units of the equilibrated program.
_STEPS = 14
_SHIFT = 1e-13
_KRYLOV = 40
# Search for undetermined directions: how many at most, powers of the inverse, and how little they may bend the program.
_DIRECTIONS = 48
_POWERS = 8
_FLAT = 1e-9
_EPS = float(np.finfo(np.float64).eps)


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
            if active.at_bound is not None:
                w = np.where(active.at_bound, 0.0, w)
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
    rows = np.flatnonzero(active.rows)
    bounds = np.zeros(0, dtype=np.intp) if active.at_bound is None else np.flatnonzero(active.at_bound)
    B = sparse.vstack([system.sparse_rows()[rows], sparse.identity(n, format="csr")[bounds]], format="csr")
    m = B.shape[0]
    P = system.sparse_P()
    K = sparse.bmat([[P, B.T], [B, None]], format="csc") if m else sparse.csc_matrix(P)
    shift = sparse.diags(np.concatenate([np.full(n, _SHIFT), np.full(m, -_SHIFT)]))
    try:
        factor = splu(sparse.csc_matrix(K + shift))
    except RuntimeError:
        return begin
    preconditioner = LinearOperator(K.shape, factor.solve)
    rhs_rows = np.zeros(rows.size) if d is None else d[rows]
    rhs_box = np.zeros(bounds.size) if d_box is None else d_box[bounds]
    target = np.concatenate([-g, rhs_rows, rhs_box])
    size_target = float(np.abs(target).max(initial=0.0))

    def left_by(u: Vector) -> tuple[Vector, float, float]:
        """Residual, its size, and the size of the terms it is the difference of."""
        curvature, pull = P @ u[:n], B.T @ u[n:]
        left = target - np.concatenate([curvature + pull, B @ u[:n]])
        terms = max(size_target, *(float(np.abs(part).max(initial=0.0)) for part in (curvature, pull)))
        return left, float(np.abs(left).max(initial=0.0)), terms

    best = np.concatenate([begin.v, begin.s[rows], np.zeros(0) if begin.s_box is None else begin.s_box[bounds]])
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
    s[rows], s_box[bounds] = best[n : n + rows.size], best[n + rows.size :]
    row_residual = float(np.abs(left[n:]).max(initial=0.0)) / (float(np.abs(best[:n]).max()) or 1.0)
    return KKTSolution(best[:n], s, None if active.at_bound is None else s_box, size / (terms or 1.0), row_residual)


def solve_by_least_squares(
    system: System, active: ActiveRows, g: Vector, d: Vector | None, d_box: Vector | None
) -> KKTSolution:
    """The same system by an orthogonal factorisation of the KKT matrix itself: the last resort, O((n + m)³).

    For nearly dependent rows, where refinement stalls; where the system has no solution, its least-squares solution of
    smallest norm, which drops the part of g that no v can meet.
    """
    P, C = system.dense()
    n, n_rows = g.size, int(active.rows.sum())
    bounds = np.zeros(0, dtype=np.intp) if active.at_bound is None else np.flatnonzero(active.at_bound)
    B = np.concatenate([C[active.rows], np.eye(n)[bounds]])
    rhs_rows = np.zeros(n_rows) if d is None else d[active.rows]
    rhs_box = np.zeros(bounds.size) if d_box is None else d_box[bounds]
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
    s[active.rows], s_box[bounds] = solution[n : n + n_rows], solution[n + n_rows :]
    residual = largest(left) / (largest(rhs) or 1.0)
    return KKTSolution(solution[:n], s, None if active.at_bound is None else s_box, residual, residual)
