"""Rows that couple weights, and limits of single trades: what they are and where they lie.

Linear rows, e_rᵀw_s ≤ cap_r (or =), come first; then distances, Σ_i |w_s − z_d| ≤ cap_d over the members of d (gross
leverage has z = 0, and all assets but cash are members). A distance is written with variables ``away`` ≥ |w_s − z_d|
and leaves, once these are eliminated, what the turnover limit leaves in w_s − w_{s−1}: a diagonal plus rank one. So
every row adds one term strength · vector vectorᵀ to the dense block of its stage, and costs N² there. Limits of single
trades, |w_s − w_{s−1}| ≤ most, stay diagonal in w_s − w_{s−1}; where most is 0 they are equalities.

Functions of the solver take None where there are no such rows; Numba then leaves the code for them out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner, viewing
from portfolio_dfl.allocation.kernels.scratch import Scratch, matrix, signs, slab, vector

__all__ = [
    "AWAY",
    "AWAY_GAP",
    "DAWAY",
    "DDUAL",
    "DSLACK",
    "DUAL",
    "GAP",
    "GIVE",
    "LEVEL",
    "PIN",
    "PIN_GAP",
    "PLACE",
    "PULL",
    "SLACK",
    "SPRING",
    "STRENGTH",
    "TARGET",
    "THETA",
    "THETA_GAP",
    "Coupling",
    "CouplingFound",
    "Given",
    "add_terms",
    "coupling_scratch_size",
    "coupling_size",
    "new_coupling",
    "open_coupling",
    "view_coupling",
]

_Array = NDArray[np.float64]
_Int8 = NDArray[np.int8]

#: Numbers of linear rows and of distances, and 1 or 0 for limits of trades; exposures [G, N], caps, equal [R] (1 for
#: =), references, members [D, N] (1 or 0) and most [T, N] in one array; active set and multipliers of all instances
#: (see `CouplingFound`).
Given = tuple[int, int, int, _Array, _Int8, _Array]


class CouplingFound(NamedTuple):
    """What a solve leaves behind of all instances, as in `Coupling`.

    spent, theta [B, H, R], side, pin [B, H, D, N], capped [B, H, T, N].
    """

    spent: _Int8
    side: _Int8
    capped: _Int8
    theta: _Array
    pin: _Array


# Pages of `Coupling.rows` and `Coupling.sides`, where they are rows of the interior-point method.
SLACK, DUAL, DSLACK, DDUAL, GAP, TARGET = 0, 1, 2, 3, 4, 5
# Pages of `Coupling.terms`.
STRENGTH, THETA, LEVEL, THETA_GAP = 0, 1, 2, 3
# Pages of `Coupling.parts`: those of the interior point, then those of the active set.
AWAY, DAWAY, AWAY_GAP, GIVE, PULL, SPRING, PIN, PLACE, PIN_GAP = 0, 1, 2, 3, 4, 5, 6, 7, 8


class Coupling(NamedTuple):
    """Rows of one instance and everything the solver keeps for them; G linear rows and D distances, R = G + D.

    Of the problem: exposures [G, N], caps, equal [R], references and members [D, N], most [T, N] with T = 0
    or 1. The rest lies in few arrays, for
    each one takes its time to compile. Of the linear system: ``vector`` [H, R, N], ``force`` [H, N] (what the rows add
    to the Lagrangian's gradient) and STRENGTH. Of the interior point: slacks, multipliers, their steps, residuals and
    right-hand sides, in ``rows`` [6, H, R], and in ``sides`` [6, H, 2D, N] for away − (w − z) ≥ 0 (2d) and
    away + (w − z) ≥ 0 (2d + 1). Of the active set: ``spent`` [H, R], 1 if active; ``side`` [H, D, N], of a spent
    distance the sign of w − z, or 0 where w = z, else 2; in ``terms`` [4, H, R] the multipliers THETA of rows with
    their right-hand sides LEVEL, and in ``parts`` [9, H, D, N] those of w = z, PIN and PLACE, with their SPRING.
    Of limits of trades: ``steps`` [6, H, 2T, N] for most − Δ ≥ 0 and most + Δ ≥ 0 (an equality has its multiplier in
    the first), ``capped`` [H, T, N], the sign of a trade at its limit, else 0, and ``largest`` [H, T, N], that trade.
    ``found`` holds what is left behind of all instances.
    """

    exposures: _Array
    caps: _Array
    equal: _Array
    references: _Array
    members: _Array
    most: _Array
    vector: _Array
    force: _Array
    rows: _Array
    sides: _Array
    terms: _Array
    parts: _Array
    steps: _Array
    largest: _Array
    spent: _Int8
    side: _Int8
    capped: _Int8
    found: CouplingFound


def coupling_scratch_size(G: int, D: int, T: int, H: int, N: int) -> int:
    """Numbers that a coupling takes of the scratch."""
    R = G + D
    return H * R * N + 11 * H * R + 22 * H * D * N + 14 * H * T * N + (H * N + 3 if R + T else 0)


def coupling_size(G: int, D: int, T: int, B: int, H: int, N: int) -> int:
    """Numbers of the active sets of all instances, and of their multipliers."""
    return B * H * (G + D + D * N + T * N)


def view_coupling(given: Given, B: int, H: int, N: int) -> CouplingFound:
    """The parts of what is left behind, without copying."""
    G, D, T, _, signs, store = given
    rows = B * H * (G + D)
    sides = rows + B * H * D * N
    return CouplingFound(
        signs[:rows].reshape(B, H, G + D),
        signs[rows:sides].reshape(B, H, D, N),
        signs[sides:].reshape(B, H, T, N),
        store[:rows].reshape(B, H, G + D),
        store[rows:sides].reshape(B, H, D, N),
    )


open_coupling = viewing(view_coupling)


@viewing
def new_coupling(scratch: Scratch, given: Given | None, B: int, H: int, N: int) -> Coupling | None:
    """The given rows, with room for what is kept for them."""
    if given is None:
        return None
    G, D, T, numbers, _, _ = given
    R = G + D
    a, b, c = G * N, G * N + R, G * N + 2 * R
    return Coupling(
        numbers[:a].reshape(G, N),
        numbers[a:b],
        numbers[b:c],
        numbers[c : c + D * N].reshape(D, N),
        numbers[c + D * N : c + 2 * D * N].reshape(D, N),
        numbers[c + 2 * D * N :].reshape(T, N),
        slab(scratch, H, R, N),
        matrix(scratch, H, N),
        slab(scratch, 6, H, R),
        vector(scratch, 12 * H * D * N).reshape(6, H, 2 * D, N),
        slab(scratch, 4, H, R),
        vector(scratch, 9 * H * D * N).reshape(9, H, D, N),
        vector(scratch, 12 * H * T * N).reshape(6, H, 2 * T, N),
        slab(scratch, H, T, N),
        signs(scratch, H * R).reshape(H, R),
        signs(scratch, H * D * N).reshape(H, D, N),
        signs(scratch, H * T * N).reshape(H, T, N),
        open_coupling(given, B, H, N),
    )


@inner
def add_terms(coupling: Coupling, s: int, S: _Array) -> None:
    """Add the rows' terms to the lower triangle of a stage's block."""
    N = S.shape[0]
    for r in range(coupling.terms.shape[2]):
        strength = coupling.terms[STRENGTH, s, r]
        if strength > 0.0:
            for i in range(N):
                value = strength * coupling.vector[s, r, i]
                if value != 0.0:
                    for k in range(i + 1):
                        S[i, k] += value * coupling.vector[s, r, k]
