"""What several members of an ensemble come to: their parameters side by side, their courses on average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor

from portfolio_dfl.training.health import GradientHealth

__all__ = ["ensemble_state", "mean_course", "mean_health", "member_state"]

_OF_PREDICTOR, _MEMBERS = "predictor.", "predictor.members."


def ensemble_state(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Parameters of an ensemble from those of its members; what is no predictor's is their mean.

    A prior's scale is: forecasts are linear in it.
    """
    merged: dict[str, Tensor] = {}
    for name in states[0]:
        if name.startswith(_OF_PREDICTOR):
            rest = name.removeprefix(_OF_PREDICTOR)
            merged |= {f"{_MEMBERS}{member}.{rest}": state[name] for member, state in enumerate(states)}
        else:
            merged[name] = torch.stack([state[name] for state in states]).mean(dim=0)
    return merged


def member_state(state: Mapping[str, Tensor], member: int) -> dict[str, Tensor]:
    """Parameters of one member from those of an ensemble."""
    prefix = f"{_MEMBERS}{member}."
    return {
        f"{_OF_PREDICTOR}{name.removeprefix(prefix)}" if name.startswith(prefix) else name: value
        for name, value in state.items()
        if name.startswith(prefix) or not name.startswith(_MEMBERS)
    }


def mean_course(losses: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Mean loss of each epoch, over the members that reached it."""
    return tuple(
        float(np.mean([loss for loss in epoch if loss is not None])) for epoch in zip_longest(*losses, fillvalue=None)
    )


def mean_health(healths: Sequence[GradientHealth]) -> GradientHealth:
    """Mean of every measure; steps and failures are added up."""
    summed = {name: sum(getattr(health, name) for health in healths) for name in ("steps", "layer_failures")}
    means: dict[str, Any] = {
        field.name: float(np.mean([getattr(health, field.name) for health in healths]))
        for field in fields(GradientHealth)
        if field.name not in summed
    }
    return GradientHealth(**means, **summed)
