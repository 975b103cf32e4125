"""The surface that dense and sparse matrices share."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..solvers.base import Matrix
from .compact import CompactMatrices

__all__ = ["RIDGE", "Factor", "System"]

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Added to the diagonal of the penalty Hessian, in units of the largest entry of the scaled P (which is 1).  It makes
# the factor exist where neither P nor an active row has curvature; refinement against the matrix without it removes its
# bias.
RIDGE = 1e-10


class Factor(Protocol):
    """A factor of the penalty Hessian H = P + Cᵀ diag(κ) C + ridge, without the pinned variables."""

    def solve(self, rhs: Vector) -> Vector:
        """H⁻¹ rhs; where a variable is pinned, rhs itself, which is zero there."""
        ...


class System(Protocol):
    """Equilibrated matrices P̂ (n × n) and Ĉ = [Â; Ĝ] of one problem, and what is done with them.

    ``compact``: the same for compiled loops, if the problem is small and dense, or has a diagonal P and a few full
    rows.
    """

    D: Vector
    E: Vector
    c: float
    n_eq: int
    has_curvature: bool
    structure: Hashable
    compact: CompactMatrices | None

    def P_dot(self, v: Vector) -> Vector: ...

    def C_dot(self, v: Vector) -> Vector: ...

    def Ct_dot(self, s: Vector) -> Vector: ...

    def squared_row_norms(self, rows: Mask, at_bound: Mask | None) -> Vector:
        """Squared norms of the rows of Ĉ over the variables at no active bound, if there are any.

        A row of ones over 10⁵ variables of which ten are free is a row of ten: its stiffness must not be that of 10⁵.
        """
        ...

    def solver_matrices(self, size: float) -> tuple[Matrix, Matrix | None, Matrix | None]:
        """P̂ / size, Ĝ and Â in the layout solvers take; they are only read."""
        ...

    def factor(self, kappa: Vector, pinned: Mask | None, diagonal: Vector | None = None) -> Factor:
        """Factor of the penalty Hessian with these stiffnesses of rows; 0 marks an inactive one.

        Variables at active bounds are pinned: removed rather than made stiff.  ``diagonal`` is added to H (the paper's
        plug-in makes bounds stiff that way).
        """
        ...

    def dense(self) -> tuple[Vector, Vector]:
        """P̂ and Ĉ as arrays, for the factorisation of last resort."""
        ...

    def sparse_P(self) -> sparse.csr_matrix:
        """P̂ as a sparse matrix."""
        ...

    def sparse_rows(self) -> sparse.csr_matrix:
        """Ĉ as a sparse matrix."""
        ...

    def smallest_curvature_is_negative(self) -> bool:
        """Whether P̂ has an eigenvalue below zero by more than rounding."""
        ...
