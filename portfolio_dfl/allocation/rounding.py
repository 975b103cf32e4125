"""Arguments in lower precision than float64, taken for what they stand for: their rounding is no fault of theirs."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["lifted", "scaled_to_one"]

_Array = NDArray[np.float64]

# Of eigenvalues of a correlation matrix: what the double precision of a sum leaves.
_DOUBLE_ROUNDING = 1e-13


def _allowance(count: int, dtype: torch.dtype) -> float:
    """Relative rounding of ``count`` numbers that were worked out and stored in this precision, as in ``solve_qp``."""
    return 4.0 * count * torch.finfo(dtype).eps


def lifted(covariance: Tensor, dtype: torch.dtype) -> Tensor:
    """Covariances [..., N, N] in float64, known to the precision of ``dtype``, semidefinite where rounding hid it.

    Where the least eigenvalue of the correlations is negative by no more than that rounding, all variances are raised
    by that share of themselves. Others stay as they are: to be refused, if they are not semidefinite.
    """
    S = covariance.detach().numpy()
    S = 0.5 * (S + S.swapaxes(-1, -2))
    variances = np.einsum("...ii->...i", S)
    sizes = np.sqrt(np.where(variances > 0.0, variances, 1.0))
    with np.errstate(all="ignore"):
        correlations = S / sizes[..., :, None] / sizes[..., None, :]
    N = S.shape[-1]
    shares = np.zeros(S.shape[:-2])
    for place in np.ndindex(shares.shape):
        shares[place] = _missing(correlations[place], _allowance(N, dtype))
    if not shares.any():
        return covariance
    return covariance + torch.from_numpy(np.einsum("...,...i,ij->...ij", shares, variances, np.eye(N)))


def _missing(correlations: _Array, allowed: float) -> float:
    """What the diagonal lacks of a semidefinite matrix, if that is no more than allowed; else 0."""
    if not np.isfinite(correlations).all():
        return 0.0
    try:
        np.linalg.cholesky(correlations + _DOUBLE_ROUNDING * np.eye(len(correlations)))
    except np.linalg.LinAlgError:
        lacking = _DOUBLE_ROUNDING - float(np.linalg.eigvalsh(correlations)[0])
        return lacking if lacking <= allowed else 0.0
    return 0.0


def scaled_to_one(weights: Tensor, dtype: torch.dtype) -> Tensor:
    """Weights [..., N] in float64, known to the precision of ``dtype``, with the sum 1 that rounding took from them."""
    total = weights.detach().sum(-1, keepdim=True)
    near = (total - 1.0).abs() <= _allowance(weights.shape[-1], dtype)
    return weights / torch.where(near, total, torch.ones_like(total))
