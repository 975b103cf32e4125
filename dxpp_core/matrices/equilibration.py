"""Equilibration: the same program in units in which tolerances, stiffnesses and active sets have a meaning.

With x = α D x̂, rows multiplied by E and the objective by c/α², the scaled program has P̂ = c D P D, q̂ = c D q / α,
Ĉ = E C D, d̂ = E d / α.  D and E come from Ruiz's iteration (RAL-TR-2001-034) on [[P̂, Ĉᵀ], [Ĉ, 0]], after rows and
objective have been normalised, so that they do not depend on the units of rows, objective or x.  α is the size of
D⁻¹x that the constraints and the unconstrained minimum suggest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["equilibrate", "smallest_limit"]

Vector = NDArray[np.float64]
# Column maxima of |D P D|, column maxima of |E C D|, row maxima of |E C D|.
Maxima = Callable[[Vector, Vector], tuple[Vector, Vector, Vector]]

_PASSES = 12
_BALANCED = 4.0
_LEFT_ALONE = 32.0


def _or_one(values: Vector) -> Vector:
    return np.where(values > 0.0, values, 1.0) if not values.all() else values


def equilibrate(maxima: Maxima, n: int, n_rows: int) -> tuple[Vector, Vector, float]:
    """Scales D (variables, n), E (rows) and c (objective) of a program with n variables.

    ``maxima(D, E)`` returns the column maxima of |D P D| and of |E C D|, and the row maxima of |E C D|.
    """
    D, E = np.ones(n), np.ones(n_rows)
    in_P, in_C, in_row = maxima(D, E)
    top = in_P.max()
    if n_rows:
        E = 1.0 / _or_one(in_row)
    c = 1.0 / top if top > 0.0 else 1.0
    limit = _LEFT_ALONE
    for _ in range(_PASSES):
        if n_rows:
            in_P, in_C, in_row = maxima(D, E)
            in_row = _or_one(in_row)
            column = _or_one(np.maximum(c * in_P, in_C))
            spread = max(column.max(), 1.0 / column.min(), in_row.max(), 1.0 / in_row.min())
        else:
            column = _or_one(c * in_P)
            spread = max(column.max(), 1.0 / column.min())
        if spread <= limit:
            break
        limit = _BALANCED
        D = D / np.sqrt(column)
        if n_rows:
            E = E / np.sqrt(in_row)
        else:
            in_P = maxima(D, E)[0]
        if top > 0.0 and n_rows:
            c = 1.0 / maxima(D, E)[0].max()
        elif top > 0.0:
            c = 1.0 / in_P.max()
    return D, E, c


def smallest_limit(*limits: Vector | None) -> float:
    """Smallest magnitude among the limits that are neither zero nor infinite; infinity if there is none."""
    least = np.inf
    for values in limits:
        if values is not None:
            sizes = np.abs(values[np.isfinite(values) & (values != 0.0)])
            least = min(least, float(sizes.min(initial=np.inf)))
    return least
