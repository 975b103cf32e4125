"""A batch of dense programs, from arguments to solutions and sensitivities, compiled: each thread takes its share.

A program is brought to the units of its equilibrated matrices, its active set is found (from responses, from a
solver's point, or from nothing), and the exact point on it is certified.  What is not a plain case is marked, and left
to others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compilation import compiled, inner, viewing
from .dual_active_set import dual_scratch_size, find_active_set
from .hessian import solve_hessian
from .layout import Matrices, Signs, Store, view_matrices, view_signs, view_store
from .linear_algebra import largest, times, times_transposed
from .refinement import refine, room_for
from .settle import Bars, Vectors, guess, hold_what_is_equal, settle
from .vectors import unit_step, write_scaled

__all__ = ["differentiate_batch", "scratch_size", "solve_batch"]

_Array = NDArray[np.float64]
_Mask = NDArray[np.bool_]
_Index = NDArray[np.intp]

# How often the unit of x may be reduced before a solution near zero is believed to be zero.
_RESCALINGS = 8
# What a few solves leave of a right-hand side that no point meets, relative to it.
_SOLVES, _MET = 5, 1e-6


def scratch_size(n: int, m: int, responses: int) -> int:
    """Numbers of scratch that `solve_batch` and `differentiate_batch` work in."""
    return 8 * n + 5 * m + 2 * (2 * n + m) + (dual_scratch_size(n, m) if responses else 0)


@viewing
def _row(values: _Array, k: int) -> _Array:
    """The k-th element's vector of an argument that it may share with all; empty where the argument is absent."""
    row: _Array = values[k if values.shape[0] > 1 else 0]
    return row


@inner
def _find(
    n_eq: int,
    dual_size: float,
    bars: Bars,
    corrections: int,
    response: _Array,
    matrices: Matrices,
    vectors: Vectors,
    begin: _Array,
    alpha: float,
    c: float,
    signs: Signs,
    store: Store,
    room: _Array,
    scratch: _Array,
) -> tuple[bool, float, float, float, float, int]:
    """The certified point of one scaled program; see `solve_batch`."""
    n, m = store.x.shape[0], store.y.shape[0]
    steps = 0
    if begin.shape[0] > 0:
        for j in range(n):
            store.x[j] = begin[j] / (alpha * matrices.D[j])
            store.z_box[j] = begin[n + m + j] * matrices.D[j] * c / alpha
        for i in range(m):
            store.y[i] = begin[n + i] * c / (alpha * matrices.E[i])
        guess(n_eq, dual_size, matrices, vectors, signs, store)
    else:
        store.x[:] = 0.0
        store.y[:] = 0.0
        store.z_box[:] = 0.0
        if response.shape[0] > 0:
            steps = find_active_set(response, n_eq, vectors.q, vectors.d, vectors.lb, vectors.ub, signs, scratch)
            if steps == 0:
                return False, np.inf, np.inf, np.inf, 0.0, 0
        else:
            hold_what_is_equal(n_eq, vectors.lb, vectors.ub, signs)
    certain = begin.shape[0] > 0 or steps > 0
    plain, primal, dual, gap, size_x, tried = settle(
        n_eq, dual_size, bars, corrections, certain, matrices, vectors, signs, store, room
    )
    return plain, primal, dual, gap, size_x, tried + steps


@inner
def _to_units(alpha: float, c: float, lb: _Array, ub: _Array, matrices: Matrices, signs: Signs, store: Store) -> None:
    """The point in the user's units; an active bound is met exactly, not up to the rounding of the scaling."""
    back = alpha / c
    for j in range(store.x.shape[0]):
        store.own_x[j] = alpha * matrices.D[j] * store.x[j]
        if signs.lower[j] and lb.shape[0] > 0:
            store.own_x[j] = lb[j]
        elif signs.upper[j] and ub.shape[0] > 0:
            store.own_x[j] = ub[j]
        store.own_z_box[j] = back * store.z_box[j] / matrices.D[j]
    for i in range(store.y.shape[0]):
        store.own_y[i] = back * matrices.E[i] * store.y[i]


