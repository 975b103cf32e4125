"""Sparse matrices: everything that depends on the pattern alone is worked out once and kept with it.

The penalty Hessian has one fixed pattern, that of all rows and bounds, inactive ones with stiffness zero; its
ordering and symbolic analysis are QDLDL's (Stellato et al. 2020, AMD ordering) and are reused.  Rows with many
entries are not folded into it but stand beside it in quasi-definite form [[H, Bᵀ], [B, −κ⁻¹]].
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from ..scaling import equilibrate
from ..solvers.base import Matrix
from .base import RIDGE, Factor
from .dense import CURVATURE_TOLERANCE

__all__ = ["SparsePattern", "SparseStructure", "SparseSystem"]

Array = NDArray[np.float64]
Index = NDArray[np.int32]
Positions = NDArray[np.int64]

_LONGEST_FOLDED_ROW = 32
_IDLE_FACTORS = 256
_DENSE_BLOCK = 256


class SparsePattern:
    """Row pointers and sorted column indices of a CSR matrix."""

    __slots__ = ("indices", "indptr", "rows", "shape")

    def __init__(self, indptr: NDArray[Any], indices: NDArray[Any], shape: tuple[int, int]) -> None:
        self.indptr: Index = np.asarray(indptr, dtype=np.int32)
        self.indices: Index = np.asarray(indices, dtype=np.int32)
        self.shape = shape
        self.rows: Index = np.repeat(np.arange(shape[0], dtype=np.int32), np.diff(self.indptr))

    @property
    def nnz(self) -> int:
        return int(self.indices.size)

    def matrix(self, data: Array) -> sparse.csr_matrix:
        return sparse.csr_matrix((data, self.indices, self.indptr), shape=self.shape, copy=False)

    def to_csc(self) -> tuple[Positions, Index, Index]:
        """Order of the entries, row indices and column pointers of the same matrix by columns."""
        order = np.argsort(self.indices, kind="stable")
        indptr = np.zeros(self.shape[1] + 1, dtype=np.int32)
        np.cumsum(np.bincount(self.indices, minlength=self.shape[1]), out=indptr[1:])
        return order, self.rows[order], indptr


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
        self.A_csc, self.G_csc = self.A.to_csc(), self.G.to_csc()
        self._plan_hessian()
        self.blocks = _curvature_blocks(self.P)
        self._idle: list[Any] = []
        self._lock = threading.Lock()

    def symmetric(self, data: Array) -> Array:
        """Entries of (P + Pᵀ)/2 on the symmetric pattern, from those of P on its own."""
        straight, mirrored = self._P_from
        nnz = self.P.nnz
        total = np.bincount(straight, data, minlength=nnz) + np.bincount(mirrored, data, minlength=nnz)
        halved: Array = np.asarray(0.5 * total, dtype=np.float64)
        return halved

    def _plan_hessian(self) -> None:
        n, C = self.n, self.C
        lengths = np.diff(C.indptr)
        self.long_rows = np.flatnonzero(lengths > _LONGEST_FOLDED_ROW)
        k = self.long_rows.size
        upper = np.flatnonzero(self.P.rows <= self.P.indices)
        self.P_upper = upper
        left, right = _pairs_of_rows(C, lengths)
        self.fold_left, self.fold_right, self.fold_row = left, right, C.rows[left]
        self.long_entries = np.flatnonzero(np.isin(C.rows, self.long_rows)) if k else np.zeros(0, dtype=np.int64)
        self.long_entry_row = C.rows[self.long_entries]
        position_of_long = np.zeros(max(C.shape[0], 1), dtype=np.int64)
        position_of_long[self.long_rows] = n + np.arange(k)
        size = n + k
        i: list[NDArray[Any]] = [
            self.P.rows[upper],
            C.indices[left],
            np.arange(n),
            C.indices[self.long_entries],
            n + np.arange(k),
        ]
        j: list[NDArray[Any]] = [
            self.P.indices[upper],
            C.indices[right],
            np.arange(n),
            position_of_long[self.long_entry_row],
            n + np.arange(k),
        ]
        keys = np.concatenate([a.astype(np.int64) for a in j]) * size + np.concatenate([a.astype(np.int64) for a in i])
        entries, self.positions = np.unique(keys, return_inverse=True)
        self.H_size, self.H_nnz = size, entries.size
        self.H_indices = (entries % size).astype(np.int32)
        self.H_indptr = np.searchsorted(entries, np.arange(size + 1, dtype=np.int64) * size).astype(np.int32)
        on_diagonal = bool((self.P.rows[upper] == self.P.indices[upper]).all()) and bool(
            (C.indices[left] == C.indices[right]).all()
        )
        self.is_arrow = on_diagonal and k * k <= 4 * n

    def take(self) -> Any:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give_back(self, solver: Any) -> None:
        if len(self._idle) < _IDLE_FACTORS:
            self._idle.append(solver)


def _pairs_of_rows(C: SparsePattern, lengths: NDArray[Any]) -> tuple[Positions, Positions]:
    """Pairs (a, b), a ≤ b, of entries that share a short row: the entries of Σ κ_i C_iᵀC_i above the diagonal."""
    left, right = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for length in np.unique(lengths):
        if 0 < length <= _LONGEST_FOLDED_ROW:
            first, second = np.triu_indices(int(length))
            starts = C.indptr[:-1][lengths == length].astype(np.int64)[:, None]
            left.append((starts + first).ravel())
            right.append((starts + second).ravel())
    return np.concatenate(left), np.concatenate(right)


def _curvature_blocks(
    P: SparsePattern,
) -> list[tuple[Positions, Positions, Positions, tuple[int, int]]] | None:
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
        blocks.append((entries, flat, np.zeros(0, dtype=np.int64), (int((sizes == size).sum()), int(size))))
    return blocks


class _LDLFactor:
    """QDLDL's factor of the quasi-definite matrix; its workspace returns to the structure when this is dropped."""

    __slots__ = ("_n", "_solver", "_structure")

    def __init__(self, structure: SparseStructure, data: Array) -> None:
        import qdldl

        matrix = sparse.csc_matrix(
            (data, structure.H_indices, structure.H_indptr),
            shape=(structure.H_size, structure.H_size),
            copy=False,
        )
        self._solver = structure.take()
        if self._solver is None:
            self._solver = qdldl.Solver(matrix, upper=True)
        else:
            self._solver.update(matrix, upper=True)
        self._structure, self._n = structure, structure.n

    def solve(self, rhs: Array) -> Array:
        if self._structure.H_size == self._n:
            plain: Array = self._solver.solve(rhs)
            return plain
        extended = np.zeros(self._structure.H_size)
        extended[: self._n] = rhs
        solution: Array = self._solver.solve(extended)
        return solution[: self._n]

    def __del__(self) -> None:
        if self._solver is not None:
            self._structure.give_back(self._solver)


