"""Derivatives of smoothed plans: what they are derivatives of, and the choice between three of them.

The exact plan is a continuous, piecewise affine function of the forecasts. At a vertex of the feasible set, and inside
the region where no trade pays for its cost, it does not move with them: its derivative is zero, and nothing is learned.
A smoothed plan is a differentiable function near the exact one that moves everywhere. With the objective f of the plan
and its rows s_i(w) ≥ 0 (bounds, trades, turnover, coupled limits):

barrier
    w_μ = argmin f(w) − μ Σ log s_i(w), the point of the central path at μ, where an active row with multiplier y keeps
    a distance of μ / y. Its derivative is that of `kernels.smoothed`: one factor.
penalty
    w_δ = argmin f(w) + α Σ δ log(1 + exp(−s_i(w) / δ)), the paper's softplus penalty without pruning, minimised instead
    of evaluated at the exact plan, so that the derivative is that of a function. α is ten times the largest multiplier
    of each exact plan (the paper's ζ‖μ‖∞), held fixed in the derivative, and δ = strength / α.
perturbation
    w_σ = (1 / S) Σ_k w*(r + σ ε_k), the mean of exact plans at forecasts that independent standard normal numbers
    perturb, in antithetic pairs ε_{2k+1} = −ε_{2k}. A mean of piecewise affine functions has the mean of their
    Jacobians as its derivative, so that of w_σ is exact for the numbers drawn, and estimates that of E w*(r + σ ε).

Strengths (μ, α δ and σ) are in the units of returns: r, Σ, c and the strength times a number leave every plan as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dxpp_core.tracing import outside_graphs
from portfolio_dfl.errors import AllocationError
from portfolio_dfl.scalars import require_choice, require_number, require_whole

if TYPE_CHECKING:
    from portfolio_dfl.allocation.native import NativeSolver, SmoothedResult
    from portfolio_dfl.allocation.solution import AllocationSolution

__all__ = ["STRENGTHS", "Smoothing", "perturbations", "smoothed_weights"]

_Array = NDArray[np.float64]

#: Strength of each way where none is given, in the units of daily returns.
STRENGTHS = {"barrier": 1e-5, "penalty": 1e-4, "perturbation": 2e-4}
# The paper's ζ.
_ZETA = 10.0


@dataclass(frozen=True)
class Smoothing:
    """Which smoothed plan gradients are taken of.

    Attributes
    ----------
    way : {"barrier", "penalty", "perturbation"}
        The first two need the native solver.
    strength : float or None
        In the units of returns (of one stage): μ, α δ or σ. None takes that of `STRENGTHS`.
    samples : int
        Perturbed forecasts S, an even number; perturbation only. Every one costs a solve.
    seed : int
        Of the perturbations, which are the same in every call for the same shape (common random numbers).
    value : {"exact", "smoothed"}
        What a call of the layer returns: the exact plan, to which the smoothed one lends its derivative alone, or the
        smoothed plan itself.
    height : float or None
        The penalty's α, in the units of returns, for all decisions; None for ten times the largest multiplier of each.
    """

    way: Literal["barrier", "penalty", "perturbation"] = "barrier"
    strength: float | None = None
    samples: int = 8
    seed: int = 0
    value: Literal["exact", "smoothed"] = "exact"
    height: float | None = None

    def __post_init__(self) -> None:
        require_choice(AllocationError, "way", self.way, tuple(STRENGTHS))
        require_choice(AllocationError, "value", self.value, ("exact", "smoothed"))
        if self.strength is not None:
            require_number(AllocationError, "strength", self.strength, above=0.0)
        if self.height is not None:
            require_number(AllocationError, "height", self.height, above=0.0)
        require_whole(AllocationError, "samples", self.samples, 2)
        require_whole(AllocationError, "seed", self.seed, 0)
        if self.samples % 2:
            raise AllocationError(f"samples is {self.samples}; perturbations come in pairs, so give an even number")

    @property
    def size(self) -> float:
        """The strength that is used."""
        return STRENGTHS[self.way] if self.strength is None else self.strength

    def times(self, share: float) -> Smoothing:
        """The same with a share > 0 of the strength."""
        return replace(self, strength=share * self.size)


def perturbations(smoothing: Smoothing, shape: tuple[int, ...]) -> Tensor:
    """σ ε [S, *shape], the second half the first one's negative."""
    generator = torch.Generator().manual_seed(smoothing.seed)
    half = torch.randn((smoothing.samples // 2, *shape), dtype=torch.float64, generator=generator)
    return smoothing.size * torch.cat([half, -half])


def _heights(smoothing: Smoothing, exact: AllocationSolution, cost: _Array) -> _Array:
    """The penalty's α of each plan [B], at least ten times the strength, so that δ is a tenth at most."""
    pull = np.maximum(exact.lower_dual, exact.upper_dual)
    if smoothing.height is not None:
        return np.full(len(pull), smoothing.height)
    # The two rows of a trade share what its cost and the turnover limit charge for it.
    trades = (exact.turnover_dual[:, :, None] + cost).max(axis=(1, 2))
    heights: _Array = _ZETA * np.maximum(np.maximum(pull.max(axis=(1, 2)), trades), smoothing.size)
    return heights


@dataclass(slots=True)
class SmoothCall:
    """The numbers of one smoothed call, as `NativeSolver.solve` takes them; the exact plans where there are any."""

    solver: NativeSolver
    returns: _Array
    covariance: _Array
    previous: _Array
    aversion: _Array
    turnover: _Array
    cost: _Array
    smoothing: Smoothing
    exact: AllocationSolution | None
    result: SmoothedResult | None = None

    @property
    def facts(self) -> _Array | None:
        """Of all instances, where one was not found."""
        assert self.result is not None
        return self.result.kept.facts if self.result.doubtful else None

    def solve(self) -> SmoothedResult:
        """Solve, and leave the result here."""
        height, start = np.empty(0), np.empty((0, *self.returns.shape[1:]))
        if self.smoothing.way == "penalty":
            assert self.exact is not None
            height = _heights(self.smoothing, self.exact, self.cost)
            start = self.exact.weights.numpy(force=True)
        self.result = self.solver.smooth(
            self.returns,
            self.covariance,
            self.previous,
            self.aversion,
            self.turnover,
            self.cost,
            strength=self.smoothing.size,
            height=height,
            exact=start,
        )
        return self.result


class _SmoothedAllocation(torch.autograd.Function):
    """Smoothed weights, and their gradients from the factor at them; tensors as of the exact plan's function."""

    @staticmethod
    def forward(
        ctx: Any,
        call: SmoothCall,
        returns: Tensor,
        covariance: Tensor,
        previous: Tensor,
        aversion: Tensor | None,
        turnover: Tensor | None,
        cost: Tensor | None,
    ) -> Tensor:
        ctx.call, ctx.shape = call, covariance.shape
        return torch.from_numpy(call.solve().weights.copy())

    @staticmethod
    @outside_graphs("MultiPeriodMeanVariance")
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("second derivatives of the plan are not provided: call backward without create_graph")
        call: SmoothCall = ctx.call
        assert call.result is not None
        wanted = ctx.needs_input_grad[2:]
        found = call.solver.differentiate_smoothed(
            np.ascontiguousarray(upstream.numpy(force=True)),
            call.covariance,
            call.aversion,
            call.result,
            returns_only=True not in wanted,
        )
        gradients: list[Tensor | None] = [None, torch.from_numpy(found.returns)]
        shared = (
            (found.covariance, None),
            (found.previous, None),
            (found.aversion, call.aversion),
            (found.turnover, call.turnover),
            (found.cost, call.cost),
        )
        for k, (asked, (gradient, value)) in enumerate(zip(wanted, shared, strict=True)):
            if not asked:
                gradients.append(None)
            elif value is not None and value.shape[0] == 1:
                gradients.append(torch.from_numpy(gradient.sum(0, keepdims=True)))
            else:
                gradients.append(torch.from_numpy(gradient.reshape(ctx.shape) if k == 0 else gradient))
        return tuple(gradients)


def smoothed_weights(call: SmoothCall, tensors: tuple[Tensor | None, ...]) -> Tensor:
    """Smoothed weights [B, H, N] of a call, differentiable by the tensors that ask for it."""
    weights: Tensor = _SmoothedAllocation.apply(call, *tensors)  # type: ignore[no-untyped-call]
    return weights
