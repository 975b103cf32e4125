"""Sparse matrices: everything that depends on the pattern alone is worked out once and kept with it."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from ..solvers.base import Matrix
from .base import RIDGE, Factor
from .compact import CompactMatrices, compact_matrices
from .dense import CURVATURE_TOLERANCE
from .equilibration import equilibrate
from .pattern import SparsePattern, with_data
from .penalty_hessian import hessian_pattern
from .products import DenseRows, DiagonalProduct, Product, SparseProduct

__all__ = ["SparseStructure", "SparseSystem"]

Array = NDArray[np.float64]
Index = NDArray[np.int32]
Positions = NDArray[np.int64]

_DENSE_BLOCK = 256
# At most so many rows with at least this share of their entries present are multiplied as an array.
_MOST_FULL_ROWS, _FULL_SHARE = 32, 0.3


class _Maxima:
    """Largest entry of each segment of an array; 0 for empty segments."""

    __slots__ = ("_filled", "_size", "_starts")

    def __init__(self, indptr: Index) -> None:
        self._filled = np.flatnonzero(np.diff(indptr))
        self._starts = indptr[:-1][self._filled]
        self._size = indptr.size - 1

    def __call__(self, values: Array) -> Array:
        if self._filled.size == self._size:
            return np.maximum.reduceat(values, self._starts) if values.size else values
        out = np.zeros(self._size)
        if self._filled.size:
            out[self._filled] = np.maximum.reduceat(values, self._starts)
        return out


class SparseStructure:
    """What depends on the patterns of P (made symmetric), C = [A; G] and on n_eq alone."""

    def __init__(self, P: SparsePattern, C: SparsePattern, n_eq: int, key: Hashable) -> None:
        n = P.shape[0]
        self.n, self.n_eq, self.key = n, n_eq, key
        # P may come with a pattern that is not symmetric; ½xᵀPx sees (P + Pᵀ)/2 only.
        keys = P.rows.astype(np.int64) * n + P.indices
        mirrored = P.indices.astype(np.int64) * n + P.rows
        union = np.union1d(keys, mirrored)
        self.P = SparsePattern(np.searchsorted(union, np.arange(n + 1, dtype=np.int64) * n), union % n, (n, n))
        self._P_from = np.searchsorted(union, keys), np.searchsorted(union, mirrored)
        self.C = C
        self.P_max = _Maxima(self.P.indptr)
        self.C_row_max = _Maxima(C.indptr)
        self.C_order, self.C_csc_rows, self.C_csc_ptr = C.to_csc()
        self.C_column_max = _Maxima(self.C_csc_ptr)
        split = int(C.indptr[n_eq])
        self.A = SparsePattern(C.indptr[: n_eq + 1], C.indices[:split], (n_eq, n))
        self.G = SparsePattern(C.indptr[n_eq:] - split, C.indices[split:], (C.shape[0] - n_eq, n))
        self.P_columns, _ = _by_columns(self.P)
        self.A_columns, self.A_order = _by_columns(self.A)
        self.G_columns, self.G_order = _by_columns(self.G)
        self.P_is_diagonal = self.P.nnz <= n and bool((self.P.rows == self.P.indices).all())
        self.C_is_full = 0 < C.shape[0] <= _MOST_FULL_ROWS and C.nnz >= _FULL_SHARE * C.shape[0] * n
        self.single_rows = np.flatnonzero(np.diff(C.indptr) == 1)
        self.single_columns = C.indices[C.indptr[self.single_rows]]
        self.hessian = hessian_pattern(self.P, C)
        self.blocks = _curvature_blocks(self.P)
        self._latest: tuple[Array, Array, SparseSystem] | None = None

    def system(self, P_data: Array, C_data: Array) -> SparseSystem:
        """The equilibrated system of these entries of P (on its own pattern) and C.

        The latest one is kept: from one step of a training to the next, matrices often stay what they were.
        """
        latest = self._latest
        if latest is not None and np.array_equal(latest[0], P_data) and np.array_equal(latest[1], C_data):
            return latest[2]
        system = SparseSystem(self, self.symmetric(P_data), C_data)
        self._latest = P_data.copy(), C_data.copy(), system
        return system

    def symmetric(self, data: Array) -> Array:
        """Entries of (P + Pᵀ)/2 on the symmetric pattern, from those of P on its own."""
        straight, mirrored = self._P_from
        nnz = self.P.nnz
        total = np.bincount(straight, data, minlength=nnz) + np.bincount(mirrored, data, minlength=nnz)
        halved: Array = np.asarray(0.5 * total, dtype=np.float64)
        return halved

    def P_product(self, data: Array) -> Product:
        """Products with P of these entries."""
        if not self.P_is_diagonal:
            return SparseProduct(self.P.matrix(data))
        if self.P.nnz == self.n:
            return DiagonalProduct(data)
        diagonal = np.zeros(self.n)
        diagonal[self.P.rows] = data
        return DiagonalProduct(diagonal)

    def C_product(self, data: Array) -> Product:
        """Products with C of these entries."""
        if not self.C_is_full:
            return SparseProduct(self.C.matrix(data))
        if self.C.nnz == self.C.shape[0] * self.n:
            return DenseRows(data.reshape(self.C.shape))
        return DenseRows(self.C.matrix(data).toarray())

    def rows_of(self, data: Array, which: Positions) -> Any:
        """Some rows of C: an array where they are mostly full, else a sparse matrix."""
        if self.C_is_full and self.C.nnz == self.C.shape[0] * self.n:
            return data.reshape(self.C.shape)[which]
        return self.C.matrix(data)[which]


def _by_columns(pattern: SparsePattern) -> tuple[Any, Positions]:
    """The pattern as a matrix by columns, for its structure only, and the order in which it takes the entries."""
    order, rows, indptr = pattern.to_csc()
    return sparse.csc_matrix((np.zeros(order.size), rows, indptr), shape=pattern.shape), order


def _curvature_blocks(
    P: SparsePattern,
) -> list[tuple[Positions, Positions, tuple[int, int]]] | None:
    """Connected blocks of P by size, for the convexity check; None if one is too large."""
    n = P.shape[0]
    count, label = csgraph.connected_components(P.matrix(np.ones(P.nnz)), directed=False)
    sizes = np.bincount(label, minlength=count)
    if sizes.max() > _DENSE_BLOCK:
        return None
    order = np.argsort(label, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    inside = np.empty(n, dtype=np.int64)
    inside[order] = np.arange(n) - np.repeat(starts, sizes)
    blocks = []
    for size in np.unique(sizes):
        rank = np.cumsum(sizes == size) - 1
        entries = np.flatnonzero(sizes[label[P.rows]] == size)
        block = rank[label[P.rows[entries]]]
        flat = (block * size + inside[P.rows[entries]]) * size + inside[P.indices[entries]]
        blocks.append((entries, flat, (int((sizes == size).sum()), int(size))))
    return blocks


class SparseSystem:
    """Scaled sparse P and C = [A; G] on the patterns of one structure."""

    def __init__(self, structure: SparseStructure, P_data: Array, C_data: Array) -> None:
        s = self._s = structure
        self.structure: Hashable = s.key
        self.n_eq = s.n_eq
        size_P, size_C = np.abs(P_data), np.abs(C_data)

        def maxima(D: Array, E: Array) -> tuple[Array, Array, Array]:
            in_P = s.P_max(size_P * D[s.P.indices]) * D
            in_C = size_C * E[s.C.rows] * D[s.C.indices]
            return in_P, s.C_column_max(in_C[s.C_order]), s.C_row_max(in_C)

        self.D, self.E, self.c = equilibrate(maxima, s.n, s.C.shape[0])
        self._P_data = self.c * self.D[s.P.rows] * P_data * self.D[s.P.indices]
        self._C_data = self.E[s.C.rows] * C_data * self.D[s.C.indices]
        P, C = s.P_product(self._P_data), s.C_product(self._C_data)
        self.P_dot, self.C_dot, self.Ct_dot = P.dot, C.dot, C.tdot
        self.compact: CompactMatrices | None = None
        if s.P_is_diagonal and (s.C_is_full or not s.C.shape[0]):
            rows = self.sparse_rows().toarray()
            self.compact = compact_matrices(self.sparse_P().diagonal(), rows, self.D, self.E, self.c, s.n_eq)
        self.has_curvature = bool(P_data.any())
        self._squares: Product | None = None
        self._rows: tuple[Matrix | None, Matrix | None] | None = None
        self._norms = self.E
        self._is_concave_somewhere: bool | None = None

    def squared_row_norms(self, rows: NDArray[np.bool_], at_bound: NDArray[np.bool_] | None) -> Array:
        s = self._s
        if self._squares is None:
            self._squares = s.C_product(self._C_data**2)
            norms = self._squares.dot(np.ones(s.n))
            self._norms = np.where(norms > 0.0, norms, 1.0)
        free = np.ones(s.n) if at_bound is None else np.where(at_bound, 0.0, 1.0)
        # A row with one entry is a bound by another name.
        free[s.single_columns[rows[s.single_rows]]] = 0.0
        over_free = self._squares.dot(free)
        return np.where(over_free > 0.0, over_free, self._norms)

    def solver_matrices(self, size: float) -> tuple[Matrix, Matrix | None, Matrix | None]:
        s, split = self._s, self._s.A.nnz
        if self._rows is None:
            self._rows = (
                with_data(s.G_columns, self._C_data[split:][s.G_order]) if s.G.shape[0] else None,
                with_data(s.A_columns, self._C_data[:split][s.A_order]) if s.A.shape[0] else None,
            )
        return with_data(s.P_columns, self._P_data if size == 1.0 else self._P_data / size), *self._rows

    def factor(self, kappa: Array, pinned: NDArray[np.bool_] | None, diagonal: Array | None = None) -> Factor:
        s, P, C = self._s, self._P_data, self._C_data
        added = np.full(s.n, RIDGE) if diagonal is None else diagonal + RIDGE
        if pinned is not None:
            free = np.where(pinned, 0.0, 1.0)
            C = C * free[s.C.indices]
            P = P * free[s.P.rows] * free[s.P.indices]
            added = np.where(pinned, 1.0, added)
        return s.hessian.factor(P, C, added, kappa, partial(s.rows_of, C))

    def dense(self) -> tuple[Array, Array]:
        return self.sparse_P().toarray(), self.sparse_rows().toarray()

    def sparse_P(self) -> sparse.csr_matrix:
        return self._s.P.matrix(self._P_data)

    def sparse_rows(self) -> sparse.csr_matrix:
        return self._s.C.matrix(self._C_data)

    def smallest_curvature_is_negative(self) -> bool:
        if self._is_concave_somewhere is None:
            self._is_concave_somewhere = self._look_for_negative_curvature()
        return self._is_concave_somewhere

    def _look_for_negative_curvature(self) -> bool:
        s = self._s
        if not self.has_curvature:
            return False
        if s.blocks is None:
            import qdldl

            shifted = sparse.triu(self.sparse_P() + CURVATURE_TOLERANCE * sparse.identity(s.n), format="csc")
            _, pivots, _ = qdldl.Solver(shifted, upper=True).factors()
            return bool(np.min(pivots) < 0.0)
        for entries, flat, (count, size) in s.blocks:
            block = np.zeros(count * size * size)
            block[flat] = self._P_data[entries]
            stack = block.reshape(count, size, size)
            if size == 1:
                if stack.min() < -CURVATURE_TOLERANCE:
                    return True
                continue
            stack[:, np.arange(size), np.arange(size)] += CURVATURE_TOLERANCE
            try:
                np.linalg.cholesky(stack)
            except np.linalg.LinAlgError:
                return True
        return False
