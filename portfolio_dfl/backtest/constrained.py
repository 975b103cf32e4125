"""One decision under the study's constraints: the first step of the multi-period mean-variance plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.allocation import Costs, MultiPeriodMeanVariance
from portfolio_dfl.allocation.limits import Limits
from portfolio_dfl.errors import AllocationError
from portfolio_dfl.risk import FactorCovariance
from portfolio_dfl.scalars import require_number

if TYPE_CHECKING:
    from portfolio_dfl.allocation.limits import Limit

__all__ = ["FirstStep", "Plan", "Risk"]

FloatArray = NDArray[np.float64]
#: Covariance [N, N], or a factor model without a batch.
Risk: TypeAlias = FloatArray | FactorCovariance
#: Expected returns [H, N] and covariance.
Plan: TypeAlias = tuple[FloatArray, Risk]

# Two long-only, fully invested portfolios are never further apart than this in L1.
_FURTHEST = 2.0


class FirstStep:
    """Weights of the next period by the layer that trained strategies decide with.

    Fully invested, long only unless the limits say otherwise, ‖w − held‖₁ ≤ turnover limit at every step of the plan.
    The horizon is read off the expected returns, so that one object serves plans of any length.

    Parameters
    ----------
    risk_aversion : float
        λ of ``−r̂ᵀw + λ/2 wᵀΣw``, positive.
    turnover_limit : float or sequence of float
        τ, for all stages or for each; ``inf`` for none.
    limits : sequence of Limit
        Of weights, see :mod:`portfolio_dfl.allocation.limits`.
    transaction_cost : float
        c, cost of trading one unit that the plan counts.
    costs : Costs, optional
        All that the plan counts, in place of ``transaction_cost``.
    solver : str
        As in :class:`~portfolio_dfl.allocation.MultiPeriodMeanVariance`.
    assets : sequence of str, optional
        Tickers that errors name.
    """

    def __init__(
        self,
        *,
        risk_aversion: float,
        turnover_limit: float | Sequence[float],
        limits: Sequence[Limit] = (),
        transaction_cost: float = 0.0,
        costs: Costs | None = None,
        solver: str = "auto",
        assets: Sequence[str] | None = None,
    ) -> None:
        require_number(AllocationError, "risk_aversion", risk_aversion, above=0.0)
        require_number(AllocationError, "turnover_limit", turnover_limit, above=0.0, infinite=True)
        require_number(AllocationError, "transaction_cost", transaction_cost, least=0.0)
        self.risk_aversion = risk_aversion
        self.turnover_limit = turnover_limit
        self.limits = tuple(limits)
        if costs is not None and transaction_cost:
            raise AllocationError("costs hold what the plan counts: leave out transaction_cost, or costs")
        self.costs = Costs(rate=transaction_cost) if costs is None else costs
        self.solver = solver
        self.assets = None if assets is None else tuple(assets)
        self._layers: dict[tuple[int, tuple[str, ...]], MultiPeriodMeanVariance] = {}

    def on(self, date: pd.Timestamp, tickers: Sequence[str], known: Plan, held: FloatArray) -> FloatArray:
        """Weights [N] at costs of that date and those assets; ``known`` are expected returns and covariance."""
        returns, covariance = known
        cost = self.costs.plan_rates(pd.DatetimeIndex([date]), tickers)
        first: FloatArray = self._solve(returns[None], _alone(covariance), held[None], tuple(tickers), cost)[0]
        return first

    def __call__(self, expected_returns: FloatArray, covariance: Risk, held: FloatArray) -> FloatArray:
        """Weights [N] from expected returns [H, N], covariance [N, N] or in parts, and held weights [N].

        Raises
        ------
        AllocationError
            If no weights satisfy the constraints, or an argument is not finite.
        """
        first: FloatArray = self.many(expected_returns[None], _alone(covariance), held[None])[0]
        return first

    def many(self, expected_returns: FloatArray, covariance: Risk, held: FloatArray) -> FloatArray:
        """Weights [B, N] from expected returns [B, H, N], covariances [B, N, N] or in parts, and held ones [B, N]."""
        unnamed = tuple(str(asset) for asset in range(expected_returns.shape[-1]))
        return self._solve(expected_returns, covariance, held, unnamed, None)

    def _solve(
        self,
        expected_returns: FloatArray,
        covariance: Risk,
        held: FloatArray,
        tickers: tuple[str, ...],
        cost: FloatArray | None,
    ) -> FloatArray:
        import torch

        layer = self._layer(expected_returns.shape[1], tickers)
        returns, previous = (torch.from_numpy(np.ascontiguousarray(each)) for each in (expected_returns, held))
        risk = covariance if isinstance(covariance, FactorCovariance) else np.ascontiguousarray(covariance)
        with torch.no_grad():
            plan = layer(
                returns,
                risk if isinstance(risk, FactorCovariance) else torch.from_numpy(risk),
                previous,
                transaction_cost=None if cost is None else torch.from_numpy(cost).unsqueeze(1),
            )
        first: FloatArray = plan[:, 0].numpy()
        return first

    def _layer(self, horizon: int, tickers: tuple[str, ...]) -> MultiPeriodMeanVariance:
        if (horizon, tickers) not in self._layers:
            turnover = self.turnover_limit
            by_stage = [turnover] * horizon if isinstance(turnover, int | float) else list(turnover)[:horizon]
            lowest = Limits.collect(len(tickers), self.limits, self.assets).lower
            furthest = _FURTHEST if (lowest >= 0.0).all() else np.inf
            self._layers[horizon, tickers] = MultiPeriodMeanVariance(
                n_assets=len(tickers),
                horizon=horizon,
                risk_aversion=self.risk_aversion,
                turnover_limit=[min(limit, furthest) for limit in by_stage],
                limits=self.limits,
                solver=self.solver,
                assets=self.assets,
                **self.costs.plan_terms(tickers),
            )
        return self._layers[horizon, tickers]


def _alone(covariance: Risk) -> Risk:
    """A batch of one."""
    return covariance.expand(1) if isinstance(covariance, FactorCovariance) else covariance[None]
