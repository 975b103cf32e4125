"""How a window is trained: loss, method, and what bounds the steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from portfolio_dfl.allocation.smoothing import Smoothing
from portfolio_dfl.errors import TrainingError
from portfolio_dfl.scalars import require_choice, require_number
from portfolio_dfl.training.learned_factors import Learnable, LearnedFactors
from portfolio_dfl.training.losses import DecisionLoss, Loss

__all__ = ["TrainingSettings"]


@dataclass(frozen=True)
class TrainingSettings:
    """How a window is trained.

    Attributes
    ----------
    loss : callable
        From an `Outcome` to a scalar; see `portfolio_dfl.training.losses`.
    method : {"gradient", "least_squares"}
        Gradient steps on `loss`, or the closed form of squared error for the linear predictor (`loss` is
        not used).
    initialise : {"fresh", "least_squares"}
        Where gradient training starts: at the predictor's own initial values, or at the closed form.
    ridge : float
        Penalty of the closed form in standardised units; 0 is ordinary least squares.
    epochs : int
        Passes over the samples.
    batch_size : int or None
        Consecutive samples a step; None takes the whole window, 1 is the paper's pass through time.
    learning_rate, weight_decay : float
        Of AdamW, in the predictor's units (standardised where it is scaled). A step of AdamW moves every
        coefficient by up to the rate, so that forecasts move by the rate times the number of regressors:
        the default suits the paper's 840, predictors with a few dozen want ten times as much. Too high a
        rate shows as forecast inflation and zero gradients in the window's health.
    gradient_clip : float or None
        Largest Euclidean norm of a step's gradient.
    validation_samples : int
        Newest samples held out, with embargo, for early stopping; 0 trains all epochs on all samples.
    patience : int
        Epochs without a better validation loss before training stops; the best epoch's parameters are kept.
    inflation_limit : float
        Size of the forecasts, relative to realised returns, beyond which training counts as diverged.
    smoothing : Smoothing or None
        Which smoothed plan training takes gradients of; None for the exact plan, whose derivative is zero at a vertex.
        Decisions are exact either way.
    smoothing_schedule : {"constant", "to_exact"}
        Strength of the smoothing over the epochs: the same in all, or falling evenly towards none.
    learned : tuple of str
        What is learned beside the predictor, by gradient steps alone: factors of the "risk_aversion" and of the
        "transaction_cost" that the decision counts, and of the predictor's "forecasts"; see `LearnedFactors`.
    sample_halflife : float or None
        Samples back from the newest at which one counts half as much; None: all count the same. For losses that are a
        mean over samples (see `Loss`), and for least squares.
    schedule : {"constant", "cosine", "one_cycle"}
        Learning rate over the epochs, as in PyTorch: the same in all; falling to 0 along half a cosine; or rising to
        `learning_rate` and falling again.
    """

    loss: Loss = field(default_factory=DecisionLoss)
    method: Literal["gradient", "least_squares"] = "gradient"
    initialise: Literal["fresh", "least_squares"] = "fresh"
    ridge: float = 100.0
    epochs: int = 20
    batch_size: int | None = None
    learning_rate: float = 1e-4
    weight_decay: float = 0.0
    gradient_clip: float | None = None
    validation_samples: int = 0
    patience: int = 5
    inflation_limit: float = 100.0
    # Not among what describes settings that have none: `WindowTask.key`.
    smoothing: Smoothing | None = field(default=None, repr=False)
    smoothing_schedule: Literal["constant", "to_exact"] = field(default="constant", repr=False)
    learned: tuple[Learnable, ...] = field(default=(), repr=False)
    schedule: Literal["constant", "cosine", "one_cycle"] = field(default="constant", repr=False)
    sample_halflife: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("validation_samples", 0), ("patience", 1), ("ridge", 0)):
            if getattr(self, name) < least:
                raise TrainingError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.batch_size is not None and self.batch_size < 1:
            raise TrainingError(f"batch_size must be at least 1 (or None for the window), got {self.batch_size}")
        for name in ("learning_rate", "inflation_limit"):
            if not getattr(self, name) > 0:
                raise TrainingError(f"{name} must be positive, got {getattr(self, name)}")
        require_number(TrainingError, "learning_rate", self.learning_rate)
        require_number(TrainingError, "ridge", self.ridge, least=0.0)
        require_number(TrainingError, "weight_decay", self.weight_decay, least=0.0)
        if self.gradient_clip is not None:
            require_number(TrainingError, "gradient_clip", self.gradient_clip, above=0.0, infinite=True)
        require_choice(TrainingError, "method", self.method, ("gradient", "least_squares"))
        require_choice(TrainingError, "smoothing_schedule", self.smoothing_schedule, ("constant", "to_exact"))
        require_choice(TrainingError, "schedule", self.schedule, ("constant", "cosine", "one_cycle"))
        LearnedFactors(self.learned)
        if self.sample_halflife is not None:
            require_number(TrainingError, "sample_halflife", self.sample_halflife, above=0.0)
            if self.method == "gradient" and not getattr(self.loss, "weighs_samples", False):
                raise TrainingError(
                    f"sample_halflife: the loss {type(self.loss).__name__} is no mean over samples of which newer ones "
                    "could count more; leave it out, or use decision, regret, net_utility, mse, spo_plus or pfyl"
                )
        if self.learned and self.method != "gradient":
            raise TrainingError(f"{', '.join(self.learned)} cannot be learned by least squares: use method='gradient'")
        require_choice(TrainingError, "initialise", self.initialise, ("fresh", "least_squares"))

    def shares(self, count: int) -> Tensor | None:
        """What each of so many samples, the newest last, counts: [count], 1 on average; None where all are alike."""
        if self.sample_halflife is None:
            return None
        ages = torch.arange(count - 1, -1, -1, dtype=torch.float64)
        shares = 0.5 ** (ages / self.sample_halflife)
        return shares / shares.mean()

    def smoothing_at(self, epoch: int) -> Smoothing | None:
        """The smoothing of an epoch, counted from 0."""
        if self.smoothing is None or self.smoothing_schedule == "constant":
            return self.smoothing
        return self.smoothing.times(1.0 - epoch / self.epochs)
