"""Losses of the executed path that the literature judges portfolios by: downside, drawdown, and a benchmark.

Net returns n_t are those of :mod:`~portfolio_dfl.training.losses.executed`. All are per stage, not annualised, and
over the dates of a batch: use large ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.scalars import require_number
from portfolio_dfl.training.decision import Outcome
from portfolio_dfl.training.losses.executed import ExecutedLoss

__all__ = ["DrawdownLoss", "InformationRatioLoss", "SortinoLoss", "TrackingErrorLoss"]


@dataclass(frozen=True, kw_only=True)
class SortinoLoss(ExecutedLoss):
    """Minus the Sortino ratio, −(mean n − m) / (√mean min(n − m, 0)² + floor) (Sortino and Price, 1994); a number.

    Parameters
    ----------
    minimum : float
        m, the return a stage that is aimed at.
    floor : float
        Added to the downside deviation, so that a batch without losses does not explode; in units of returns.
    """

    minimum: float = 0.0
    floor: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number(TrainingError, "minimum", self.minimum)
        require_number(TrainingError, "floor", self.floor, above=0.0)

    def __call__(self, outcome: Outcome) -> Tensor:
        above = self.net_returns(outcome) - self.minimum
        power = above.clamp(max=0.0).square().mean()
        # The root of 0 has no derivative; a batch without losses is ranked by its mean.
        downside = power.sqrt() if float(power.detach()) > 0.0 else power
        return -above.mean() / (downside + self.floor)


@dataclass(frozen=True, kw_only=True)
class DrawdownLoss(ExecutedLoss):
    """Conditional drawdown at risk: the mean of the worst drawdowns (Chekhlov, Uryasev and Zabarankin, 2005).

    With wealth W_t = Π_{s ≤ t} (1 + n_s) from 1 at the batch's start, the drawdown of t is 1 − W_t / max_{s ≤ t} W_s,
    the start included: a share of the peak, at least 0. With stages of k days the batch has k paths, of every k-th
    sample.

    Parameters
    ----------
    tail : float
        Share of the dates that count, above 0 and at most 1; rounded up to whole ones, so that a tiny share is the
        maximum drawdown, and 1 the mean one.
    """

    tail: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.tail <= 1.0:
            raise TrainingError(f"tail of the loss 'drawdown' must be above 0 and at most 1, got {self.tail}")

    def __call__(self, outcome: Outcome) -> Tensor:
        net, stage = self.net_returns(outcome), outcome.samples.stage
        found = torch.cat([_drawdowns(net[start::stage]) for start in range(min(stage, len(net)))])
        return found.topk(math.ceil(self.tail * len(found))).values.mean()


def _drawdowns(net: Tensor) -> Tensor:
    if not bool((net > -1.0).all()):
        raise TrainingError("the executed path loses all wealth on a date: drawdowns after it do not exist")
    wealth = torch.cat([torch.ones(1, dtype=net.dtype), (1.0 + net).cumprod(dim=0)])
    return (1.0 - wealth / wealth.cummax(dim=0).values)[1:]


@dataclass(frozen=True, kw_only=True)
class _AgainstBenchmark(ExecutedLoss):
    """Active returns a_t = n_t − r_tᵀ b of the executed path.

    Parameters
    ----------
    benchmark : sequence of N floats, optional
        b, weights that sum to 1, held at every date and free of cost; equal weights by default.
    """

    benchmark: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.benchmark is not None:
            require_number(TrainingError, "benchmark", self.benchmark)
            if not math.isclose(sum(self.benchmark), 1.0, abs_tol=1e-8):
                raise TrainingError(f"the benchmark's weights must sum to 1, they sum to {sum(self.benchmark):g}")

    def active(self, outcome: Outcome, name: str) -> Tensor:
        """a_t, [B]."""
        returns = outcome.samples.future_returns[:, 0]
        if self.benchmark is None:
            earned = returns.mean(dim=-1)
        elif len(self.benchmark) == returns.shape[-1]:
            earned = returns @ torch.tensor(self.benchmark, dtype=torch.float64)
        else:
            raise TrainingError(
                f"the benchmark of the loss {name!r} has {len(self.benchmark)} weights for {returns.shape[-1]} assets"
            )
        return self.several(outcome, name) - earned


@dataclass(frozen=True, kw_only=True)
class TrackingErrorLoss(_AgainstBenchmark):
    """Standard deviation (ddof = 1) of the active returns a_t = n_t − r_tᵀ b; in units of returns.

    Takes the options of :class:`InformationRatioLoss` but ``floor``.
    """

    def __call__(self, outcome: Outcome) -> Tensor:
        active = self.active(outcome, "tracking_error")
        variance = active.var()
        # The root of 0 has no derivative: whoever tracks exactly has nothing to learn.
        return variance.sqrt() if float(variance.detach()) > 0.0 else variance


@dataclass(frozen=True, kw_only=True)
class InformationRatioLoss(_AgainstBenchmark):
    """Minus the information ratio, −mean a / (std a + floor), of the active returns a_t = n_t − r_tᵀ b; a number.

    Parameters
    ----------
    benchmark : sequence of N floats, optional
        b, weights that sum to 1, held at every date and free of cost; equal weights by default.
    floor : float
        Added to the deviation, so that a portfolio near the benchmark does not explode; in units of returns.
    """

    floor: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number(TrainingError, "floor", self.floor, above=0.0)

    def __call__(self, outcome: Outcome) -> Tensor:
        active = self.active(outcome, "information_ratio")
        variance = active.var()
        deviation = variance.sqrt() if float(variance.detach()) > 0.0 else variance
        return -active.mean() / (deviation + self.floor)
