"""Rows that couple the weights of one stage: what they are, where they lie, and what they add to the stage's block.

Linear rows, e_rᵀw_s ≤ cap_r (or =), come first; then distances,
Σ_i |w_s − z_d| ≤ cap_d over the members of d (gross leverage has z = 0, and all assets but cash are members). A
distance is written with variables ``away`` ≥ |w_s − z_d| and leaves, once these are eliminated, what the turnover limit
leaves in w_s − w_{s−1}: a diagonal plus rank one. So every row adds one term strength · vector vectorᵀ to the dense
block of its stage, and costs N² there.

Functions of the solver take None where there are no such rows; Numba then leaves the code for them out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner
from portfolio_dfl.allocation.kernels.scratch import Scratch, matrix, slab

__all__ = [
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

#: Numbers of linear rows and of distances; exposures [G, N], caps [R], equal [R] (1 for =), references [D, N] and
#: members [D, N] (1 or 0) in one array; active set and multipliers of all instances (see `CouplingFound`).
Given = tuple[int, int, _Array, _Int8, _Array]


class CouplingFound(NamedTuple):
    """What a solve leaves behind of all instances: spent, theta [B, H, R], side, pin [B, H, D, N] (see `Coupling`)."""

    spent: _Int8
    side: _Int8
    theta: _Array
    pin: _Array


class Coupling(NamedTuple):
    """Rows of one instance and everything the solver keeps for them; G linear rows and D distances, R = G + D.

    Of the problem: exposures [G, N], caps, equal [R], references and members [D, N]. Of the linear system:
    ``strength`` [H, R], ``vector`` [H, R, N], ``spring`` [H, D, N], and ``force`` [H, N], what the rows add to the
    Lagrangian's gradient. Of the interior point: slack, dual and their steps [H, R]; ``away`` [H, D, N]; ``side_…``
    [H, 2D, N] for the rows away − (w − z) ≥ 0 (2d) and away + (w − z) ≥ 0 (2d + 1). Of the active set: ``spent``
    [H, R], 1 if active; ``side`` [H, D, N], of a spent distance the sign of w − z, or 0 where w = z, else 2; their
    multipliers ``theta`` and ``pin`` with right-hand sides ``level`` and ``place``. ``found`` holds what is left behind
    of all instances.
    """

    exposures: _Array
    caps: _Array
    equal: _Array
    references: _Array
    members: _Array
    strength: _Array
    vector: _Array
    spring: _Array
    force: _Array
    slack: _Array
    dual: _Array
    dslack: _Array
    ddual: _Array
    gap: _Array
    target: _Array
    away: _Array
    daway: _Array
    away_gap: _Array
    give: _Array
    g: _Array
    side_slack: _Array
    side_dual: _Array
    side_dslack: _Array
    side_ddual: _Array
    side_gap: _Array
    side_target: _Array
    spent: _Int8
    side: _Int8
    theta: _Array
    level: _Array
    theta_gap: _Array
    pin: _Array
    place: _Array
    pin_gap: _Array
    found: CouplingFound


def coupling_scratch_size(G: int, D: int, H: int, N: int) -> int:
    """Numbers that a coupling takes of the scratch."""
    R = G + D
    return H * R * N + 10 * H * R + 21 * H * D * N + (H * N if R else 0)


def coupling_size(G: int, D: int, B: int, H: int, N: int) -> int:
    """Numbers of the active sets of all instances, and of their multipliers."""
    return B * H * (G + D + D * N)


def view_coupling(given: Given, B: int, H: int, N: int) -> CouplingFound:
    """The parts of what is left behind, without copying."""
    G, D, _, signs, store = given
    rows = B * H * (G + D)
    return CouplingFound(
        signs[:rows].reshape(B, H, G + D),
        signs[rows:].reshape(B, H, D, N),
        store[:rows].reshape(B, H, G + D),
        store[rows:].reshape(B, H, D, N),
    )


open_coupling = inner(view_coupling)


@inner
def new_coupling(scratch: Scratch, given: Given | None, B: int, H: int, N: int) -> Coupling | None:
    """The given rows, with room for what is kept for them."""
    if given is None:
        return None
    G, D, numbers, _, _ = given
    R = G + D
    a, b, c = G * N, G * N + R, G * N + 2 * R
    return Coupling(
        numbers[:a].reshape(G, N),
        numbers[a:b],
        numbers[b:c],
        numbers[c : c + D * N].reshape(D, N),
        numbers[c + D * N :].reshape(D, N),
        matrix(scratch, H, R),
        slab(scratch, H, R, N),
        slab(scratch, H, D, N),
        matrix(scratch, H, N),
        matrix(scratch, H, R),
        matrix(scratch, H, R),
        matrix(scratch, H, R),
        matrix(scratch, H, R),
        matrix(scratch, H, R),
        matrix(scratch, H, R),
        slab(scratch, H, D, N),
        slab(scratch, H, D, N),
        slab(scratch, H, D, N),
        slab(scratch, H, D, N),
        slab(scratch, H, D, N),
        slab(scratch, H, 2 * D, N),
        slab(scratch, H, 2 * D, N),
        slab(scratch, H, 2 * D, N),
        slab(scratch, H, 2 * D, N),
        slab(scratch, H, 2 * D, N),
        slab(scratch, H, 2 * D, N),
        np.zeros((H, R), np.int8),
        np.zeros((H, D, N), np.int8),
        matrix(scratch, H, R),
        matrix(scratch, H, R),
        matrix(scratch, H, R),
        slab(scratch, H, D, N),
        slab(scratch, H, D, N),
        slab(scratch, H, D, N),
        open_coupling(given, B, H, N),
    )


@inner
def add_terms(coupling: Coupling, s: int, S: _Array) -> None:
    """Add the rows' terms to the lower triangle of a stage's block."""
    N = S.shape[0]
    for r in range(coupling.strength.shape[1]):
        if coupling.strength[s, r] > 0.0:
            vector = coupling.vector[s, r]
            for i in range(N):
                value = coupling.strength[s, r] * vector[i]
                if value != 0.0:
                    for k in range(i + 1):
                        S[i, k] += value * vector[k]
