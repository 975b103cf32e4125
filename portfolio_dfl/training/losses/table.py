"""Losses by name, and mixtures of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.execution.parts import is_own
from portfolio_dfl.training.decision import Outcome
from portfolio_dfl.training.losses.executed import ExecutedUtilityLoss, LogWealthLoss
from portfolio_dfl.training.losses.first_stage import CVaRLoss, MeanSquaredError, SharpeLoss
from portfolio_dfl.training.losses.loss import Loss
from portfolio_dfl.training.losses.planned import DecisionLoss, NetUtilityLoss, RegretLoss
from portfolio_dfl.training.losses.ratios import (
    DrawdownLoss,
    InformationRatioLoss,
    SortinoLoss,
    TrackingErrorLoss,
)
from portfolio_dfl.training.losses.surrogate import FenchelYoungLoss, SPOPlusLoss
from portfolio_dfl.training.own_loss import OwnLoss

__all__ = ["LOSSES", "Mixture", "build_loss"]


@dataclass(frozen=True)
class Mixture:
    """Weighted sum of losses whose weights may move linearly with training progress.

    Parameters
    ----------
    terms : sequence of (loss, start, end)
        Weight `start` in the first epoch, `end` in the last; a term whose weight is 0 is not computed.
    """

    terms: tuple[tuple[Loss, float, float], ...]

    @property
    def weighs_samples(self) -> bool:
        """Whether all of its losses do."""
        return all(getattr(loss, "weighs_samples", False) for loss, _, _ in self.terms)

    def __call__(self, outcome: Outcome) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for loss, start, end in self.terms:
            weight = start + (end - start) * outcome.progress
            if weight != 0.0:
                total = total + weight * loss(outcome)
        return total


#: Losses by the name that configurations use.
LOSSES: Mapping[str, Callable[..., Loss]] = MappingProxyType(
    {
        "decision": DecisionLoss,
        "regret": RegretLoss,
        "net_utility": NetUtilityLoss,
        "sharpe": SharpeLoss,
        "cvar": CVaRLoss,
        "mse": MeanSquaredError,
        "spo_plus": SPOPlusLoss,
        "pfyl": FenchelYoungLoss,
        "executed_utility": ExecutedUtilityLoss,
        "log_wealth": LogWealthLoss,
        "sortino": SortinoLoss,
        "drawdown": DrawdownLoss,
        "tracking_error": TrackingErrorLoss,
        "information_ratio": InformationRatioLoss,
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

    Examples
    --------
    >>> from portfolio_dfl import build_loss
    >>> build_loss("cvar", {"cvar": {"tail": 0.05}})
    CVaRLoss(tail=0.05)
    >>> build_loss({"decision": 1.0, "mse": 0.1})
    Mixture(terms=((DecisionLoss(), 1.0, 1.0), (MeanSquaredError(), 0.1, 0.1)))
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
