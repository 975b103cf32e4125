"""The Lightning module: it knows the decision model and the loss, and nothing of files, logs or calendars."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.optim import Optimizer

from portfolio_dfl.allocation.smoothing import Smoothing
from portfolio_dfl.errors import TrainingError
from portfolio_dfl.training.datamodule import Batch
from portfolio_dfl.training.decision import DecisionModel, Outcome
from portfolio_dfl.training.health import HealthMonitor
from portfolio_dfl.training.losses import Loss

if TYPE_CHECKING:
    from torch.optim.lr_scheduler import LRScheduler

__all__ = ["PortfolioModule"]


class PortfolioModule(pl.LightningModule):
    """Trains a `DecisionModel` on a `Loss` with Adam.

    Stops with `TrainingError` as soon as a loss or gradient is not finite, or forecasts leave all
    proportion: the window has failed, and going on would only hide where.

    Parameters
    ----------
    model : DecisionModel
    loss : callable
        From an `Outcome` to a scalar.
    learning_rate, weight_decay : float
        Of Adam; decay is decoupled from the gradient (AdamW).
    inflation_limit : float
        Root mean square of the forecasts over that of the realised returns beyond which training has
        diverged.
    smoothing : callable, optional
        From an epoch, counted from 0, to the smoothing whose gradients its steps follow.
    schedule : {"constant", "cosine", "one_cycle"}
        Learning rate over the epochs.
    shares : Tensor [S], optional
        What each sample of the window counts in training.
    """

    def __init__(
        self,
        model: DecisionModel,
        loss: Loss,
        *,
        learning_rate: float = 1e-4,
        weight_decay: float = 0.0,
        inflation_limit: float = 100.0,
        smoothing: Callable[[int], Smoothing | None] | None = None,
        schedule: Literal["constant", "cosine", "one_cycle"] = "constant",
        shares: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.inflation_limit = inflation_limit
        self._smoothing = smoothing
        self._schedule = schedule
        self._shares = shares
        self.health = HealthMonitor()
        # Kept here because Lightning's own metrics cost more than a step of the predictor.
        self.losses: list[float] = []
        self._epoch_loss, self._epoch_samples = 0.0, 0
        self._outcome: Outcome | None = None

    def configure_optimizers(self) -> Any:
        # The layer is the problem, shared between windows; what is learned lies before it.
        learned = [self.model.predictor, self.model.covariance_scaling, self.model.factors]
        learned += [] if self.model.prior is None else [self.model.prior]
        parameters = [part for module in learned for part in module.parameters() if part.requires_grad]
        # Gradients of a squared error of returns are near Adam's usual ε of 1e-8, which would then act as a
        # brake.
        optimizer = torch.optim.AdamW(
            parameters, lr=self.learning_rate, weight_decay=self.weight_decay, eps=1e-12, foreach=False
        )
        scheduler = self._scheduler(optimizer)
        if scheduler is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "epoch"}}

    def _scheduler(self, optimizer: Optimizer) -> LRScheduler | None:
        from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR

        epochs = self.trainer.max_epochs or 1
        if self._schedule == "cosine":
            return CosineAnnealingLR(optimizer, T_max=epochs)
        if self._schedule == "one_cycle":
            return OneCycleLR(optimizer, max_lr=self.learning_rate, total_steps=epochs + 1)
        return None

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        """Batches are views of the window in memory; the layer works on the CPU."""
        return batch

    def on_train_epoch_start(self) -> None:
        self.health.start_epoch()
        self._epoch_loss, self._epoch_samples = 0.0, 0

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        outcome = self._decide(batch, self._progress())
        outcome.smoothing = None if self._smoothing is None else self._smoothing(self.current_epoch)
        outcome.shares = None if self._shares is None else self._shares[batch.positions]
        outcome.forecasts.retain_grad()
        loss = self._loss_of(outcome)
        if outcome.decided:
            batch.book.record(batch.positions, outcome.weights[:, 0])
        self._outcome = outcome
        self._epoch_loss += float(loss.detach()) * len(batch.samples)
        self._epoch_samples += len(batch.samples)
        return loss

    def on_train_epoch_end(self) -> None:
        self.losses.append(self._epoch_loss / self._epoch_samples)

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for parameter in parameters:
            if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all()):
                raise TrainingError(f"gradient is not finite in epoch {self.current_epoch + 1}")
        if self._outcome is not None:
            self.health.observe(self._outcome, parameters)
            self._outcome = None

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        # Judged by what training aims at in the end: a schedule would make epochs incomparable.
        outcome = self._decide(batch, progress=1.0)
        loss = self._loss_of(outcome)
        if outcome.decided:
            batch.book.record(batch.positions, outcome.weights[:, 0])
        self.log("validation_loss", loss, on_step=False, on_epoch=True, batch_size=len(batch.samples))

    def _progress(self) -> float:
        epochs = self.trainer.max_epochs or 1
        return self.current_epoch / (epochs - 1) if epochs > 1 else 0.0

    def _decide(self, batch: Batch, progress: float) -> Outcome:
        return Outcome(self.model, batch.samples, batch.book.held[batch.positions].clone(), progress)

    def _loss_of(self, outcome: Outcome) -> Tensor:
        forecasts, realised = outcome.forecasts.detach(), outcome.samples.future_returns
        inflation = float(forecasts.square().mean().sqrt() / realised.square().mean().sqrt())
        if not inflation <= self.inflation_limit:
            raise TrainingError(
                f"forecasts are {inflation:.3g} times the size of realised returns in epoch "
                f"{self.current_epoch + 1}, beyond {self.inflation_limit:g}: training diverged; lower the "
                f"learning rate"
            )
        loss = self.loss(outcome)
        if not bool(torch.isfinite(loss)):
            raise TrainingError(f"loss is {float(loss.detach())} in epoch {self.current_epoch + 1}")
        return loss
