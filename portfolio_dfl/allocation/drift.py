"""What portfolio weights become when prices move and nobody trades."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from portfolio_dfl.errors import AllocationError

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

__all__ = ["drift_weights"]


@overload
def drift_weights(weights: torch.Tensor, returns: torch.Tensor) -> torch.Tensor: ...
@overload
def drift_weights(weights: NDArray[np.float64], returns: NDArray[np.float64]) -> NDArray[np.float64]: ...
def drift_weights(
    weights: torch.Tensor | NDArray[np.float64], returns: torch.Tensor | NDArray[np.float64]
) -> torch.Tensor | NDArray[np.float64]:
    """Weights after one period of simple returns: ``w (1 + r) / Σ w (1 + r)``.

    Parameters
    ----------
    weights : array or tensor, shape (..., N)
        Weights held through the period; fully invested (they sum to 1, cash being an asset like any other).
    returns : array or tensor, shape (..., N)
        Simple returns of that period. Leading dimensions broadcast.

    Returns
    -------
    array or tensor, shape (..., N)
        Weights at the end of the period, summing to 1; differentiable when the arguments are tensors.

    Raises
    ------
    AllocationError
        If shapes do not fit, or the portfolio's value is not positive (or not a number) afterwards, so that
        weights do not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from portfolio_dfl import drift_weights
    >>> drift_weights(np.array([0.5, 0.5]), np.array([0.1, -0.1]))
    array([0.55, 0.45])
    """
    if weights.ndim == 0 or returns.ndim == 0 or weights.shape[-1] != returns.shape[-1]:
        raise AllocationError(
            f"weights {tuple(weights.shape)} and returns {tuple(returns.shape)} are not for the same assets: "
            "their last dimensions must agree"
        )
    grown = weights * (1.0 + returns)
    value = grown.sum(-1)[..., None]
    if not bool((value > 0.0).all()):
        raise AllocationError(
            "the portfolio is worth nothing (or not a number) after these returns and has no weights: "
            "check the returns for values at or below -1 and for missing ones"
        )
    return grown / value
