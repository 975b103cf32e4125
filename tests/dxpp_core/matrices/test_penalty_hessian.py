"""The sparse penalty Hessian: the same factor whether rows are folded in or stand beside, and the sparser choice."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from dxpp_core.matrices.pattern import SparsePattern
from dxpp_core.matrices.penalty_hessian import HessianPattern, hessian_pattern

Array = NDArray[np.float64]
_RANDOM = np.random.default_rng(0)


def _pattern(matrix: Array) -> SparsePattern:
    csr = sparse.csr_matrix(matrix)
    return SparsePattern(csr.indptr, csr.indices, matrix.shape)


def _rows(count: int, n: int, length: int) -> Array:
    """Rows with ``length`` random entries each."""
    C = np.zeros((count, n))
    for row in C:
        row[_RANDOM.choice(n, length, replace=False)] = _RANDOM.normal(size=length)
    return C


@pytest.mark.parametrize("curvature", ["diagonal", "banded"])
@pytest.mark.parametrize("beside", [(), (0, 3), tuple(range(8))])
def test_a_row_folded_in_or_beside_gives_the_same_solution(curvature: str, beside: tuple[int, ...]) -> None:
    n, m = 30, 8
    P = np.diag(_RANDOM.uniform(0.5, 2.0, n))
    if curvature == "banded":
        P += np.diag(np.full(n - 1, 0.2), 1) + np.diag(np.full(n - 1, 0.2), -1)
    C = _rows(m, n, 5)
    kappa = np.where(np.arange(m) % 3 == 1, 0.0, _RANDOM.uniform(1.0, 1e4, m))
    extra = _RANDOM.uniform(0.0, 1.0, n)
    right = _RANDOM.normal(size=n)
    pattern = HessianPattern(_pattern(P), _pattern(C), np.isin(np.arange(m), beside))
    data = P[P != 0.0], C[C != 0.0]
    found = pattern.factor(*data, extra.copy(), kappa, lambda which: sparse.csr_matrix(C)[which]).solve(right)
    np.testing.assert_allclose((P + np.diag(extra) + C.T @ (kappa[:, None] * C)) @ found, right, atol=1e-10)


def test_rows_stand_beside_where_that_leaves_fewer_entries_in_the_factor() -> None:
    # Each variable in four rows of nine, as in a Sudoku: folded in, they couple nearly everything with everything.
    n, m = 243, 108
    C = np.zeros((m, n))
    for block in range(4):
        order = _RANDOM.permutation(n).reshape(-1, 9)
        for i, columns in enumerate(order):
            C[27 * block + i, columns] = 1.0
    P, rows = _pattern(np.eye(n)), _pattern(C)
    folded, beside = (HessianPattern(P, rows, np.full(m, which)) for which in (False, True))
    assert beside.fill() < 0.5 * folded.fill()
    assert hessian_pattern(P, rows).fill() == beside.fill()
    # Rows that share no variable are left beside at once.
    apart = _pattern(np.kron(np.eye(10), np.ones((1, 20))))
    folded, beside = (HessianPattern(_pattern(np.eye(200)), apart, np.full(10, which)) for which in (False, True))
    assert hessian_pattern(_pattern(np.eye(200)), apart).fill() == beside.fill() < folded.fill()
    # Overlapping rows along a line couple neighbours alone: folded in, they make a band.
    band = np.array([[1.0 if i <= j < i + 4 else 0.0 for j in range(60)] for i in range(57)])
    rows = _pattern(band)
    folded, beside = (HessianPattern(_pattern(np.eye(60)), rows, np.full(57, which)) for which in (False, True))
    assert folded.fill() < beside.fill()
    assert hessian_pattern(_pattern(np.eye(60)), rows).fill() == folded.fill()
