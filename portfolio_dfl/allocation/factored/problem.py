"""One problem under factor risk, in the units it is solved in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FALL", "LOWER", "RISE", "UPPER", "FactoredProblem", "before", "forward_pull"]

_Array = NDArray[np.float64]
_Mask = NDArray[np.bool_]

LOWER, RISE, FALL, UPPER = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class FactoredProblem:
    """Minimise Σ_s ½ w_sᵀ(GGᵀ + diag d) w_s − r_sᵀw_s + c_sᵀ|w_s − w_{s−1}| within limits.

    Attributes
    ----------
    loadings : array [N, K]
        G.
    variance : array [N]
        d ≥ 0.
    returns, cost : array [H, N]
    previous : array [N]
        w_0.
    lower, upper : array [N]
        Infinite where there is none.
    counted : array [N]
        1 where trades count towards turnover and cost, else 0.
    turnover : array [H]
        τ on Σ counted |w_s − w_{s−1}|; infinite where there is no limit.
    rows, caps : array [g, N], [g]
        rows w_s ≤ caps at every stage.
    exists : array [4, H, N] of bool
        Which rows there are: lower bounds, u ≥ ±(w_s − w_{s−1}), upper bounds. Equal bounds fix a weight without rows.
    """

    loadings: _Array
    variance: _Array
    returns: _Array
    cost: _Array
    previous: _Array
    lower: _Array
    upper: _Array
    counted: _Array
    turnover: _Array
    rows: _Array
    caps: _Array
    exists: _Mask

    @property
    def fixed(self) -> _Mask:
        """Weights that equal bounds fix."""
        found: _Mask = self.lower == self.upper
        return found

    @property
    def limited(self) -> _Mask:
        """Stages with a turnover limit."""
        found: _Mask = np.isfinite(self.turnover)
        return found

    def risk(self, w: _Array) -> _Array:
        """(GGᵀ + diag d) w of w [H, N]."""
        product: _Array = (w @ self.loadings) @ self.loadings.T + self.variance * w
        return product

    def curvature(self) -> float:
        """Mean of the diagonal of GGᵀ + diag d."""
        return float((np.square(self.loadings).sum(axis=1) + self.variance).mean())


def before(w: _Array, first: _Array | float) -> _Array:
    """What each stage follows: the stage before it, and ``first`` [N] before the first."""
    found = np.empty_like(w)
    found[0] = first
    found[1:] = w[:-1]
    return found


def forward_pull(tie: _Array) -> _Array:
    """The gradient in w of Σ_s tie_sᵀ(w_s − w_{s−1}): tie_s − tie_{s+1}."""
    found = tie.copy()
    found[:-1] -= tie[1:]
    return found
