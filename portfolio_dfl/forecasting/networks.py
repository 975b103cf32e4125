"""Predictors beyond the linear one: a perceptron, a recurrent network, and a temporal convolution.

All take features [B, lookback, N] and give forecasts [B, H, N]. All start at zero forecasts (their last
layer does), so that the first decision is the minimum-variance one and its gradient does not vanish.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from portfolio_dfl.forecasting.inputs import Inputs

__all__ = [
    "FEATURE_PREDICTORS",
    "PREDICTORS",
    "FeatureGRUPredictor",
    "FeatureTemporalConvolutionPredictor",
    "GRUPredictor",
    "MLPPredictor",
    "TemporalConvolutionPredictor",
]


class _ZeroHead(nn.Module):
    """Last layer: one affine map, zero at first, from a code [B, width] to forecasts [B, H, N]."""

    def __init__(self, width: int, horizon: int, n_assets: int) -> None:
        super().__init__()
        self.shape = (-1, horizon, n_assets)
        self.map = nn.Linear(width, horizon * n_assets, dtype=torch.float64)
        nn.init.zeros_(self.map.weight)
        nn.init.zeros_(self.map.bias)

    def forward(self, code: Tensor) -> Tensor:
        forecasts: Tensor = self.map(code)
        return forecasts.reshape(self.shape)


class MLPPredictor(nn.Module):
    """Perceptron on the flattened feature window.

    Parameters
    ----------
    n_assets, lookback, horizon : int
        N, the days of past returns seen, and the days H forecast.
    hidden : int
        Width of each hidden layer.
    depth : int
        Number of hidden layers, at least 1.
    dropout : float
        Share of hidden units dropped in training.
    """

    def __init__(
        self,
        n_assets: int,
        lookback: int,
        horizon: int,
        hidden: int = 32,
        depth: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        widths = [lookback * n_assets] + [hidden] * depth
        self.body = nn.Sequential()
        for before, after in pairwise(widths):
            self.body.append(nn.Linear(before, after, dtype=torch.float64))
            self.body.append(nn.Tanh())
            self.body.append(nn.Dropout(dropout))
        self.head = _ZeroHead(hidden, horizon, n_assets)

    def forward(self, features: Tensor) -> Tensor:
        """Map features [B, lookback, N] to expected returns [B, H, N]."""
        forecasts: Tensor = self.head(self.body(features.flatten(1)))
        return forecasts


class GRUPredictor(nn.Module):
    """Gated recurrent network (Cho et al., 2014) over the window; its last state gives the forecasts.

    Parameters
    ----------
    n_assets, lookback, horizon : int
        N, the days of past returns seen, and the days H forecast.
    hidden : int
        Size of the state.
    layers : int
        Number of stacked recurrent layers.
    """

    def __init__(self, n_assets: int, lookback: int, horizon: int, hidden: int = 16, layers: int = 1) -> None:
        super().__init__()
        self.body = nn.GRU(self._channels(n_assets), hidden, num_layers=layers, batch_first=True, dtype=torch.float64)
        self.head = _ZeroHead(hidden, horizon, n_assets)

    def _channels(self, n_assets: int) -> int:
        return n_assets

    def forward(self, features: Tensor) -> Tensor:
        """Map features [B, lookback, N] to expected returns [B, H, N]."""
        states, _ = self.body(features)
        forecasts: Tensor = self.head(states[:, -1])
        return forecasts


class TemporalConvolutionPredictor(nn.Module):
    """Dilated causal convolutions over the window (Bai, Kolter and Koltun, 2018), without residuals.

    The dilation doubles from layer to layer until the last day sees the whole window.

    Parameters
    ----------
    n_assets, lookback, horizon : int
        N, the days of past returns seen, and the days H forecast.
    channels : int
        Channels of each layer.
    kernel : int
        Days each convolution looks at, at least 2.
    """

    def __init__(self, n_assets: int, lookback: int, horizon: int, channels: int = 16, kernel: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential()
        incoming, dilation, seen = self._channels(n_assets), 1, 1
        while seen < lookback:
            reach = (kernel - 1) * dilation
            self.body.append(nn.ConstantPad1d((reach, 0), 0.0))
            self.body.append(nn.Conv1d(incoming, channels, kernel, dilation=dilation, dtype=torch.float64))
            self.body.append(nn.Tanh())
            incoming, dilation, seen = channels, 2 * dilation, seen + reach
        self.head = _ZeroHead(incoming, horizon, n_assets)

    def _channels(self, n_assets: int) -> int:
        return n_assets

    def forward(self, features: Tensor) -> Tensor:
        """Map features [B, lookback, N] to expected returns [B, H, N]."""
        code = self.body(features.transpose(1, 2))
        forecasts: Tensor = self.head(code[:, :, -1])
        return forecasts


class _WithFeatures(nn.Module):
    """What a network over time needs to see features beside returns: more channels a day."""

    takes_inputs = True

    def __init__(
        self,
        n_assets: int,
        lookback: int,
        horizon: int,
        *,
        n_dated: int = 0,
        n_by_asset: int = 0,
        **options: Any,
    ) -> None:
        self._width = n_assets + n_dated + n_assets * n_by_asset
        super().__init__(n_assets, lookback, horizon, **options)

    def _channels(self, n_assets: int) -> int:
        return self._width

    def forward(self, features: Tensor | Inputs) -> Tensor:
        """Map inputs to expected returns [B, H, N]."""
        inputs = Inputs.of(features)
        days = torch.cat([inputs.returns, inputs.dated, inputs.by_asset.flatten(2)], dim=2)
        forecasts: Tensor = super().forward(days)
        return forecasts


class FeatureGRUPredictor(_WithFeatures, GRUPredictor):
    """`GRUPredictor` that sees every day's features beside its returns; options are the same."""


class FeatureTemporalConvolutionPredictor(_WithFeatures, TemporalConvolutionPredictor):
    """`TemporalConvolutionPredictor` that sees every day's features beside its returns; options are the same."""


#: What names stand for in a study with features.
FEATURE_PREDICTORS: Mapping[str, type[nn.Module]] = MappingProxyType(
    {"gru": FeatureGRUPredictor, "tcn": FeatureTemporalConvolutionPredictor}
)

#: Networks by name.
PREDICTORS: Mapping[str, type[nn.Module]] = MappingProxyType(
    {"mlp": MLPPredictor, "gru": GRUPredictor, "tcn": TemporalConvolutionPredictor}
)
