"""Refinement of a KKT system with one factor of the penalty Hessian, compiled.

The mathematics is that of :mod:`dxpp_core.kkt.refinement`, for the plain case alone: refinement converges.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compilation import inner
from .hessian import solve_hessian
from .linear_algebra import largest, times, times_transposed

__all__ = ["EXACT", "iterate", "refine", "room_for"]

_Array = NDArray[np.float64]
_Mask = NDArray[np.bool_]

_STEPS = 14
_PROGRESS = 0.25
# Refinement ends at this residual.
EXACT = 2.0 * float(np.finfo(np.float64).eps)


@inner
def room_for(n: int, m: int) -> int:
    """Numbers of the scratch that refinement works in."""
    return 4 * n + 4 * m


@inner
def iterate(
    P: _Array,
    C: _Array,
    L: _Array,
    rows: _Mask,
    held: _Mask,
    kappa: _Array,
    given: bool,
    terms: float,
    size_v: float,
    enough: float,
    v: _Array,
    s: _Array,
    r1: _Array,
    r2: _Array,
    room: _Array,
) -> tuple[float, float]:
    """Refine v and s from the residuals r1, r2 of where they stand; the residuals left, of all and of the rows.

    ``given``: whether r2 may be nonzero at the start; ``enough``: a residual at which to stop.  Afterwards r1 is
    −(P v + g + Cᵀs), which on the held variables is their bounds' multiplier.
    """
    n, m = P.shape[0], C.shape[0]
    rhs, dv, product, back = room[:n], room[n : 2 * n], room[2 * n : 3 * n], room[3 * n : 4 * n]
    ds, change = room[4 * n : 4 * n + m], room[4 * n + m : 4 * n + 2 * m]
    small = room[4 * n + 3 * m : 4 * n + 4 * m]
    for j in range(n):
        rhs[j] = 0.0 if held[j] else r1[j]
    # What stiffnesses make of the rows' residuals is no term of the equations: it goes with the first step.
    terms = max(terms, largest(rhs))
    if given and m > 0:
        for i in range(m):
            ds[i] = kappa[i] * r2[i]
        times_transposed(C, ds, back)
        for j in range(n):
            if not held[j]:
                rhs[j] += back[j]
        size_v = max(size_v, largest(r2))
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
        if size <= enough or not size <= _PROGRESS * best:
            break
        best = size
    return size, row_size


@inner
def refine(
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
    size, row_size = iterate(P, C, L, rows, held, kappa, given, 0.0, size_v, EXACT, v, s, r1, r2, room)
    for j in range(n):
        if not held[j]:
            r1[j] = 0.0
    return size, row_size
