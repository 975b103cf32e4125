"""The portfolio within limits that lies nearest to a given one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from portfolio_dfl.allocation.multi_period import MultiPeriodMeanVariance

if TYPE_CHECKING:
    from portfolio_dfl.allocation.limits import Limit

__all__ = ["nearest_weights"]

_Array = NDArray[np.float64]


def nearest_weights(
    weights: Sequence[float] | _Array, limits: Sequence[Limit], *, assets: Sequence[str] | None = None
) -> _Array:
    """The portfolio of least squared distance to ``weights`` [N] that satisfies all limits of weights.

    Limits of trades and of the tracking error, which are not of one portfolio alone, are left out.

    Parameters
    ----------
    weights : sequence of N floats
    limits : sequence of Limit
    assets : sequence of N str, optional
        Tickers that errors name.

    Raises
    ------
    AllocationError
        If no portfolio satisfies the limits.
    """
    given = torch.as_tensor(np.asarray(weights, dtype=np.float64))[None]
    n_assets = given.shape[1]
    kept = [limit for limit in limits if limit.of_weights]
    layer = MultiPeriodMeanVariance(n_assets, 1, risk_aversion=1.0, limits=kept, assets=assets)
    # −vᵀw + ½ wᵀw is half the squared distance to v, up to a constant.
    with torch.no_grad():
        found: Tensor = layer(given[:, None], torch.eye(n_assets, dtype=torch.float64), given)
    nearest: _Array = found[0, 0].numpy()
    return nearest
