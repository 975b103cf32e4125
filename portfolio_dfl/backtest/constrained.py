"""One decision under the study's constraints: the first step of the multi-period mean-variance plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.allocation.limits import Limits
from portfolio_dfl.errors import AllocationError
from portfolio_dfl.scalars import require_number

if TYPE_CHECKING:
    from portfolio_dfl.allocation.limits import Limit

__all__ = ["FirstStep"]

FloatArray = NDArray[np.float64]

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
        solver: str = "auto",
        assets: Sequence[str] | None = None,
    ) -> None:
        require_number(AllocationError, "risk_aversion", risk_aversion, above=0.0)
        require_number(AllocationError, "turnover_limit", turnover_limit, above=0.0, infinite=True)
        require_number(AllocationError, "transaction_cost", transaction_cost, least=0.0)
        self.risk_aversion = risk_aversion
        self.turnover_limit = turnover_limit
        self.limits = tuple(limits)
        self.transaction_cost = transaction_cost
        self.solver = solver
        self.assets = None if assets is None else tuple(assets)
        self._layers: dict[tuple[int, int], MultiPeriodMeanVariance] = {}

    def __call__(self, expected_returns: FloatArray, covariance: FloatArray, held: FloatArray) -> FloatArray:
        """Weights [N] from expected returns [H, N], covariance [N, N] and held weights [N].

        Raises
        ------
        AllocationError
            If no weights satisfy the constraints, or an argument is not finite.
        """
        first: FloatArray = self.many(expected_returns[None], covariance[None], held[None])[0]
        return first

    def many(self, expected_returns: FloatArray, covariance: FloatArray, held: FloatArray) -> FloatArray:
        """Weights [B, N] from expected returns [B, H, N], covariances [B, N, N] and held weights [B, N]."""
        import torch

        layer = self._layer(*expected_returns.shape[1:])
        arguments = (np.ascontiguousarray(each) for each in (expected_returns, covariance, held))
        with torch.no_grad():
            plan = layer(*(torch.from_numpy(each) for each in arguments))
        first: FloatArray = plan[:, 0].numpy()
        return first

    def _layer(self, horizon: int, n_assets: int) -> MultiPeriodMeanVariance:
        if (horizon, n_assets) not in self._layers:
            turnover = self.turnover_limit
            by_stage = [turnover] * horizon if isinstance(turnover, int | float) else list(turnover)[:horizon]
            furthest = _FURTHEST if (Limits.collect(n_assets, self.limits).lower >= 0.0).all() else np.inf
            self._layers[horizon, n_assets] = MultiPeriodMeanVariance(
                n_assets=n_assets,
                horizon=horizon,
                risk_aversion=self.risk_aversion,
                turnover_limit=[min(limit, furthest) for limit in by_stage],
                limits=self.limits,
                transaction_cost=self.transaction_cost,
                solver=self.solver,
                assets=self.assets,
            )
        return self._layers[horizon, n_assets]
