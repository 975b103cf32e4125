"""The mean forecast of several predictors that were trained apart from different seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from portfolio_dfl.forecasting.inputs import Inputs

__all__ = ["EnsemblePredictor", "member_seed"]


class EnsemblePredictor(nn.Module):
    """The mean of the members' forecasts.

    Parameters
    ----------
    members : sequence of nn.Module
        Predictors of the same inputs.
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, features: Tensor | Inputs) -> Tensor:
        """Map inputs to expected returns [B, H, N]."""
        return torch.stack([member(features) for member in self.members]).mean(dim=0)


def member_seed(seed: int, member: int) -> int:
    """Seed of a member; the first has that of the whole."""
    return seed if member == 0 else int(np.random.SeedSequence([seed, member]).generate_state(1)[0])