@compiled
def solve_batch(
    worker: int,
    workers: int,
    P: _Array,
    others: _Array,
    response: _Array,
    of_system: _Index,
    objective: _Array,
    n_eq: int,
    q: _Array,
    b: _Array,
    h: _Array,
    lb: _Array,
    ub: _Array,
    bars: Bars,
    tolerance: float,
    corrections: int,
    far: float,
    begin: _Array,
    signs: _Mask,
    store: _Array,
    facts: _Array,
    scratch: _Array,
) -> int:
    """Solve every ``workers``-th element from ``worker`` on.

    ``P`` [S, n, n] (or diagonals [S, n]), ``others`` [S, ·] and ``response`` [S, n + m, n + m] (or [S, 0, 0]): the
    matrices of S systems as `view_matrices` and `find_active_set` take them; ``of_system`` [B]: which is whose;
    ``objective`` [S, 2]: the unit of the objective, and whether P is more than zero.  ``q``, ``b``, ``h``, ``lb``,
    ``ub``: [B, ·], [1, ·] where shared, with no columns where absent.  ``begin`` [B, 2n + m]: points (x, y, z_box) to
    read active sets off, or [1, 0].  Limits beyond ``far`` are left to others.  ``signs``, ``store`` and ``facts``
    [B, ·] receive the outcome (:mod:`~dxpp_core.kernels.layout`).  Returns how many are not plain.
    """
    others_left = 0
    n = P.shape[1]
    m = (signs.shape[1] - 3 * n) if signs.shape[0] > 0 else 0
    to_room = 3 * n + m
    to_rest = to_room + room_for(n, m)
    for k in range(worker, signs.shape[0], workers):
        if facts[k, 0] > 0.0:
            continue
        system = of_system[k]
        matrices = view_matrices(P[system], others[system], m)
        mine, own = view_signs(signs[k], n, m), view_store(store[k], n, m)
        own_lb, own_ub = _row(lb, k), _row(ub, k)
        has_lb, has_ub = own_lb.shape[0], own_ub.shape[0]
        numbers = scratch[: n + m + has_lb + has_ub]
        alpha, c, dual_size, limits, _, plain = write_scaled(
            matrices.D,
            matrices.E,
            objective[system, 0],
            objective[system, 1] > 0.0,
            _row(q, k),
            _row(b, k),
            _row(h, k),
            own_lb,
            own_ub,
            numbers,
        )
        vectors = Vectors(numbers[:n], numbers[n : n + m], numbers[n + m : n + m + has_lb], numbers[n + m + has_lb :])
        primal = dual = gap = np.inf
        tried = 0
        plain = plain and limits <= far
        for _ in range(_RESCALINGS + 1):
            if not plain:
                break
            plain, primal, dual, gap, size_x, tried = _find(
                n_eq,
                dual_size,
                bars,
                corrections,
                response[system if response.shape[0] > 1 else 0],
                matrices,
                vectors,
                _row(begin, k),
                alpha,
                c,
                mine,
                own,
                scratch[to_room:to_rest],
                scratch[to_rest:],
            )
            if not plain:
                break
            factor = unit_step(numbers[n:], size_x)
            if factor == 1.0:
                break
            # Measured against a unit that is far too large, any point near zero looks exact.
            for i in range(numbers.shape[0]):
                numbers[i] /= factor
            alpha *= factor
            dual_size = max(1.0, largest(vectors.q))
        met = primal <= tolerance and dual <= tolerance and gap <= tolerance
        facts[k, 0] = 1.0 if plain and met else 0.0
        facts[k, 1], facts[k, 2], facts[k, 3], facts[k, 4] = primal, dual, gap, tried
        facts[k, 5], facts[k, 6], facts[k, 7] = alpha, c, dual_size
        if facts[k, 0] > 0.0:
            _to_units(alpha, c, own_lb, own_ub, matrices, mine, own)
        else:
            others_left += 1
    return others_left


