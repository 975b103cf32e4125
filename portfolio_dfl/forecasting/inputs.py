"""What predictors see: past returns alone, or returns with features."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from portfolio_dfl.errors import TrainingError

__all__ = ["Inputs", "InputsPredictor", "takes_inputs"]


class Inputs(NamedTuple):
    """Windows of B decisions, oldest day first; the last is that of the decision.

    Attributes
    ----------
    returns : Tensor [B, L, N]
        Simple returns.
    dated : Tensor [B, L, F]
        Features by date, as they were known at each close; F may be 0.
    by_asset : Tensor [B, L, N, G]
        Features by date and asset; G may be 0.
    """

    returns: Tensor
    dated: Tensor
    by_asset: Tensor

    @classmethod
    def of(cls, features: Tensor | Inputs) -> Inputs:
        """The inputs themselves, or those of returns [B, L, N] alone."""
        if isinstance(features, Inputs):
            return features
        days = features.shape[:2]
        return cls(features, features.new_zeros(*days, 0), features.new_zeros(*days, features.shape[2], 0))


def takes_inputs(factory: object) -> bool:
    """Whether a predictor, or what makes one, says by ``takes_inputs = True`` that it sees :class:`Inputs`."""
    return bool(getattr(factory, "takes_inputs", False))


class InputsPredictor(nn.Module):
    """A predictor of :class:`Inputs` between fixed scales, fitted in the training window only.

    Returns are standardised for each asset and forecasts are in units of its volatility σ, as in
    :class:`~portfolio_dfl.forecasting.scaling.ScaledPredictor`. A feature by date is standardised by its own mean and
    deviation, one by asset by those over all assets, so that differences between assets stay. A feature that does not
    vary in the training window tells nothing there and is zero after scaling; so are values that are not known.

    Parameters
    ----------
    core : nn.Module
        Maps standardised inputs to forecasts [B, H, N] in units of σ.
    n_assets, n_dated, n_by_asset : int
        N, F and G.
    stage : int
        Days of one stage, as of `ScaledPredictor`.
    scaled : bool
        Whether there are scales; without them the core sees inputs as they are.
    """

    mean: Tensor
    deviation: Tensor
    dated_mean: Tensor
    dated_deviation: Tensor
    by_asset_mean: Tensor
    by_asset_deviation: Tensor

    def __init__(
        self, core: nn.Module, n_assets: int, n_dated: int, n_by_asset: int, stage: int = 1, *, scaled: bool = True
    ) -> None:
        super().__init__()
        self.core = core
        self.stage = stage
        self.scaled = scaled
        if scaled:
            for name, size in (("", n_assets), ("dated_", n_dated), ("by_asset_", n_by_asset)):
                self.register_buffer(f"{name}mean", torch.zeros(size, dtype=torch.float64))
                self.register_buffer(f"{name}deviation", torch.ones(size, dtype=torch.float64))

    def fit_scales(self, features: Tensor | Inputs) -> None:
        """Take all scales (ddof = 1) from training inputs; a day counts once a sample.

        Raises
        ------
        TrainingError
            If an asset's returns do not vary in the training window.
        """
        if not self.scaled:
            return
        inputs = Inputs.of(features)
        days = inputs.returns.flatten(0, 1)
        deviation = days.std(dim=0)
        constant = torch.nonzero(~(deviation > 0)).flatten()
        if len(constant):
            raise TrainingError(
                f"returns of asset {int(constant[0])} do not vary in the training window and cannot be "
                f"scaled; leave the asset out or start later"
            )
        self.mean.copy_(days.mean(dim=0))
        self.deviation.copy_(deviation)
        for values, mean, spread in (
            (inputs.dated.flatten(0, 1), self.dated_mean, self.dated_deviation),
            (inputs.by_asset.flatten(0, 2), self.by_asset_mean, self.by_asset_deviation),
        ):
            for column in range(values.shape[1]):
                known = values[:, column][~values[:, column].isnan()]
                varies = len(known) > 1 and bool(known.std() > 0)
                mean[column] = known.mean() if varies else 0.0
                spread[column] = known.std() if varies else torch.inf

    def standardised(self, features: Tensor | Inputs) -> Inputs:
        """The inputs that the core sees."""
        inputs = Inputs.of(features)
        if not self.scaled:
            return inputs
        return Inputs(
            (inputs.returns - self.mean) / self.deviation,
            torch.nan_to_num((inputs.dated - self.dated_mean) / self.dated_deviation),
            torch.nan_to_num((inputs.by_asset - self.by_asset_mean) / self.by_asset_deviation),
        )

    @property
    def unit(self) -> Tensor:
        """Unit of the core's forecasts, [N] or a scalar."""
        return self.deviation * self.stage**0.5 if self.scaled else torch.ones((), dtype=torch.float64)

    def forward(self, features: Tensor | Inputs) -> Tensor:
        """Map raw inputs, or returns [B, L, N] alone, to expected returns [B, H, N]."""
        forecasts: Tensor = self.core(self.standardised(features))
        return forecasts * self.unit
