"""Trainings whose samples have no gradient: from where on they are told of, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portfolio_dfl.training.health import GradientHealth

__all__ = ["ADVICE", "ZERO_GRADIENT_BOUND", "starving_warning"]

#: Share of samples without a gradient above which a training is told of.
ZERO_GRADIENT_BOUND = 0.5

ADVICE = (
    "try training.gradient: smoothed, lower costs or a larger turnover limit in the plan, or a smaller learning rate"
)


def starving_warning(health: GradientHealth) -> str:
    """What to say of a training whose gradients starve; nothing of others."""
    if not health.zero_gradient_share > ZERO_GRADIENT_BOUND:
        return ""
    return f"{health.zero_gradient_share:.0%} of the training samples had no gradient and taught nothing; {ADVICE}"
