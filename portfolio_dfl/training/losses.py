"""What a predictor is trained for: the paper's decision loss, its relatives, and squared error.

A loss is any callable from an `Outcome` to a scalar tensor. Losses ask the outcome for what they need:
squared error never solves a portfolio problem, and terms of a mixture share one solution. Stages s = 1 … H
are the days after the decision; r_s and Σ are realised, r̂_s and Σ̂ are what the layer saw, λ is the
layer's risk aversion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import torch
from torch import Tensor

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.execution.parts import is_own
from portfolio_dfl.scalars import require_number
from portfolio_dfl.training.decision import Outcome
from portfolio_dfl.training.own_loss import OwnLoss

__all__ = [
    "LOSSES",
    "CVaRLoss",
    "DecisionLoss",
    "Loss",
    "MeanSquaredError",
    "Mixture",
    "NetUtilityLoss",
    "RegretLoss",
    "SPOPlusLoss",
    "SharpeLoss",
    "build_loss",
    "decision_loss",
    "plan_objective",
]


class Loss(Protocol):
    """Scalar to minimise, from what the model decided for a batch."""

    def __call__(self, outcome: Outcome) -> Tensor: ...


def plan_objective(weights: Tensor, returns: Tensor, covariance: Tensor, risk_aversion: float) -> Tensor:
    """Objective of the paper's problem for each sample, Σ_s (−r_sᵀ w_s + λ/2 w_sᵀ Σ_s w_s), shape [B].

    Parameters
    ----------
    weights, returns : Tensor [B, H, N]
    covariance : Tensor [B, N, N] or [B, H, N, N]
        One for all stages, or one a stage.
    risk_aversion : float
        λ.
    """
    if covariance.dim() == 3:
        covariance = covariance.unsqueeze(1)
    risk = (weights.unsqueeze(-2) @ covariance @ weights.unsqueeze(-1)).squeeze(-1).squeeze(-1)
    gain = (returns * weights).sum(dim=-1)
    return (0.5 * risk_aversion * risk - gain).sum(dim=-1)


def decision_loss(weights: Tensor, future_returns: Tensor, realised_covariance: Tensor, risk_aversion: float) -> Tensor:
    """The paper's outer objective: the plan's objective at realised returns and risk, batch mean.

    Source: the paper's bilevel problem, eq. (bilevel_portfolio_mv_avg). Shapes as in `plan_objective`; a
    scalar.
    """
    return plan_objective(weights, future_returns, realised_covariance, risk_aversion).mean()


def layer_objective(outcome: Outcome, weights: Tensor, returns: Tensor, covariance: Tensor) -> Tensor:
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

    def __call__(self, outcome: Outcome) -> Tensor:
        samples = outcome.samples
        return decision_loss(
            outcome.weights, samples.future_returns, samples.realised_covariance, outcome.risk_aversion
        )


@dataclass(frozen=True)
class RegretLoss:
    """Decision loss above that of perfect foresight under the same constraints and weights held; ≥ 0.

    Foresight does not depend on the predictor: the gradient equals the decision loss's, the value tells how
    far the ceiling is. It costs a second solve a step. If the layer plans with trading costs, they count on
    both sides.
    """

    def __call__(self, outcome: Outcome) -> Tensor:
        returns, covariance = outcome.samples.future_returns, outcome.samples.realised_covariance
        decided = layer_objective(outcome, outcome.weights, returns, covariance)
        best = layer_objective(outcome, outcome.foresight_weights, returns, covariance)
        return (decided - best).mean()


@dataclass(frozen=True)
class NetUtilityLoss:
    """Decision loss plus what trading costs: c · Σ_s ‖w_s − (w_{s−1} drifted by r_{s−1})‖₁.

    Parameters
    ----------
    cost_rate : float
        c, proportional cost of the amount traded (5e-4 is 5 basis points).
    """

    cost_rate: float = 5e-4

    def __post_init__(self) -> None:
        require_number(TrainingError, "cost_rate", self.cost_rate, least=0.0)

    def __call__(self, outcome: Outcome) -> Tensor:
        weights, returns = outcome.weights, outcome.samples.future_returns
        grown = weights[:, :-1] * (1.0 + returns[:, :-1])
        drifted = grown / grown.sum(dim=-1, keepdim=True)
        before = torch.cat([outcome.held.unsqueeze(1), drifted], dim=1)
        traded = (weights - before).abs().sum(dim=(1, 2))
        return DecisionLoss()(outcome) + self.cost_rate * traded.mean()


@dataclass(frozen=True)
class SharpeLoss:
    """Minus the daily Sharpe ratio over the batch of the first stage's return, the one that is traded.

    A ratio over dates: use large batches. ``floor`` is added to the deviation so that a batch of
    near-constant returns does not explode.

    Parameters
    ----------
    floor : float
        Daily volatility added to the deviation.
    """

    floor: float = 1e-4

    def __post_init__(self) -> None:
        require_number(TrainingError, "floor", self.floor, least=0.0)

    def __call__(self, outcome: Outcome) -> Tensor:
        earned = (outcome.weights[:, 0] * outcome.samples.future_returns[:, 0]).sum(dim=-1)
        if len(earned) < 2:
            raise TrainingError(
                "the loss 'sharpe' needs at least 2 samples a batch to have a deviation; raise batch_size"
            )
        return -earned.mean() / (earned.std() + self.floor)


@dataclass(frozen=True)
class CVaRLoss:
    """Conditional value at risk of the first stage's return, the one that is traded: the mean loss of the worst days.

    A tail over dates: use large batches (Rockafellar and Uryasev 2000, for equally likely samples).

    Parameters
    ----------
    tail : float
        Share of the batch that counts as its worst days, above 0 and at most 1; rounded up to whole samples.
    """

    tail: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.tail <= 1.0:
            raise TrainingError(f"tail of the loss 'cvar' must be above 0 and at most 1, got {self.tail}")

    def __call__(self, outcome: Outcome) -> Tensor:
        earned = (outcome.weights[:, 0] * outcome.samples.future_returns[:, 0]).sum(dim=-1)
        worst = earned.topk(math.ceil(self.tail * len(earned)), largest=False).values
        return -worst.mean()


@dataclass(frozen=True)
class MeanSquaredError:
    """Mean over samples, stages and assets of (r̂ − r)²: the two-stage approach's loss; solves no problem."""

    def __call__(self, outcome: Outcome) -> Tensor:
        return (outcome.forecasts - outcome.samples.future_returns).square().mean()


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

    def __call__(self, outcome: Outcome) -> Tensor:
        samples, layer = outcome.samples, outcome.model.layer
        reflected = 2.0 * outcome.forecasts - samples.future_returns
        with torch.no_grad():
            covariance = outcome.model.covariance_scaling(samples.covariance)
            hindsight = layer(samples.future_returns, covariance, outcome.held)
            best = layer(reflected, covariance, outcome.held)
        return (
            layer_objective(outcome, hindsight, reflected, covariance)
            - layer_objective(outcome, best, reflected, covariance)
        ).mean()


