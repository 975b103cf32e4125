"""Polish, certificate and refinement of a compact program, compiled: NumPy's calls cost more than such numbers.

Compact is what is small and dense (P an array of two dimensions), or has a diagonal P (one dimension) and a few full
rows.  The mathematics is that of :mod:`dxpp_core.active_set` and :mod:`dxpp_core.sensitivity`, for the plain case
alone: the first guess of the active set is right, strictly so, and refinement converges.  `settle` says where that does
not hold, and leaves such a program to them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compilation import compiled, inner
from .hessian import factor_hessian, solve_hessian
from .linear_algebra import largest, times, times_transposed

__all__ = ["differentiate_compact", "refine_compact", "room_for", "settle", "solve_compact", "state_size"]

_Array = NDArray[np.float64]
_Mask = NDArray[np.bool_]

_STEPS = 14
_PROGRESS = 0.25
_EPS = float(np.finfo(np.float64).eps)


def room_for(n: int, m: int) -> int:
    """Numbers of the scratch that the kernels work in."""
    return 4 * n + 4 * m


def state_size(P: _Array, m: int) -> int:
    """Numbers of what `settle` leaves behind, its scratch included."""
    n: int = P.shape[0]
    return 6 * n + 5 * m + (P.size if P.ndim == 2 else n + m * m) + room_for(n, m)


@inner
def _unpack(others: _Array, n: int, m: int) -> tuple[_Array, _Array, _Array]:
    """C, D and E, which lie one after the other."""
    to_D = m * n
    return others[:to_D].reshape(m, n), others[to_D : to_D + n], others[to_D + n :]


@inner
def _factor_size(P: _Array, m: int) -> int:
    n: int = P.shape[0]
    if P.ndim == 1:
        return n + m * m
    return n * n


@inner
def _iterate(
    P: _Array,
    C: _Array,
    L: _Array,
    rows: _Mask,
    held: _Mask,
    kappa: _Array,
    given: bool,
    terms: float,
    size_v: float,
    v: _Array,
    s: _Array,
    r1: _Array,
    r2: _Array,
    room: _Array,
) -> tuple[float, float]:
    """Refine v and s from the residuals r1, r2 of where they stand; the residuals left, of all and of the rows.

    ``given``: whether r2 may be nonzero at the start.  Afterwards r1 is −(P v + g + Cᵀs), which on the held variables
    is their bounds' multiplier.
    """
    n, m = P.shape[0], C.shape[0]
    rhs, dv, product, back = room[:n], room[n : 2 * n], room[2 * n : 3 * n], room[3 * n : 4 * n]
    ds, change = room[4 * n : 4 * n + m], room[4 * n + m : 4 * n + 2 * m]
    small = room[4 * n + 3 * m : 4 * n + 4 * m]
    rhs[:] = r1
    if given and m > 0:
        for i in range(m):
            ds[i] = kappa[i] * r2[i]
        times_transposed(C, ds, back)
        for j in range(n):
            rhs[j] += back[j]
        size_v = max(size_v, largest(r2))
    for j in range(n):
        if held[j]:
            rhs[j] = 0.0
    terms = max(terms, largest(rhs))
    best = np.inf
    size = np.inf
    row_size = 0.0
    for _ in range(_STEPS):
        solve_hessian(P, C, kappa, L, rhs, dv, small)
        times(P, dv, product)
        for j in range(n):
            v[j] += dv[j]
            r1[j] -= product[j]
        size_v = max(size_v, largest(dv))
        row_size = 0.0
        if m > 0:
            times(C, dv, change)
            for i in range(m):
                r2[i] = r2[i] - change[i] if rows[i] else 0.0
                ds[i] = kappa[i] * r2[i]
                s[i] -= ds[i]
            times_transposed(C, ds, back)
            row_size = largest(r2) / (size_v if size_v > 0.0 else 1.0)
        left = 0.0
        for j in range(n):
            if m > 0:
                r1[j] += back[j]
            rhs[j] = r1[j] + back[j] if m > 0 else r1[j]
            if held[j]:
                rhs[j] = 0.0
                continue
            terms = max(terms, abs(product[j]))
            if m > 0:
                terms = max(terms, abs(back[j]))
            if not abs(r1[j]) <= left:
                left = abs(r1[j])
        size = max(left / (terms if terms > 0.0 else 1.0), row_size)
        if size <= 2.0 * _EPS or not size <= _PROGRESS * best:
            break
        best = size
    return size, row_size


@inner
def _refine(
    P: _Array,
    C: _Array,
    L: _Array,
    rows: _Mask,
    held: _Mask,
    kappa: _Array,
    g: _Array,
    d: _Array,
    d_box: _Array,
    out: _Array,
) -> tuple[float, float]:
    """`refine_compact`, for other kernels."""
    n, m = P.shape[0], C.shape[0]
    v, s, r1 = out[:n], out[n : n + m], out[n + m : 2 * n + m]
    room = out[2 * n + m :]
    r2 = room[4 * n + 2 * m : 4 * n + 3 * m]
    for j in range(n):
        v[j] = d_box[j] if held[j] and d_box.shape[0] > 0 else 0.0
        r1[j] = -g[j]
    for i in range(m):
        s[i] = 0.0
        r2[i] = d[i] if rows[i] and d.shape[0] > 0 else 0.0
    size_v = 0.0
    if d_box.shape[0] > 0:
        size_v = largest(v)
        product, change = room[:n], room[4 * n : 4 * n + m]
        times(P, v, product)
        times(C, v, change)
        for j in range(n):
            r1[j] -= product[j]
        for i in range(m):
            if rows[i]:
                r2[i] -= change[i]
    given = d.shape[0] > 0 or size_v > 0.0
    size, row_size = _iterate(P, C, L, rows, held, kappa, given, 0.0, size_v, v, s, r1, r2, room)
    for j in range(n):
        if not held[j]:
            r1[j] = 0.0
    return size, row_size


@compiled
def refine_compact(
    P: _Array,
    C: _Array,
    L: _Array,
    rows: _Mask,
    held: _Mask,
    kappa: _Array,
    g: _Array,
    d: _Array,
    d_box: _Array,
    out: _Array,
) -> tuple[float, float]:
    """Solve P v + Cᵀs + s_box = −g, C v = d on the rows, v = d_box on the held variables.

    ``d`` and ``d_box`` may be empty, for zero.  ``out`` [2n + m + scratch] receives v, s and s_box; returns the
    residuals of all and of the rows, relative to the terms they are made of.
    """
    return _refine(P, C, L, rows, held, kappa, g, d, d_box, out)


@compiled
def solve_compact(P: _Array, C: _Array, kappa: _Array, L: _Array, rhs: _Array) -> _Array:
    """H⁻¹ rhs, where ``rhs`` is zero at the variables that bounds hold."""
    out = np.empty(rhs.shape[0])
    solve_hessian(P, C, kappa, L, rhs, out, np.empty(C.shape[0]))
    return out


@compiled
def differentiate_compact(
    P: _Array,
    others: _Array,
    n_eq: int,
    c: float,
    masks: _Mask,
    state: _Array,
    x_bar: _Array,
    y_bar: _Array,
    z_bar: _Array,
    z_box_bar: _Array,
    out: _Array,
) -> float:
    """The adjoint system for cotangents of x, y, z and z_box in the user's units; each may be empty, for zero.

    ``P``, ``others``, ``masks`` and ``state`` as `settle` took and left them; ``out`` [2n + m + scratch + 2n + m]
    receives v, s and s_box in the user's units.  Returns the residual.
    """
    n = P.shape[0]
    m = masks.shape[0] - 3 * n
    C, D, E = _unpack(others, n, m)
    rows, held = masks[:m], masks[m + 2 * n :]
    kappa = state[2 * n + 2 * m : 2 * n + 3 * m]
    L = state[4 * n + 4 * m : 4 * n + 4 * m + _factor_size(P, m)]
    right = out[out.shape[0] - 2 * n - m :]
    g, d, d_box = right[:n], right[n : n + m], right[n + m :]
    for j in range(n):
        g[j] = -c * D[j] * x_bar[j] if x_bar.shape[0] > 0 else 0.0
    if y_bar.shape[0] == 0 and z_bar.shape[0] == 0:
        d = d[:0]
    for i in range(d.shape[0]):
        if i < n_eq:
            d[i] = E[i] * y_bar[i] if y_bar.shape[0] > 0 else 0.0
        else:
            d[i] = E[i] * z_bar[i - n_eq] if z_bar.shape[0] > 0 else 0.0
    if z_box_bar.shape[0] == 0:
        d_box = d_box[:0]
    for j in range(d_box.shape[0]):
        d_box[j] = z_box_bar[j] / D[j]
    size, _ = _refine(P, C, L, rows, held, kappa, g, d, d_box, out)
    for j in range(n):
        out[j] *= D[j]
        out[n + m + j] /= c * D[j]
    for i in range(m):
        out[n + i] *= E[i] / c
    return size


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
    x_start: _Array,
    y_start: _Array,
    h_start: _Array,
    z_start: _Array,
    masks: _Mask,
    state: _Array,
) -> tuple[bool, float, float, float, float]:
    """Guess the active set from a solver's point, solve on it exactly, and certify the result.

    ``P`` (or its diagonal) and ``others``: C, D and E of the equilibrated program, one after the other; ``scaled``: q,
    d, and those of lb and ub that there are.  The solver's point: x, multipliers of equalities, inequalities and (or
    empty) bounds.  ``masks`` [m + 3n] receives the active rows, lower and upper bounds, and both bounds together;
    ``state`` [`state_size`] x, y, z_box, slack and stiffnesses, then x, y and z_box once more in the user's units, in
    which ``own_lb`` and ``own_ub`` are the bounds (empty: unscaled like the rest), and the factor.  Returns whether the
    point is optimal with every row strictly active or inactive, the certificate (primal, dual, gap) and the largest
    magnitude in x.
    """
    n = P.shape[0]
    m = masks.shape[0] - 3 * n
    C, D, E = _unpack(others, n, m)
    bounded = has_lb or has_ub
    q, d, box = scaled[:n], scaled[n : n + m], scaled[n + m :]
    lb, ub = box[: n if has_lb else 0], box[n if has_lb else 0 :]
    rows, lower, upper, held = masks[:m], masks[m : m + n], masks[m + n : m + 2 * n], masks[m + 2 * n :]
    x, y, z_box = state[:n], state[n : n + m], state[n + m : 2 * n + m]
    slack, kappa = state[2 * n + m : 2 * n + 2 * m], state[2 * n + 2 * m : 2 * n + 3 * m]
    to_factor = 4 * n + 4 * m
    after = to_factor + _factor_size(P, m)
    result, L, room = state[2 * n + 3 * m : to_factor], state[to_factor:after], state[after:]
    r2 = room[4 * n + 2 * m : 4 * n + 3 * m]
    product, change = room[:n], room[4 * n : 4 * n + m]
    for i in range(m):
        y[i] = y_start[i] if i < n_eq else h_start[i - n_eq]
    for j in range(n):
        z_box[j] = z_start[j] if bounded else 0.0
    failed = (False, np.inf, np.inf, np.inf, 0.0)
    _guess(n_eq, C, d, lb, ub, dual_size, x_start, y, z_box, rows, lower, upper, slack)
    for j in range(n):
        held[j] = lower[j] or upper[j]
        x[j] = x_start[j]
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
    times(P, x, product)
    times_transposed(C, y, room[3 * n : 4 * n])
    for j in range(n):
        z_box[j] = -q[j] - product[j] - room[3 * n + j]
    times(C, x, change)
    for i in range(m):
        r2[i] = d[i] - change[i] if rows[i] else 0.0
    size_v = max(1.0, largest(x))
    size, row_size = _iterate(P, C, L, rows, held, kappa, True, 1.0, size_v, x, y, z_box, r2, room)
    if not (size <= converged and row_size <= converged_rows):
        return failed
    for j in range(n):
        if not held[j]:
            z_box[j] = 0.0
    times(C, x, slack)
    for i in range(m):
        slack[i] = d[i] - slack[i]
    size_x = max(1.0, largest(x))
    if not _least(n_eq, lb, ub, weak * dual_size, weak * size_x, x, y, z_box, rows, lower, upper, slack) > 1.0:
        return failed
    # The certificate, from products with the matrices themselves.
    times(P, x, product)
    times_transposed(C, y, room[3 * n : 4 * n])
    scale = max(dual_size, largest(product), largest(room[3 * n : 4 * n]))
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
        left = product[j] + q[j] + room[3 * n + j]
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
    _to_units(D, E, alpha, c, own_lb, own_ub, x, y, z_box, lower, upper, result)
    size = largest(x)
    return True, primal / max(1.0, size), max(dual, sign) / scale, gap, size
