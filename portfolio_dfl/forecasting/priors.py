"""Sensible forecasts that learning starts from: forecast = prior + predictor.

A predictor that starts at zero forecasts first holds the minimum-variance portfolio. With a prior it starts at what the
past or a reference portfolio says of returns, and learns how to move that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.risk.factor import FactorCovariance
from portfolio_dfl.scalars import require_number, require_whole

__all__ = ["PRIORS", "EquilibriumPrior", "HistoricalMeanPrior", "JamesSteinPrior", "Prior", "PriorSpec"]


class Prior(nn.Module):
    """Expected returns of a stage, times a scale.

    Parameters
    ----------
    n_assets, lookback, stage : int
        N, the days of past returns seen, and the days of one stage.
    scale : float
        Factor of the prior.
    learn_scale : bool
        Whether the factor is learned beside the predictor, from `scale` on.
    """

    def __init__(
        self, n_assets: int, lookback: int, stage: int = 1, *, scale: float = 1.0, learn_scale: bool = False
    ) -> None:
        super().__init__()
        self.stage = stage
        require_number(TrainingError, "scale of the prior", scale)
        value = torch.tensor(float(scale), dtype=torch.float64)
        if learn_scale:
            self.scale: Tensor | float = nn.Parameter(value)
        else:
            self.scale = float(scale)

    def over_stage(self, mean: Tensor) -> Tensor:
        """Mean returns of a day compounded over a stage: its mean if days do not depend on each other."""
        return mean if self.stage == 1 else (1.0 + mean) ** self.stage - 1.0

    def expected(self, returns: Tensor, covariance: Tensor | FactorCovariance, risk_aversion: float) -> Tensor:
        """Expected returns [B, N], without the scale."""
        raise NotImplementedError

    def forward(self, returns: Tensor, covariance: Tensor | FactorCovariance, risk_aversion: float) -> Tensor:
        """Expected returns [B, 1, N], the same for every stage.

        Parameters
        ----------
        returns : Tensor [B, L, N]
            Simple returns up to the decision.
        covariance : Tensor [B, N, N] or FactorCovariance
            Of one stage.
        risk_aversion : float
            λ of the decision.
        """
        return (self.scale * self.expected(returns, covariance, risk_aversion)).unsqueeze(1)


class HistoricalMeanPrior(Prior):
    """The mean return of the last `window` days, of the whole lookback by default, compounded over a stage."""

    least = 1

    def __init__(
        self,
        n_assets: int,
        lookback: int,
        stage: int = 1,
        *,
        window: int | None = None,
        scale: float = 1.0,
        learn_scale: bool = False,
    ) -> None:
        super().__init__(n_assets, lookback, stage, scale=scale, learn_scale=learn_scale)
        self.window = lookback if window is None else window
        require_whole(TrainingError, "window of the prior", self.window, self.least)
        if self.window > lookback:
            raise TrainingError(f"window of the prior is {self.window}, more than the lookback of {lookback} days")

    def expected(self, returns: Tensor, covariance: Tensor | FactorCovariance, risk_aversion: float) -> Tensor:
        """Mean returns [B, N]."""
        return self.over_stage(returns[:, -self.window :].mean(dim=1))


class JamesSteinPrior(HistoricalMeanPrior):
    """Mean returns shrunk towards their mean over all assets (James and Stein, 1961; Jorion, 1986).

    The share of the target is (Σλ − 2 max λ) / (T ‖mean − target‖²), with the eigenvalues λ of the window's own sample
    covariance, kept between 0 and 1 (the positive part of the estimator).
    """

    least = 3

    def expected(self, returns: Tensor, covariance: Tensor | FactorCovariance, risk_aversion: float) -> Tensor:
        """Shrunk mean returns [B, N]."""
        window = returns[:, -self.window :]
        mean = window.mean(dim=1)
        centred = window - mean.unsqueeze(1)
        if returns.shape[2] > 4 * self.window:  # the other Gram matrix has the same eigenvalues but for zeros
            eigenvalues = torch.linalg.eigvalsh(centred @ centred.transpose(1, 2) / (self.window - 1))
        else:
            eigenvalues = torch.linalg.eigvalsh(centred.transpose(1, 2) @ centred / (self.window - 1))
        target = mean.mean(dim=1, keepdim=True)
        distance = (mean - target).square().sum(dim=1)
        excess = (eigenvalues.sum(dim=1) - 2.0 * eigenvalues[:, -1]).clamp(min=0.0)
        # Means that are all equal are their own target.
        share = torch.where(distance > 0, excess / (self.window * distance), torch.ones_like(distance)).clamp(max=1.0)
        return self.over_stage(mean + share.unsqueeze(1) * (target - mean))


class EquilibriumPrior(Prior):
    """Returns at which the reference weights are optimal: λ Σ w (Black and Litterman, 1992).

    λ and Σ are those of the decision, so that without learning, limits and costs the plan's weights are the reference.

    Parameters
    ----------
    reference : sequence of N weights, or None
        w, summing to 1; equal weights by default.
    """

    reference: Tensor

    def __init__(
        self,
        n_assets: int,
        lookback: int,
        stage: int = 1,
        *,
        reference: Sequence[float] | None = None,
        scale: float = 1.0,
        learn_scale: bool = False,
    ) -> None:
        super().__init__(n_assets, lookback, stage, scale=scale, learn_scale=learn_scale)
        weights = _reference(n_assets, reference)
        self.register_buffer("reference", torch.tensor(weights, dtype=torch.float64), persistent=False)

    def expected(self, returns: Tensor, covariance: Tensor | FactorCovariance, risk_aversion: float) -> Tensor:
        """λ Σ w, [B, N]."""
        if isinstance(covariance, FactorCovariance):
            return risk_aversion * covariance.times(self.reference.expand(len(covariance), -1))
        return risk_aversion * (covariance @ self.reference)


def _reference(n_assets: int, reference: Sequence[float] | None) -> list[float]:
    if reference is None:
        return [1.0 / n_assets] * n_assets
    if isinstance(reference, Mapping):
        raise TrainingError("reference weights by ticker need tickers: give N weights in the order of the assets")
    require_number(TrainingError, "reference weights", list(reference))
    if len(reference) != n_assets:
        raise TrainingError(f"reference has {len(reference)} weights, there are {n_assets} assets")
    if not math.isclose(sum(reference), 1.0, abs_tol=1e-8):
        raise TrainingError(f"reference weights sum to {sum(reference):.9g}; they must sum to 1")
    return [float(weight) for weight in reference]


#: Priors by name; ``zero`` is none.
PRIORS: dict[str, type[Prior] | None] = {
    "zero": None,
    "historical_mean": HistoricalMeanPrior,
    "james_stein": JamesSteinPrior,
    "equilibrium": EquilibriumPrior,
}


@dataclass(frozen=True)
class PriorSpec:
    """What is needed to make a prior anywhere.

    Attributes
    ----------
    name : str
        One of `PRIORS`.
    options : mapping
        Its arguments: ``window``, ``reference``, ``scale``, ``learn_scale``. Reference weights may be a mapping of
        ticker to weight before :meth:`of_assets`.
    """

    name: str = "zero"
    options: Mapping[str, Any] = field(default_factory=dict)

    def of_assets(self, assets: Sequence[str]) -> PriorSpec:
        """The same with reference weights in the order of the assets; one that they do not name has none.

        Raises
        ------
        TrainingError
            If they name others.
        """
        reference = self.options.get("reference")
        if not isinstance(reference, Mapping):
            return self
        unknown = [str(ticker) for ticker in reference if ticker not in assets]
        if unknown:
            raise TrainingError(f"reference names {', '.join(unknown)}; the assets are {', '.join(assets)}")
        weights = [float(reference.get(ticker, 0.0)) for ticker in assets]
        return PriorSpec(self.name, {**self.options, "reference": weights})

    def build(self, n_assets: int, lookback: int, stage: int = 1) -> Prior | None:
        """A fresh prior; None for zero.

        Raises
        ------
        TrainingError
            If the name is unknown or the options do not fit.
        """
        if self.name not in PRIORS:
            raise TrainingError(f"unknown prior {self.name!r}; use one of {', '.join(PRIORS)}")
        make = PRIORS[self.name]
        if make is None:
            if self.options:
                raise TrainingError(f"the prior zero takes no options, not {dict(self.options)}")
            return None
        try:
            return make(n_assets, lookback, stage, **self.options)
        except TypeError as error:
            raise TrainingError(f"prior {self.name} does not take options {dict(self.options)}: {error}") from error

    def describe(self) -> str:
        """One line that identifies the prior, the same in every process; empty for zero."""
        if self.name == "zero":
            return ""
        options = ", ".join(f"{key}={value!r}" for key, value in sorted(self.options.items()))
        return f" prior {self.name}({options})"
