"""Where the solution map has no derivative, and which rows are to blame."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..matrices import System
from ..program.units import ScaledVectors
from .active_set import Point, strict_rows
from .refinement import ActiveRows, KKTSolution, factor_active_set, refine
from .stalled import solve_by_kkt_factor

__all__ = ["DifferentiabilityWarning", "dependent_rows", "loose_weak_rows", "probe"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# A direction moves a row if it changes it by more than this, relative to the row.
_MOVED = 1e-7
# After so many solves, less than _MET is left of a right-hand side that some point meets; of any other, more.
_SOLVES, _MET = 5, 1e-6
# Share in such a right-hand side from which a row counts as one of those that depend on each other.
_SHARE = 1e-3
# Rows that a factor of the KKT matrix itself still tells apart do not depend on each other.
_TOLD_APART = 1e-9


@dataclass(frozen=True, slots=True)
class DifferentiabilityWarning:
    """The derivative at one element is a documented choice, not the derivative of a smooth map.

    ``kind``: ``"weakly active"`` (slack and multiplier of these rows are zero: they are left out of the active set),
    ``"not unique"`` (the loss or the tangent sees components that the problem does not determine: their change is taken
    to be zero), ``"dependent"`` (these active rows are linearly dependent, among themselves or on active bounds, so
    that x follows no small change of all of their entries and limits: gradients of these are those of least norm), or
    ``"not polished"`` (no active set reproduces the solver's point exactly: the guess from that point is
    used). ``rows`` index G, ``equalities`` A, ``bounds`` x.
    """

    kind: Literal["weakly active", "not unique", "dependent", "not polished"]
    batch_element: tuple[int, ...]
    rows: tuple[int, ...] = ()
    bounds: tuple[int, ...] = ()
    equalities: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = f"batch element {self.batch_element}: " if self.batch_element else ""
        named = [
            f"{kind} {list(which)}"
            for kind, which in (
                ("rows of G", self.rows),
                ("rows of A", self.equalities),
                ("bounds of x", self.bounds),
            )
            if which
        ]
        return f"{where}{self.kind}" + (f" ({', '.join(named)})" if named else "")


def loose_weak_rows(system: System, vectors: ScaledVectors, point: Point) -> tuple[list[int], list[int]]:
    """Weakly active rows of C and bounds that are not tight in every direction the strictly active ones allow."""
    rows, at_bound, weak, is_weak_bound = strict_rows(system, vectors, point)
    if not weak.any() and (is_weak_bound is None or not is_weak_bound.any()):
        return [], []
    strictly = factor_active_set(system, rows, at_bound)
    weak_rows: list[int] = np.flatnonzero(weak).tolist()
    weak_bounds: list[int] = [] if is_weak_bound is None else np.flatnonzero(is_weak_bound).tolist()
    loose_rows = [i for i in weak_rows if _moves(system, strictly, system.Ct_dot(_unit(rows.size, i)))]
    loose_bounds = [j for j in weak_bounds if _moves(system, strictly, _unit(system.D.size, j))]
    return loose_rows, loose_bounds


def _unit(size: int, place: int) -> Array:
    unit = np.zeros(size)
    unit[place] = 1.0
    return unit


def _moves(system: System, strictly: ActiveRows, gradient: Array) -> bool:
    """Whether the tangent space of the strictly active rows holds a direction that changes ``gradient``ᵀx."""
    found = refine(system, strictly, -gradient, None, None)
    return bool(abs(gradient.dot(found.v)) > _MOVED * gradient.dot(gradient))


@lru_cache(8)
def probe(m: int) -> Array:
    """A vector [m] that has a part across the range of any rows that depend on one another; it is only read."""
    return np.random.default_rng(0).normal(size=m)


def dependent_rows(system: System, active: ActiveRows) -> Mask | None:
    """The active rows of C that are linearly dependent over the variables at no active bound; None if none are.

    With T = √κ B H⁻¹ Bᵀ √κ, the powers of I − T leave the part of a vector that lies across the range of B, and remove
    the rest, at once where rows are well apart.
    """
    if not active.rows.any():
        return None
    root = np.sqrt(active.kappa)
    start = left = np.where(active.rows, probe(active.rows.size), 0.0)
    for _ in range(_SOLVES):
        pull = system.Ct_dot(root * left)
        if active.at_bound is not None:
            pull = np.where(active.at_bound, 0.0, pull)
        left = left - root * system.C_dot(active.factor.solve(pull))
        if float(np.abs(left).max()) <= _MET:
            return None
    stiff = np.where(active.rows, root, 1.0)
    found = solve_by_kkt_factor(
        system, active, np.zeros(system.D.size), np.where(active.rows, start / stiff, 0.0), None, _nothing(system)
    )
    if found.row_residual <= _TOLD_APART:
        return None
    dependent: Mask = np.abs(left) > _SHARE * float(np.abs(left).max())
    return dependent


def _nothing(system: System) -> KKTSolution:
    n, m = system.D.size, system.E.size
    return KKTSolution(np.zeros(n), np.zeros(m), np.zeros(n))
