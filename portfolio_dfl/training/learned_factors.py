"""Numbers of the decision that training may move beside the forecasts: scalars, which a hundred samples can tell.

Each is a positive factor exp(θ) that starts at 1: of the risk aversion, of the transaction cost and of what the
predictor adds to its prior. The loss keeps the risk aversion and the costs that are judged by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from portfolio_dfl.errors import TrainingError

__all__ = ["LEARNABLE", "Learnable", "LearnedFactors", "read_factors"]

Learnable: TypeAlias = Literal["risk_aversion", "transaction_cost", "forecasts"]
#: What there is, in the order of messages.
LEARNABLE: tuple[Learnable, ...] = ("risk_aversion", "transaction_cost", "forecasts")


class LearnedFactors(nn.Module):
    """Factors exp(θ) of some of `LEARNABLE`; of the others there is none.

    Parameters
    ----------
    names : sequence of str

    Raises
    ------
    TrainingError
        If a name is not among `LEARNABLE`, or is there twice.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        unknown = [name for name in names if name not in LEARNABLE]
        if unknown or len(set(names)) < len(names):
            raise TrainingError(f"learned has {list(names)}; give any of {', '.join(LEARNABLE)}, each once")
        self.log = nn.ParameterDict({name: torch.zeros((), dtype=torch.float64) for name in names})

    def of(self, name: Learnable) -> Tensor | None:
        """The factor, or None where it is not learned."""
        return self.log[name].exp() if name in self.log else None


def read_factors(state: Mapping[str, Tensor]) -> dict[str, float]:
    """Factors among the parameters of a trained window, by name."""
    prefix = "factors.log."
    return {name[len(prefix) :]: float(value.exp()) for name, value in state.items() if name.startswith(prefix)}
