"""Losses of the whole plan: the paper's decision loss, regret, and what the plan's trades cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.risk.factor import FactorCovariance
from portfolio_dfl.scalars import require_number
from portfolio_dfl.training.decision import Outcome

__all__ = [
    "DecisionLoss",
    "NetUtilityLoss",
    "RegretLoss",
    "decision_loss",
    "layer_objective",
    "plan_objective",
]


def plan_objective(
    weights: Tensor, returns: Tensor, covariance: Tensor | FactorCovariance, risk_aversion: float
) -> Tensor:
    """Objective of the paper's problem for each sample, Σ_s (−r_sᵀ w_s + λ/2 w_sᵀ Σ_s w_s), shape [B].

    Parameters
    ----------
    weights, returns : Tensor [B, H, N]
    covariance : Tensor [B, N, N] or [B, H, N, N], or FactorCovariance
        One for all stages, or one a stage.
    risk_aversion : float
        λ.
    """
    if isinstance(covariance, FactorCovariance):
        risk = (weights * covariance.times(weights)).sum(dim=-1)
    else:
        stages = covariance.unsqueeze(1) if covariance.dim() == 3 else covariance
        risk = (weights.unsqueeze(-2) @ stages @ weights.unsqueeze(-1)).squeeze(-1).squeeze(-1)
    gain = (returns * weights).sum(dim=-1)
    return (0.5 * risk_aversion * risk - gain).sum(dim=-1)


def decision_loss(
    weights: Tensor, future_returns: Tensor, realised_covariance: Tensor | FactorCovariance, risk_aversion: float
) -> Tensor:
    """The paper's outer objective: the plan's objective at realised returns and risk, batch mean.

    Source: the paper's bilevel problem, eq. (bilevel_portfolio_mv_avg). Shapes as in `plan_objective`; a
    scalar.
    """
    return plan_objective(weights, future_returns, realised_covariance, risk_aversion).mean()


def layer_objective(
    outcome: Outcome, weights: Tensor, returns: Tensor, covariance: Tensor | FactorCovariance
) -> Tensor:
    """What the outcome's layer would minimise at these returns and covariances, all its costs included, [B]."""
    objective = plan_objective(weights, returns, covariance, outcome.risk_aversion)
    layer, cost = outcome.model.layer, outcome.samples.cost
    rate = layer.transaction_cost if cost is None else cost.unsqueeze(1)
    trade = weights - torch.cat([outcome.held.unsqueeze(1), weights[:, :-1]], dim=1)
    for coefficient, amount in (
        (rate, trade.abs),
        (layer.market_impact, trade.square),
        (layer.borrow_cost, (-weights).relu),
    ):
        if not (isinstance(coefficient, float) and coefficient == 0.0):
            objective = objective + (torch.as_tensor(coefficient) * amount()).sum(dim=(1, 2))
    return objective


@dataclass(frozen=True)
class DecisionLoss:
    """`decision_loss` of the planned weights."""

    weighs_samples: ClassVar[bool] = True

    def __call__(self, outcome: Outcome) -> Tensor:
        samples = outcome.samples
        objective = plan_objective(
            outcome.weights, samples.future_returns, samples.realised_covariance, outcome.risk_aversion
        )
        return outcome.average(objective)


@dataclass(frozen=True)
class RegretLoss:
    """Decision loss above that of perfect foresight under the same constraints and weights held; ≥ 0.

    Foresight does not depend on the predictor: the gradient equals the decision loss's, the value tells how
    far the ceiling is. It costs a second solve a step. If the layer plans with trading costs, they count on
    both sides.
    """

    weighs_samples: ClassVar[bool] = True

    def __call__(self, outcome: Outcome) -> Tensor:
        returns, covariance = outcome.samples.future_returns, outcome.samples.realised_covariance
        decided = layer_objective(outcome, outcome.weights, returns, covariance)
        best = layer_objective(outcome, outcome.foresight_weights, returns, covariance)
        return outcome.average(decided - best)


@dataclass(frozen=True)
class NetUtilityLoss:
    """Decision loss plus what trading costs: c · Σ_s ‖w_s − (w_{s−1} drifted by r_{s−1})‖₁.

    Parameters
    ----------
    cost_rate : float
        c, proportional cost of the amount traded (5e-4 is 5 basis points).
    """

    weighs_samples: ClassVar[bool] = True
    cost_rate: float = 5e-4

    def __post_init__(self) -> None:
        require_number(TrainingError, "cost_rate", self.cost_rate, least=0.0)

    def __call__(self, outcome: Outcome) -> Tensor:
        weights, returns = outcome.weights, outcome.samples.future_returns
        grown = weights[:, :-1] * (1.0 + returns[:, :-1])
        drifted = grown / grown.sum(dim=-1, keepdim=True)
        before = torch.cat([outcome.held.unsqueeze(1), drifted], dim=1)
        traded = (weights - before).abs().sum(dim=(1, 2))
        return DecisionLoss()(outcome) + self.cost_rate * outcome.average(traded)
