"""The active set of a strictly convex program by the dual method of Goldfarb and Idnani, in the space of responses.

Where P has an inverse, multipliers u of the rows K = [C; I] move x by −P⁻¹Kᵀu, so that everything the method asks for
is an entry of K P⁻¹ Kᵀ.  That matrix depends on P and C alone: a batch that shares them makes it once, takes the
equalities out of it once, and a step costs no product with P.  From the minimum on the equalities, the row that is
violated most enters the active set, and rows whose multiplier would change its sign leave it; the dual objective rises
with every step, so that no set comes back (Goldfarb and Idnani 1983, Mathematical Programming 27, 1–33).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compilation import compiled, inner
from .layout import Signs, view_matrices
from .linear_algebra import cholesky, largest

__all__ = ["dual_scratch_size", "find_active_set", "respond", "response_scratch_size"]

_Array = NDArray[np.float64]

# What is violated by less than this, in units of the equilibrated program, is met.
_MET = 1e-10
# A row of which no more than this share lies across the active ones depends on them.
_INDEPENDENT = 1e-12
_STEPS = 20


def response_scratch_size(n: int, m: int) -> int:
    """Numbers of scratch that `respond` works in."""
    return n * n + (n + m) * (n + 1)


@inner
def _take_out(response: _Array, n_eq: int, sizes: _Array) -> None:
    """Leave in K P⁻¹ Kᵀ (given above its diagonal) how rows move one another while the equalities hold.

    Their columns receive by how much every later row moves when one of them, out by one, is met: nothing for one that
    depends on those before.  Rows that depend on the equalities move nothing, exactly.
    """
    size = response.shape[0]
    for i in range(size):
        sizes[i] = response[i, i]
    for e in range(n_eq):
        pivot = response[e, e]
        independent = pivot > _INDEPENDENT * sizes[e]
        for i in range(e + 1, size):
            weight = response[e, i] / pivot if independent else 0.0
            response[i, e] = weight
            if weight != 0.0:
                for j in range(i, size):
                    response[i, j] -= weight * response[e, j]
    for i in range(n_eq, size):
        if not response[i, i] > _INDEPENDENT * sizes[i]:
            for j in range(n_eq, size):
                response[min(i, j), max(i, j)] = 0.0
    for i in range(n_eq, size):
        for j in range(n_eq, i):
            response[i, j] = response[j, i]


@compiled
def respond(worker: int, workers: int, P: _Array, others: _Array, n_eq: int, responses: _Array, scratch: _Array) -> int:
    """Write what `find_active_set` reads of every ``workers``-th system from ``worker`` on; returns how many have none.

    K P⁻¹ Kᵀ, K = [C; I], without the equalities, and what they move.  ``P`` [S, n, n] (or diagonals [S, n]),
    ``others`` [S, ·], ``responses`` [S, n + m, n + m].
    """
    n, size = P.shape[1], responses.shape[1]
    m = size - n
    failed = 0
    for k in range(worker, responses.shape[0], workers):
        matrices = view_matrices(P[k], others[k], m)
        root, moved = scratch[: n * n].reshape(n, n), scratch[n * n : n * n + size * n].reshape(size, n)
        if P.ndim == 2:
            for j in range(n):
                root[j, j] = np.sqrt(P[k, j])
        else:
            for i in range(n):
                for j in range(n):
                    root[i, j] = P[k, i, j]
            if not cholesky(root):
                failed += 1
        # L⁻¹ Kᵀ, a row for each of K.
        for a in range(size):
            row = moved[a]
            for j in range(n):
                total = matrices.C[a, j] if a < m else (1.0 if j == a - m else 0.0)
                if P.ndim == 3:
                    for i in range(j):
                        total -= root[j, i] * row[i]
                row[j] = total / root[j, j]
        for a in range(size):
            for b in range(a, size):
                total = 0.0
                for j in range(n):
                    total += moved[a, j] * moved[b, j]
                responses[k, a, b] = total
        _take_out(responses[k], n_eq, scratch[n * n + size * n :])
    return failed


def dual_scratch_size(n: int, m: int) -> int:
    """Numbers of scratch that `find_active_set` works in."""
    return 7 * (n + m) + (n + 1) * (n + 1)


@inner
def _enter(
    response: _Array, factor: _Array, active: _Array, side: _Array, count: int, row: int, sign: float, along: _Array
) -> float:
    """The next row of the Cholesky factor of the active rows' responses, and what is left on its diagonal, squared."""
    left: float = response[row, row]
    for a in range(count):
        total = sign * side[a] * response[row, int(active[a])]
        for b in range(a):
            total -= factor[a, b] * along[b]
        along[a] = total / factor[a, a]
        left -= along[a] * along[a]
    return left


@inner
def _leave(factor: _Array, active: _Array, side: _Array, u: _Array, count: int, place: int) -> None:
    """Remove one of ``count`` active rows from the lists and from the factor, by rotations."""
    for a in range(place, count - 1):
        active[a] = active[a + 1]
        side[a] = side[a + 1]
        u[a] = u[a + 1]
        for b in range(a + 2):
            factor[a, b] = factor[a + 1, b]
    for a in range(place, count - 1):
        x, y = factor[a, a], factor[a, a + 1]
        length = np.sqrt(x * x + y * y)
        cosine, sine = x / length, y / length
        for b in range(a, count - 1):
            x, y = factor[b, a], factor[b, a + 1]
            factor[b, a] = cosine * x + sine * y
            factor[b, a + 1] = cosine * y - sine * x


