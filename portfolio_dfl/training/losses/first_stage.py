"""Losses of the first stage's return before costs, and squared error, which solves no problem."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.scalars import require_number
from portfolio_dfl.training.decision import Outcome

__all__ = ["CVaRLoss", "MeanSquaredError", "SharpeLoss"]


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

    weighs_samples: ClassVar[bool] = True

    def __call__(self, outcome: Outcome) -> Tensor:
        squares = (outcome.forecasts - outcome.samples.future_returns).square()
        return squares.mean() if outcome.shares is None else outcome.average(squares.mean(dim=(1, 2)))
