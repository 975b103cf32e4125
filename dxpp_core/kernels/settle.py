"""From a solver's point, or from nothing, to the active set of a compact program and the exact point on it, compiled.

The mathematics is that of :mod:`dxpp_core.kkt.active_set`, for the plain case alone: a few corrections of the active
set lead to the right one, every row is strictly active or inactive, and refinement converges.  `settle` says where that
does not hold, and leaves such a program to NumPy or to a solver.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compilation import compiled, inner
from .compact import EXACT, factor_size, iterate, unpack
from .hessian import factor_hessian
from .linear_algebra import largest, times, times_transposed

__all__ = ["settle"]

_Array = NDArray[np.float64]
_Mask = NDArray[np.bool_]

# A solution that is only to show whether its set is wrong is refined to the first; what is negative by more than the
# second is so for certain then.
_ROUGH = 1e-6
_PLAIN = 1e-4


@inner
def _guess(
    n_eq: int,
    C: _Array,
    d: _Array,
    lb: _Array,
    ub: _Array,
    size: float,
    x: _Array,
    y: _Array,
    z_box: _Array,
    rows: _Mask,
    lower: _Mask,
    upper: _Mask,
    slack: _Array,
) -> None:
    """Active where the multiplier outweighs the slack; a variable whose bounds are equal is at its lower one."""
    times(C, x, slack)
    for i in range(d.shape[0]):
        slack[i] = d[i] - slack[i]
        rows[i] = i < n_eq or y[i] > size * slack[i]
    for j in range(x.shape[0]):
        lower[j] = False
        upper[j] = False
        if lb.shape[0] > 0 and ub.shape[0] > 0 and lb[j] == ub[j]:
            lower[j] = True
            continue
        if lb.shape[0] > 0:
            lower[j] = -z_box[j] > size * (x[j] - lb[j])
        if ub.shape[0] > 0:
            upper[j] = z_box[j] > size * (ub[j] - x[j])


@inner
def _least(
    n_eq: int,
    lb: _Array,
    ub: _Array,
    size_y: float,
    size_x: float,
    x: _Array,
    y: _Array,
    z_box: _Array,
    rows: _Mask,
    lower: _Mask,
    upper: _Mask,
    slack: _Array,
) -> float:
    """The least slack or multiplier that should not be negative, in units of what counts as zero."""
    least = np.inf
    for i in range(n_eq, rows.shape[0]):
        value = y[i] / size_y if rows[i] else slack[i] / size_x
        if not value >= least:
            least = value
    for j in range(x.shape[0]):
        if lb.shape[0] > 0 and ub.shape[0] > 0 and lb[j] == ub[j]:
            continue
        value = np.inf
        if upper[j]:
            value = z_box[j] / size_y
        elif lower[j]:
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
def _hold_what_is_equal(n_eq: int, lb: _Array, ub: _Array, rows: _Mask, lower: _Mask, upper: _Mask) -> None:
    """The least active set: the equalities, and the variables whose bounds are equal."""
    for i in range(rows.shape[0]):
        rows[i] = i < n_eq
    for j in range(lower.shape[0]):
        lower[j] = lb.shape[0] > 0 and ub.shape[0] > 0 and lb[j] == ub[j]
        upper[j] = False


@inner
def _correct(
    n_eq: int,
    lb: _Array,
    ub: _Array,
    size_y: float,
    size_x: float,
    x: _Array,
    y: _Array,
    z_box: _Array,
    rows: _Mask,
    lower: _Mask,
    upper: _Mask,
    slack: _Array,
) -> None:
    """What pushes the wrong way leaves the active set, what is violated enters it."""
    for i in range(n_eq, rows.shape[0]):
        rows[i] = not y[i] < -size_y if rows[i] else slack[i] < -size_x
    for j in range(x.shape[0]):
        if lb.shape[0] > 0 and ub.shape[0] > 0 and lb[j] == ub[j]:
            continue
        if upper[j]:
            upper[j] = not z_box[j] < -size_y
        elif lower[j]:
            lower[j] = not z_box[j] > size_y
        else:
            lower[j] = lb.shape[0] > 0 and x[j] - lb[j] < -size_x
            upper[j] = ub.shape[0] > 0 and ub[j] - x[j] < -size_x


@inner
def _to_units(
    D: _Array,
    E: _Array,
    alpha: float,
    c: float,
    lb: _Array,
    ub: _Array,
    x: _Array,
    y: _Array,
    z_box: _Array,
    lower: _Mask,
    upper: _Mask,
    result: _Array,
) -> None:
    """The point in the user's units; an active bound is met exactly, not up to the rounding of the scaling."""
    n, m = D.shape[0], E.shape[0]
    back = alpha / c
    for j in range(n):
        result[j] = alpha * D[j] * x[j]
        if lower[j] and lb.shape[0] > 0:
            result[j] = lb[j]
        elif upper[j] and ub.shape[0] > 0:
            result[j] = ub[j]
        result[n + m + j] = back * z_box[j] / D[j]
    for i in range(m):
        result[n + i] = back * E[i] * y[i]


@inner
def _certify(
    P: _Array,
    C: _Array,
    q: _Array,
    d: _Array,
    lb: _Array,
    ub: _Array,
    n_eq: int,
    dual_size: float,
    x: _Array,
    y: _Array,
    z_box: _Array,
    lower: _Mask,
    upper: _Mask,
    slack: _Array,
    product: _Array,
    pull: _Array,
) -> tuple[float, float, float]:
    """The certificate of a point, from products with the matrices themselves; the last two arrays are scratch."""
    n, m = x.shape[0], y.shape[0]
    bounded = lb.shape[0] > 0 or ub.shape[0] > 0
    times(P, x, product)
    times_transposed(C, y, pull)
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