@inner
def _may_depend(matrices: Matrices, signs: Signs, store: Store, probe: _Array, out: _Array, room: _Array) -> bool:
    """Whether active rows may be linearly dependent over the variables that no bound holds.

    With T = √κ B H⁻¹ Bᵀ √κ, the powers of I − T leave the part of a vector that lies across the range of B.
    """
    n, m = store.x.shape[0], store.y.shape[0]
    left, pushed, moved = room[:m], room[m : 2 * m], room[2 * m : 3 * m]
    small, pull, step = room[3 * m : 4 * m], out[:n], room[4 * m : 4 * m + n]
    active = False
    for i in range(m):
        left[i] = probe[i] if signs.rows[i] else 0.0
        active = active or signs.rows[i]
    for _ in range(_SOLVES):
        if not active:
            return False
        for i in range(m):
            pushed[i] = np.sqrt(store.kappa[i]) * left[i]
        times_transposed(matrices.C, pushed, pull)
        for j in range(n):
            if signs.pinned[j]:
                pull[j] = 0.0
        solve_hessian(matrices.P, matrices.C, store.kappa, store.factor, pull, step, small)
        times(matrices.C, step, moved)
        size = 0.0
        for i in range(m):
            left[i] -= np.sqrt(store.kappa[i]) * moved[i]
            size = max(size, abs(left[i]))
        active = size > _MET
    return active


@compiled
def differentiate_batch(
    worker: int,
    workers: int,
    P: _Array,
    others: _Array,
    of_system: _Index,
    signs: _Mask,
    store: _Array,
    facts: _Array,
    g: _Array,
    d: _Array,
    d_box: _Array,
    probe: _Array,
    trusted: float,
    found: _Array,
    sizes: _Array,
    scratch: _Array,
) -> int:
    """Solve K [v; s; s_box] = [−g; d; d_box] on the active set of every ``workers``-th element from ``worker`` on.

    ``g`` [B, n], ``d`` [B, m] and ``d_box`` [B, n] in the user's units, or with no columns for zero; ``found``
    [B, 2n + m] receives v, s and s_box in the user's units, ``sizes`` [B, 2] the residual, and 1 where active rows may
    depend on one another, for which a ``probe`` [m] asks, if it has entries.  Elements that are not plain are left out.
    Returns for how many there may be more to do than was done.
    """
    others_left = 0
    n = P.shape[1]
    m = (signs.shape[1] - 3 * n) if signs.shape[0] > 0 else 0
    to_out = 2 * n + m
    for k in range(worker, signs.shape[0], workers):
        if not facts[k, 0] > 0.0:
            others_left += 1
            continue
        sizes[k, 1] = 0.0
        matrices = view_matrices(P[of_system[k]], others[of_system[k]], m)
        mine, own = view_signs(signs[k], n, m), view_store(store[k], n, m)
        D, E, c = matrices.D, matrices.E, facts[k, 6]
        out = scratch[to_out:]
        if probe.shape[0] > 0:
            sizes[k, 1] = 1.0 if _may_depend(matrices, mine, own, probe, out, out[2 * n + m :]) else 0.0
        right_g = scratch[:n]
        right_d = scratch[n : n + m] if d.shape[1] > 0 else scratch[:0]
        right_box = scratch[n + m : 2 * n + m] if d_box.shape[1] > 0 else scratch[:0]
        for j in range(n):
            right_g[j] = c * D[j] * g[k, j] if g.shape[1] > 0 else 0.0
        for i in range(right_d.shape[0]):
            right_d[i] = E[i] * d[k, i]
        for j in range(right_box.shape[0]):
            right_box[j] = d_box[k, j] / D[j]
        sizes[k, 0], _ = refine(
            matrices.P,
            matrices.C,
            own.factor,
            mine.rows,
            mine.pinned,
            own.kappa,
            right_g,
            right_d,
            right_box,
            out,
        )
        for j in range(n):
            found[k, j] = D[j] * out[j]
            found[k, n + m + j] = out[n + m + j] / (c * D[j])
        for i in range(m):
            found[k, n + i] = E[i] * out[n + i] / c
        if sizes[k, 1] > 0.0 or not sizes[k, 0] <= trusted:
            others_left += 1
    return others_left