@inner
def _across(response: _Array, row: int) -> float:
    """What a violation of a row is measured in; a row that moves nothing is not to be moved."""
    return np.sqrt(response[row, row]) if response[row, row] > 0.0 else 1.0


@inner
def _choose(
    response: _Array, n_eq: int, d: _Array, lb: _Array, ub: _Array, at: _Array, signs: Signs
) -> tuple[int, float]:
    """The inactive row or bound that is violated most for the curvature across it, −1 if none is; its side."""
    m, n = d.shape[0], lb.shape[0] if lb.shape[0] > 0 else ub.shape[0]
    worst, row, sign = _MET, -1, 1.0
    for i in range(n_eq, m):
        if signs.rows[i]:
            continue
        value = (at[i] - d[i]) / _across(response, i)
        if value > worst:
            worst, row = value, i
    for j in range(n):
        if signs.lower[j] or signs.upper[j]:
            continue
        root = _across(response, m + j)
        if ub.shape[0] > 0 and (at[m + j] - ub[j]) / root > worst:
            worst, row, sign = (at[m + j] - ub[j]) / root, m + j, 1.0
        if lb.shape[0] > 0 and (lb[j] - at[m + j]) / root > worst:
            worst, row, sign = (lb[j] - at[m + j]) / root, m + j, -1.0
    return row, sign


@inner
def _note(signs: Signs, m: int, row: int, sign: float, holds: bool) -> None:
    if row < m:
        signs.rows[row] = holds
    elif sign > 0.0:
        signs.upper[row - m] = holds
    else:
        signs.lower[row - m] = holds


@inner
def find_active_set(
    response: _Array, n_eq: int, q: _Array, d: _Array, lb: _Array, ub: _Array, signs: Signs, scratch: _Array
) -> int:
    """Write the active set to ``signs``; the steps taken, or 0 where none was found (as where there is no solution).

    ``response`` [m + n, m + n]: see `respond`; the vectors are those of the equilibrated program, ``lb`` and ``ub`` may
    be empty.  Variables whose bounds are equal have multipliers of either sign.
    """
    n, m = q.shape[0], d.shape[0]
    size = n + m if lb.shape[0] > 0 or ub.shape[0] > 0 else m
    active, side, u = scratch[:size], scratch[size : 2 * size], scratch[2 * size : 3 * size]
    along, r = scratch[3 * size : 4 * size], scratch[4 * size : 5 * size]
    at, step = scratch[5 * size : 6 * size], scratch[6 * size : 7 * size]
    factor = scratch[7 * size : 7 * size + (n + 1) * (n + 1)].reshape(n + 1, n + 1)
    at[:] = 0.0
    signs.rows[:] = False
    signs.lower[:] = False
    signs.upper[:] = False
    for e in range(n_eq):
        signs.rows[e] = True
        out = at[e] - d[e]
        for i in range(e + 1, size):
            at[i] -= response[i, e] * out
    for i in range(n_eq, size):
        for j in range(n):
            at[i] -= response[i, m + j] * q[j]
    both = lb.shape[0] > 0 and ub.shape[0] > 0
    given = n if both else 0
    count = free = 0
    steps = 1
    while True:
        if free < given:
            row = m + free
            free += 1
            if lb[row - m] != ub[row - m]:
                continue
            distance = at[row] - ub[row - m]
            sign = 1.0 if distance >= 0.0 else -1.0
            distance = abs(distance)
            unsigned = True
        else:
            unsigned = False
            row, sign = _choose(response, n_eq, d, lb, ub, at, signs)
            if row < 0:
                break
            distance = sign * (at[row] - (d[row] if row < m else ub[row - m] if sign > 0.0 else lb[row - m]))
        pressure = 0.0
        while True:
            steps += 1
            if steps > _STEPS * (n + m) + 50:
                return 0
            across = _enter(response, factor, active, side, count, row, sign, along)
            for a in range(count):
                r[a] = along[a]
            for a in range(count - 1, -1, -1):
                r[a] /= factor[a, a]
                for b in range(a):
                    r[b] -= r[a] * factor[a, b]
            shortest, blocking = np.inf, -1
            for a in range(count):
                held = int(active[a])
                fixed = held >= m and both and lb[held - m] == ub[held - m]
                if not fixed and r[a] > 0.0 and u[a] < shortest * r[a]:
                    shortest, blocking = u[a] / r[a], a
            independent = across > _INDEPENDENT * response[row, row] and count < n
            full = distance / across if independent else np.inf
            length = min(shortest, full)
            if not length < np.inf:
                if unsigned and distance <= _MET * max(1.0, largest(at[n_eq:])):
                    # A variable that the equalities fix where its bounds do.
                    _note(signs, m, row, -1.0, True)
                    break
                return 0
            for a in range(count):
                u[a] -= length * r[a]
            pressure += length
            if independent:
                for i in range(n_eq, size):
                    step[i] = sign * response[row, i]
                for a in range(count):
                    weight, held = side[a] * r[a], int(active[a])
                    for i in range(n_eq, size):
                        step[i] -= weight * response[held, i]
                for i in range(n_eq, size):
                    at[i] -= length * step[i]
                distance -= length * across
            if full <= shortest:
                for a in range(count):
                    factor[count, a] = along[a]
                factor[count, count] = np.sqrt(across)
                active[count], side[count], u[count] = row, sign, pressure
                # Both bounds of a variable that they fix are one row; the lower one stands for it.
                _note(signs, m, row, -1.0 if unsigned else sign, True)
                count += 1
                break
            _note(signs, m, int(active[blocking]), side[blocking], False)
            _leave(factor, active, side, u, count, blocking)
            count -= 1
    return steps
