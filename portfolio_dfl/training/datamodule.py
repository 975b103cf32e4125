"""Batches of one training window for Lightning: slices of tensors in memory, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import lightning.pytorch as pl
import torch

from portfolio_dfl.training.decision import DecisionBook
from portfolio_dfl.training.samples import Samples

__all__ = ["Batch", "Batches", "WindowDataModule"]


@dataclass(frozen=True)
class Batch:
    """Consecutive samples, their positions in the window, and the window's book of weights held."""

    samples: Samples
    positions: slice
    book: DecisionBook


class Batches:
    """A window cut into consecutive batches; iterating it again is the next epoch.

    Not a torch ``DataLoader``: the samples are tensors already, and a loader's set-up would take longer
    than the epoch. The order is that of time, in every epoch, so that the weights held before a batch come
    from the batches before it; with ``batch_size=1`` this is the paper's pass through time.

    Parameters
    ----------
    samples : Samples
        Consecutive samples with complete labels.
    batch_size : int or None
        Samples a batch; None takes the whole window.
    initial : sequence of N floats, optional
        Weights held before the first sample; equal weights by default.
    """

    def __init__(self, samples: Samples, batch_size: int | None, initial: Sequence[float] | None = None) -> None:
        self.samples = samples
        self.batch_size = len(samples) if batch_size is None else batch_size
        self.book = DecisionBook(samples, None if initial is None else torch.tensor(initial, dtype=torch.float64))

    def __len__(self) -> int:
        return -(-len(self.samples) // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, len(self.samples), self.batch_size):
            stop = min(start + self.batch_size, len(self.samples))
            yield Batch(self.samples.slice(start, stop), slice(start, stop), self.book)


class WindowDataModule(pl.LightningDataModule):
    """The samples of one window, and its embargoed validation slice if there is one.

    Parameters
    ----------
    training : Samples
    validation : Samples or None
    batch_size : int or None
        Samples a training batch; None takes the whole window. Validation is always one batch.
    initial : sequence of N floats, optional
        Weights held before the first sample of each; equal weights by default.
    """

    def __init__(
        self,
        training: Samples,
        validation: Samples | None,
        batch_size: int | None,
        initial: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.training_batches = Batches(training, batch_size, initial)
        self.validation_batches = None if validation is None else Batches(validation, None, initial)

    def train_dataloader(self) -> Batches:
        return self.training_batches

    def val_dataloader(self) -> Batches | list[Batch]:
        return [] if self.validation_batches is None else self.validation_batches
