"""From a solver's approximate answer to the exact point: which rows are active, the polish, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .errors import NonConvexError
from .factorization import System
from .sensitivity import ActiveRows, KKTSolution, hold, refine, solve_by_kkt_factor

__all__ = ["WEAK", "Certificate", "Point", "ScaledVectors", "certify", "guess_active", "polish"]

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

# In the equilibrated program, a multiplier or slack of at most this is zero: the row is weakly active if both are.
WEAK = 1e-10
_CORRECTIONS = 12
# A polished point solves its equality-constrained program up to this residual, relative to the terms it is made of.
_EXACT = 1e-10
# Its rows hold more closely: a larger residual there means rows that are almost, but not quite, multiples of each other.
_EXACT_ROWS = 1e-12


@dataclass(slots=True)
class ScaledVectors:
    """q̂, d̂ = [b̂; ĥ], bounds, and what fixes their units: α (size of x), c (objective) and the size of the duals."""

    q: Vector
    d: Vector
    lb: Vector | None
    ub: Vector | None
    fixed: Mask | None
    alpha: float
    c: float
    dual_size: float


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
        return max(self.primal, self.dual, self.gap)


@dataclass(slots=True)
class Point:
    """A primal-dual point of a scaled program with its active set; ``active`` is None until somebody needs its factor."""

    x: Vector
    y: Vector
    z_box: Vector | None
    rows: Mask
    lower: Mask | None
    upper: Mask | None
    active: ActiveRows | None = None
    polished: bool = False
    weak: bool = False
    corrections: int = field(default=0)

    @property
    def box(self) -> Mask | None:
        return None if self.lower is None or self.upper is None else self.lower | self.upper


def _slack(system: System, vectors: ScaledVectors, x: Vector) -> Vector:
    return vectors.d - system.C_dot(x) if vectors.d.size else vectors.d


def certify(system: System, vectors: ScaledVectors, x: Vector, y: Vector, z_box: Vector | None) -> Certificate:
    """Certificate of any primal-dual point of the scaled program."""
    p = system.n_eq
    Px = system.P_dot(x)
    dual = Px + vectors.q
    scale = max(vectors.dual_size, float(np.abs(Px).max()))
    size_x = max(1.0, float(np.abs(x).max()))
    xPx, qx = float(x.dot(Px)), float(x.dot(vectors.q))
    terms, support, primal, sign = abs(qx) + abs(xPx), 0.0, 0.0, 0.0
    if vectors.d.size:
        pull = system.Ct_dot(y)
        dual += pull
        scale = max(scale, float(np.abs(pull).max()))
        slack = _slack(system, vectors, x)
        primal = max(float(np.abs(slack[:p]).max(initial=0.0)), -float(slack[p:].min(initial=0.0)))
        sign = -float(y[p:].min(initial=0.0))
        support = float(y.dot(vectors.d))
    if z_box is not None:
        dual += z_box
        scale = max(scale, float(np.abs(z_box).max()))
        if vectors.ub is not None:
            primal = max(primal, float((x - vectors.ub).max()))
            used = z_box > 0.0
            support += float(z_box[used].dot(np.where(np.isfinite(vectors.ub[used]), vectors.ub[used], x[used])))
            sign = max(sign, float(z_box[np.isinf(vectors.ub)].max(initial=0.0)))
        if vectors.lb is not None:
            primal = max(primal, float((vectors.lb - x).max()))
            used = z_box < 0.0
            support += float(z_box[used].dot(np.where(np.isfinite(vectors.lb[used]), vectors.lb[used], x[used])))
            sign = max(sign, -float(z_box[np.isinf(vectors.lb)].min(initial=0.0)))
    gap = abs(xPx + qx + support) / max(terms + abs(support), vectors.dual_size)
    return Certificate(primal / size_x, max(float(np.abs(dual).max()), sign) / scale, gap)


def guess_active(system: System, vectors: ScaledVectors, x: Vector, y: Vector, z_box: Vector | None) -> Point:
    """Active where the multiplier outweighs the slack, both in the units of the equilibrated program."""
    p = system.n_eq
    if vectors.d.size:
        rows = y > vectors.dual_size * _slack(system, vectors, x)
        rows[:p] = True
    else:
        rows = np.zeros(0, dtype=bool)
    if z_box is None:
        return Point(x, y, None, rows, None, None)
    size = vectors.dual_size
    lower = -z_box > size * (x - vectors.lb) if vectors.lb is not None else np.zeros(x.size, dtype=bool)
    upper = z_box > size * (vectors.ub - x) if vectors.ub is not None else np.zeros(x.size, dtype=bool)
    if vectors.fixed is not None:
        lower |= vectors.fixed
        upper &= ~vectors.fixed
    return Point(x, y, z_box, rows, lower, upper)


def _box_target(vectors: ScaledVectors, point: Point) -> Vector | None:
    if point.lower is None or point.upper is None:
        return None
    target = np.zeros(point.x.size)
    if vectors.lb is not None:
        target = np.where(point.lower, vectors.lb, target)
    if vectors.ub is not None:
        target = np.where(point.upper, vectors.ub, target)
    return target


def polish(system: System, vectors: ScaledVectors, guess: Point) -> Point | None:
    """Solve the equality-constrained program on the guessed active set, correcting the set where the answer contradicts it.

    A multiplier of the wrong sign leaves the set, a violated row enters it, a few times over.  Returns None if no set
    is found whose exact solution is feasible with multipliers of the right signs: the guess came from too rough a point.
    """
    p = system.n_eq
    rows, lower, upper = guess.rows, guess.lower, guess.upper
    point = guess
    seen: set[bytes] = set()
    for corrections in range(_CORRECTIONS):
        key = rows.tobytes() + (lower.tobytes() + upper.tobytes() if lower is not None and upper is not None else b"")
        if key in seen:
            return None
        seen.add(key)
        point = Point(guess.x, guess.y, guess.z_box, rows, lower, upper)
        try:
            active = hold(system, rows, point.box)
        except NonConvexError:
            return None
        start = KKTSolution(guess.x, guess.y, guess.z_box)
        target = _box_target(vectors, point)
        found = refine(system, active, vectors.q, vectors.d, target, start)
        if found.residual > _EXACT or found.row_residual > _EXACT_ROWS:
            found = solve_by_kkt_factor(system, active, vectors.q, vectors.d, target, found)
        if not (found.residual <= _EXACT and found.row_residual <= _EXACT_ROWS):
            return None
        x, y, z_box = found.v, found.s, found.s_box
        tolerance = WEAK * vectors.dual_size
        size_x = WEAK * max(1.0, float(np.abs(x).max()))
        wrong = False
        smallest = np.inf
        if rows.size > p:
            slack = _slack(system, vectors, x)
            # Each inequality shows one number: its multiplier if held, its slack if not.
            shown = np.where(rows, y / tolerance, slack / size_x)[p:]
            smallest = float(shown.min())
            if smallest < -1.0:
                wrong = True
                bad = np.concatenate([np.zeros(p, dtype=bool), shown < -1.0])
                rows = rows ^ bad
        if z_box is not None and lower is not None and upper is not None:
            free = ~(lower | upper)
            box_shown = np.where(upper, z_box, -z_box) / tolerance
            if vectors.fixed is not None:
                box_shown[vectors.fixed] = np.inf
            box_shown[free] = np.inf
            smallest = min(smallest, float(box_shown.min()))
            lower, upper, lower_before = lower & (box_shown >= -1.0), upper & (box_shown >= -1.0), lower
            wrong |= bool((box_shown < -1.0).any())
            if vectors.lb is not None:
                room = np.where(free, x - vectors.lb, np.inf)
                smallest = min(smallest, float(room.min()) / size_x)
                if smallest < -1.0:
                    below = room < -size_x
                    wrong |= bool(below.any())
                    lower = lower | below
            if vectors.ub is not None:
                room = np.where(free, vectors.ub - x, np.inf)
                smallest = min(smallest, float(room.min()) / size_x)
                if smallest < -1.0:
                    above = room < -size_x
                    wrong |= bool(above.any())
                    upper = upper | above
            if not wrong:
                lower = lower_before
        if not wrong:
            if rows.size > p:
                np.maximum(y[p:], 0.0, out=y[p:])
            return Point(x, y, z_box, point.rows, point.lower, point.upper, active, True, smallest <= 1.0, corrections)
    return None


def strict_rows(system: System, vectors: ScaledVectors, point: Point) -> tuple[Mask, Mask | None, Mask, Mask | None]:
    """Split the active set by strict complementarity.

    Returns
    -------
    rows, box : masks of the rows and bounds that are active with a positive multiplier (equalities always are)
    weak_rows, weak_box : masks of those whose slack and multiplier are both zero
    """
    p = system.n_eq
    tolerance = WEAK * vectors.dual_size
    size_x = WEAK * max(1.0, float(np.abs(point.x).max()))
    rows = point.rows.copy()
    weak = np.zeros(rows.size, dtype=bool)
    if rows.size > p:
        slack = _slack(system, vectors, point.x)
        weak = (point.y <= tolerance) & (slack <= size_x)
        weak[:p] = False
        rows &= ~weak
    box, weak_box = point.box, None
    if point.z_box is not None and box is not None:
        room = np.full(point.x.size, np.inf)
        if vectors.lb is not None:
            room = np.minimum(room, point.x - vectors.lb)
        if vectors.ub is not None:
            room = np.minimum(room, vectors.ub - point.x)
        weak_box = (np.abs(point.z_box) <= tolerance) & (room <= size_x)
        if vectors.fixed is not None:
            weak_box &= ~vectors.fixed
        box = box & ~weak_box
    return rows, box, weak, weak_box
