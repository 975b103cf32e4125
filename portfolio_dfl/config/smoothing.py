"""The keys of training that say how derivatives are smoothed."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from portfolio_dfl.config.section import Section

__all__ = ["SmoothingConfig"]


class SmoothingConfig(Section):
    """Which smoothed plan gradients are taken of, where training.gradient is smoothed."""

    way: Literal["barrier", "penalty", "perturbation"] = Field(
        default="barrier",
        description="barrier (the central path) | penalty (the paper's softplus) | perturbation (of the forecasts)",
    )
    strength: float | None = Field(
        default=None, gt=0, description="in the units of returns; null: one that suits daily returns"
    )
    samples: int = Field(
        default=8, ge=2, description="perturbed forecasts a decision, an even number; each costs a solve"
    )
    schedule: Literal["constant", "to_exact"] = Field(
        default="constant", description="strength over the epochs: constant | to_exact, falling evenly towards none"
    )

    @model_validator(mode="after")
    def _in_pairs(self) -> Self:
        if self.samples % 2:
            raise ValueError(f"samples is {self.samples}; perturbations come in pairs, so give an even number")
        return self
