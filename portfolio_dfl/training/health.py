"""Health of a training run: do gradients reach the forecasts, and do forecasts stay in proportion?

Portfolios at a vertex of the feasible set do not react to small changes of the forecasts: their gradient is
zero, and a predictor cannot learn from them. And a decision only sees differences of forecasts, so that
training on it may inflate them far beyond any return. Both are invisible in the loss; both are counted
here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from portfolio_dfl.training.decision import Outcome

__all__ = ["GradientHealth", "HealthMonitor"]

# Per-sample gradients with respect to a forecast are around |r| / (λ σ²) ~ 10; this is rounding, not
# signal.
_ZERO_GRADIENT = 1e-9
_AT_BOUND = 1e-7


@dataclass(frozen=True)
class GradientHealth:
    """Averages over the last epoch of a window's training, unless said otherwise; NaN where not applicable.

    Attributes
    ----------
    zero_gradient_share : float
        Share of samples whose loss does not react to any forecast.
    bounds_active_share : float
        Share of planned weights at zero.
    turnover_active_share : float
        Share of planned stages that trade as much as their turnover limit allows.
    forecast_gradient_norm : float
        Euclidean norm of a sample's loss gradient with respect to its forecasts.
    parameter_gradient_norm : float
        Euclidean norm of the gradient of a step with respect to all parameters.
    forecast_inflation : float
        Root mean square of the forecasts over that of the realised returns; a calibrated forecast is far
        below 1.
    steps : int
        Optimiser steps taken in all epochs.
    layer_failures : int
        Portfolio problems without a certified solution; one ends the window's training.
    """

    zero_gradient_share: float = float("nan")
    bounds_active_share: float = float("nan")
    turnover_active_share: float = float("nan")
    forecast_gradient_norm: float = float("nan")
    parameter_gradient_norm: float = float("nan")
    forecast_inflation: float = float("nan")
    steps: int = 0
    layer_failures: int = 0

    def as_dict(self) -> dict[str, float]:
        """Plain numbers by name."""
        return {field.name: float(getattr(self, field.name)) for field in fields(self)}


class HealthMonitor:
    """Collects `GradientHealth` step by step; the sums are those of the current epoch."""

    def __init__(self) -> None:
        self._steps = 0
        self.start_epoch()

    def start_epoch(self) -> None:
        """Forget the sums of the epoch before."""
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def observe(self, outcome: Outcome, parameters: list[Tensor]) -> None:
        """Look at one step after its backward pass; the outcome's forecasts must have kept their gradient."""
        self._steps += 1
        samples = len(outcome.samples)
        forecasts = outcome.forecasts.detach()
        realised = outcome.samples.future_returns
        self._add("forecast_power", float(forecasts.square().mean()), samples)
        self._add("realised_power", float(realised.square().mean()), samples)
        gradient = outcome.forecasts.grad
        if gradient is not None:
            # The loss is a mean over the batch: times its size, a gradient is one sample's.
            norms = samples * gradient.flatten(1).norm(dim=1)
            self._add("forecast_gradient_norm", float(norms.mean()), samples)
            self._add("zero_gradient_share", float((norms <= _ZERO_GRADIENT).double().mean()), samples)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if gradients:
            norm = torch.stack([part.norm() for part in gradients]).norm()
            self._add("parameter_gradient_norm", float(norm), 1)
        if outcome.decided:
            weights = outcome.weights.detach()
            self._add("bounds_active_share", float((weights <= _AT_BOUND).double().mean()), samples)
            limit = outcome.model.layer.turnover_limit
            if limit is not None:
                before = torch.cat([outcome.held.unsqueeze(1), weights[:, :-1]], dim=1)
                traded = (weights - before).abs().sum(dim=-1)
                share = (traded >= torch.as_tensor(limit) - _AT_BOUND).double().mean()
                self._add("turnover_active_share", float(share), samples)

    def summary(self) -> GradientHealth:
        """The current epoch's averages."""
        averages = {name: total / self._counts[name] for name, total in self._sums.items()}
        realised, forecast = averages.pop("realised_power", 0.0), averages.pop("forecast_power", 0.0)
        inflation = (forecast / realised) ** 0.5 if realised > 0 else float("nan")
        return GradientHealth(**averages, forecast_inflation=inflation, steps=self._steps, layer_failures=0)

    def _add(self, name: str, value: float, count: int) -> None:
        self._sums[name] = self._sums.get(name, 0.0) + value * count
        self._counts[name] = self._counts.get(name, 0) + count
