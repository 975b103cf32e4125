"""Dense matrices: LAPACK called directly, because at n = 20 the wrappers would cost more than the mathematics."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack

from ..errors import NonConvexError
from ..solvers.base import Matrix
from .base import RIDGE
from .compact import CompactMatrices, compact_matrices, is_definite
from .equilibration import equilibrate

__all__ = ["CURVATURE_TOLERANCE", "SMALL_VARIABLES", "DenseFactor", "DenseSystem"]

Array = NDArray[np.float64]

# A negative eigenvalue of the scaled P (largest entry 1) above this is not rounding.
CURVATURE_TOLERANCE = 1e-9
# Programs of at most so many variables and rows are solved by compiled loops.
SMALL_VARIABLES, _SMALL_ROWS = 150, 300


class DenseFactor:
    """Cholesky factor of a dense penalty Hessian."""

    __slots__ = ("_L",)

    def __init__(self, H: Array) -> None:
        self._L, info = lapack.dpotrf(H.T, lower=1, clean=0, overwrite_a=1)
        if info:
            raise NonConvexError(
                "the penalty Hessian is not positive definite: P has negative curvature on the active rows"
            )

    def solve(self, rhs: Array) -> Array:
        x: Array = lapack.dpotrs(self._L, rhs, lower=1)[0]
        return x


class DenseSystem:
    """Scaled dense P and C = [A; G]."""

    __slots__ = (
        "C",
        "Ct",
        "D",
        "E",
        "P",
        "_A",
        "_G",
        "_norms",
        "_squares",
        "c",
        "compact",
        "has_curvature",
        "n_eq",
        "structure",
    )

    def __init__(self, P: Array, C: Array, n_eq: int) -> None:
        n_rows, n = C.shape
        size_P, size_C = np.abs(P), np.abs(C)
        first = (
            size_P.max(0),
            (size_C.max(0) if n_rows else np.zeros(n)),
            size_C.max(1) if n_rows else np.zeros(0),
        )

        def maxima(D: Array, E: Array) -> tuple[Array, Array, Array]:
            if not n_rows:
                return (size_P * D).max(1) * D, first[1], first[2]
            scaled = E[:, None] * size_C * D
            return (size_P * D).max(1) * D, scaled.max(0), scaled.max(1)

        self.D, self.E, self.c = equilibrate(maxima, n, n_rows)
        self.P = self.c * self.D[:, None] * P * self.D
        self.C = self.E[:, None] * C * self.D
        self.Ct = self.C.T
        self.n_eq = n_eq
        self.has_curvature = bool(first[0].max() > 0.0)
        self.structure: Hashable = (n, n_rows, n_eq)
        self._squares: Array | None = None
        self._G = self.C[n_eq:] if n_rows > n_eq else None
        self._A = self.C[:n_eq] if n_eq else None
        self.compact: CompactMatrices | None = None
        if n <= SMALL_VARIABLES and n_rows <= _SMALL_ROWS:
            diagonal = self.P.diagonal().copy()
            alone = n_rows <= n and np.count_nonzero(self.P) == np.count_nonzero(diagonal)
            self.compact = compact_matrices(diagonal if alone else self.P, self.C, self.D, self.E, self.c, n_eq)
        self._norms = self.D

    def P_dot(self, v: Array) -> Array:
        product: Array = self.P.dot(v)
        return product

    def C_dot(self, v: Array) -> Array:
        product: Array = self.C.dot(v)
        return product

    def Ct_dot(self, s: Array) -> Array:
        product: Array = self.Ct.dot(s)
        return product

    def squared_row_norms(self, rows: NDArray[np.bool_], at_bound: NDArray[np.bool_] | None) -> Array:
        if self._squares is None:
            self._squares = self.C * self.C
            self._norms = self._squares.sum(1)
        if at_bound is None:
            return np.where(self._norms > 0.0, self._norms, 1.0)
        free = self._squares.dot(~at_bound)
        return np.where(free > 0.0, free, np.where(self._norms > 0.0, self._norms, 1.0))

    def solver_matrices(self, size: float) -> tuple[Matrix, Matrix | None, Matrix | None]:
        return self.P if size == 1.0 else self.P / size, self._G, self._A

    def factor(self, kappa: Array, pinned: NDArray[np.bool_] | None, diagonal: Array | None = None) -> DenseFactor:
        active = kappa.nonzero()[0]
        if active.size:
            B = self.C[active]
            H = (B.T * kappa[active]).dot(B)
            H += self.P
        else:
            H = self.P.copy()
        on_diagonal = H.ravel()[:: H.shape[0] + 1]
        on_diagonal += RIDGE if diagonal is None else diagonal + RIDGE
        if pinned is not None:
            H[pinned] = 0.0
            H[:, pinned] = 0.0
            on_diagonal[pinned] = 1.0
        return DenseFactor(H)

    def dense(self) -> tuple[Array, Array]:
        return self.P, self.C

    def sparse_P(self) -> sparse.csr_matrix:
        return sparse.csr_matrix(self.P)

    def sparse_rows(self) -> sparse.csr_matrix:
        return sparse.csr_matrix(self.C)

    def smallest_curvature_is_negative(self) -> bool:
        return not is_definite(self.P, CURVATURE_TOLERANCE)
