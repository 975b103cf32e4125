"""Surrogates of regret that are convex in the forecasts and need no derivative of the portfolio problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.scalars import require_number, require_whole
from portfolio_dfl.training.decision import Outcome
from portfolio_dfl.training.losses.planned import layer_objective

__all__ = ["FenchelYoungLoss", "SPOPlusLoss"]


@dataclass(frozen=True)
class SPOPlusLoss:
    """SPO+ (Elmachtoub and Grigas, 2022) extended to this quadratic program; convex in the forecasts.

    Unknown returns enter the layer's objective linearly, and the risk term φ(w) = λ/2 Σ_s w_sᵀ Σ̂_s w_s is
    known when deciding. With F(w; r) = φ(w) − Σ_s r_sᵀ w_s, w*(r) its minimiser and ρ = 2r̂ − r, their
    derivation (the bound with α = 2) carries over with φ in place and gives F(w*(r); ρ) − min_w F(w; ρ). It
    is ≥ 0, bounds the regret at the layer's own covariance from above, and its gradient 2 (w*(ρ) − w*(r))
    follows from the envelope theorem: two solves, no derivative of the layer, and it does not vanish at
    vertices.
    """

    weighs_samples: ClassVar[bool] = True

    def __call__(self, outcome: Outcome) -> Tensor:
        samples, layer = outcome.samples, outcome.model.layer
        reflected = 2.0 * outcome.forecasts - samples.future_returns
        with torch.no_grad():
            covariance = outcome.model.covariance_scaling(samples.covariance)
            hindsight = layer(samples.future_returns, covariance, outcome.held)
            best = layer(reflected, covariance, outcome.held)
        return outcome.average(
            layer_objective(outcome, hindsight, reflected, covariance)
            - layer_objective(outcome, best, reflected, covariance)
        )


@dataclass(frozen=True)
class FenchelYoungLoss:
    """Perturbed Fenchel–Young loss of the decision that hindsight would take (Berthet et al., 2020); convex.

    With F(w; r) = φ(w) − Σ_s r_sᵀ w_s the layer's objective, its risk and costs φ known when deciding, and w* its
    minimiser at the realised returns,

        F(w*; r̂) − E_Z min_w F(w; r̂ + σ Z),   Z standard normal,

    in the units of returns, is at least 0 and has the gradient E_Z w(r̂ + σ Z) − w*: solves alone, no derivative of
    the layer, and no samples without a gradient. It asks for the decision of hindsight itself, not for its value.
    Perturbations are drawn in pairs ±Z, so that half of them are their own control variates.

    Parameters
    ----------
    sigma : float
        σ > 0, standard deviation of the perturbations, in units of a stage's return.
    samples : int
        Perturbations of each forecast, an even number; each costs one solve.
    """

    weighs_samples: ClassVar[bool] = True
    sigma: float = 1e-3
    samples: int = 4

    def __post_init__(self) -> None:
        require_number(TrainingError, "sigma", self.sigma, above=0.0)
        require_whole(TrainingError, "samples", self.samples, 2)
        if self.samples % 2:
            raise TrainingError(f"samples of the loss 'pfyl' come in pairs, got {self.samples}: use an even number")

    def __call__(self, outcome: Outcome) -> Tensor:
        samples, layer, cost = outcome.samples, outcome.model.layer, outcome.samples.cost
        forecasts, future = outcome.forecasts, samples.future_returns
        rates = None if cost is None else cost.unsqueeze(1)
        with torch.no_grad():
            covariance = outcome.model.covariance_scaling(samples.covariance)
            hindsight = layer(future, covariance, outcome.held, transaction_cost=rates)
        value = layer_objective(outcome, hindsight, forecasts, covariance)
        for _ in range(self.samples // 2):
            noise = self.sigma * torch.randn(forecasts.shape, dtype=torch.float64)
            for perturbed in (forecasts + noise, forecasts - noise):
                with torch.no_grad():
                    best = layer(perturbed, covariance, outcome.held, transaction_cost=rates)
                value = value - layer_objective(outcome, best, perturbed, covariance) / self.samples
        return outcome.average(value)
