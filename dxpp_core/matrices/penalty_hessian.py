"""The sparse penalty Hessian P + Cᵀ diag(κ) C and its factors; what its pattern determines is worked out once.

A row of C is either folded in, where it couples all variables that it has, or stands beside in the quasi-definite form
[[H, Bᵀ], [B, −κ⁻¹]], where the ordering decides what couples what.  The pattern is that of all rows, inactive ones with
stiffness zero; its ordering and symbolic analysis are QDLDL's (Stellato et al. 2020, AMD ordering) and are reused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..errors import NonConvexError
from .base import Factor
from .pattern import SparsePattern, with_data
from .products import DenseRows, Product, SparseProduct

__all__ = ["HessianPattern", "hessian_pattern"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Positions = NDArray[np.int64]

# Rows with more entries than the first are never folded, with at most the second always; between, the fill decides.
_LONGEST_FOLDED_ROW, _SHORT_ROW = 32, 3
# Rows that share so few variables are left beside without a trial, which may take seconds.
_OBVIOUS = 4.0
_IDLE_FACTORS = 256


def hessian_pattern(P: SparsePattern, C: SparsePattern) -> HessianPattern:
    """The pattern whose factor has fewer entries: with rows of middling length folded, or beside."""
    lengths = np.diff(C.indptr)
    folded = HessianPattern(P, C, lengths > _LONGEST_FOLDED_ROW)
    if folded.is_arrow or not ((lengths > _SHORT_ROW) & (lengths <= _LONGEST_FOLDED_ROW)).any():
        return folded
    beside = HessianPattern(P, C, lengths > _SHORT_ROW)
    if folded.matrix.nnz > _OBVIOUS * beside.matrix.nnz:
        return beside
    return beside if beside.fill() < folded.fill() else folded


class HessianPattern:
    """Patterns of P (symmetric), of C, and which rows of C stand beside; idle workspaces of their factors."""

    def __init__(self, P: SparsePattern, C: SparsePattern, beside: Mask) -> None:
        n = self.n = P.shape[0]
        self._P, self._C, self._beside = P, C, np.flatnonzero(beside)
        k = self._beside.size
        self._P_upper = upper = np.flatnonzero(P.rows <= P.indices)
        self._left, self._right = left, right = _pairs_of_rows(C, np.where(beside, 0, np.diff(C.indptr)))
        self._row_of_pair = C.rows[left]
        self._entries = np.flatnonzero(beside[C.rows]) if k else np.zeros(0, dtype=np.int64)
        self._row_of_entry = C.rows[self._entries]
        place = np.zeros(max(C.shape[0], 1), dtype=np.int64)
        place[self._beside] = n + np.arange(k)
        self.size = size = n + k
        i = P.rows[upper], C.indices[left], np.arange(n), C.indices[self._entries], n + np.arange(k)
        j = P.indices[upper], C.indices[right], np.arange(n), place[self._row_of_entry], n + np.arange(k)
        keys = np.concatenate([a.astype(np.int64) for a in j]) * size + np.concatenate([a.astype(np.int64) for a in i])
        cells, self._cell_of = np.unique(keys, return_inverse=True)
        indptr = np.searchsorted(cells, np.arange(size + 1, dtype=np.int64) * size).astype(np.int32)
        self.matrix = sparse.csc_matrix((np.zeros(cells.size), (cells % size).astype(np.int32), indptr), (size, size))
        on_diagonal = bool((i[0] == j[0]).all()) and bool((i[1] == j[1]).all())
        self.is_arrow = on_diagonal and k * k <= 4 * n
        self._idle: list[Any] = []
        self._lock = threading.Lock()

    def fill(self) -> int:
        """Entries of the factor; it stays as a workspace."""
        on_diagonal = np.where(self._P.rows == self._P.indices, 1.0, 0.0)
        return _LDLFactor(
            self, self._values(on_diagonal, np.ones(self._C.nnz), 1.0, np.ones(self._C.shape[0]))
        ).entries()

    def factor(self, P: Array, C: Array, diagonal: Array, kappa: Array, rows_of: Callable[[Positions], Any]) -> Factor:
        """The factor for these entries of P and C, this addition to the diagonal, and these stiffnesses of rows.

        ``rows_of``: some rows of C as a matrix.

        Raises
        ------
        NonConvexError
            If there is none in double precision.
        """
        if not self.is_arrow:
            return _LDLFactor(self, self._values(P, C, diagonal, kappa))
        diagonal[self._P.rows] += P
        if self._left.size:
            weights = kappa[self._row_of_pair] * C[self._left] ** 2
            diagonal += np.bincount(self._C.indices[self._left], weights, minlength=self.n)
        stiff = self._beside[kappa[self._beside] > 0.0]
        return _ArrowFactor(diagonal, rows_of(stiff) if stiff.size else None, kappa[stiff])

    def _values(self, P: Array, C: Array, diagonal: Array | float, kappa: Array) -> Array:
        stiff = kappa[self._beside]
        is_stiff = stiff > 0.0
        values = np.concatenate(
            [
                P[self._P_upper],
                kappa[self._row_of_pair] * C[self._left] * C[self._right],
                np.broadcast_to(diagonal, self.n),
                np.where(kappa[self._row_of_entry] > 0.0, C[self._entries], 0.0),
                np.where(is_stiff, -1.0 / np.where(is_stiff, stiff, 1.0), -1.0),
            ]
        )
        return np.bincount(self._cell_of, values, minlength=self.matrix.nnz).astype(np.float64, copy=False)

    def take(self) -> Any:
        """An idle workspace, or None."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give_back(self, solver: Any) -> None:
        """Keep a workspace for the next factor."""
        if len(self._idle) < _IDLE_FACTORS:
            self._idle.append(solver)


