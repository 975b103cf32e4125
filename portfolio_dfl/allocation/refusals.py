"""Problems that cannot be solved, said before or instead of solving, by batch element or date and constraint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from portfolio_dfl.allocation import statuses
from portfolio_dfl.allocation.compliance import find_conflict
from portfolio_dfl.errors import AllocationError

if TYPE_CHECKING:
    import pandas as pd

    from portfolio_dfl.allocation.limits import Limits

__all__ = ["check_limits", "explain_unreachable", "name_element", "raise_for_facts"]

_Array = NDArray[np.float64]


def name_element(element: int, dates: Sequence[object] | pd.DatetimeIndex | None) -> str:
    """The date of a batch element, or its number."""
    return f"batch element {element}" if dates is None else str(dates[element]).removesuffix(" 00:00:00")


def check_limits(limits: Limits) -> None:
    """Refuse limits that no fully invested portfolio satisfies.

    Raises
    ------
    AllocationError
        Naming the first limit that cannot be met together with those before it.
    """
    lower, upper = limits.lower, limits.upper
    crossed = np.flatnonzero(lower > upper)
    if crossed.size:
        i = int(crossed[0])
        raise AllocationError(f"{limits.name(i)}: lower limit {lower[i]:g} exceeds upper limit {upper[i]:g}")
    if not upper.sum() >= 1.0 - 1e-12:
        raise AllocationError(
            f"the upper limits of the weights sum to {upper.sum():g}, so that no portfolio is fully invested: "
            "raise them, or add a cash asset"
        )
    if not lower.sum() <= 1.0 + 1e-12:
        raise AllocationError(f"the lower limits of the weights sum to {lower.sum():g}, which exceeds 1: lower them")
    if not limits.groups and not limits.shares and limits.gross == np.inf:
        return
    conflict = find_conflict(limits)
    if conflict is not None:
        raise AllocationError(
            f"limits cannot be met together by a fully invested portfolio: {conflict}; relax one of them"
        )


def explain_unreachable(limits: Limits, previous: _Array, turnover_limit: float) -> str | None:
    """Why one trade leads from what is held to no allowed portfolio; None where one does.

    Parameters
    ----------
    limits : Limits
    previous : array [N]
    turnover_limit : float
        Of the first stage.
    """
    if not np.isfinite(previous).all():
        return None
    conflict = find_conflict(limits, previous, turnover_limit)
    if conflict is None:
        return None
    return (
        f"the previous weights (sum {previous.sum():.6g}, least {previous.min():.6g}) are further from every allowed "
        f"portfolio than one trade may go, {conflict}"
    )


def raise_for_facts(
    facts: _Array,
    turnover: _Array,
    previous: _Array,
    dates: Sequence[object] | pd.DatetimeIndex | None,
    limits: Limits,
    *,
    final: bool,
) -> None:
    """Turn the status column of the native solver into an error.

    Instances that are merely not certified pass, and those that did not converge if another solver may try (not
    ``final``).
    """
    bad = np.flatnonzero(facts[:, 0] >= (statuses.NOT_CONVERGED if final else statuses.BAD_NUMBER))
    if not bad.size:
        return
    element = int(bad[0])
    status = int(facts[element, 0])
    where = name_element(element, dates)
    others = f" ({bad.size - 1} more of this batch fail, too)" if bad.size > 1 else ""
    if status == statuses.BAD_NUMBER:
        message = "an expected return, covariance, previous weight or cost is NaN or infinite"
    elif status == statuses.BAD_PARAMETER:
        message = "risk aversion and turnover limits must be positive, transaction costs not negative"
    elif status == statuses.NOT_CONVEX:
        message = "the covariance has a negative eigenvalue, so that the problem is not convex: repair it first"
    elif status == statuses.OUT_OF_RANGE:
        message = (
            "its covariance times the risk aversion, or its returns, are numbers of about 1e-308 or 1e308, which "
            "cannot be scaled in double precision: give them in other units"
        )
    elif status == statuses.OUT_OF_REACH:
        limit = float(turnover[element if turnover.shape[0] > 1 else 0, 0])
        reason = explain_unreachable(limits, previous[element], limit)
        message = (
            f"{reason or 'the previous weights are at the edge of what the limits allow'}: normalise them, raise the "
            f"turnover limit {limit:g}, or widen the limits on weights"
        )
    else:
        limit = float(turnover[element if turnover.shape[0] > 1 else 0, 0])
        reason = explain_unreachable(limits, previous[element], limit)
        message = reason or "the solver did not converge; check the scale of its covariance and returns"
    raise AllocationError(f"{where}: {message}{others}")
