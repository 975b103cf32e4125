"""Plans under factor risk for the portfolio layer: every asset eliminated first, gradients smoothed if asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from portfolio_dfl.allocation.arguments import spread
from portfolio_dfl.allocation.factored.batch import solve_batch
from portfolio_dfl.allocation.refusals import name_element, raise_for_facts
from portfolio_dfl.allocation.smoothing import Smoothing, perturbations
from portfolio_dfl.errors import AllocationError
from portfolio_dfl.risk.factor import FactorCovariance

if TYPE_CHECKING:
    import pandas as pd

    from portfolio_dfl.allocation.limits import Limits
    from portfolio_dfl.allocation.solution import AllocationSolution

__all__ = ["FactorPlanner"]

#: λ, τ and c, as `MultiPeriodMeanVariance` takes them.
Parameters: TypeAlias = "tuple[float | Tensor, float | Tensor | None, float | Tensor]"
_Dates: TypeAlias = "Sequence[object] | pd.DatetimeIndex | None"
_FLOAT = torch.float64


@dataclass(frozen=True)
class FactorPlanner:
    """The problem of H stages of N assets within limits, in so many threads over a batch."""

    limits: Limits
    count_threads: Callable[[], int]
    horizon: int
    n_assets: int

    def plan(
        self, returns: Tensor, risk: FactorCovariance, previous: Tensor, parameters: Parameters, dates: _Dates
    ) -> AllocationSolution:
        """The exact plans of a batch; tensors as of the layer.

        Raises
        ------
        AllocationError
            If shapes do not fit, or an instance has no plan.
        """
        return self._solve(returns, risk, previous, self._in_full(parameters), dates)

    def smoothed(
        self,
        returns: Tensor,
        risk: FactorCovariance,
        previous: Tensor,
        parameters: Parameters,
        smoothing: Smoothing,
        dates: _Dates,
    ) -> Tensor:
        """Weights [B, H, N] whose gradients are those of the mean of exact plans at perturbed forecasts.

        Raises
        ------
        AllocationError
            As `plan`; or if the smoothing is of another way.
        """
        if smoothing.way != "perturbation":
            raise AllocationError(
                f"plans under factor risk are not smoothed by {smoothing.way}: take way='perturbation' "
                "(training.smoothing.way), or give covariance.dense()"
            )
        B, S = returns.shape[0], smoothing.samples
        full = self._in_full(parameters)
        again = torch.arange(B).repeat(S)
        moved = returns[again] + perturbations(smoothing, tuple(returns.shape)).flatten(0, 1)
        held = previous[again] if previous.ndim == 2 else previous
        numbers = tuple(part[again] if part.shape[0] > 1 else part for part in full)
        names = [name_element(b, dates) for b in range(B)] * S
        found = self._solve(moved, risk.expand(B)[again], held, numbers, names)
        mean: Tensor = found.weights.unflatten(0, (S, B)).mean(0)
        if smoothing.value == "smoothed":
            return mean
        with torch.no_grad():
            exact: Tensor = self._solve(returns, risk, previous, full, dates).weights
        return exact + (mean - mean.detach())

    def _in_full(self, parameters: Parameters) -> tuple[Tensor, ...]:
        """λ [·], τ [·, H] and c [·, H, N], one for all or one each."""
        aversion, limit, rate = parameters
        full = (
            spread("risk_aversion", aversion, ()),
            spread("turnover_limit", torch.inf if limit is None else limit, (self.horizon,)),
            spread("transaction_cost", rate, (self.horizon, self.n_assets)),
        )
        return tuple(torch.from_numpy(numbers) if tensor is None else tensor for numbers, tensor in full)

    def _solve(
        self, returns: Tensor, risk: FactorCovariance, previous: Tensor, full: tuple[Tensor, ...], dates: _Dates
    ) -> AllocationSolution:
        H, N, B = self.horizon, self.n_assets, returns.shape[0]
        if returns.shape[1:] != (H, N) or risk.n_assets != N:
            raise AllocationError(
                f"expected_returns is {list(returns.shape)} and the exposures are "
                f"{list(risk.exposures.shape)}; this layer takes [B, {H}, {N}] and [B, {N}, K]"
            )
        if previous.shape not in ((N,), (B, N)):
            raise AllocationError(f"previous_weights is {list(previous.shape)}; it is [{N}] or [{B}, {N}]")
        batch = solve_batch(
            self.limits,
            self.count_threads(),
            returns.to(device="cpu", dtype=_FLOAT),
            risk.to(device="cpu", dtype=_FLOAT).expand(B),
            previous.to(device="cpu", dtype=_FLOAT).expand(B, N),
            full,
        )
        raise_for_facts(batch.facts, batch.turnover, batch.previous, dates, self.limits, final=True)
        return batch.solution(returns)
