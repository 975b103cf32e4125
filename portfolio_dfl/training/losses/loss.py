"""What a loss is."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from portfolio_dfl.training.decision import Outcome

__all__ = ["Loss"]


class Loss(Protocol):
    """Scalar to minimise, from what the model decided for a batch.

    One that is a mean over samples, taken by ``outcome.average``, may say so by ``weighs_samples = True``: newer
    samples can then count more.
    """

    def __call__(self, outcome: Outcome) -> Tensor: ...
