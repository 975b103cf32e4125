"""The paper's standard form of the multi-period problem as one sparse QP in [w; u]; its patterns are made once.

Equation app_portfolio_qp_standard: min ½ x̃ᵀP x̃ + qᵀx̃ with x̃ = [w_{t+1}; …; w_{t+H}; u_{t+1}; …; u_{t+H}],
P = blkdiag(λΣ̂, 0), q = [−r̂; cost], 1ᵀw_s = 1, bounds on w, u ≥ 0, −u_s ≤ w_s − w_{s−1} ≤ u_s and 1ᵀu_s ≤ τ.

Limits add to it: a row for each group and stage; one |w − benchmark| a weight for a limit on active share; the short
part of each weight, v ≥ 0 and v ≥ −w, for a limit on leverage, which is then 1ᵀ(w + 2v) ≤ L; and for the largest
trade of an asset, bounds around the weight held before at the first stage and rows at those that follow. The cost of
borrowing is linear in the same short parts. Market impact, Σ_s b (w_s − w_{s−1})², needs no variables: it is a
quadratic form of neighbouring stages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from portfolio_dfl.allocation.limits import Limits

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
    """The QP of ``horizon`` stages: w, then u, then |w − benchmark| of limits on active share, then short parts.

    Parameters
    ----------
    horizon : int
    limits : Limits
        Bounds, counted assets, and the limits that add rows.
    impact, borrowing : bool
        Whether trades have an impact, and short positions a cost.
    """

    def __init__(self, horizon: int, limits: Limits, *, impact: bool = False, borrowing: bool = False) -> None:
        N, H = limits.lower.shape[0], horizon
        NH = N * H
        split = limits.gross < np.inf or borrowing
        shorted = limits.shorted if split else np.zeros(0, int)
        first_short = (2 + len(limits.shares)) * NH
        n = first_short + len(shorted) * H
        self.n_assets, self.horizon, self.n_variables = N, H, n
        asset, stage = torch.arange(N), torch.arange(H)
        rows = (stage[:, None, None] * N + asset[None, :, None]).expand(H, N, N)
        columns = (stage[:, None, None] * N + asset[None, None, :]).expand(H, N, N)
        weight = torch.arange(NH)
        self._quadratic = torch.stack([rows.reshape(-1), columns.reshape(-1)])
        self._sorted: Tensor | None = None
        if impact:
            earlier, later = weight[:-N], weight[N:]
            neighbours = [torch.stack([earlier, later]), torch.stack([later, earlier])]
            scattered = torch.cat([self._quadratic, *neighbours], dim=1)
            self._sorted = torch.argsort(scattered[0] * NH + scattered[1])
            self._quadratic = scattered[:, self._sorted]
        trade = weight + NH
        one = torch.ones(NH, dtype=torch.float64)
        self._counted = torch.from_numpy(limits.counted).repeat(H)
        # Rows w_s − w_{s−1} − u_s ≤ 0, then −(w_s − w_{s−1}) − u_s ≤ 0, then 1ᵀu_s ≤ τ.
        parts = []
        for first, sign in ((0, 1.0), (NH, -1.0)):
            row = weight + first
            parts.append((row, weight, sign * one))
            parts.append((row[N:], weight[:-N], -sign * one[N:]))
            parts.append((row, trade, -one))
        parts.append((2 * NH + weight // N, trade, self._counted))
        count = 2 * NH + H
        constant = []
        for exposure, cap, _ in limits.groups:
            parts.append((count + weight // N, weight, torch.from_numpy(exposure).repeat(H)))
            constant.append(torch.full((H,), cap, dtype=torch.float64))
            count += H
        for place, (benchmark, cap) in enumerate(limits.shares):
            away = weight + (2 + place) * NH
            held = torch.from_numpy(benchmark).repeat(H)
            for sign in (1.0, -1.0):
                parts.append((count + weight, weight, sign * one))
                parts.append((count + weight, away, -one))
                constant.append(sign * held)
                count += NH
            parts.append((count + weight // N, away, one))
            constant.append(torch.full((H,), cap, dtype=torch.float64))
            count += H
        short = torch.arange(first_short, n)
        weight_of = (stage[:, None] * N + torch.from_numpy(shorted)).reshape(-1)
        self._short_of = weight_of % N
        if split:
            row = count + torch.arange(n - first_short)
            parts.append((row, weight_of, -one[: len(row)]))
            parts.append((row, short, -one[: len(row)]))
            constant.append(torch.zeros(len(row), dtype=torch.float64))
            count += len(row)
        if limits.gross < np.inf:
            parts.append((count + weight // N, weight, self._counted))
            parts.append((count + weight_of // N, short, 2.0 * one[: len(short)]))
            constant.append(torch.full((H,), limits.gross, dtype=torch.float64))
            count += H
        self._largest_trade = None if limits.largest_trade is None else torch.from_numpy(limits.largest_trade)
        fixed = torch.empty(0, dtype=torch.int64)
        if self._largest_trade is not None:
            bound = (self._largest_trade > 0.0) & torch.isfinite(self._largest_trade)
            fixed = weight[N:][(self._largest_trade == 0.0).repeat(H - 1)]
            limited = weight[N:][bound.repeat(H - 1)]
            for sign in (1.0, -1.0):
                row = count + torch.arange(len(limited))
                parts.append((row, limited, sign * one[: len(row)]))
                parts.append((row, limited - N, -sign * one[: len(row)]))
                constant.append(self._largest_trade[limited % N])
                count += len(row)
        self._constant = torch.cat(constant) if constant else torch.empty(0, dtype=torch.float64)
        indices = torch.stack([torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])])
        values = torch.cat([part[2] for part in parts])
        self.G = torch.sparse_coo_tensor(indices, values, (count, n), check_invariants=True).coalesce()
        # Weights that stay as they are from stage to stage, behind the budgets.
        stays, kept = H + torch.arange(len(fixed)), one[: len(fixed)]
        where = torch.stack([torch.cat([weight // N, stays, stays]), torch.cat([weight, fixed, fixed - N])])
        entries = torch.cat([one, kept, -kept])
        self.A = torch.sparse_coo_tensor(where, entries, (H + len(fixed), n), check_invariants=True).coalesce()
        self._sums = torch.cat([torch.ones(H, dtype=torch.float64), torch.zeros(len(fixed), dtype=torch.float64)])
        self._lower, self._upper = torch.from_numpy(limits.lower).repeat(H), torch.from_numpy(limits.upper).repeat(H)
        # Away from a benchmark, then short.
        self._tail = (first_short - 2 * NH, n - first_short)

    def assemble(
        self,
        expected_returns: Tensor,
        covariance: Tensor,
        previous_weights: Tensor,
        risk_aversion: Tensor,
        turnover_limit: Tensor,
        cost: Tensor,
        impact: Tensor | None = None,
        borrow: Tensor | None = None,
    ) -> QPData:
        """Numbers for the patterns; differentiable in every argument.

        Where trades are neither limited nor charged, u means nothing: its rows are dropped (infinite h) and it is 0.

        Parameters
        ----------
        expected_returns : Tensor [B, H, N]
        covariance : Tensor [B, K, N, N], K = 1 or H
        previous_weights : Tensor [B, N]
        risk_aversion : Tensor [1] or [B]
        turnover_limit : Tensor [1, H] or [B, H]
        cost : Tensor [1, H, N] or [B, H, N]
        impact, borrow : Tensor [N], optional
            Coefficients of the squared trade, and costs of a short position a stage, for a form that has them.
        """
        B, H, N = expected_returns.shape
        n = self.n_variables
        risk = (risk_aversion.reshape(-1, 1, 1, 1) * covariance).expand(B, H, N, N)
        quadratic = risk.reshape(B, -1) if impact is None else self._with_impact(risk, impact)
        batch = torch.arange(B).repeat_interleave(quadratic.shape[1])
        indices = torch.cat([batch[None], self._quadratic.repeat(1, B)])
        P = torch.sparse_coo_tensor(
            indices, quadratic.reshape(-1), (B, n, n), is_coalesced=True, check_invariants=False
        )
        rate = cost.expand(B, H, N).reshape(B, -1) * self._counted
        q = torch.cat([-expected_returns.reshape(B, -1), rate, rate.new_zeros(B, sum(self._tail))], dim=1)
        if impact is not None:
            pull = 2.0 * impact * self._counted[:N] * previous_weights
            q = torch.cat([q[:, :N] - pull, q[:, N:]], dim=1)
        if borrow is not None:
            fee = borrow[self._short_of].expand(B, -1)
            q = torch.cat([q[:, : q.shape[1] - fee.shape[1]], fee], dim=1)
        limit = turnover_limit.expand(B, H)
        limited = torch.isfinite(limit).repeat_interleave(N, dim=1)
        moves = (self._counted > 0.0) & (limited | (rate > 0.0))
        held = torch.cat([previous_weights, previous_weights.new_zeros(B, (H - 1) * N)], dim=1)
        never = held.new_tensor(torch.inf)
        rise, fall = torch.where(moves, held, never), torch.where(moves, -held, never)
        h = torch.cat([rise, fall, limit, self._constant.expand(B, -1)], dim=1)
        zero = moves.new_zeros(B, H * N, dtype=torch.float64)
        away, short = (zero.new_full((B, count), torch.inf) for count in self._tail)
        lower, upper = self._lower.expand(B, -1), self._upper.expand(B, -1)
        if self._largest_trade is not None:
            lower = torch.cat(
                [torch.maximum(lower[:, :N], previous_weights - self._largest_trade), lower[:, N:]], dim=1
            )
            upper = torch.cat(
                [torch.minimum(upper[:, :N], previous_weights + self._largest_trade), upper[:, N:]], dim=1
            )
        lb = torch.cat([lower, zero, -away, torch.zeros_like(short)], dim=1)
        ub = torch.cat([upper, torch.where(moves, never, zero), away, short], dim=1)
        return QPData(P, q, self.G, h, self.A, self._sums, lb, ub)

    def _with_impact(self, risk: Tensor, impact: Tensor) -> Tensor:
        """Values of P where trades have an impact, [B, entries], from those of the risk, [B, H, N, N]."""
        B, H, N = risk.shape[:3]
        twice = 2.0 * impact * self._counted[:N]
        trades = torch.full((H, 1), 2.0, dtype=torch.float64)  # that a weight is part of: its own and the next
        trades[-1] = 1.0
        own = risk + torch.diag_embed(trades * twice)
        across = -twice.expand(B, 2 * (H - 1), N).reshape(B, -1)
        return torch.cat([own.reshape(B, -1), across], dim=1)[:, self._sorted]
