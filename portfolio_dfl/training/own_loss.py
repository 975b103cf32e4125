"""A loss of the user's own, by name: the same in every process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.execution.parts import build_part, find_part
from portfolio_dfl.training.decision import Outcome

__all__ = ["OwnLoss"]


@dataclass(frozen=True)
class OwnLoss:
    """A loss ``package.module:Name``: a class made with options, or a function of the outcome that takes them.

    It is pickled by its name, and found again where it is unpickled.

    Parameters
    ----------
    name : str
    options : mapping

    Raises
    ------
    TrainingError
        If it cannot be imported, or the options or the signature do not fit.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    call: Callable[[Outcome], Tensor] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = find_part("loss", self.name, {}, TrainingError)
        made = build_part("loss", self.name, found, self.options, TrainingError, takes=["outcome"])
        object.__setattr__(self, "call", made)

    @property
    def weighs_samples(self) -> bool:
        """Whether it says that newer samples can count more, see `Loss`."""
        return bool(getattr(self.call, "weighs_samples", False))

    def __call__(self, outcome: Outcome) -> Tensor:
        return self.call(outcome)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, dict(self.options))
