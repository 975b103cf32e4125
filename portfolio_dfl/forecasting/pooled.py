"""Predictors that are linear in features: coefficients of its own for every asset, or the same for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor, nn

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.forecasting.inputs import Inputs
from portfolio_dfl.forecasting.linear import LinearPredictor

__all__ = ["FEATURE_PREDICTORS", "PREDICTORS", "FeatureLinearPredictor", "PooledPredictor"]


class FeatureLinearPredictor(LinearPredictor):
    """Expected returns of every asset as an affine map of all features known at the decision.

    What ``linear`` is in a study with features.

    Parameters
    ----------
    n_assets, lookback, horizon : int
        N, the days of past returns seen, and the days H forecast.
    n_dated, n_by_asset : int
        Features by date, F, and by date and asset, G.
    returns : bool
        Whether the returns of the whole window are regressors beside the features, as the paper's are.
    start : float
        As for `LinearPredictor`.
    """

    takes_inputs = True

    def __init__(
        self,
        n_assets: int,
        lookback: int,
        horizon: int,
        *,
        n_dated: int = 0,
        n_by_asset: int = 0,
        returns: bool = False,
        start: float = 0.0,
    ) -> None:
        if n_dated + n_by_asset == 0 and not returns:
            raise TrainingError("a predictor that is linear in features needs features, or returns: true")
        self.width = n_dated + n_assets * n_by_asset + (lookback * n_assets if returns else 0)
        self.returns = returns
        super().__init__(n_assets, lookback, horizon, start)

    @property
    def n_regressors(self) -> int:
        """Number of columns of `design`."""
        return self.width

    def design(self, features: Tensor | Inputs) -> Tensor:
        """Regressors [B, K]: features by date, those by asset, and the returns if they are asked for."""
        inputs = Inputs.of(features)
        parts = [inputs.dated[:, -1], inputs.by_asset[:, -1].flatten(1)]
        return torch.cat([*parts, inputs.returns.flatten(1)] if self.returns else parts, dim=1)


class PooledPredictor(nn.Module):
    """The same coefficients for all assets, each on its own features: what a few hundred samples can tell.

    The panel regression of the empirical literature (Gu, Kelly and Xiu, 2020, section 1.3, its linear model). Features
    by date are regressors of all assets alike; with `interactions` the products of features by asset and by date are
    regressors too, so that a state of the market may change what a characteristic is worth. Without features by asset
    the regressors are each asset's mean returns over a few trailing windows.

    Parameters
    ----------
    n_assets, lookback, horizon : int
        N, the days of past returns seen, and the days H forecast.
    n_dated, n_by_asset : int
        Features by date, F, and by date and asset, G.
    intercept : {"common", "asset", "none"}
        One for all assets, one for each, or none.
    interactions : bool
        Whether products of both kinds of features are regressors.
    windows : sequence of int, optional
        Trailing days of mean returns where there are no features by asset; as of `MomentumPredictor` by default.
    start : float
        As for `LinearPredictor`.
    """

    takes_inputs = True

    def __init__(
        self,
        n_assets: int,
        lookback: int,
        horizon: int,
        *,
        n_dated: int = 0,
        n_by_asset: int = 0,
        intercept: str = "common",
        interactions: bool = False,
        windows: Sequence[int] | None = None,
        start: float = 0.0,
    ) -> None:
        super().__init__()
        if intercept not in ("common", "asset", "none"):
            raise TrainingError(f"intercept is {intercept!r}; it must be 'common', 'asset' or 'none'")
        if not start >= 0.0:
            raise TrainingError(f"start must be at least 0, got {start}")
        if windows is None:
            windows = sorted({max(lookback // part, 1) for part in (1, 2, 4, 8)})
        elif n_by_asset:
            raise TrainingError("windows are of past returns, which are no regressors beside features by asset")
        if not windows or len(set(windows)) < len(windows) or min(windows) < 1 or max(windows) > lookback:
            raise TrainingError(
                f"trailing windows must be different numbers of days, from 1 to the lookback of {lookback}; "
                f"got {list(windows)}"
            )
        self.windows = [] if n_by_asset else sorted(windows)
        self.interactions = interactions
        own = n_by_asset or len(self.windows)
        width = own + n_dated + (own * n_dated if interactions else 0)
        self.map = nn.Linear(width, horizon, bias=False, dtype=torch.float64)
        nn.init.normal_(self.map.weight, std=start / width**0.5)
        self.bias = None
        if intercept != "none":
            count = n_assets if intercept == "asset" else 1
            self.bias = nn.Parameter(torch.zeros(horizon, count, dtype=torch.float64))

    def design(self, features: Tensor | Inputs) -> Tensor:
        """Regressors [B, N, K] of each asset."""
        inputs = Inputs.of(features)
        own = inputs.by_asset[:, -1]
        if self.windows:
            means = [inputs.returns[:, -days:].mean(dim=1) * days**0.5 for days in self.windows]
            own = torch.stack(means, dim=-1)
        common = inputs.dated[:, -1].unsqueeze(1).expand(-1, own.shape[1], -1)
        parts = [own, common]
        if self.interactions:
            parts.append((own.unsqueeze(-1) * common.unsqueeze(-2)).flatten(2))
        return torch.cat(parts, dim=-1)

    def forward(self, features: Tensor | Inputs) -> Tensor:
        """Map inputs to expected returns [B, H, N]."""
        forecasts: Tensor = self.map(self.design(features)).transpose(1, 2)
        return forecasts if self.bias is None else forecasts + self.bias


#: Predictors of inputs with features or without.
PREDICTORS: Mapping[str, type[nn.Module]] = MappingProxyType({"pooled": PooledPredictor})
#: What a name stands for in a study with features, where that is something else.
FEATURE_PREDICTORS: Mapping[str, type[nn.Module]] = MappingProxyType({"linear": FeatureLinearPredictor})
