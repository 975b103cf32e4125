"""One fit of a decision model: its callbacks, the best epoch kept, and what happened on the way."""

from __future__ import annotations

from dataclasses import dataclass

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, EarlyStopping
from torch import Tensor

from portfolio_dfl.training.datamodule import WindowDataModule
from portfolio_dfl.training.decision import DecisionModel
from portfolio_dfl.training.health import GradientHealth
from portfolio_dfl.training.module import PortfolioModule
from portfolio_dfl.training.reproducible import reproducible
from portfolio_dfl.training.samples import Samples
from portfolio_dfl.training.settings import TrainingSettings
from portfolio_dfl.training.trainer import fit_quietly

__all__ = ["Course", "fit_by_gradient", "reproducible"]


@dataclass(frozen=True)
class Course:
    """What happened in a fit, epoch by epoch."""

    losses: tuple[float, ...]
    validation_losses: tuple[float, ...]
    health: GradientHealth


class _BestEpoch(Callback):
    """Validation losses by epoch, and a copy in memory of the parameters with the lowest."""

    def __init__(self) -> None:
        self.validation_losses: list[float] = []
        self.state: dict[str, Tensor] | None = None

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        loss = float(trainer.callback_metrics["validation_loss"])
        if not self.validation_losses or loss < min(self.validation_losses):
            self.state = {name: value.detach().clone() for name, value in pl_module.state_dict().items()}
        self.validation_losses.append(loss)


def fit_by_gradient(
    model: DecisionModel, training: Samples, validation: Samples | None, settings: TrainingSettings
) -> Course:
    """Train `model` in place; with a validation slice, stop early and keep the best epoch's parameters.

    Raises
    ------
    TrainingError
        If a loss or gradient is not finite or the forecasts diverge.
    """
    module = PortfolioModule(
        model,
        settings.loss,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        inflation_limit=settings.inflation_limit,
        smoothing=settings.smoothing_at,
        schedule=settings.schedule,
        shares=settings.shares(len(training)),
    )
    best_epoch = _BestEpoch()
    callbacks: list[Callback] = [best_epoch]
    if validation is not None:
        callbacks.append(EarlyStopping("validation_loss", patience=settings.patience, check_finite=False))
    fit_quietly(
        module,
        datamodule=WindowDataModule(training, validation, settings.batch_size, model.layer.initial_weights),
        epochs=settings.epochs,
        callbacks=callbacks,
        gradient_clip=settings.gradient_clip,
        validate=validation is not None,
    )
    if best_epoch.state is not None:
        module.load_state_dict(best_epoch.state)
    return Course(tuple(module.losses), tuple(best_epoch.validation_losses), module.health.summary())