def _pairs_of_rows(C: SparsePattern, lengths: NDArray[Any]) -> tuple[Positions, Positions]:
    """Pairs (a, b), a ≤ b, of entries that share a row: those of Σ κ_i C_iᵀC_i above the diagonal."""
    left, right = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for length in np.unique(lengths):
        if length > 0:
            first, second = np.triu_indices(int(length))
            starts = C.indptr[:-1][lengths == length].astype(np.int64)[:, None]
            left.append((starts + first).ravel())
            right.append((starts + second).ravel())
    return np.concatenate(left), np.concatenate(right)


class _LDLFactor:
    """QDLDL's factor of the quasi-definite matrix; its workspace returns to the pattern when this is dropped."""

    __slots__ = ("_pattern", "_solver")

    def __init__(self, pattern: HessianPattern, data: Array) -> None:
        import qdldl

        self._pattern = pattern
        matrix = with_data(pattern.matrix, data)
        self._solver: Any = None
        solver = pattern.take()
        try:
            if solver is None:
                solver = qdldl.Solver(matrix, upper=True)
            else:
                solver.update(matrix, upper=True)
        except RuntimeError as error:
            raise NonConvexError("the penalty Hessian has no quasi-definite factor in double precision") from error
        self._solver = solver

    def solve(self, rhs: Array) -> Array:
        n, size = self._pattern.n, self._pattern.size
        if size == n:
            plain: Array = self._solver.solve(rhs)
            return plain
        extended = np.zeros(size)
        extended[:n] = rhs
        solution: Array = self._solver.solve(extended)
        return solution[:n]

    def entries(self) -> int:
        """Entries below the diagonal."""
        return int(self._solver.factors()[0].nnz)

    def __del__(self) -> None:
        if self._solver is not None:
            self._pattern.give_back(self._solver)


class _ArrowFactor:
    """Diagonal Hessian beside a few long rows: the Schur complement of the diagonal, k × k."""

    __slots__ = ("_inverse_diagonal", "_long", "_small")

    def __init__(self, diagonal: Array, rows: Any, kappa: Array) -> None:
        self._inverse_diagonal = 1.0 / diagonal
        self._long: Product | None = None
        if rows is not None:
            if isinstance(rows, np.ndarray):
                self._long, gram = DenseRows(rows), (rows * self._inverse_diagonal).dot(rows.T)
            else:
                self._long = SparseProduct(rows)
                gram = (rows.multiply(self._inverse_diagonal) @ rows.T).toarray()
            small = np.diag(1.0 / kappa) + gram
            self._small = 1.0 / small if small.size == 1 else np.linalg.inv(small)

    def solve(self, rhs: Array) -> Array:
        x = self._inverse_diagonal * rhs
        if self._long is not None:
            x -= self._inverse_diagonal * self._long.tdot(self._small.dot(self._long.dot(x)))
        return x
