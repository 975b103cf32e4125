"""Where the numbers of one solved program lie: the compiled loops and NumPy see them through the same views."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compilation import viewing

__all__ = [
    "FACTS",
    "Matrices",
    "Signs",
    "Store",
    "store_size",
    "view_matrices",
    "view_signs",
    "view_store",
]

_Array = NDArray[np.float64]
_Mask = NDArray[np.bool_]

#: Columns of the facts about one element: whether the point is certified with every row strictly active or inactive,
#: the certificate (primal, dual, gap), active sets tried, the unit of x, that of the objective, the size of the duals.
FACTS = ("plain", "primal", "dual", "gap", "tried", "alpha", "c", "dual_size")


class Matrices(NamedTuple):
    """The equilibrated matrices of a program: P (or its diagonal), C = [A; G], the scales D of x and E of the rows."""

    P: _Array
    C: _Array
    D: _Array
    E: _Array


class Signs(NamedTuple):
    """The active set: rows, variables at their lower and at their upper bound, and variables at either."""

    rows: _Mask
    lower: _Mask
    upper: _Mask
    pinned: _Mask


class Store(NamedTuple):
    """A point of the equilibrated program, stiffnesses and factor of its rows, and the point in the user's units."""

    x: _Array
    z_box: _Array
    y: _Array
    slack: _Array
    kappa: _Array
    own_x: _Array
    own_y: _Array
    own_z_box: _Array
    factor: _Array


def store_size(P: _Array, m: int) -> int:
    """Numbers that `view_store` divides."""
    n: int = P.shape[0]
    return 4 * n + 4 * m + (n + m * m if P.ndim == 1 else n * n)


@viewing
def view_matrices(P: _Array, others: _Array, m: int) -> Matrices:
    """C, D and E lie one after the other."""
    n = P.shape[0]
    end = m * n
    return Matrices(P, others[:end].reshape(m, n), others[end : end + n], others[end + n :])


@viewing
def view_signs(signs: _Mask, n: int, m: int) -> Signs:
    """Views of m + 3n truth values."""
    return Signs(signs[:m], signs[m : m + n], signs[m + n : m + 2 * n], signs[m + 2 * n :])


@viewing
def view_store(numbers: _Array, n: int, m: int) -> Store:
    """Views of the numbers of one element."""
    to_y, to_own = 2 * n, 2 * n + 3 * m
    return Store(
        numbers[:n],
        numbers[n:to_y],
        numbers[to_y : to_y + m],
        numbers[to_y + m : to_y + 2 * m],
        numbers[to_y + 2 * m : to_own],
        numbers[to_own : to_own + n],
        numbers[to_own + n : to_own + n + m],
        numbers[to_own + n + m : to_own + 2 * n + m],
        numbers[to_own + 2 * n + m :],
    )
