"""Linear predictors: the paper's on every past return of the window, and one on a few trailing means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor, nn

from portfolio_dfl.errors import TrainingError

# Coefficients above which training keeps gigabytes: each is there with its gradient and the two moments of Adam.
_MOST = 20_000_000

__all__ = ["PREDICTORS", "EWMAPredictor", "LinearPredictor", "MomentumPredictor"]


class LinearPredictor(nn.Module):
    """The paper's predictor: expected returns as one affine map of the flattened feature window.

    Parameters
    ----------
    n_assets, lookback, horizon : int
        N, the days of past returns seen, and the days H forecast.
    start : float
        Size of the first forecasts, drawn at random: the root mean square, for independent features, of
        forecasts over features (in units of a day's volatility where the predictor is scaled). At 0, the
        default, training starts from zero forecasts, and where it draws nothing else all seeds coincide.

    Notes
    -----
    Does not start at torch's random default: uniform biases of ±1/√(lookback·N) are thirty times a daily
    return, so that the first portfolios would sit at a vertex of the simplex, where the decision has no
    gradient. From zero forecasts the first decision is the minimum-variance one, which moves with them.
    """

    def __init__(self, n_assets: int, lookback: int, horizon: int, start: float = 0.0) -> None:
        super().__init__()
        if not start >= 0.0:
            raise TrainingError(f"start must be at least 0, got {start}")
        self.n_assets, self.lookback, self.horizon = n_assets, lookback, horizon
        count = self.n_regressors * horizon * n_assets
        if count > _MOST:
            raise TrainingError(
                f"a linear predictor of {n_assets} assets over {horizon} stages from {self.n_regressors} regressors "
                f"has {count:,} coefficients, more than samples could tell apart: take 'pooled', "
                "which learns the same few for all assets, or a shorter lookback"
            )
        self.map = nn.Linear(self.n_regressors, horizon * n_assets, dtype=torch.float64)
        nn.init.normal_(self.map.weight, std=start / self.n_regressors**0.5)
        nn.init.zeros_(self.map.bias)

    @property
    def n_regressors(self) -> int:
        """Number of columns of `design`."""
        return self.lookback * self.n_assets

    def design(self, features: Tensor) -> Tensor:
        """Regressors [B, K] from features [B, lookback, N]."""
        return features.flatten(1)

    def forward(self, features: Tensor) -> Tensor:
        """Map features [B, lookback, N] to expected returns [B, H, N]."""
        forecasts: Tensor = self.map(self.design(features))
        return forecasts.reshape(-1, self.horizon, self.n_assets)


class MomentumPredictor(LinearPredictor):
    """Linear in every asset's mean return over a few trailing windows instead of in every single return.

    A hundred samples cannot tell 840 coefficients apart; they may tell a few per asset. Means are
    multiplied by the root of their length, so that all regressors vary alike.

    Parameters
    ----------
    n_assets, lookback, horizon : int
        N, the days of past returns seen, and the days H forecast.
    windows : sequence of int, optional
        Trailing days of each mean, at most `lookback`; by default the whole window, a half, a quarter and
        an eighth of it.
    start : float
        As for `LinearPredictor`.
    """

    def __init__(
        self,
        n_assets: int,
        lookback: int,
        horizon: int,
        windows: Sequence[int] | None = None,
        start: float = 0.0,
    ) -> None:
        if windows is None:
            windows = sorted({max(lookback // part, 1) for part in (1, 2, 4, 8)})
        if not windows or len(set(windows)) < len(windows) or min(windows) < 1 or max(windows) > lookback:
            raise TrainingError(
                f"trailing windows must be different numbers of days, from 1 to the lookback of {lookback}; "
                f"got {list(windows)}"
            )
        self.windows = sorted(windows)
        super().__init__(n_assets, lookback, horizon, start)

    @property
    def n_regressors(self) -> int:
        """One column for each window and asset."""
        return len(self.windows) * self.n_assets

    def design(self, features: Tensor) -> Tensor:
        """Scaled trailing means [B, windows · N] of features [B, lookback, N]."""
        return torch.cat([features[:, -days:].mean(dim=1) * days**0.5 for days in self.windows], dim=1)


class EWMAPredictor(LinearPredictor):
    """Linear in every asset's exponentially weighted mean returns: momentum that forgets smoothly.

    A return leaves a trailing mean from one day to the next; an exponential weight lets it fade. Means are divided by
    the norm of their weights, so that all regressors vary alike.

    Parameters
    ----------
    n_assets, lookback, horizon : int
        N, the days of past returns seen, and the days H forecast.
    halflives : sequence of float, optional
        Days in which a weight falls to its half; by default a quarter, an eighth and a sixteenth of the lookback.
    start : float
        As for `LinearPredictor`.
    """

    weights: Tensor

    def __init__(
        self,
        n_assets: int,
        lookback: int,
        horizon: int,
        halflives: Sequence[float] | None = None,
        start: float = 0.0,
    ) -> None:
        self.halflives = [lookback / part for part in (4, 8, 16)] if halflives is None else sorted(halflives)
        if (
            not self.halflives
            or len(set(self.halflives)) < len(self.halflives)
            or not all(0.0 < days < math.inf for days in self.halflives)
        ):
            raise TrainingError(f"half-lives must be different positive numbers of days; got {self.halflives}")
        super().__init__(n_assets, lookback, horizon, start)
        age = torch.arange(lookback - 1, -1, -1, dtype=torch.float64)
        weights = torch.stack([0.5 ** (age / days) for days in self.halflives])
        self.register_buffer("weights", weights / weights.norm(dim=1, keepdim=True), persistent=False)

    @property
    def n_regressors(self) -> int:
        """One column for each half-life and asset."""
        return len(self.halflives) * self.n_assets

    def design(self, features: Tensor) -> Tensor:
        """Scaled weighted means [B, half-lives · N] of features [B, lookback, N]."""
        return torch.einsum("kt,btn->bkn", self.weights, features).flatten(1)


#: Linear predictors by name.
PREDICTORS: Mapping[str, type[nn.Module]] = MappingProxyType(
    {"linear": LinearPredictor, "momentum": MomentumPredictor, "ewma": EWMAPredictor}
)
