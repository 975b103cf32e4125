"""The yardstick: sensitivities of one QP from its reduced KKT system (eq. 5 of the paper) in the plainest code.

Dense, one problem at a time, O((n + m)³), no penalty, no scaling, no shared code with the layer.  The linear system is
refined with residuals in extended precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    K = np.block([[0.5 * (P + P.T), B.T], [B, np.zeros((k, k))]])
    rhs = np.zeros(n + k)
    rhs[:n] = x_bar
    if y_bar is not None:
        rhs[n : n + p] = y_bar
    if z_bar is not None:
        rhs[n + p : n + p + int(active.sum())] = z_bar[active]
    solution, residual = _solve_accurately(K, rhs)
    v, s = solution[:n], solution[n:]
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


def _solve_accurately(K: Array, rhs: Array) -> tuple[Array, float]:
    """Solution of smallest norm, refined with residuals in extended precision; residual relative to ``rhs``."""
    size = float(np.abs(rhs).max(initial=0.0)) or 1.0
    exact_K, exact_rhs = K.astype(np.longdouble), rhs.astype(np.longdouble)
    inverse = _inverse(K)
    solution = np.zeros(rhs.size, dtype=np.longdouble)
    best, best_left = solution, np.inf
    for _ in range(8):
        left = exact_rhs - exact_K @ solution
        worst = float(np.abs(left).max(initial=0.0)) / size
        if worst >= best_left:
            break
        best, best_left = solution, worst
        solution = solution + inverse(left.astype(np.float64))
    return best.astype(np.float64), best_left


def _inverse(K: Array):  # type: ignore[no-untyped-def]
    """A function that applies the (pseudo-)inverse of a symmetric matrix."""
    from scipy.linalg import lu_factor, lu_solve

    with np.errstate(all="ignore"):
        factors = lu_factor(K, check_finite=False)
        pivots = np.abs(np.diag(factors[0]))
    if pivots.min(initial=np.inf) > 1e-13 * pivots.max(initial=0.0):
        return lambda r: lu_solve(factors, r, check_finite=False)
    # Equilibrated rows keep the rank decision independent of units.
    scale = 1.0 / np.sqrt(np.where((top := np.abs(K).max(1)) > 0.0, top, 1.0))
    pseudo = scale[:, None] * np.linalg.pinv(scale[:, None] * K * scale, rcond=1e-12, hermitian=True) * scale
    return lambda r: pseudo @ r
