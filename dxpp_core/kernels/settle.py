"""From a first active set to the exact point of a plain program: corrections, refinement and certificate, compiled.

The mathematics is that of :mod:`dxpp_core.kkt.active_set`, for the plain case alone: a few corrections of the active
set lead to the right one, every row is strictly active or inactive, and refinement converges.  `settle` says where that
does not hold, and leaves such a program to a solver or to NumPy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compilation import inner
from .hessian import factor_hessian
from .layout import Matrices, Signs, Store
from .linear_algebra import largest, times, times_transposed
from .refinement import EXACT, iterate

__all__ = ["Bars", "Vectors", "guess", "hold_what_is_equal", "settle"]

_Array = NDArray[np.float64]
_Mask = NDArray[np.bool_]

# A solution that is only to show whether its set is wrong is refined to the first; what is negative by more than the
# second is so for certain then.
_ROUGH = 1e-6
_PLAIN = 1e-4


class Vectors(NamedTuple):
    """The vectors of an equilibrated program; ``lb`` and ``ub`` are empty where there are none."""

    q: _Array
    d: _Array
    lb: _Array
    ub: _Array


class Bars(NamedTuple):
    """What decides: stiffness and ridge of the Hessian, what counts as zero, and the residuals that count as none."""

    stiffness: float
    ridge: float
    weak: float
    converged: float
    converged_rows: float


@inner
def _is_fixed(lb: _Array, ub: _Array, j: int) -> bool:
    """Whether both bounds of a variable are one."""
    fixed: bool = lb.shape[0] > 0 and ub.shape[0] > 0 and lb[j] == ub[j]
    return fixed


@inner
def guess(n_eq: int, size: float, matrices: Matrices, vectors: Vectors, signs: Signs, store: Store) -> None:
    """Active where the multiplier outweighs the slack; a variable whose bounds are equal is at its lower one."""
    d, lb, ub = vectors.d, vectors.lb, vectors.ub
    times(matrices.C, store.x, store.slack)
    for i in range(d.shape[0]):
        store.slack[i] = d[i] - store.slack[i]
        signs.rows[i] = i < n_eq or store.y[i] > size * store.slack[i]
    for j in range(store.x.shape[0]):
        fixed = _is_fixed(lb, ub, j)
        signs.lower[j] = fixed or (lb.shape[0] > 0 and -store.z_box[j] > size * (store.x[j] - lb[j]))
        signs.upper[j] = not fixed and ub.shape[0] > 0 and store.z_box[j] > size * (ub[j] - store.x[j])


@inner
def hold_what_is_equal(n_eq: int, lb: _Array, ub: _Array, signs: Signs) -> None:
    """The least active set: the equalities, and the variables whose bounds are equal."""
    for i in range(signs.rows.shape[0]):
        signs.rows[i] = i < n_eq
    for j in range(signs.lower.shape[0]):
        signs.lower[j] = _is_fixed(lb, ub, j)
        signs.upper[j] = False


@inner
def _least(n_eq: int, vectors: Vectors, size_y: float, size_x: float, signs: Signs, store: Store) -> float:
    """The least slack or multiplier that should not be negative, in units of what counts as zero."""
    lb, ub, x, z_box = vectors.lb, vectors.ub, store.x, store.z_box
    least = np.inf
    for i in range(n_eq, signs.rows.shape[0]):
        value = store.y[i] / size_y if signs.rows[i] else store.slack[i] / size_x
        if not value >= least:
            least = value
    for j in range(x.shape[0]):
        if _is_fixed(lb, ub, j):
            continue
        value = np.inf
        if signs.upper[j]:
            value = z_box[j] / size_y
        elif signs.lower[j]:
            value = -z_box[j] / size_y
        else:
            if lb.shape[0] > 0:
                value = (x[j] - lb[j]) / size_x
            if ub.shape[0] > 0:
                value = min(value, (ub[j] - x[j]) / size_x)
        if not value >= least:
            least = value
    return least


@inner
def _correct(n_eq: int, vectors: Vectors, size_y: float, size_x: float, signs: Signs, store: Store) -> None:
    """What pushes the wrong way leaves the active set, what is violated enters it."""
    lb, ub, x, z_box = vectors.lb, vectors.ub, store.x, store.z_box
    for i in range(n_eq, signs.rows.shape[0]):
        signs.rows[i] = not store.y[i] < -size_y if signs.rows[i] else store.slack[i] < -size_x
    for j in range(x.shape[0]):
        if _is_fixed(lb, ub, j):
            continue
        if signs.upper[j]:
            signs.upper[j] = not z_box[j] < -size_y
        elif signs.lower[j]:
            signs.lower[j] = not z_box[j] > size_y
        else:
            signs.lower[j] = lb.shape[0] > 0 and x[j] - lb[j] < -size_x
            signs.upper[j] = ub.shape[0] > 0 and ub[j] - x[j] < -size_x


@inner
def _put_on_bounds(vectors: Vectors, signs: Signs, store: Store) -> bool:
    """Place what bounds hold on them; False if the point is not finite."""
    for j in range(store.x.shape[0]):
        signs.pinned[j] = signs.lower[j] or signs.upper[j]
        if signs.upper[j]:
            store.x[j] = vectors.ub[j]
        elif signs.lower[j]:
            store.x[j] = vectors.lb[j]
        if not np.isfinite(store.x[j]):
            return False
    for i in range(signs.rows.shape[0]):
        if not signs.rows[i]:
            store.y[i] = 0.0
    return True


@inner
def _solve_on_set(
    matrices: Matrices, vectors: Vectors, signs: Signs, store: Store, enough: float, room: _Array
) -> tuple[float, float]:
    """Refine the point on its active set, from the point itself; the residuals left, of all and of the rows.

    A point that was far off has left its rounding in what was carried along: so each time anew.
    """
    n, m = store.x.shape[0], store.y.shape[0]
    P, C, x, y, z_box = matrices.P, matrices.C, store.x, store.y, store.z_box
    product, pull = room[:n], room[3 * n : 4 * n]
    change, r2 = room[4 * n : 4 * n + m], room[4 * n + 2 * m : 4 * n + 3 * m]
    times(P, x, product)
    times_transposed(C, y, pull)
    for j in range(n):
        z_box[j] = -vectors.q[j] - product[j] - pull[j]
    times(C, x, change)
    for i in range(m):
        r2[i] = vectors.d[i] - change[i] if signs.rows[i] else 0.0
    size_x = max(1.0, largest(x))
    sizes = iterate(
        P, C, store.factor, signs.rows, signs.pinned, store.kappa, True, 1.0, size_x, enough, x, y, z_box, r2, room
    )
    times(C, x, store.slack)
    for i in range(m):
        store.slack[i] = vectors.d[i] - store.slack[i]
    return sizes


@inner
def _certify(
    n_eq: int, dual_size: float, matrices: Matrices, vectors: Vectors, signs: Signs, store: Store, room: _Array
) -> tuple[float, float, float]:
    """The certificate of a point, from products with the matrices themselves."""
    q, d, lb, ub = vectors.q, vectors.d, vectors.lb, vectors.ub
    x, y, z_box, slack, lower, upper = store.x, store.y, store.z_box, store.slack, signs.lower, signs.upper
    n, m = x.shape[0], y.shape[0]
    bounded = lb.shape[0] > 0 or ub.shape[0] > 0
    product, pull = room[:n], room[n : 2 * n]
    times(matrices.P, x, product)
    times_transposed(matrices.C, y, pull)
    scale = max(dual_size, largest(product), largest(pull))
    primal = 0.0
    dual = 0.0
    sign = 0.0
    curvature = 0.0
    linear = 0.0
    support = 0.0
    for i in range(m):
        primal = max(primal, abs(slack[i]) if i < n_eq else -slack[i])
        if i >= n_eq:
            sign = max(sign, -y[i])
        if y[i] != 0.0:
            support += y[i] * d[i]
    for j in range(n):
        left = product[j] + q[j] + pull[j]
        curvature += x[j] * product[j]
        linear += x[j] * q[j]
        if bounded:
            left += z_box[j]
            scale = max(scale, abs(z_box[j]))
            if upper[j]:
                support += max(z_box[j], 0.0) * ub[j]
                sign = max(sign, -z_box[j]) if lb.shape[0] == 0 or lb[j] != ub[j] else sign
            elif lower[j] and lb[j] == (ub[j] if ub.shape[0] > 0 else np.inf):
                support += z_box[j] * lb[j]
            elif lower[j]:
                support -= max(-z_box[j], 0.0) * lb[j]
                sign = max(sign, z_box[j])
            if lb.shape[0] > 0:
                primal = max(primal, lb[j] - x[j])
            if ub.shape[0] > 0:
                primal = max(primal, x[j] - ub[j])
        dual = max(dual, abs(left))
    gap = abs(curvature + linear + support) / max(abs(linear) + abs(curvature) + abs(support), dual_size)
    return primal / max(1.0, largest(x)), max(dual, sign) / scale, gap


@inner
def settle(
    n_eq: int,
    dual_size: float,
    bars: Bars,
    corrections: int,
    certain: bool,
    matrices: Matrices,
    vectors: Vectors,
    signs: Signs,
    store: Store,
    room: _Array,
) -> tuple[bool, float, float, float, float, int]:
    """Solve exactly on the active set in ``signs``, correct it where the solution contradicts, and certify the result.

    At most ``corrections`` times, all that is violated enters the set and all that pushes the wrong way leaves it: the
    primal-dual active set method (Hintermüller, Ito and Kunisch 2002, SIAM J. Optim. 13(3), 865–888).  ``certain``:
    whether the first set is likely right.  ``store`` holds where to start, and receives the point.  Returns whether the
    point is optimal with every row strictly active or inactive, the certificate (primal, dual, gap), the largest
    magnitude in x, and how many sets were tried.
    """
    P, C, n = matrices.P, matrices.C, store.x.shape[0]
    failed = (False, np.inf, np.inf, np.inf, 0.0, 0)
    tried = 0
    while True:
        tried += 1
        if not _put_on_bounds(vectors, signs, store):
            return failed
        if not factor_hessian(P, C, signs.rows, signs.pinned, bars.stiffness, bars.ridge, store.kappa, store.factor):
            return failed
        # That a mere guess is wrong shows in a rough solution; what is not plainly wrong is solved exactly.
        zero = bars.weak if certain else _PLAIN
        while True:
            enough = _ROUGH if zero > bars.weak else EXACT
            size, row_size = _solve_on_set(matrices, vectors, signs, store, enough, room)
            size_x = max(1.0, largest(store.x))
            least = _least(n_eq, vectors, zero * dual_size, zero * size_x, signs, store)
            if zero == bars.weak or least < -1.0:
                break
            zero = bars.weak
        if zero == bars.weak:
            if not (size <= bars.converged and row_size <= bars.converged_rows):
                return failed
            if least > 1.0:
                break
        if not least < -1.0 or tried > corrections:
            return failed
        _correct(n_eq, vectors, zero * dual_size, zero * size_x, signs, store)
        certain = False
    for j in range(n):
        if not signs.pinned[j]:
            store.z_box[j] = 0.0
    primal, dual, gap = _certify(n_eq, dual_size, matrices, vectors, signs, store, room)
    return True, primal, dual, gap, largest(store.x), tried