class _ArrowFactor:
    """Diagonal Hessian beside a few long rows: the Schur complement of the diagonal, k × k."""

    __slots__ = ("_inverse_diagonal", "_rows", "_small", "_weighted")

    def __init__(self, diagonal: Array, rows: sparse.csr_matrix | None, kappa: Array) -> None:
        self._inverse_diagonal = 1.0 / diagonal
        self._rows = rows
        if rows is not None:
            self._weighted = rows.multiply(self._inverse_diagonal).tocsr()
            self._small = np.linalg.inv(np.diag(1.0 / kappa) + (self._weighted @ rows.T).toarray())

    def solve(self, rhs: Array) -> Array:
        x = self._inverse_diagonal * rhs
        if self._rows is not None:
            x -= self._weighted.T @ (self._small @ (self._rows @ x))
        return x


class SparseSystem:
    """Scaled sparse P and C = [A; G] on the patterns of one structure."""

    __slots__ = (
        "C",
        "Ct",
        "D",
        "E",
        "P",
        "_C_data",
        "_P_data",
        "_norms",
        "c",
        "has_curvature",
        "n_eq",
        "s",
        "structure",
    )

    def __init__(self, structure: SparseStructure, P_data: Array, C_data: Array) -> None:
        s = self.s = structure
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
        self.P = s.P.matrix(self._P_data)
        self.C = s.C.matrix(self._C_data)
        self.Ct = self.C.T
        self.has_curvature = bool(P_data.any())
        self._norms: Array | None = None

    def P_dot(self, v: Array) -> Array:
        product: Array = self.P @ v
        return product

    def C_dot(self, v: Array) -> Array:
        product: Array = self.C @ v
        return product

    def Ct_dot(self, s: Array) -> Array:
        product: Array = self.Ct @ s
        return product

    def row_norms(self) -> Array:
        if self._norms is None:
            norms = np.sqrt(np.bincount(self.s.C.rows, self._C_data**2, minlength=self.s.C.shape[0]))
            self._norms = np.where(norms > 0.0, norms, 1.0)
        return self._norms

    def solver_matrices(self) -> tuple[Matrix, Matrix | None, Matrix | None]:
        s = self.s
        P = sparse.csc_matrix((self._P_data, s.P.indices, s.P.indptr), shape=s.P.shape, copy=False)
        split = s.A.nnz

        def by_columns(pattern: SparsePattern, csc: tuple[Positions, Index, Index], data: Array) -> Matrix | None:
            if not pattern.shape[0]:
                return None
            order, rows, indptr = csc
            return sparse.csc_matrix((data[order], rows, indptr), shape=pattern.shape, copy=False)

        return (
            P,
            by_columns(s.G, s.G_csc, self._C_data[split:]),
            by_columns(s.A, s.A_csc, self._C_data[:split]),
        )

    def factor(self, kappa: Array, kappa_box: Array | None) -> Factor:
        s = self.s
        stiff = kappa[s.long_rows]
        if s.is_arrow:
            diagonal = np.full(s.n, RIDGE) if kappa_box is None else kappa_box + RIDGE
            diagonal += np.bincount(s.P.rows, self._P_data, minlength=s.n) if s.P.nnz else 0.0
            if s.fold_left.size:
                folded = kappa[s.fold_row] * self._C_data[s.fold_left] ** 2
                diagonal += np.bincount(s.C.indices[s.fold_left], folded, minlength=s.n)
            active = stiff > 0.0
            rows = self.C[s.long_rows[active]] if active.any() else None
            return _ArrowFactor(diagonal, rows, stiff[active])
        held = stiff > 0.0
        values = np.concatenate(
            [
                self._P_data[s.P_upper],
                kappa[s.fold_row] * self._C_data[s.fold_left] * self._C_data[s.fold_right],
                np.full(s.n, RIDGE) if kappa_box is None else kappa_box + RIDGE,
                np.where(kappa[s.long_entry_row] > 0.0, self._C_data[s.long_entries], 0.0),
                np.where(held, -1.0 / np.where(held, stiff, 1.0), -1.0),
            ]
        )
        data: Array = np.bincount(s.positions, values, minlength=s.H_nnz).astype(np.float64, copy=False)
        return _LDLFactor(s, data)

    def dense(self) -> tuple[Array, Array]:
        return self.P.toarray(), self.C.toarray()

    def sparse_P(self) -> sparse.csr_matrix:
        return self.P

    def sparse_rows(self) -> sparse.csr_matrix:
        return self.C

    def smallest_curvature_is_negative(self) -> bool:
        s = self.s
        if not self.has_curvature:
            return False
        if s.blocks is None:
            import qdldl

            shifted = sparse.triu(self.P + CURVATURE_TOLERANCE * sparse.identity(s.n), format="csc")
            _, pivots, _ = qdldl.Solver(shifted, upper=True).factors()
            return bool(np.min(pivots) < 0.0)
        for entries, flat, _, (count, size) in s.blocks:
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
