"""The native solver as a function that autograd records: gradients from the factor that its polish left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import forward_ad

from dxpp_core.tracing import outside_graphs
from portfolio_dfl.allocation.arguments import numbers_of
from portfolio_dfl.allocation.native import NativeResult, NativeSolver
from portfolio_dfl.errors import AllocationError

__all__ = ["Call", "apply_native", "refuse_tangents"]

_Array = NDArray[np.float64]


@dataclass(slots=True)
class Call:
    """The numbers of one call of the layer, and where its result is left."""

    solver: NativeSolver
    returns: _Array
    covariance: _Array
    previous: _Array
    aversion: _Array
    turnover: _Array
    cost: _Array
    warm: NativeResult | None
    result: NativeResult | None = None

    def solve(self, keep: bool) -> NativeResult:
        """Solve, and leave the result here; ``keep`` what a backward pass needs."""
        self.result = self.solver.solve(
            self.returns,
            self.covariance,
            self.previous,
            self.aversion,
            self.turnover,
            self.cost,
            warm=self.warm,
            keep=keep,
        )
        return self.result


class _NativeAllocation(torch.autograd.Function):
    """Weights from the native solver; gradients from the factor that its polish left behind.

    Tensors: expected returns [B, H, N], covariance [B, N, N] or [B, H, N, N], previous weights [B, N], and, where a
    gradient may be asked for, risk aversion [1 or B], turnover limits [1 or B, H] and cost rates [1 or B, H, N]. Their
    numbers are in the call.
    """

    @staticmethod
    def forward(
        ctx: Any,
        call: Call,
        returns: Tensor,
        covariance: Tensor,
        previous: Tensor,
        aversion: Tensor | None,
        turnover: Tensor | None,
        cost: Tensor | None,
    ) -> Tensor:
        # Nothing of the caller's is read again: the call holds copies, and the weights handed out are one themselves.
        ctx.call, ctx.shape = call, covariance.shape
        return torch.from_numpy(call.solve(keep=True).weights.copy())

    @staticmethod
    @outside_graphs("MultiPeriodMeanVariance")
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("second derivatives of the plan are not provided: call backward without create_graph")
        call: Call = ctx.call
        result = call.result
        assert result is not None
        wanted = ctx.needs_input_grad[2:]
        returns_only = True not in wanted
        found = call.solver.differentiate(
            numbers_of(upstream),
            call.covariance,
            call.previous,
            call.aversion,
            result,
            returns_only=returns_only,
        )
        to_returns = torch.from_numpy(found.returns)
        if returns_only:
            return None, to_returns, None, None, None, None, None
        shared = (
            (found.covariance.reshape(ctx.shape), None),
            (found.previous, None),
            (found.aversion, call.aversion),
            (found.turnover, call.turnover),
            (found.cost, call.cost),
        )
        gradients: list[Tensor | None] = [None, to_returns]
        for asked, (gradient, value) in zip(wanted, shared, strict=True):
            if not asked:
                gradients.append(None)
            elif value is not None and value.shape[0] == 1:
                gradients.append(torch.from_numpy(gradient.sum(0, keepdims=True)))
            else:
                gradients.append(torch.from_numpy(gradient))
        return tuple(gradients)


# `Function.apply` asks about the transforms of ``torch.func``, in which this function has no part, at every call.
apply_native: Callable[..., Tensor] = super(torch.autograd.Function, _NativeAllocation).apply


def refuse_tangents(*tensors: Tensor | None) -> None:
    for tensor in tensors:
        if tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None:
            raise AllocationError(
                "the compiled solver has no forward-mode derivatives: use backward, or solver='piqp', which has them"
            )
