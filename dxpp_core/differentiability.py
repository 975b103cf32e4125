"""Where the solution map has no derivative, and which rows are to blame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .active_set import Point, strict_rows
from .factorization import System
from .sensitivity import ActiveRows, hold, refine
from .units import ScaledVectors

__all__ = ["DifferentiabilityWarning", "loose_weak_rows"]

Array = NDArray[np.float64]

# A direction moves a row if it changes it by more than this, relative to the row.
_MOVED = 1e-7


@dataclass(frozen=True, slots=True)
class DifferentiabilityWarning:
    """The derivative at one element is a documented choice, not the derivative of a smooth map.

    ``kind``: ``"weakly active"`` (slack and multiplier of these rows are zero: they are left out of the active set),
    ``"not unique"`` (the loss or the tangent sees components that the problem does not determine: they are
    held), or ``"not polished"`` (no active set reproduces the solver's point exactly: the guess from that point is
    used). ``rows`` index G, ``bounds`` index x.
    """

    kind: Literal["weakly active", "not unique", "not polished"]
    batch_element: tuple[int, ...]
    rows: tuple[int, ...] = ()
    bounds: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = f"batch element {self.batch_element}: " if self.batch_element else ""
        named = [
            f"{kind} {list(which)}" for kind, which in (("rows of G", self.rows), ("bounds of x", self.bounds)) if which
        ]
        return f"{where}{self.kind}" + (f" ({', '.join(named)})" if named else "")


def loose_weak_rows(system: System, vectors: ScaledVectors, point: Point) -> tuple[list[int], list[int]]:
    """Weakly active rows of C and bounds that are not tight in every direction the strictly active ones allow."""
    rows, box, weak, weak_box = strict_rows(system, vectors, point)
    if not weak.any() and (weak_box is None or not weak_box.any()):
        return [], []
    strictly = hold(system, rows, box)
    weak_rows: list[int] = np.flatnonzero(weak).tolist()
    weak_bounds: list[int] = [] if weak_box is None else np.flatnonzero(weak_box).tolist()
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
