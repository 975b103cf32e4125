"""The paper's predictor: every forecast is a linear function of all past returns in the window."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["LinearPredictor"]


class LinearPredictor(nn.Module):
    """Expected returns as one affine map of the flattened feature window.

    Parameters
    ----------
    n_assets, lookback, horizon : int
        N, the days of past returns seen, and the days H forecast.

    Notes
    -----
    Starts at zero, not at torch's random default: uniform biases of ±1/√(lookback·N) are thirty times a
    daily return, so that the first portfolios would sit at a vertex of the simplex, where the decision has
    no gradient. From zero forecasts the first decision is the minimum-variance one, which moves with them.
    """

    def __init__(self, n_assets: int, lookback: int, horizon: int) -> None:
        super().__init__()
        self.n_assets, self.lookback, self.horizon = n_assets, lookback, horizon
        self.map = nn.Linear(lookback * n_assets, horizon * n_assets, dtype=torch.float64)
        nn.init.zeros_(self.map.weight)
        nn.init.zeros_(self.map.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Map features [B, lookback, N] to expected returns [B, H, N]."""
        forecasts: Tensor = self.map(features.flatten(1))
        return forecasts.reshape(-1, self.horizon, self.n_assets)
