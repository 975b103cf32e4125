"""The Newton matrix of a plan under factor risk, factored asset by asset.

With Σ = G Gᵀ + D the matrix of the unknowns x [H, N] is

    M = T + Σ_s A_s W_s A_sᵀ,       T = ⊕_i T_i,

where T_i [H, H] is tridiagonal: the asset's own curvature on the diagonal, springs m_s on x_s − x_{s−1} beside it.
What couples assets are, for each stage, the columns of A = [G, 1, rows] that act on x_s, and one column γ_s that acts
on x_s − x_{s−1}. With z = W Aᵀx as unknowns beside x,

    T x + A z = f,      Aᵀx − W⁻¹ z = b,

a budget row is a column with W⁻¹ = 0, and eliminating x leaves (W⁻¹ + AᵀT⁻¹A) z = AᵀT⁻¹f − b of size H(K + 2 + rows).
Its block of stages s and t is Σ_i (T_i⁻¹)_st a_i a_iᵀ: one product of [pairs of stages, N] and [N, pairs of columns].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

__all__ = ["FROZEN", "FactoredSystem"]

_Array = NDArray[np.float64]

#: Curvature of an unknown that does not move.
FROZEN = 1e30


class FactoredSystem:
    """The matrix of one problem: what does not change from iteration to iteration is kept.

    Parameters
    ----------
    columns : array [N, r]
        What couples the assets of one stage, the same at every stage.
    horizon : int
        H.
    """

    def __init__(self, columns: _Array, horizon: int) -> None:
        self.columns = columns
        self.shape = horizon, *columns.shape
        H, N, r = self.shape
        first, second = np.tril_indices(r)
        self._products = columns[:, first] * columns[:, second]
        self._of_columns = _symmetric_index(r)
        self._of_stages = _symmetric_index(H)
        self._inverse = np.empty((H * (H + 1) // 2, N))
        self._pivot = np.empty((H, N))
        self._below = np.zeros((H, N))
        self._gamma = np.zeros((H, N))
        self._turns = False
        self._reduced: tuple[_Array, bool] | None = None

    def factor(self, diagonal: _Array, springs: _Array, gamma: _Array, give: _Array) -> bool:
        """Factor M; False if it is not positive definite.

        Parameters
        ----------
        diagonal, springs, gamma : array [H, N]
        give : array [H, r + 1]
            W⁻¹ of the columns and, last, of γ; where γ_s is zero throughout it is to be positive.
        """
        H, _, r = self.shape
        self._eliminate_assets(diagonal, springs)
        self._gamma, self._turns = gamma, bool(gamma.any())
        width = r + 1 if self._turns else r
        reduced = np.empty((H, width, H, width))
        pairs = self._inverse @ self._products
        reduced[:, :r, :, :r] = pairs[self._of_stages][:, :, self._of_columns].transpose(0, 2, 1, 3)
        if self._turns:
            full = self._inverse[self._of_stages]
            change = full.copy()
            change[1:] -= full[:-1]
            change *= gamma[:, None, :]
            cross = change @ self.columns
            reduced[:, r, :, :r] = cross
            reduced[:, :r, :, r] = cross.transpose(1, 2, 0)
            twice = change
            twice[:, 1:] -= change[:, :-1].copy()
            reduced[:, r, :, r] = np.einsum("stn,tn->st", twice, gamma)
        matrix = reduced.reshape(H * width, H * width)
        matrix[np.diag_indices_from(matrix)] += give[:, :width].ravel()
        try:
            self._reduced = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except (LinAlgError, ValueError):
            return False
        return bool(np.isfinite(matrix[-1, -1]))

    def solve(self, f: _Array, b: _Array) -> tuple[_Array, _Array]:
        """x [H, N] and z [H, r + 1] of  T x + A z = f [H, N],  Aᵀx − W⁻¹z = b [H, r + 1]."""
        assert self._reduced is not None
        H, _, r = self.shape
        t = self._asset_solve(f)
        width = r + 1 if self._turns else r
        right = np.empty((H, width))
        right[:, :r] = t @ self.columns
        if self._turns:
            change = t.copy()
            change[1:] -= t[:-1]
            right[:, r] = np.einsum("sn,sn->s", change, self._gamma)
        right -= b[:, :width]
        z = np.zeros((H, r + 1))
        z[:, :width] = cho_solve(self._reduced, right.ravel(), check_finite=False).reshape(H, width)
        return self._asset_solve(f - self.pull(z)), z

    def pull(self, z: _Array) -> _Array:
        """A z [H, N] of z [H, r + 1]."""
        found: _Array = z[:, :-1] @ self.columns.T
        if self._turns:
            push = self._gamma * z[:, -1:]
            found += push
            found[:-1] -= push[1:]
        return found

    def _eliminate_assets(self, diagonal: _Array, springs: _Array) -> None:
        """T_i = L_i diag(p_i) L_iᵀ, and the lower triangle of T_i⁻¹, for all assets at once.

        p_s = own_s + spring_{s+1} with own_s = diagonal_s + spring_s own_{s−1} / p_{s−1}: sums of what is not negative.
        """
        H = self.shape[0]
        pivot, below, inverse = self._pivot, self._below, self._inverse
        own = diagonal[0] + springs[0]
        for s in range(H):
            if s > 0:
                np.divide(springs[s], pivot[s - 1], out=below[s])
                own = diagonal[s] + below[s] * own
            np.add(own, springs[s + 1] if s + 1 < H else 0.0, out=pivot[s])
        for s in range(H - 1, -1, -1):
            # Row t of the triangle holds (t, s) for s ≤ t.
            last = s * (s + 1) // 2 + s
            np.divide(1.0, pivot[s], out=inverse[last])
            for t in range(H - 1, s, -1):
                start = t * (t + 1) // 2
                np.multiply(below[s + 1], inverse[start + s + 1], out=inverse[start + s])
            if s + 1 < H:
                inverse[last] += below[s + 1] * inverse[last + s + 1]

    def _asset_solve(self, f: _Array) -> _Array:
        """T⁻¹ f."""
        H = self.shape[0]
        pivot, below = self._pivot, self._below
        x = f.copy()
        for s in range(1, H):
            x[s] += below[s] * x[s - 1]
        x /= pivot
        for s in range(H - 2, -1, -1):
            x[s] += below[s + 1] * x[s + 1]
        return x


def _symmetric_index(size: int) -> NDArray[np.intp]:
    """Where the entries of a symmetric matrix lie among those of its lower triangle, row by row."""
    row, column = np.indices((size, size))
    low, high = np.minimum(row, column), np.maximum(row, column)
    found: NDArray[np.intp] = high * (high + 1) // 2 + low
    return found