@compiled
def settle(
    P: _Array,
    others: _Array,
    n_eq: int,
    scaled: _Array,
    has_lb: bool,
    has_ub: bool,
    own_lb: _Array,
    own_ub: _Array,
    alpha: float,
    c: float,
    dual_size: float,
    stiffness: float,
    ridge: float,
    weak: float,
    converged: float,
    converged_rows: float,
    corrections: int,
    x_start: _Array,
    y_start: _Array,
    h_start: _Array,
    z_start: _Array,
    masks: _Mask,
    state: _Array,
) -> tuple[bool, float, float, float, float, int]:
    """Guess the active set, solve on it exactly, correct it where the solution contradicts, and certify the result.

    ``P`` (or its diagonal) and ``others``: C, D and E of the equilibrated program, one after the other; ``scaled``: q,
    d, and those of lb and ub that there are.  The point to guess from: x, multipliers of equalities, inequalities and
    (or empty) bounds; without one (an empty x) the active set starts with what holds anyway.  At most ``corrections``
    times, all that is violated enters the set and all that pushes the wrong way leaves it: the primal-dual active set
    method (Hintermüller, Ito and Kunisch 2002, SIAM J. Optim. 13(3), 865–888).

    ``masks`` [m + 3n] receives the active rows, lower and upper bounds, and both bounds together; ``state``
    [`state_size`] x, y, z_box, slack and stiffnesses, then x, y and z_box once more in the user's units, in which
    ``own_lb`` and ``own_ub`` are the bounds (empty: unscaled like the rest), and the factor.  Returns whether the point
    is optimal with every row strictly active or inactive, the certificate (primal, dual, gap), the largest magnitude in
    x, and how many sets were tried.
    """
    n = P.shape[0]
    m = masks.shape[0] - 3 * n
    C, D, E = unpack(others, n, m)
    bounded = has_lb or has_ub
    q, d, box = scaled[:n], scaled[n : n + m], scaled[n + m :]
    lb, ub = box[: n if has_lb else 0], box[n if has_lb else 0 :]
    rows, lower, upper, held = masks[:m], masks[m : m + n], masks[m + n : m + 2 * n], masks[m + 2 * n :]
    x, y, z_box = state[:n], state[n : n + m], state[n + m : 2 * n + m]
    slack, kappa = state[2 * n + m : 2 * n + 2 * m], state[2 * n + 2 * m : 2 * n + 3 * m]
    to_factor = 4 * n + 4 * m
    after = to_factor + factor_size(P, m)
    result, L, room = state[2 * n + 3 * m : to_factor], state[to_factor:after], state[after:]
    r2 = room[4 * n + 2 * m : 4 * n + 3 * m]
    product, change = room[:n], room[4 * n : 4 * n + m]
    failed = (False, np.inf, np.inf, np.inf, 0.0, 0)
    guessed = x_start.shape[0] == 0
    if guessed:
        _hold_what_is_equal(n_eq, lb, ub, rows, lower, upper)
        state[: 2 * n + m] = 0.0
    else:
        x[:] = x_start
        for i in range(m):
            y[i] = y_start[i] if i < n_eq else h_start[i - n_eq]
        for j in range(n):
            z_box[j] = z_start[j] if bounded else 0.0
        _guess(n_eq, C, d, lb, ub, dual_size, x, y, z_box, rows, lower, upper, slack)
    tried = 0
    while True:
        tried += 1
        for j in range(n):
            held[j] = lower[j] or upper[j]
            if upper[j]:
                x[j] = ub[j]
            elif lower[j]:
                x[j] = lb[j]
            if not np.isfinite(x[j]):
                return failed
        if not factor_hessian(P, C, rows, held, stiffness, ridge, kappa, L):
            return failed
        for i in range(m):
            if not rows[i]:
                y[i] = 0.0
        # That a mere guess is wrong shows in a rough solution; what is not plainly wrong is solved exactly.
        zero = _PLAIN if guessed else weak
        while True:
            # From the point itself each time: one that was far off has left its rounding in what was carried along.
            times(P, x, product)
            times_transposed(C, y, room[3 * n : 4 * n])
            for j in range(n):
                z_box[j] = -q[j] - product[j] - room[3 * n + j]
            times(C, x, change)
            for i in range(m):
                r2[i] = d[i] - change[i] if rows[i] else 0.0
            size_x = max(1.0, largest(x))
            enough = _ROUGH if zero > weak else EXACT
            size, row_size = iterate(P, C, L, rows, held, kappa, True, 1.0, size_x, enough, x, y, z_box, r2, room)
            times(C, x, slack)
            for i in range(m):
                slack[i] = d[i] - slack[i]
            size_x = max(1.0, largest(x))
            least = _least(n_eq, lb, ub, zero * dual_size, zero * size_x, x, y, z_box, rows, lower, upper, slack)
            if zero == weak or least < -1.0:
                break
            zero = weak
        if zero == weak:
            if not (size <= converged and row_size <= converged_rows):
                return failed
            if least > 1.0:
                break
        if not least < -1.0 or tried > corrections:
            return failed
        _correct(n_eq, lb, ub, zero * dual_size, zero * size_x, x, y, z_box, rows, lower, upper, slack)
        guessed = True
    for j in range(n):
        if not held[j]:
            z_box[j] = 0.0
    primal, dual, gap = _certify(
        P, C, q, d, lb, ub, n_eq, dual_size, x, y, z_box, lower, upper, slack, product, room[3 * n : 4 * n]
    )
    _to_units(D, E, alpha, c, own_lb, own_ub, x, y, z_box, lower, upper, result)
    return True, primal, dual, gap, largest(x), tried
