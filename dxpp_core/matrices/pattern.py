"""The pattern of a sparse matrix, apart from its entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["SparsePattern", "with_data"]

Array = NDArray[np.float64]
Index = NDArray[np.int32]
Positions = NDArray[np.int64]


class SparsePattern:
    """Row pointers and sorted column indices of a CSR matrix."""

    __slots__ = ("indices", "indptr", "rows", "shape")

    def __init__(
        self,
        indptr: NDArray[Any],
        indices: NDArray[Any],
        shape: tuple[int, int],
        rows: NDArray[Any] | None = None,
    ) -> None:
        self.indptr: Index = np.asarray(indptr, dtype=np.int32)
        self.indices: Index = np.asarray(indices, dtype=np.int32)
        self.shape = shape
        if rows is None:
            rows = np.repeat(np.arange(shape[0], dtype=np.int32), self.indptr[1:] - self.indptr[:-1])
        self.rows: Index = rows

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


def with_data(template: Any, data: Array) -> Any:
    """A matrix on the pattern of ``template``, without SciPy's checks of a pattern that is known to be right."""
    matrix = object.__new__(type(template))
    matrix.__dict__.update(template.__dict__)
    matrix.data = data
    return matrix
