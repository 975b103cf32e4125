"""The layer solved by any QP solver through ``dxpp_core``, in the paper's standard form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from portfolio_dfl.allocation.limits import Limits
from portfolio_dfl.allocation.refusals import explain_unreachable, name_element
from portfolio_dfl.allocation.solution import AllocationSolution
from portfolio_dfl.allocation.standard_form import StandardForm
from portfolio_dfl.errors import AllocationError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["solve"]


def solve(
    form: StandardForm,
    limits: Limits,
    solver: str,
    returns: Tensor,
    covariance: Tensor,
    previous: Tensor,
    aversion: Tensor,
    turnover: Tensor,
    cost: Tensor,
    dates: Sequence[object] | pd.DatetimeIndex | None,
    impact: Tensor | None = None,
    borrow: Tensor | None = None,
) -> AllocationSolution:
    """Solve a batch (shapes as in `StandardForm.assemble`, covariance also [B, N, N]) by the solver of that name."""
    from dxpp_core import QPError, solve_qp

    B, H, N = returns.shape
    if covariance.ndim == 3:
        covariance = covariance.unsqueeze(1)
    # Copies of the factors of a product: its derivative reads them as they were, whatever the caller writes there.
    data = form.assemble(returns, covariance.clone(), previous, aversion.clone(), turnover, cost, impact, borrow)
    try:
        found = solve_qp(data.P, data.q, data.G, data.h, data.A, data.b, data.lb, data.ub, solver=solver)
    except QPError as error:
        if error.batch_element is None:
            raise AllocationError(str(error)) from error
        element = int(error.batch_element[0])
        limit = turnover.detach()[element if turnover.shape[0] > 1 else 0, 0]
        reason = explain_unreachable(limits, previous.detach()[element].numpy(), float(limit))
        raise AllocationError(f"{name_element(element, dates)}: {reason or _said(error, element)}") from error
    weights = found.x[:, : H * N].reshape(B, H, N)
    plain = weights.detach().numpy()
    before = np.concatenate([previous.detach().numpy()[:, None, :], plain[:, :-1]], axis=1)
    box = found.z_box.detach().numpy()[:, : H * N].reshape(B, H, N)
    certificates = found.certificates
    violation = np.stack([certificates[name].numpy() for name in ("dual", "primal", "gap")], axis=1)
    return AllocationSolution(
        weights=weights,
        solver=solver,
        trades=plain - before,
        budget_dual=found.y.detach().numpy().reshape(B, -1)[:, :H],
        lower_dual=np.maximum(-box, 0.0),
        upper_dual=np.maximum(box, 0.0),
        turnover_dual=found.z.detach().numpy()[:, 2 * H * N : 2 * H * N + H],
        certificate=violation,
        margin=np.full(B, np.nan),
        certified=violation.max(axis=1) <= 1e-8,
        iterations=found.iterations.numpy().reshape(B),
        warm_hits=np.zeros(B, dtype=np.bool_),
    )


def _said(error: Exception, element: int) -> str:
    """The error's message without the number of the batch element, which has a name here."""
    return str(error).removeprefix(f"batch element {element}: ")
