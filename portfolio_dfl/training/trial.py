"""A user's own loss is tried before anything is trained with it."""

from __future__ import annotations

import torch

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.execution.parts import asking
from portfolio_dfl.training.decision import DecisionBook, Outcome
from portfolio_dfl.training.losses import Loss, Mixture
from portfolio_dfl.training.own_loss import OwnLoss
from portfolio_dfl.training.reproducible import reproducible
from portfolio_dfl.training.window import WindowTask

__all__ = ["has_own_loss", "try_loss"]

# As many samples as a deviation over them needs.
_TRIED = 2


def has_own_loss(loss: Loss) -> bool:
    """Whether a loss is a user's own, or a mixture with one."""
    return bool(_own(loss))


def try_loss(task: WindowTask) -> None:
    """Ask the own losses of a task once, for two of its samples and a model that has not learnt anything.

    Raises
    ------
    TrainingError
        If one fails, gives no scalar, or one that no forecast moves.
    """
    samples = task.samples.newest(_TRIED)
    for loss in _own(task.settings.loss):
        with reproducible(task.seed):
            outcome = Outcome(task.build_model(), samples, DecisionBook(samples).held)
            with asking("loss", loss.name, TrainingError, f" when it was tried on {len(samples)} samples"):
                value: object = loss(outcome)
        if not isinstance(value, torch.Tensor) or value.dim():
            kind = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"{value!r}"
            raise TrainingError(f"loss {loss.name!r} gave {kind}; a scalar tensor is needed, as of .mean()")
        if not value.requires_grad:
            raise TrainingError(
                f"loss {loss.name!r} does not depend on the forecasts: compute it from outcome.weights or "
                "outcome.forecasts with operations of PyTorch"
            )


def _own(loss: Loss) -> list[OwnLoss]:
    terms = [term for term, _, _ in loss.terms] if isinstance(loss, Mixture) else [loss]
    return [term for term in terms if isinstance(term, OwnLoss)]
