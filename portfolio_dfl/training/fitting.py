"""One fit with Lightning: a fresh Trainer that writes nothing, keeps the best epoch, and says nothing."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from threadpoolctl import threadpool_limits
from torch import Tensor

from portfolio_dfl.training.datamodule import WindowDataModule
from portfolio_dfl.training.decision import DecisionModel
from portfolio_dfl.training.health import GradientHealth
from portfolio_dfl.training.module import PortfolioModule
from portfolio_dfl.training.samples import Samples
from portfolio_dfl.training.settings import TrainingSettings

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
    )
    best_epoch = _BestEpoch()
    callbacks: list[Callback] = [best_epoch]
    if validation is not None:
        callbacks.append(EarlyStopping("validation_loss", patience=settings.patience, check_finite=False))
    with _quiet():
        trainer = pl.Trainer(
            max_epochs=settings.epochs,
            accelerator="cpu",
            devices=1,
            callbacks=callbacks,
            gradient_clip_val=settings.gradient_clip,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            limit_val_batches=0 if validation is None else 1.0,
        )
        trainer.fit(module, datamodule=WindowDataModule(training, validation, settings.batch_size))
    if best_epoch.state is not None:
        module.load_state_dict(best_epoch.state)
    return Course(tuple(module.losses), tuple(best_epoch.validation_losses), module.health.summary())


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Torch seeded, then restored; on one thread, since sums over several depend on how they are split."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]), threadpool_limits(1):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's advice on devices, loaders and loggers, repeated for every window otherwise."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"lightning\.")
            yield
    finally:
        logger.setLevel(level)
