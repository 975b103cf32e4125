"""Why a solve failed: infeasible, unbounded, or merely unsolved, shown by certificates that linear programs suggest.

The linear programs are HiGHS' (through SciPy), which works to 1e-7 and takes entries below 1e-9 for zeros.  What it
finds is therefore a suggestion: nothing is said of a program but what its own numbers confirm, term by term.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from ..errors import IllConditionedError, InfeasibleError, UnboundedError
from ..matrices import System
from ..program.units import ScaledVectors

__all__ = ["explain_failure"]

Array = NDArray[np.float64]

_LARGEST = 200_000
# Sums of products are zero if they are at most this share of their terms, or the rounding of lower precision.
_ROUNDING = 1e-12
_LEAST_ROUNDINGS = 4.0
# A violation or descent of more than this is one for HiGHS.
_NOTICED = 1e-7


@dataclass(slots=True)
class _Limits:
    """C = [A; G] of the equilibrated program with d = [b; h], and the bounds, all as they are."""

    C: Any
    n_eq: int
    d: Array
    lb: Array
    ub: Array
    share: float


def explain_failure(
    system: System,
    vectors: ScaledVectors,
    batch_element: tuple[int, ...],
    *,
    precision: float = 0.0,
    final: bool = False,
    verdict: str = "",
) -> None:
    """Raise :class:`InfeasibleError` or :class:`UnboundedError` if the problem is shown to be; return if not.

    Infeasible: multipliers of the limits (Farkas) whose combination no x within the bounds meets.  Unbounded: a
    direction d with Pd = 0, Ad = 0, Gd ≤ 0 that respects the bounds and along which qᵀd < 0.  ``precision``: relative
    rounding with which the arguments are known, if they came in lower precision than float64.  ``verdict``: what a
    solver has concluded, if anything.

    Raises
    ------
    IllConditionedError
        With ``final``: where multipliers or a direction almost do, so that a solution, if there is one, is very far
        away; or where a solver says that they do, and nothing else does.
    """
    n = vectors.q.size
    if n > _LARGEST:
        return
    lb = np.full(n, -np.inf) if vectors.lb is None else vectors.lb
    ub = np.full(n, np.inf) if vectors.ub is None else vectors.ub
    share = max(_ROUNDING, _LEAST_ROUNDINGS * (n + vectors.d.size) * precision)
    limits = _Limits(system.sparse_rows(), system.n_eq, vectors.d, lb, ub, share)
    violation, multipliers = _least_violation(limits)
    if multipliers is not None and _shows_infeasible(limits, multipliers):
        raise InfeasibleError("no x satisfies all of Gx ≤ h, Ax = b and the bounds", batch_element=batch_element)
    if violation > _NOTICED:
        if final:
            raise IllConditionedError(
                "the limits are too ill-conditioned to decide whether any x satisfies all of Gx ≤ h, Ax = b and the "
                "bounds: rows are almost, but not quite, multiples of one another, or contradict each other by no more "
                "than rounding; give them in float64, scale them, or leave out the repeated ones",
                batch_element=batch_element,
            )
        return
    P = system.sparse_P()
    direction = _steepest_ray(P, vectors.q, limits)
    if direction is None:
        if final and verdict:
            raise IllConditionedError(
                f"the program is too ill-conditioned to solve: the solver takes it for {verdict}, which its numbers do "
                "not show; a solution, if there is one, is very far away: scale the program, or bound x",
                batch_element=batch_element,
            )
        return
    if _shows_unbounded(P, vectors.q, limits, direction):
        variable = int(np.abs(direction).argmax())
        raise UnboundedError(
            f"the objective falls without limit along a feasible direction (largest in variable {variable}); "
            "bound x or add curvature to P",
            batch_element=batch_element,
        )
    if final:
        raise IllConditionedError(
            "the program is too ill-conditioned to decide whether its objective falls without limit: P is almost, but "
            "not quite, flat along a direction of descent; bound x, scale the program, or add curvature to P",
            batch_element=batch_element,
        )


def _least_violation(limits: _Limits) -> tuple[float, Array | None]:
    """Σ|Ax − b| + Σ max(Gx − h, 0) at its least within the bounds, with its multipliers of the rows."""
    m, n = limits.C.shape
    p = limits.n_eq
    if not m or not _representable(limits.C, limits.d):
        return 0.0, None
    short, over = -sparse.identity(m, format="csr"), sparse.identity(m, format="csr")[:, :p]
    elastic = sparse.hstack([limits.C, short, over], format="csc")
    found = linprog(
        np.concatenate([np.zeros(n), np.ones(m + p)]),
        A_ub=elastic[p:] if m > p else None,
        b_ub=limits.d[p:] if m > p else None,
        A_eq=elastic[:p] if p else None,
        b_eq=limits.d[:p] if p else None,
        bounds=np.column_stack(
            [np.concatenate([limits.lb, np.zeros(m + p)]), np.concatenate([limits.ub, np.full(m + p, np.inf)])]
        ),
        method="highs",
    )
    if found.status != 0:
        return 0.0, None
    return float(found.fun), -np.concatenate([found.eqlin.marginals, found.ineqlin.marginals])


def _shows_infeasible(limits: _Limits, multipliers: Array) -> bool:
    """Whether yᵀ(Cx) = yᵀd, z ≥ 0, is out of reach of every x within the bounds by more than rounding."""
    p = limits.n_eq
    y = np.concatenate([multipliers[:p], np.maximum(multipliers[p:], 0.0)])
    pull = limits.C.T @ y
    terms = abs(limits.C).T @ np.abs(y)
    bound = np.where(pull > 0.0, limits.lb, limits.ub)
    missing = ~np.isfinite(bound)
    if (np.abs(pull) > limits.share * terms)[missing].any():
        return False
    bound = np.where(missing, 0.0, bound)
    margin = float(pull.dot(bound) - y.dot(limits.d))
    # Of limits far away, what a float64 of that size leaves out decides nothing either.
    rounding = float(terms.dot(np.abs(bound)) + np.abs(y).dot(np.abs(limits.d)))
    return margin > limits.share * rounding


def _steepest_ray(P: Any, q: Array, limits: _Limits) -> Array | None:
    """A direction along which the objective falls, to HiGHS' tolerances; None if there is none."""
    p = limits.n_eq
    level = sparse.vstack([P, limits.C[:p]], format="csc") if p else P
    G = limits.C[p:] if limits.C.shape[0] > p else None
    if not _representable(level, q):
        return None
    found = linprog(
        q,
        A_ub=G,
        b_ub=None if G is None else np.zeros(G.shape[0]),
        A_eq=level,
        b_eq=np.zeros(level.shape[0]),
        bounds=np.column_stack([np.where(np.isinf(limits.lb), -1.0, 0.0), np.where(np.isinf(limits.ub), 1.0, 0.0)]),
        method="highs",
    )
    if found.status != 0 or not found.fun < -_NOTICED * max(1.0, float(np.abs(q).max())):
        return None
    direction: Array = found.x
    return direction


def _shows_unbounded(P: Any, q: Array, limits: _Limits, direction: Array) -> bool:
    """Whether Pd = 0, Ad = 0, Gd ≤ 0 and qᵀd < 0 but for rounding."""
    p, size = limits.n_eq, np.abs(direction)
    change = limits.C @ direction
    change[:p] = np.abs(change[:p])
    level = (np.abs(P @ direction) <= limits.share * (abs(P) @ size)).all()
    allowed = (change <= limits.share * (abs(limits.C) @ size)).all()
    return bool(level and allowed and q.dot(direction) < -limits.share * np.abs(q).dot(size))


def _representable(matrix: Any, vector: Array) -> bool:
    return bool(np.isfinite(matrix.data).all() and np.isfinite(vector).all())
