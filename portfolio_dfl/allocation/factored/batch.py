"""A batch of problems under factor risk in PyTorch, solved and differentiated one by one, in threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dxpp_core.threads import share
from dxpp_core.tracing import outside_graphs
from portfolio_dfl.allocation.factored.problem import FALL, LOWER, RISE, UPPER, FactoredProblem, before
from portfolio_dfl.allocation.factored.solve import ACCEPTED, TOLERANCE, FactoredPlan, solve_factored
from portfolio_dfl.allocation.limits import Limits
from portfolio_dfl.allocation.solution import AllocationSolution
from portfolio_dfl.allocation.statuses import (
    BAD_NUMBER,
    BAD_PARAMETER,
    CERTIFIED,
    NOT_CONVERGED,
    NOT_CONVEX,
    OUT_OF_RANGE,
    OUT_OF_REACH,
    UNCERTIFIED,
)
from portfolio_dfl.risk.factor import FactorCovariance

__all__ = ["FactoredBatch", "solve_batch"]

_Array = NDArray[np.float64]
# Columns of facts: as of the native solver.
_FACTS = 10
# An eigenvalue of Ω below this share of the largest is rounding.
_ROUNDING = 1e-12


@dataclass(slots=True)
class FactoredBatch:
    """One call: its numbers, and what became of them; ``weights`` [B, H, N] are differentiable."""

    limits: Limits
    threads: int
    returns: _Array
    exposures: _Array
    factors: _Array
    specific: _Array
    previous: _Array
    aversion: _Array
    turnover: _Array
    cost: _Array
    facts: _Array = field(init=False)
    plans: list[FactoredPlan | None] = field(init=False)
    weights: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.facts = np.zeros((len(self.returns), _FACTS))
        self.plans = [None] * len(self.returns)

    def each(self, treat: Callable[[int], int]) -> int:
        """Let ``treat(element)`` treat all, in threads; the sum of what it returns."""

        def some(worker: int, workers: int, _: _Array) -> int:
            return sum(treat(b) for b in range(worker, len(self.returns), workers))

        return share(some, (), len(self.returns), self.threads, 0)

    def own(self, b: int) -> tuple[float, _Array, _Array]:
        """λ, τ [H] and c [H, N] of an element."""
        aversion, turnover, cost = (
            part[b if len(part) > 1 else 0] for part in (self.aversion, self.turnover, self.cost)
        )
        return float(aversion), turnover, cost

    def solve(self, b: int) -> int:
        """Solve one element; 1 if it is not certified."""
        status, problem, scale = self._problem(b)
        if problem is not None:
            plan = self.plans[b] = solve_factored(problem)
            status = NOT_CONVERGED
            if plan is not None:
                worst = plan.certificate
                self.facts[b, 1] = plan.iterations
                self.facts[b, 4:8] = worst.stationarity, worst.primal, worst.dual, worst.margin
                if worst.worst <= ACCEPTED:
                    status = CERTIFIED if worst.worst <= TOLERANCE else UNCERTIFIED
        self.facts[b, 0], self.facts[b, 8] = status, scale
        return int(status != CERTIFIED)

    def _problem(self, b: int) -> tuple[int, FactoredProblem | None, float]:
        limits, (aversion, turnover, cost) = self.limits, self.own(b)
        r, F, omega, d, w0 = (
            part[b] for part in (self.returns, self.exposures, self.factors, self.specific, self.previous)
        )
        if not all(np.isfinite(part).all() for part in (r, F, omega, d, w0, cost)):
            return BAD_NUMBER, None, 0.0
        if not (0.0 < aversion < np.inf) or not (turnover > 0.0).all() or (cost < 0.0).any():
            return BAD_PARAMETER, None, 0.0
        values, vectors = np.linalg.eigh(0.5 * (omega + omega.T))
        if (d < 0.0).any() or values[0] < -_ROUNDING * max(values[-1], 0.0):
            return NOT_CONVEX, None, 0.0
        nearest = np.clip(w0, limits.lower, limits.upper)
        if np.abs(nearest - w0) @ limits.counted + abs(1.0 - nearest.sum()) > turnover[0] * (1.0 + 1e-9):
            return OUT_OF_REACH, None, 0.0
        stays = values > _ROUNDING * values[-1]
        G = F @ (vectors[:, stays] * np.sqrt(values[stays]))
        size = max(
            float(np.abs(r - r.mean(axis=1, keepdims=True)).max()),
            aversion * float((np.square(G).sum(axis=1) + d).max()),
        )
        scale = 1.0 / size if size > 0.0 else 1.0
        if not np.isfinite(scale):
            return OUT_OF_RANGE, None, 0.0
        free = limits.lower < limits.upper
        H, N = r.shape
        exists = np.empty((4, H, N), dtype=np.bool_)
        exists[LOWER] = free & np.isfinite(limits.lower)
        exists[UPPER] = free & np.isfinite(limits.upper)
        exists[RISE] = exists[FALL] = (limits.counted > 0.0) & (np.isfinite(turnover)[:, None] | (cost > 0.0))
        groups = limits.groups
        problem = FactoredProblem(
            loadings=np.sqrt(aversion * scale) * G,
            variance=aversion * scale * d,
            returns=scale * r,
            cost=scale * cost * limits.counted,
            previous=w0,
            lower=limits.lower,
            upper=limits.upper,
            counted=limits.counted,
            turnover=turnover,
            rows=np.array([exposure for exposure, _, _ in groups]).reshape(-1, N),
            caps=np.array([cap for _, cap, _ in groups], dtype=np.float64),
            exists=exists,
        )
        return CERTIFIED, problem, scale

    def found(self) -> _Array:
        """Plans [B, H, N]; NaN where none was found."""
        found = np.empty(self.returns.shape)
        for b, plan in enumerate(self.plans):
            found[b] = np.nan if plan is None else plan.weights
        return found

    def solution(self, like: Tensor) -> AllocationSolution:
        """What was found; weights in the dtype and on the device of ``like``."""
        plain = self.weights.detach().numpy()
        B, H, N = plain.shape
        nu, theta, pull = np.zeros((B, H)), np.zeros((B, H)), np.zeros((B, H, N))
        for b, plan in enumerate(self.plans):
            if plan is not None:
                scale = self.facts[b, 8]
                nu[b], theta[b] = plan.solved.nu / scale, plan.solved.theta / scale
                pull[b] = np.where(plan.active.hold != 0, plan.pull, 0.0) / scale
        return AllocationSolution(
            weights=self.weights.to(like),
            solver="factored",
            trades=plain - np.concatenate([self.previous[:, None], plain[:, :-1]], axis=1),
            budget_dual=nu,
            lower_dual=np.maximum(pull, 0.0),
            upper_dual=np.maximum(-pull, 0.0),
            turnover_dual=theta,
            certificate=self.facts[:, 4:7],
            margin=self.facts[:, 7],
            certified=self.facts[:, 0] == CERTIFIED,
            iterations=self.facts[:, 1].astype(np.int64),
            warm_hits=np.zeros(B, dtype=np.bool_),
        )


@dataclass(slots=True)
class _Gradients:
    """Gradients of all arguments, element by element."""

    returns: _Array
    exposures: _Array
    factors: _Array
    specific: _Array
    previous: _Array
    aversion: _Array
    turnover: _Array
    cost: _Array

    @classmethod
    def of(cls, batch: FactoredBatch) -> _Gradients:
        """Zeros of the arguments' shapes."""
        B, H, N = batch.returns.shape
        shapes = (
            *(part.shape for part in (batch.returns, batch.exposures, batch.factors, batch.specific, batch.previous)),
            (B,),
            (B, H),
            (B, H, N),
        )
        return cls(*(np.zeros(shape) for shape in shapes))


