"""From a solver's approximate answer to the exact point: which rows are active, the polish, and its certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import NonConvexError
from ..matrices import System
from ..program.units import ScaledVectors
from .refinement import ActiveRows, KKTSolution, factor_active_set, largest, refine
from .stalled import solve_by_kkt_factor

__all__ = [
    "CONVERGED",
    "CORRECTIONS",
    "EXACT_ROWS",
    "FROM_NOTHING",
    "WEAK",
    "Certificate",
    "Point",
    "certify",
    "guess_active",
    "polish",
]

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

# In the equilibrated program, a multiplier or slack of at most this is zero: the row is weakly active if both are.
WEAK = 1e-10
# Corrections of an active set that was read off a solver's point, and of one that starts empty.
CORRECTIONS = 12
FROM_NOTHING = 20
# A polished point solves its equality-constrained program up to this residual, relative to the terms it is made of.
_EXACT = 1e-10
# Its active rows are met more closely: a larger residual there means rows that are almost, but not quite, multiples of
# each other.
EXACT_ROWS = 1e-13
# Refinement that ends above this has stalled: the KKT matrix itself must be factored to tell why.
CONVERGED = 1e-14


@dataclass(frozen=True, slots=True)
class Certificate:
    """Residuals of the KKT conditions in the equilibrated program, relative to the terms they are made of.

    ``primal``: violation of rows and bounds; ``dual``: stationarity and signs of multipliers; ``gap``: complementarity,
    relative to the objective.  All are dimensionless and do not depend on the units of x, objective or rows.
    """

    primal: float
    dual: float
    gap: float

    @property
    def worst(self) -> float:
        """The largest of them; infinite where one is not a number."""
        sizes = (self.primal, self.dual, self.gap)
        return max(sizes) if all(size < math.inf for size in sizes) else math.inf


@dataclass(slots=True)
class Point:
    """A primal-dual point of a scaled program with its active set.

    ``active`` is None until its factor is needed.
    """

    x: Vector
    y: Vector
    z_box: Vector | None
    rows: Mask
    lower: Mask | None
    upper: Mask | None
    slack: Vector
    active: ActiveRows | None = None
    polished: bool = False
    weak: bool = False

    @property
    def at_bound(self) -> Mask | None:
        return None if self.lower is None or self.upper is None else self.lower | self.upper


def _slack(system: System, vectors: ScaledVectors, x: Vector) -> Vector:
    return vectors.d - system.C_dot(x) if vectors.d.size else vectors.d


def certify(system: System, vectors: ScaledVectors, point: Point) -> Certificate:
    """Certificate of a primal-dual point of the scaled program, from products with the matrices themselves."""
    p, x, y, z_box = system.n_eq, point.x, point.y, point.z_box
    if not all(part is None or np.isfinite(part).all() for part in (x, y, z_box)):
        # As a solver may leave what it did not finish.
        return Certificate(math.inf, math.inf, math.inf)
    Px = system.P_dot(x)
    dual = Px + vectors.q
    scale = max(vectors.dual_size, largest(Px))
    xPx, qx = float(x.dot(Px)), float(x.dot(vectors.q))
    support, primal, sign = 0.0, 0.0, 0.0
    if vectors.d.size:
        pull = system.Ct_dot(y)
        dual += pull
        scale = max(scale, largest(pull))
        if p:
            primal = largest(point.slack[:p])
        if vectors.d.size > p:
            primal = max(primal, -float(point.slack[p:].min()))
            sign = max(sign, -float(y[p:].min()))
        support = float(y.dot(vectors.d))
    if z_box is not None:
        dual += z_box
        scale = max(scale, largest(z_box))
        for bound, side in ((vectors.ub, 1.0), (vectors.lb, -1.0)):
            # At the bound it pushes against, a multiplier counts with that bound; pushing against none, as a wrong
            # sign.
            push = np.maximum(side * z_box, 0.0)
            if bound is None:
                sign = max(sign, float(push.max()))
                continue
            primal = max(primal, float((side * (x - bound)).max()))
            infinite = np.isinf(bound)
            if infinite.any():
                sign = max(sign, float(push[infinite].max()))
                bound = np.where(infinite, x, bound)
            support += side * float(push.dot(bound))
    gap = abs(xPx + qx + support) / max(abs(qx) + abs(xPx) + abs(support), vectors.dual_size)
    return Certificate(primal / max(1.0, largest(x)), max(largest(dual), sign) / scale, gap)


def guess_active(system: System, vectors: ScaledVectors, x: Vector, y: Vector, z_box: Vector | None) -> Point:
    """Active where the multiplier outweighs the slack, both in the units of the equilibrated program."""
    p, size = system.n_eq, vectors.dual_size
    slack = _slack(system, vectors, x)
    rows = y > size * slack
    rows[:p] = True
    if z_box is None:
        return Point(x, y, None, rows, None, None, slack)
    nothing = np.zeros(x.size, dtype=bool)
    lower = -z_box > size * (x - vectors.lb) if vectors.lb is not None else nothing
    upper = z_box > size * (vectors.ub - x) if vectors.ub is not None else nothing
    if vectors.fixed is not None:
        lower, upper = lower | vectors.fixed, upper & ~vectors.fixed
    return Point(x, y, z_box, rows, lower, upper, slack)


def _bound_target(vectors: ScaledVectors, point: Point) -> Vector | None:
    if point.lower is None or point.upper is None:
        return None
    target = np.zeros(point.x.size)
    if vectors.lb is not None:
        target = np.where(point.lower, vectors.lb, target)
    if vectors.ub is not None:
        target = np.where(point.upper, vectors.ub, target)
    return target


def polish(system: System, vectors: ScaledVectors, guess: Point) -> Point | None:
    """Solve the equality-constrained program on the guessed active set; correct the set where the answer contradicts.

    A multiplier of the wrong sign leaves the set, a violated row enters it, a few times over.  Returns None if no set
    is found whose exact solution is feasible with multipliers of the right signs: the guess came from too rough a
    point.
    """
    rows, lower, upper = guess.rows, guess.lower, guess.upper
    seen: set[bytes] = set()
    for corrections in range(CORRECTIONS):
        point = Point(guess.x, guess.y, guess.z_box, rows, lower, upper, guess.slack)
        if corrections:
            key = rows.tobytes() + b"".join(mask.tobytes() for mask in (lower, upper) if mask is not None)
            if key in seen:
                return None
            seen.add(key)
        found = _solve_on(system, vectors, point)
        if found is None:
            return None
        point.x, point.y, point.z_box, point.slack = found.v, found.s, found.s_box, _slack(system, vectors, found.v)
        wrong_rows, least = _contradictions(system.n_eq, vectors, point)
        wrong_bounds = None
        if lower is not None and upper is not None:
            wrong_bounds, least_of_bounds = _bound_contradictions(vectors, point, lower, upper)
            least = min(least, least_of_bounds)
        if least >= -1.0:
            point.polished, point.weak = True, least <= 1.0
            if rows.size > system.n_eq:
                np.maximum(point.y[system.n_eq :], 0.0, out=point.y[system.n_eq :])
            return point
        rows = rows ^ wrong_rows
        if wrong_bounds is not None and lower is not None and upper is not None:
            leaves, to_lower, to_upper = wrong_bounds
            lower, upper = (lower & ~leaves) | to_lower, (upper & ~leaves) | to_upper
    return None


def _solve_on(system: System, vectors: ScaledVectors, point: Point) -> KKTSolution | None:
    """The exact solution on the active rows and bounds of ``point``, or None where it cannot be had exactly."""
    try:
        active = point.active = factor_active_set(system, point.rows, point.at_bound)
    except NonConvexError:
        return None
    target = _bound_target(vectors, point)
    found = refine(system, active, vectors.q, vectors.d, target, KKTSolution(point.x, point.y, point.z_box))
    if not found.residual <= CONVERGED:
        found = solve_by_kkt_factor(system, active, vectors.q, vectors.d, target, found)
    return found if found.residual <= _EXACT and found.row_residual <= EXACT_ROWS else None


def _contradictions(n_eq: int, vectors: ScaledVectors, point: Point) -> tuple[Mask, float]:
    """Inequalities whose multiplier (if active) or slack (if not) is negative, and the least of these over WEAK."""
    wrong = np.zeros(point.rows.size, dtype=bool)
    if point.rows.size == n_eq:
        return wrong, np.inf
    size_x = WEAK * max(1.0, largest(point.x))
    shown = np.where(point.rows, point.y * (1.0 / (WEAK * vectors.dual_size)), point.slack * (1.0 / size_x))
    least = float(shown[n_eq:].min())
    if least < -1.0:
        wrong[n_eq:] = shown[n_eq:] < -1.0
    return wrong, least


def _bound_contradictions(
    vectors: ScaledVectors, point: Point, lower: Mask, upper: Mask
) -> tuple[tuple[Mask, Mask, Mask], float]:
    """The same for bounds: variables that leave their bound, that reach the lower one, that reach the upper one."""
    assert point.z_box is not None
    nothing = np.zeros(lower.size, dtype=bool)
    size_z, size_x = WEAK * vectors.dual_size, WEAK * max(1.0, largest(point.x))
    push = np.where(upper, point.z_box, np.where(lower, -point.z_box, np.inf))
    if vectors.fixed is not None:
        push = np.where(vectors.fixed, np.inf, push)
    least = float(push.min()) / size_z
    below = above = None
    free = ~(lower | upper)
    if vectors.lb is not None:
        below = np.where(free, point.x - vectors.lb, np.inf)
        least = min(least, float(below.min()) / size_x)
    if vectors.ub is not None:
        above = np.where(free, vectors.ub - point.x, np.inf)
        least = min(least, float(above.min()) / size_x)
    if least >= -1.0:
        return (nothing, nothing, nothing), least
    return (
        push < -size_z,
        nothing if below is None else below < -size_x,
        nothing if above is None else above < -size_x,
    ), least


def strict_rows(system: System, vectors: ScaledVectors, point: Point) -> tuple[Mask, Mask | None, Mask, Mask | None]:
    """Split the active set by strict complementarity.

    Returns
    -------
    rows, at_bound : masks of the rows and bounds that are active with a positive multiplier (equalities always are)
    weak_rows, weak_bounds : masks of those whose slack and multiplier are both zero
    """
    p = system.n_eq
    tolerance = WEAK * vectors.dual_size
    size_x = WEAK * max(1.0, float(np.abs(point.x).max()))
    rows = point.rows.copy()
    weak = np.zeros(rows.size, dtype=bool)
    if rows.size > p:
        weak = (point.y <= tolerance) & (point.slack <= size_x)
        weak[:p] = False
        rows &= ~weak
    at_bound, weak_bounds = point.at_bound, None
    if point.z_box is not None and at_bound is not None:
        room = np.full(point.x.size, np.inf)
        if vectors.lb is not None:
            room = np.minimum(room, point.x - vectors.lb)
        if vectors.ub is not None:
            room = np.minimum(room, vectors.ub - point.x)
        weak_bounds = (np.abs(point.z_box) <= tolerance) & (room <= size_x)
        if vectors.fixed is not None:
            weak_bounds &= ~vectors.fixed
        at_bound = at_bound & ~weak_bounds
    return rows, at_bound, weak, weak_bounds
