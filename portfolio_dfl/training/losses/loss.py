"""What a loss is."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from portfolio_dfl.training.decision import Outcome

__all__ = ["Loss"]


class Loss(Protocol):
    """Scalar to minimise, from what the model decided for a batch."""

    def __call__(self, outcome: Outcome) -> Tensor: ...
