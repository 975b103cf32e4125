"""An asset whose return is known beforehand: predictors neither see nor forecast it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from portfolio_dfl.forecasting.inputs import Inputs
from portfolio_dfl.risk.factor import FactorCovariance

__all__ = ["KnownReturn"]


@dataclass(frozen=True)
class KnownReturn:
    """One asset, such as cash, with the return of a stage that is known of it.

    Attributes
    ----------
    place : int
        Its column.
    expected : float
        Return of one stage.
    """

    place: int
    expected: float

    def others(self, features: Tensor | Inputs) -> Tensor | Inputs:
        """Returns [B, L, N], or `Inputs`, without the asset; features by asset are of the others alone."""
        if isinstance(features, Inputs):
            return features._replace(returns=self.without(features.returns))
        return self.without(features)

    def without(self, values: Tensor) -> Tensor:
        """Values [..., N] without those of the asset."""
        return torch.cat([values[..., : self.place], values[..., self.place + 1 :]], dim=-1)

    def of_others(self, covariance: Tensor | FactorCovariance) -> Tensor | FactorCovariance:
        """A covariance [B, N, N], or one in parts, without the asset."""
        if isinstance(covariance, FactorCovariance):
            exposures = self.without(covariance.exposures.transpose(-1, -2)).transpose(-1, -2)
            return FactorCovariance(exposures, covariance.factor_covariance, self.without(covariance.specific_variance))
        return self.without(self.without(covariance).transpose(-1, -2)).transpose(-1, -2)

    def among(self, forecasts: Tensor) -> Tensor:
        """Forecasts [B, H, N] with the asset among the others' [B, H, N − 1]."""
        known = forecasts.new_full((*forecasts.shape[:-1], 1), self.expected)
        return torch.cat([forecasts[..., : self.place], known, forecasts[..., self.place :]], dim=-1)