@dataclass(frozen=True)
class Mixture:
    """Weighted sum of losses whose weights may move linearly with training progress.

    Parameters
    ----------
    terms : sequence of (loss, start, end)
        Weight `start` in the first epoch, `end` in the last; a term whose weight is 0 is not computed.
    """

    terms: tuple[tuple[Loss, float, float], ...]

    def __call__(self, outcome: Outcome) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for loss, start, end in self.terms:
            weight = start + (end - start) * outcome.progress
            if weight != 0.0:
                total = total + weight * loss(outcome)
        return total


LOSSES: Mapping[str, Callable[..., Loss]] = MappingProxyType(
    {
        "decision": DecisionLoss,
        "regret": RegretLoss,
        "net_utility": NetUtilityLoss,
        "sharpe": SharpeLoss,
        "cvar": CVaRLoss,
        "mse": MeanSquaredError,
        "spo_plus": SPOPlusLoss,
    }
)


def build_loss(
    loss: str | Mapping[str, float | Sequence[float]], options: Mapping[str, Mapping[str, Any]] | None = None
) -> Loss:
    """Make a loss from its name, or a mixture from ``{name: weight}`` or ``{name: [start, end]}``.

    A name is one of :data:`LOSSES`, or ``package.module:Name`` of your own: a class made with its options, whose
    objects map an `Outcome` to a scalar tensor, or a function that does and takes the options too.

    Parameters
    ----------
    loss : str or mapping
    options : mapping, optional
        Keyword arguments by loss name, such as ``{"net_utility": {"cost_rate": 1e-3}}``.

    Raises
    ------
    TrainingError
        If a name is unknown, an option does not fit, or a mixture is empty or has a malformed schedule.
    """
    options = options or {}
    if isinstance(loss, str):
        return _named(loss, options.get(loss, {}))
    if not loss:
        raise TrainingError("a mixture of losses needs at least one term")
    terms = []
    for name, weight in loss.items():
        schedule = [float(weight)] * 2 if isinstance(weight, int | float) else [float(part) for part in weight]
        if len(schedule) != 2:
            raise TrainingError(f"weight of loss {name!r} must be a number or [start, end], got {weight!r}")
        terms.append((_named(name, options.get(name, {})), schedule[0], schedule[1]))
    return Mixture(tuple(terms))


def _named(name: str, options: Mapping[str, Any]) -> Loss:
    if is_own(name):
        return OwnLoss(name, options)
    if name not in LOSSES:
        raise TrainingError(
            f"unknown loss {name!r}; use one of {', '.join(LOSSES)}, or a mixture of them, or 'package.module:Name' "
            "for your own"
        )
    try:
        return LOSSES[name](**options)
    except TypeError as error:
        raise TrainingError(f"loss {name!r} does not take options {dict(options)}: {error}") from error
