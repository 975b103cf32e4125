"""The yardstick: sensitivities of one QP from its reduced KKT system (eq. 5 of the paper) in the plainest code.

Dense, one problem at a time, O((n + m)³), no penalty, no scaling, no shared code with the layer.  The linear system is
refined with residuals in extended precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

__all__ = ["ReferenceGradients", "reduced_kkt_gradients"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ReferenceGradients:
    """Gradients of a loss with respect to every argument; ``residual`` tells how well the system could be solved."""

    P: Array
    q: Array
    G: Array
    h: Array
    A: Array
    b: Array
    lb: Array
    ub: Array
    residual: float


def reduced_kkt_gradients(
    P: Array,
    G: Array,
    A: Array,
    x: Array,
    y: Array,
    z: Array,
    *,
    active: Mask,
    at_lower: Mask | None = None,
    at_upper: Mask | None = None,
    x_bar: Array,
    y_bar: Array | None = None,
    z_bar: Array | None = None,
) -> ReferenceGradients:
    """Gradients of a loss with derivatives ``x_bar`` [n], ``y_bar`` [p], ``z_bar`` [m] at a solution.

    Parameters
    ----------
    P, G, A : [n, n], [m, n], [p, n]; zero rows where there are none.
    active : [m] bool
        Rows of G that are active.
    at_lower, at_upper : [n] bool, optional
        Variables at their bounds.

    Returns
    -------
    ReferenceGradients
        Where active rows are dependent, of smallest norm in the multipliers.
    """
    n, m, p = x.size, z.size, y.size
    lower = np.zeros(n, dtype=bool) if at_lower is None else at_lower
    upper = np.zeros(n, dtype=bool) if at_upper is None else at_upper
    eye = np.eye(n)
    B = np.concatenate([A, G[active], -eye[lower], eye[upper]])
    k = B.shape[0]
    rhs = np.zeros(n + k)
    rhs[:n] = x_bar
    if y_bar is not None:
        rhs[n : n + p] = y_bar
    if z_bar is not None:
        rhs[n + p : n + p + int(active.sum())] = z_bar[active]
    v, s, residual = _solve_reduced_kkt(0.5 * (P + P.T), B, rhs)
    s_G = np.zeros(m)
    end = p + int(active.sum())
    s_G[active] = s[p:end]
    s_lower, s_upper = np.zeros(n), np.zeros(n)
    s_lower[lower] = s[end : end + int(lower.sum())]
    s_upper[upper] = s[end + int(lower.sum()) :]
    z_active = np.where(active, z, 0.0)
    return ReferenceGradients(
        P=-0.5 * (np.outer(v, x) + np.outer(x, v)),
        q=-v,
        G=-(np.outer(z_active, v) + np.outer(s_G, x)),
        h=s_G,
        A=-(np.outer(y, v) + np.outer(s[:p], x)),
        b=s[:p],
        lb=-s_lower,
        ub=s_upper,
        residual=residual,
    )


def _solve_reduced_kkt(P: Array, B: Array, rhs: Array) -> tuple[Array, Array, float]:
    """v and s of [[P, Bᵀ], [B, 0]] [v; s] = rhs, s of smallest norm, and the residual relative to ``rhs``."""
    n, k = P.shape[0], B.shape[0]
    rows = _independent_rows(B)
    inside = np.concatenate([np.arange(n), n + rows])
    K = np.block([[P, B[rows].T], [B[rows], np.zeros((rows.size, rows.size))]])
    # LAPACK itself: `lu_factor` warns of a singular matrix, which is an expected answer here, dealt with below.
    factors = linalg.lapack.dgetrf(K)[:2]
    pivots = np.abs(np.diag(factors[0]))
    if pivots.min() > 1e-13 * pivots.max():
        solution = _refined(K, rhs[inside], lambda r: linalg.lu_solve(factors, r, check_finite=False))
    else:
        # Equilibrated rows keep the rank decision independent of units.
        top = np.abs(K).max(1)
        scale = 1.0 / np.sqrt(np.where(top > 0.0, top, 1.0))
        pseudo = scale[:, None] * np.linalg.pinv(scale[:, None] * K * scale, rcond=1e-12, hermitian=True) * scale
        solution = _refined(K, rhs[inside], lambda r: pseudo @ r)
    v, s = solution[:n], solution[n:]
    if rows.size < k:
        s = linalg.lstsq(B.T, B[rows].T @ s, lapack_driver="gelsy")[0]
    left = rhs - np.concatenate([P @ v + B.T @ s, B @ v])
    return v, s, float(np.abs(left).max()) / (float(np.abs(rhs).max()) or 1.0)


def _independent_rows(B: Array) -> NDArray[np.intp]:
    """Rows of B that span all of them, by QR with pivoting of the normalised rows."""
    if not B.shape[0]:
        return np.zeros(0, dtype=np.intp)
    sizes = np.linalg.norm(B, axis=1)
    triangle, order = linalg.qr((B / np.where(sizes > 0.0, sizes, 1.0)[:, None]).T, mode="r", pivoting=True)
    rank = int((np.abs(np.diag(triangle)) > 1e-10).sum())
    found: NDArray[np.intp] = np.sort(order[:rank])
    return found


def _refined(K: Array, rhs: Array, inverse: Callable[[Array], Array]) -> Array:
    """Iterative refinement with residuals in extended precision."""
    exact_K, exact_rhs = K.astype(np.longdouble), rhs.astype(np.longdouble)
    best, best_left = np.zeros(rhs.size, dtype=np.longdouble), np.inf
    solution = best
    for _ in range(8):
        left = exact_rhs - exact_K @ solution
        worst = float(np.abs(left).max(initial=0.0))
        if worst >= best_left:
            break
        best, best_left = solution, worst
        solution = solution + inverse(left.astype(np.float64))
    return best.astype(np.float64)
