"""Units of a predictor: standardised returns in, forecasts in units of a stage's volatility out.

A daily expected return is about 1e-3 and a daily return about 1e-2; a network that has to find these scales
by itself spends its training on them, and one optimiser step of 1e-3 on a raw bias already moves a forecast
by as much as the forecast is worth. The scales are data and are therefore fitted inside the training window
only.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from portfolio_dfl.errors import TrainingError

__all__ = ["ScaledPredictor"]


class ScaledPredictor(nn.Module):
    """A predictor between fixed scales: forecast = √k σ · core((features − μ) / σ), μ and σ for each asset.

    Linear predictors stay linear in the raw returns: only the coordinates in which they learn change. The
    scales are buffers: they travel in the state dictionary and take no gradient.

    Parameters
    ----------
    core : nn.Module
        Maps standardised features [B, lookback, N] to forecasts [B, H, N] in units of √k σ.
    n_assets : int
        N.
    stage : int
        Days k that one forecast is about: √k σ is their volatility, as if days did not correlate.
    """

    def __init__(self, core: nn.Module, n_assets: int, stage: int = 1) -> None:
        super().__init__()
        self.stage = stage
        self.core = core
        self.register_buffer("mean", torch.zeros(n_assets, dtype=torch.float64))
        self.register_buffer("deviation", torch.ones(n_assets, dtype=torch.float64))
        self.mean: Tensor
        self.deviation: Tensor

    def fit_scales(self, features: Tensor) -> None:
        """Take μ and σ (ddof = 1) from training features [S, lookback, N]; a day counts once a sample.

        Raises
        ------
        TrainingError
            If an asset's returns do not vary in the training window.
        """
        days = features.reshape(-1, features.shape[-1])
        deviation = days.std(dim=0)
        constant = torch.nonzero(~(deviation > 0)).flatten()
        if len(constant):
            raise TrainingError(
                f"returns of asset {int(constant[0])} do not vary in the training window and cannot be "
                f"scaled; leave the asset out or start later"
            )
        self.mean.copy_(days.mean(dim=0))
        self.deviation.copy_(deviation)

    @property
    def unit(self) -> Tensor:
        """Of the core's forecasts, [N]: the volatility of a stage."""
        return self.deviation * math.sqrt(self.stage)

    def forward(self, features: Tensor) -> Tensor:
        """Map raw features [B, lookback, N], simple returns a day, to expected returns [B, H, N], a stage."""
        forecasts: Tensor = self.core((features - self.mean) / self.deviation)
        return forecasts * self.unit