def _differentiate(batch: FactoredBatch, upstream: _Array) -> _Gradients:
    """With v, y the solution of the active set's equations for the upstream: ∂/∂r = v, ∂/∂b = y, and the rest follows.

    ∂Ω = −λ Σ_s sym(Fᵀv_s w_sᵀF),  ∂F = −λ Σ_s (v_s w_sᵀ + w_s v_sᵀ) F Ω,  ∂d = −λ Σ_s v_s w_s,  ∂λ = −Σ_s v_sᵀΣ w_s.
    """
    found = _Gradients.of(batch)

    def treat(b: int) -> int:
        plan = batch.plans[b]
        if plan is None:
            return 1
        (aversion, _, _), scale = batch.own(b), batch.facts[b, 8]
        with np.errstate(all="ignore"):
            solved, batch.facts[b, 9] = plan.adjoint(upstream[b])
        v, w, F = scale * solved.x, plan.weights, batch.exposures[b]
        omega = 0.5 * (batch.factors[b] + batch.factors[b].T)
        found.returns[b] = v
        v_F, w_F = v @ F, w @ F
        common = v_F.T @ w_F
        found.factors[b] = -0.5 * aversion * (common + common.T)
        found.exposures[b] = -aversion * (v.T @ (w_F @ omega) + w.T @ (v_F @ omega))
        each = (v * w).sum(axis=0)
        found.specific[b] = -aversion * each
        found.aversion[b] = -float(np.vdot(common, omega) + batch.specific[b] @ each)
        active, sign = plan.active, plan.active.sign
        found.turnover[b] = np.where(active.spent, solved.theta, 0.0)
        found.previous[b] = np.where(active.trade[0] == 0, solved.tie[0], sign[0] * solved.theta[0])
        moved = np.sign(w - before(w, batch.previous[b])) * batch.limits.counted
        direction = np.where(active.trade == 2, moved, active.trade)
        found.cost[b] = -direction * (v - before(v, 0.0))
        return 0

    batch.each(treat)
    return found


