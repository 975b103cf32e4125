"""The decision function, features in and planned weights out: one for training, backtest and live use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import torch
from torch import Tensor, nn

from portfolio_dfl.allocation import MultiPeriodMeanVariance, drift_weights
from portfolio_dfl.allocation.smoothing import Smoothing
from portfolio_dfl.errors import TrainingError
from portfolio_dfl.forecasting import Inputs, KnownReturn, Prior
from portfolio_dfl.risk.factor import FactorCovariance
from portfolio_dfl.training.learned_factors import LearnedFactors
from portfolio_dfl.training.samples import Samples

__all__ = ["DecisionBook", "DecisionModel", "Outcome"]


class DecisionModel(nn.Module):
    """Forecast, then optimise.

    Parameters
    ----------
    predictor : nn.Module
        Features [B, lookback, N], or `Inputs`, to expected returns [B, H, N].
    layer : MultiPeriodMeanVariance
        Called as ``layer(expected_returns, covariance, previous_weights)``; gives planned weights [B, H,
        N], of which the first stage is traded. Its own parameters are not trained.
    covariance_scaling : nn.Module, optional
        Covariance [B, N, N] to the covariance the layer sees; may be learned (`LearnedCovarianceScaling`);
        none by default.
    prior : Prior, optional
        What the predictor's forecasts are added to; nothing by default.
    known : KnownReturn, optional
        An asset whose return is known: predictor and prior are of the others.
    learned : sequence of str
        What else is learned, see `LearnedFactors`.
    """

    def __init__(
        self,
        predictor: nn.Module,
        layer: MultiPeriodMeanVariance,
        covariance_scaling: nn.Module | None = None,
        prior: Prior | None = None,
        known: KnownReturn | None = None,
        learned: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.predictor = predictor
        self.layer = layer
        self.covariance_scaling = covariance_scaling if covariance_scaling is not None else nn.Identity()
        self.prior = prior
        self.known = known
        self.risk_aversion = float(torch.as_tensor(layer.risk_aversion).detach())
        self.factors = LearnedFactors(learned)

    def forecast(self, features: Tensor | Inputs, covariance: Tensor | FactorCovariance | None = None) -> Tensor:
        """Expected returns [B, H, N] from features [B, lookback, N], or `Inputs`; a prior sees the covariance too."""
        forecasts: Tensor = self.predictor(self.seen(features))
        factor = self.factors.of("forecasts")
        if factor is not None:
            forecasts = factor * forecasts
        if self.prior is not None:
            forecasts = forecasts + self.expected(features, covariance)
        return forecasts if self.known is None else self.known.among(forecasts)

    def seen(self, features: Tensor | Inputs) -> Tensor | Inputs:
        """What the predictor sees: features without an asset whose return is known."""
        return features if self.known is None else self.known.others(features)

    def expected(self, features: Tensor | Inputs, covariance: Tensor | FactorCovariance | None) -> Tensor:
        """What the prior says of returns, [B, 1, N], without an asset whose return is known; zeros without one."""
        returns = Inputs.of(self.seen(features)).returns
        if self.prior is None:
            return torch.zeros_like(returns[:, :1])
        if covariance is None:
            raise TrainingError("a forecast with a prior needs the covariance of the decision")
        scaled = self.covariance_scaling(covariance)
        of_seen = scaled if self.known is None else self.known.of_others(scaled)
        expected: Tensor = self.prior(returns, of_seen, self.risk_aversion)
        return expected

    def plan(
        self,
        expected_returns: Tensor,
        covariance: Tensor | FactorCovariance,
        held: Tensor,
        dates: pd.DatetimeIndex | None = None,
        cost: Tensor | None = None,
        smoothing: Smoothing | None = None,
    ) -> Tensor:
        """Planned weights [B, H, N] for expected returns [B, H, N], covariance [B, N, N] and held [B, N].

        The decision dates [B], if given, name a problem that has no solution in the layer's error. The cost [B, N] of
        a unit traded, if given, takes the place of the layer's. With ``smoothing`` gradients are of a smoothed plan.
        """
        counted = None if cost is None else cost.unsqueeze(1)
        more_risk, more_cost = self.factors.of("risk_aversion"), self.factors.of("transaction_cost")
        if more_cost is not None:
            counted = more_cost * torch.as_tensor(
                self.layer.transaction_cost if counted is None else counted, dtype=torch.float64
            )
        weights: Tensor = self.layer(
            expected_returns,
            self.covariance_scaling(covariance),
            held,
            risk_aversion=None if more_risk is None else more_risk * self.risk_aversion,
            transaction_cost=counted,
            dates=dates,
            smoothing=smoothing,
        )
        return weights

    def forward(self, features: Tensor | Inputs, covariance: Tensor | FactorCovariance, held: Tensor) -> Tensor:
        """Planned weights [B, H, N]; ``[:, 0]`` is what is traded at the close of the decision date."""
        return self.plan(self.forecast(features, covariance), covariance, held)


class DecisionBook:
    """Weights held before each sample's decision under the policy that is being trained.

    The turnover limit ties a decision to the portfolio held before it, and that portfolio is itself the
    policy's earlier decision. Solving the dates one after the other would cost one solve a date; instead
    the book keeps, for every sample, the first stage of its latest plan, drifted by that stage's return, as
    what the sample at the stage's end holds: the next decision is taken when the first stage is over. With
    stages of k days that is the k-th sample after it, and the first k samples hold the initial weights.

    With the whole window as one batch this is the sequential chain (of every k-th sample) solved by
    fixed-point iteration, one sweep an epoch: after n epochs the first n·k samples hold exactly what the
    current policy (of those epochs) led to. With one sample a batch, in order, it is the sequential chain
    itself. No gradient flows into the weights held.

    Parameters
    ----------
    samples : Samples
        S consecutive samples with complete labels.
    initial : Tensor [N], optional
        Weights held before the first sample; equal weights by default.
    """

    def __init__(self, samples: Samples, initial: Tensor | None = None) -> None:
        n_assets = samples.n_assets
        equal = torch.full((n_assets,), 1.0 / n_assets, dtype=torch.float64)
        self.held = (equal if initial is None else initial).repeat(len(samples), 1)
        self._first_stage, self._stage = samples.future_returns[:, 0], samples.stage

    def record(self, positions: slice, weights: Tensor) -> None:
        """Enter the first-stage weights [B, N] decided for the samples at `positions`."""
        after = drift_weights(weights.detach(), self._first_stage[positions])
        start, stop, _ = positions.indices(len(self.held))
        room = max(min(stop, len(self.held) - self._stage) - start, 0)
        self.held[start + self._stage : start + self._stage + room] = after[:room]


@dataclass(eq=False)
class Outcome:
    """What a model decides for a batch of samples, computed only as far as a loss asks.

    Attributes
    ----------
    model : DecisionModel
    samples : Samples
        B samples with complete labels.
    held : Tensor [B, N]
        Weights held before each decision.
    progress : float
        How much of the training is done, from 0 (first epoch) to 1 (last): drives schedules.
    smoothing : Smoothing or None
        Which smoothed plan the weights' derivative is of; None for the exact one.
    shares : Tensor [B] or None
        What each sample counts in a mean over samples, relative to the others of its window; None: the same.
    """

    model: DecisionModel
    samples: Samples
    held: Tensor
    progress: float = 0.0
    smoothing: Smoothing | None = None
    shares: Tensor | None = None

    def average(self, values: Tensor) -> Tensor:
        """Mean over samples of one number each, [B], by what each counts."""
        return values.mean() if self.shares is None else (self.shares * values).mean()

    @property
    def risk_aversion(self) -> float:
        """λ, in the loss as in the layer."""
        return self.model.risk_aversion

    @cached_property
    def forecasts(self) -> Tensor:
        """Expected returns [B, H, N]."""
        return self.model.forecast(self.samples.inputs, self.samples.covariance)

    @cached_property
    def weights(self) -> Tensor:
        """Planned weights [B, H, N], differentiable with respect to the forecasts."""
        return self.plan_of(slice(None), self.held)

    def plan_of(self, chosen: slice | Tensor, held: Tensor) -> Tensor:
        """Planned weights [K, H, N] of some of the samples, by their numbers [K], from other weights held [K, N]."""
        samples, forecasts = self.samples, self.forecasts
        covariance, dates, cost = samples.covariance, samples.dates, samples.cost
        if isinstance(chosen, Tensor):
            forecasts, covariance, dates = forecasts[chosen], covariance[chosen], dates[chosen.numpy()]
            cost = None if cost is None else cost[chosen]
        return self.model.plan(forecasts, covariance, held, dates, cost, self.smoothing)

    @property
    def decided(self) -> bool:
        """Whether a loss asked for the weights."""
        return "weights" in self.__dict__

    @cached_property
    def foresight_weights(self) -> Tensor:
        """Best plan [B, H, N] in hindsight: the layer at realised returns and covariance; no gradient."""
        samples, cost = self.samples, self.samples.cost
        with torch.no_grad():
            weights: Tensor = self.model.layer(
                samples.future_returns,
                samples.realised_covariance,
                self.held,
                transaction_cost=None if cost is None else cost.unsqueeze(1),
            )
        return weights
