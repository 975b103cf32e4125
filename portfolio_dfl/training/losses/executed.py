"""Losses of the executed path: net returns of the first stages that were really carried out, one after another.

What a backtest judges is not the plan of H stages but its first stage, carried out date after date from the weights
that the one before left. For consecutive samples t with first stages w_t, held weights h_t, realised returns r_t of
the stage and costs as the books charge them,

    u_t = w_t − h_t                                       h_{t+1} = w_t (1 + r_t) / Σ w_t (1 + r_t)
    n_t = (1 − Σ_i (c_i |u_ti| + k_i |u_ti|^{3/2})) (1 + r_tᵀ w_t) − 1

are the net returns of the stages, in the units of returns; with stages of k days the sample after t is the k-th one.
Fees of short positions and fixed costs of orders are left out: what they come to depends on calendar and wealth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from portfolio_dfl.allocation import Costs, drift_weights
from portfolio_dfl.errors import TrainingError
from portfolio_dfl.scalars import require_number, require_whole
from portfolio_dfl.training.decision import Outcome
from portfolio_dfl.training.losses.loss import Loss

__all__ = ["ExecutedLoss", "ExecutedUtilityLoss", "LogWealthLoss", "charged_by_books"]


@dataclass(frozen=True, kw_only=True)
class ExecutedLoss:
    """Base of the losses of the executed path.

    Parameters
    ----------
    rollout : int or None
        Decisions solved one after another, each from what the one before left; None for all of a batch. With 1 every
        decision of a batch starts from the weights that the epoch before led to (the window's book), in one solve.
        A rollout of R decisions costs R solves, of a batch 1/R as large each.
    through_held : bool
        Whether the gradient also flows through the weights held, to the decisions that led to them; else it is cut.
    cost_rate : float or sequence of N floats, optional
        c, proportional cost of the amount traded (5e-4 is 5 basis points). By default what the books charge: spreads
        by date as far as the plan counts them, else the rate of `Costs`; 0 where a policy was given none.
    impact : float or sequence of N floats, optional
        k, of the market impact; by default what the books charge.
    booked_rate, beside_plan : tuple of N floats, optional
        Proportional rates of the books, and what they exceed those of the plan by: :func:`charged_by_books` sets them.
    """

    rollout: int | None = 1
    through_held: bool = False
    cost_rate: float | Sequence[float] | None = None
    impact: float | Sequence[float] | None = None
    booked_rate: tuple[float, ...] | None = None
    beside_plan: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.rollout is not None:
            require_whole(TrainingError, "rollout", self.rollout, 1)
        for name in ("cost_rate", "impact"):
            if getattr(self, name) is not None:
                require_number(TrainingError, name, getattr(self, name), least=0.0)

    def net_returns(self, outcome: Outcome) -> Tensor:
        """n_t of each sample, [B]."""
        first, held = self._path(outcome)
        amount = (first - held).abs()
        rate = self._rate(outcome)
        impact = torch.as_tensor(0.0 if self.impact is None else self.impact, dtype=torch.float64)
        cost = (rate * amount + impact * amount.pow(1.5)).sum(dim=-1)
        earned = (first * outcome.samples.future_returns[:, 0]).sum(dim=-1)
        return (1.0 - cost) * (1.0 + earned) - 1.0

    def several(self, outcome: Outcome, name: str) -> Tensor:
        """The net returns, of which a deviation is taken."""
        net = self.net_returns(outcome)
        if len(net) < 2:
            raise TrainingError(
                f"the loss {name!r} needs at least 2 samples a batch to have a deviation; raise batch_size"
            )
        return net

    def _rate(self, outcome: Outcome) -> Tensor:
        if self.cost_rate is not None:
            return torch.as_tensor(self.cost_rate, dtype=torch.float64)
        if outcome.samples.cost is not None:  # another on each date
            return outcome.samples.cost + torch.tensor(self.beside_plan or 0.0, dtype=torch.float64)
        return torch.tensor(self.booked_rate or 0.0, dtype=torch.float64)

    def _path(self, outcome: Outcome) -> tuple[Tensor, Tensor]:
        """First stages and the weights held before them, [B, N] each."""
        count, stage = len(outcome.samples), outcome.samples.stage
        numbers = torch.arange(count) // stage  # of the decision in its chain, which every `stage`-th sample is in
        place = numbers if self.rollout is None else numbers % self.rollout
        if int(place.max()) == 0:
            return outcome.weights[:, 0], outcome.held
        returns = outcome.samples.future_returns[:, 0]
        order: list[Tensor] = []
        plans: list[Tensor] = []
        held: list[Tensor] = []
        for step in range(int(place.max()) + 1):
            chosen = torch.nonzero(place == step).flatten()
            before = outcome.held[chosen]
            if step:
                kept = torch.isin(order[-1], chosen - stage)  # the last chain may be shorter
                left = plans[-1][kept][:, 0]
                before = drift_weights(left if self.through_held else left.detach(), returns[chosen - stage])
            order.append(chosen)
            held.append(before)
            plans.append(outcome.plan_of(chosen, before))
        back = torch.argsort(torch.cat(order))
        weights, before = torch.cat(plans)[back], torch.cat(held)[back]
        if not outcome.decided:  # what the books of training and its health look at
            outcome.weights, outcome.held = weights, before.detach()
        return weights[:, 0], before


@dataclass(frozen=True, kw_only=True)
class ExecutedUtilityLoss(ExecutedLoss):
    """Minus the utility of the executed path, −(mean n − λ/2 var n) over the batch, per stage.

    As the metric ``utility`` of a ledger is, with the sample variance (ddof = 1) and before annualising: over a span
    of consecutive samples in one batch, with ``rollout: null``, it is minus that of the ledger. A ratio over dates:
    use large batches.
    """

    def __call__(self, outcome: Outcome) -> Tensor:
        net = self.several(outcome, "executed_utility")
        return 0.5 * outcome.risk_aversion * net.var() - net.mean()


@dataclass(frozen=True, kw_only=True)
class LogWealthLoss(ExecutedLoss):
    """Minus the growth rate of wealth, −mean log(1 + n), per stage: Kelly's criterion on the executed path."""

    def __call__(self, outcome: Outcome) -> Tensor:
        net = self.net_returns(outcome)
        if not bool((net > -1.0).all()):
            raise TrainingError("the executed path loses all wealth on a date: log wealth does not exist")
        return -net.log1p().mean()


def charged_by_books(loss: Loss, costs: Costs, assets: Sequence[str]) -> Loss:
    """The loss with the costs that books charge where it leaves them open; terms of a mixture each.

    Parameters
    ----------
    loss : Loss
    costs : Costs
    assets : sequence of N str
        Tickers.
    """
    terms = getattr(loss, "terms", None)
    if isinstance(terms, tuple):
        charged = tuple((charged_by_books(term, costs, assets), *weights) for term, *weights in terms)
        changed = any(new[0] is not old[0] for new, old in zip(charged, terms, strict=True))
        return replace(loss, terms=charged) if changed else loss  # type: ignore[type-var]
    if not isinstance(loss, ExecutedLoss):
        return loss
    rate, impact = costs.book_rates(assets)
    if loss.impact is None and np.any(impact > 0.0):
        loss = replace(loss, impact=tuple(impact.tolist()))
    beside = rate - costs.plan_rate(assets)
    return replace(loss, booked_rate=tuple(rate.tolist()), beside_plan=tuple(beside.tolist()))