class _Solve(torch.autograd.Function):
    """(returns, F, Ω, d, previous, λ, τ, c) → weights; the numbers are in the batch."""

    @staticmethod
    def forward(ctx: Any, batch: FactoredBatch, *tensors: Tensor) -> Tensor:
        ctx.batch, ctx.shapes = batch, [tensor.shape for tensor in tensors]
        batch.each(batch.solve)
        return torch.from_numpy(batch.found())

    @staticmethod
    @outside_graphs("MultiPeriodMeanVariance")
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("second derivatives of the plan are not provided: call backward without create_graph")
        found = _differentiate(ctx.batch, upstream.numpy())
        values = (
            found.returns,
            found.exposures,
            found.factors,
            found.specific,
            found.previous,
            found.aversion,
            found.turnover,
            found.cost,
        )
        gradients: list[Tensor | None] = [None]
        for value, shape, asked in zip(values, ctx.shapes, ctx.needs_input_grad[1:], strict=True):
            shared = shape[0] == 1 and value.shape[0] > 1
            own = value.sum(axis=0, keepdims=True) if shared else value
            gradients.append(torch.from_numpy(own) if asked else None)
        return tuple(gradients)


def solve_batch(
    limits: Limits,
    threads: int,
    returns: Tensor,
    risk: FactorCovariance,
    previous: Tensor,
    parameters: tuple[Tensor, ...],
) -> FactoredBatch:
    """Solve a batch, in float64 on the CPU.

    Parameters
    ----------
    limits : Limits
        Those that `Limits.factored` is true of.
    returns : Tensor [B, H, N]
    risk : FactorCovariance
        Of the whole batch.
    previous : Tensor [B, N]
    parameters : tuple of Tensor
        λ [1 or B], τ [1 or B, H], c [1 or B, H, N].
    """
    aversion, *rest = parameters
    # γ/2 (w − b)ᵀΣ(w − b) raises λ by γ and the returns by γ Σ b, up to a constant.
    for benchmark, gamma in limits.tracking:
        returns = returns + gamma * risk.times(torch.from_numpy(benchmark).expand(len(returns), 1, -1))
        aversion = aversion + gamma
    parts = (risk.exposures, risk.factor_covariance, risk.specific_variance)
    tensors = (returns, *parts, previous, aversion, *rest)
    # Copies: what a backward pass reads is what was given.
    batch = FactoredBatch(limits, threads, *(np.array(tensor.detach().numpy(), order="C") for tensor in tensors))
    apply: Callable[..., Tensor] = _Solve.apply
    batch.weights = apply(batch, *tensors)
    return batch
