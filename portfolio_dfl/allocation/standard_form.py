"""The paper's standard form of the multi-period problem as one sparse QP in [w; u]; its patterns are made once.

Equation app_portfolio_qp_standard: min ½ x̃ᵀP x̃ + qᵀx̃ with x̃ = [w_{t+1}; …; w_{t+H}; u_{t+1}; …; u_{t+H}],
P = blkdiag(λΣ̂, 0), q = [−r̂; cost], 1ᵀw_s = 1, bounds on w, u ≥ 0, −u_s ≤ w_s − w_{s−1} ≤ u_s and 1ᵀu_s ≤ τ.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["QPData", "StandardForm"]


@dataclass(frozen=True, slots=True)
class QPData:
    """Arguments of ``dxpp_core.solve_qp``; n = 2HN variables, matrices sparse, batch first."""

    P: Tensor
    q: Tensor
    G: Tensor
    h: Tensor
    A: Tensor
    b: Tensor
    lb: Tensor
    ub: Tensor


class StandardForm:
    """The QP of ``horizon`` stages and ``n_assets`` assets.

    Parameters
    ----------
    n_assets, horizon : int
    lower, upper : Tensor [N]
        Bounds of the weights; infinite means none.
    counted : Tensor [N]
        1 for assets whose trades count towards turnover and cost, 0 for others.
    """

    def __init__(self, n_assets: int, horizon: int, lower: Tensor, upper: Tensor, counted: Tensor) -> None:
        N, H = n_assets, horizon
        n = 2 * N * H
        self.n_assets, self.horizon, self.n_variables = N, H, n
        asset, stage = torch.arange(N), torch.arange(H)
        rows = (stage[:, None, None] * N + asset[None, :, None]).expand(H, N, N)
        columns = (stage[:, None, None] * N + asset[None, None, :]).expand(H, N, N)
        self._quadratic = torch.stack([rows.reshape(-1), columns.reshape(-1)])
        weight = torch.arange(N * H)
        trade = weight + N * H
        one = torch.ones(N * H, dtype=torch.float64)
        # Rows w_s − w_{s−1} − u_s ≤ 0, then −(w_s − w_{s−1}) − u_s ≤ 0, then 1ᵀu_s ≤ τ.
        parts = []
        for first, sign in ((0, 1.0), (N * H, -1.0)):
            row = weight + first
            parts.append((row, weight, sign * one))
            parts.append((row[N:], weight[:-N], -sign * one[N:]))
            parts.append((row, trade, -one))
        parts.append((2 * N * H + weight // N, trade, counted.repeat(H)))
        indices = torch.stack([torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])])
        values = torch.cat([part[2] for part in parts])
        self.G = torch.sparse_coo_tensor(indices, values, (2 * N * H + H, n), check_invariants=True).coalesce()
        self.A = torch.sparse_coo_tensor(
            torch.stack([weight // N, weight]), one, (H, n), check_invariants=True
        ).coalesce()
        self.lb = torch.cat([lower.repeat(H), torch.zeros(N * H, dtype=torch.float64)])
        self.ub = torch.cat([upper.repeat(H), torch.full((N * H,), torch.inf, dtype=torch.float64)])

    def assemble(
        self,
        expected_returns: Tensor,
        covariance: Tensor,
        previous_weights: Tensor,
        risk_aversion: Tensor,
        turnover_limit: Tensor,
        cost: Tensor,
    ) -> QPData:
        """Numbers for the patterns; differentiable in every argument.

        Parameters
        ----------
        expected_returns : Tensor [B, H, N]
        covariance : Tensor [B, K, N, N], K = 1 or H
        previous_weights : Tensor [B, N]
        risk_aversion : Tensor [1] or [B]
        turnover_limit : Tensor [1, H] or [B, H]
        cost : Tensor [1, H, N] or [B, H, N]
        """
        B, H, N = expected_returns.shape
        n = self.n_variables
        quadratic = (risk_aversion.reshape(-1, 1, 1, 1) * covariance).expand(B, H, N, N).reshape(B, -1)
        batch = torch.arange(B).repeat_interleave(quadratic.shape[1])
        indices = torch.cat([batch[None], self._quadratic.repeat(1, B)])
        P = torch.sparse_coo_tensor(
            indices, quadratic.reshape(-1), (B, n, n), is_coalesced=True, check_invariants=False
        )
        q = torch.cat([-expected_returns.reshape(B, -1), cost.expand(B, H, N).reshape(B, -1)], dim=1)
        nothing = previous_weights.new_zeros(B, (H - 1) * N)
        held = torch.cat([previous_weights, nothing], dim=1)
        h = torch.cat([held, -held, turnover_limit.expand(B, H)], dim=1)
        return QPData(P, q, self.G, h, self.A, self.lb.new_ones(H), self.lb, self.ub)
