"""Matrices for compiled loops: of a small dense program, or of one with a diagonal P and a few full rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

__all__ = ["CompactMatrices", "compact_matrices", "is_definite"]

Array = NDArray[np.float64]

# A scaled P without curvature below this has an inverse that tells active sets.
CURVED = 1e-7
# Beside a diagonal P and at most so many rows, an active set that starts empty is likely to find itself.
FEW_ROWS = 8
# Responses are square in variables and rows.
_MOST_RESPONSES = 450


@dataclass(slots=True, eq=False)
class CompactMatrices:
    """One system for the kernels, each array with a leading dimension of one.

    Attributes
    ----------
    P : array [1, n, n] or [1, n]
        P̂, or its diagonal.
    others : array [1, (n + 1) m + n]
        Ĉ, D and E, one after the other.
    objective : array [1, 2]
        The unit of the objective, and whether P is more than zero.
    n_eq : int
    direct : bool
        Whether active sets can be found without a solver.
    """

    P: Array
    others: Array
    objective: Array
    n_eq: int
    direct: bool
    _response: Array | None = field(default=None, repr=False)

    @property
    def n(self) -> int:
        return int(self.P.shape[1])

    @property
    def m(self) -> int:
        return int(self.others.shape[1] - self.n) // (self.n + 1)

    @property
    def few_rows(self) -> bool:
        """Whether an active set that starts empty is likely to find itself."""
        return self.m <= FEW_ROWS

    @property
    def has_response(self) -> bool:
        """Whether `response` is not too large."""
        return self.n + self.m <= _MOST_RESPONSES

    def response(self) -> Array:
        """K P̂⁻¹ Kᵀ for K = [Ĉ; I], [1, n + m, n + m]; for programs that are ``direct``.

        Made when first asked for: a system may be settled without.
        """
        if self._response is None:
            n, m, P = self.n, self.m, self.P[0]
            inverse = _inverse(P) if P.ndim == 2 else np.diag(1.0 / P)
            C = self.others[0, : m * n].reshape(m, n)
            of_rows = inverse.dot(C.T)
            self._response = np.block([[C.dot(of_rows), of_rows.T], [of_rows, inverse]])[None]
        return self._response


def compact_matrices(P: Array, C: Array, D: Array, E: Array, c: float, n_eq: int) -> CompactMatrices:
    """``P`` scaled, or its diagonal, and the scaled rows ``C``."""
    curved = bool(P.min() > CURVED) if P.ndim == 1 else is_definite(P, -CURVED)
    few = P.ndim == 1 and len(C) <= FEW_ROWS
    objective = np.array([[c, float(P.any())]])
    direct = curved and (few or sum(C.shape) <= _MOST_RESPONSES)
    return CompactMatrices(P[None], np.concatenate([C.ravel(), D, E])[None], objective, n_eq, direct)


def is_definite(P: Array, shift: float) -> bool:
    """Whether P + shift I is positive definite."""
    shifted = P.copy()
    shifted.ravel()[:: shifted.shape[0] + 1] += shift
    info: int = lapack.dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)[1]
    return info == 0


def _inverse(P: Array) -> Array:
    """The inverse of a positive definite matrix."""
    factor, _ = lapack.dpotrf(P, lower=1, clean=1)
    lower, _ = lapack.dpotri(factor, lower=1)
    inverse: Array = np.tril(lower) + np.tril(lower, -1).T
    return inverse
