"""The problem of one instance, its variables and their residuals.

The paper's standard form, scaled, with limits and costs where they are asked for:

    min  Σ_s ½ w_sᵀP_s w_s − r_sᵀw_s + c_sᵀu_s      subject to, at each stage s,
    1ᵀw_s = 1 (multiplier ν_s),   w_s ≥ lower,   w_s ≤ upper,
    u_s − Δ_s ≥ 0,   u_s + Δ_s ≥ 0,   τ_s − 1ᵀu_s ≥ 0,      Δ_s = w_s − w_{s−1}.

(u ≥ 0 is implied.) Every inequality has a slack and a multiplier. Rows of one kind lie in one slab of an
array [4, H, N], in the order LOWER, RISE (u − Δ), FALL (u + Δ), UPPER; a row that does not exist (an infinite
bound, an asset that is not counted) has slack 1 and multiplier 0 throughout. Budget rows have arrays [H].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner, viewing
from portfolio_dfl.allocation.kernels.coupling import Coupling
from portfolio_dfl.allocation.kernels.coupling_interior import count_coupling
from portfolio_dfl.allocation.kernels.scratch import Scratch, matrix, slab, vector

__all__ = [
    "FALL",
    "LOWER",
    "RISE",
    "UPPER",
    "Gaps",
    "Point",
    "Problem",
    "count_places",
    "mark_rows",
    "new_gaps",
    "new_point",
]

_Array = NDArray[np.float64]

LOWER, RISE, FALL, UPPER = 0, 1, 2, 3


class Problem(NamedTuple):
    """One instance, scaled. P [K, N, N] (K = 1 or H); r, c [H, N]; w0, lower, upper, counted [N]; tau [H].

    ``counted`` is 1 for assets whose trades count towards turnover and cost, else 0. ``exists`` [4, H, N] marks rows;
    ``places`` is how many of its entries come before the kinds that no row is of.
    """

    P: _Array
    r: _Array
    c: _Array
    w0: _Array
    lower: _Array
    upper: _Array
    counted: _Array
    tau: _Array
    exists: _Array
    places: int


class Point(NamedTuple):
    """Primal and dual variables (or a step in them)."""

    w: _Array
    u: _Array
    nu: _Array
    slack: _Array
    dual: _Array
    budget_slack: _Array
    budget_dual: _Array


class Gaps(NamedTuple):
    """Residuals of the KKT conditions (row, budget, total, w, u), room for right-hand sides (f, h, g, 1/a), 1/slack."""

    row: _Array
    budget: _Array
    total: _Array
    w: _Array
    u: _Array
    target: _Array
    budget_target: _Array
    f: _Array
    h: _Array
    g: _Array
    give: _Array
    inverse: _Array


@viewing
def new_point(scratch: Scratch, H: int, N: int) -> Point:
    """Room for a point of H stages and N assets."""
    return Point(
        matrix(scratch, H, N),
        matrix(scratch, H, N),
        vector(scratch, H),
        slab(scratch, 4, H, N),
        slab(scratch, 4, H, N),
        vector(scratch, H),
        vector(scratch, H),
    )


@viewing
def new_gaps(scratch: Scratch, H: int, N: int) -> Gaps:
    """Room for residuals of H stages and N assets."""
    return Gaps(
        slab(scratch, 4, H, N),
        vector(scratch, H),
        vector(scratch, H),
        matrix(scratch, H, N),
        matrix(scratch, H, N),
        slab(scratch, 4, H, N),
        vector(scratch, H),
        matrix(scratch, H, N),
        matrix(scratch, H, N),
        matrix(scratch, H, N),
        matrix(scratch, H, N),
        slab(scratch, 4, H, N),
    )


@inner
def count_places(lower: _Array, upper: _Array, H: int) -> int:
    """Entries of [4, H, N] to be looked at: the last kind, UPPER, is left out where no weight has an upper bound."""
    N: int = lower.shape[0]
    for i in range(N):
        if lower[i] < upper[i] and upper[i] < np.inf:
            return 4 * H * N
    return 3 * H * N


@inner
def mark_rows(problem: Problem, coupling: Coupling | None) -> int:
    """Mark the rows that exist; return how many (budgets included)."""
    exists = problem.exists
    rows = 0
    for s in range(exists.shape[1]):
        limited = problem.tau[s] < np.inf
        if limited:
            rows += 1
        for i in range(exists.shape[2]):
            # Equal bounds fix a weight: that needs no rows.
            free = problem.lower[i] < problem.upper[i]
            trades = problem.counted[i] > 0.0 and (limited or problem.c[s, i] > 0.0)
            exists[LOWER, s, i] = 1.0 if free and problem.lower[i] > -np.inf else 0.0
            exists[UPPER, s, i] = 1.0 if free and problem.upper[i] < np.inf else 0.0
            exists[RISE, s, i] = 1.0 if trades else 0.0
            exists[FALL, s, i] = exists[RISE, s, i]
            for kind in range(4):
                rows += int(exists[kind, s, i])
    if coupling is not None:
        rows += count_coupling(coupling)
    return rows
