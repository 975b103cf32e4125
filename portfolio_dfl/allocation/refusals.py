"""Problems that cannot be solved, said before or instead of solving, by batch element or date and constraint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from portfolio_dfl.errors import AllocationError

if TYPE_CHECKING:
    import pandas as pd

    from portfolio_dfl.allocation.limits import Limits

__all__ = ["check_limits", "name_element", "raise_for_facts"]

_Array = NDArray[np.float64]


def name_element(element: int, dates: Sequence[object] | pd.DatetimeIndex | None) -> str:
    """The date of a batch element, or its number."""
    return f"batch element {element}" if dates is None else str(dates[element])


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
        raise AllocationError(f"asset {i}: lower limit {lower[i]:g} exceeds upper limit {upper[i]:g}")
    if not upper.sum() >= 1.0 - 1e-12:
        raise AllocationError(
            f"the upper limits of the weights sum to {upper.sum():g}, so that no portfolio is fully invested: "
            "raise them, or add a cash asset"
        )
    if not lower.sum() <= 1.0 + 1e-12:
        raise AllocationError(f"the lower limits of the weights sum to {lower.sum():g}, which exceeds 1: lower them")
    for count in range(1, len(limits.groups) + 1):
        if not _can_be_met(limits, limits.groups[:count], []):
            name = limits.groups[count - 1][2]
            raise AllocationError(
                f"group {name!r} cannot be met by a fully invested portfolio within the other limits: relax one of them"
            )
    for count in range(1, len(limits.shares) + 1):
        if not _can_be_met(limits, limits.groups, limits.shares[:count]):
            raise AllocationError(
                f"no allowed portfolio has an active share of {0.5 * limits.shares[count - 1][1]:g} or less: "
                "raise that limit, or widen the others"
            )


def _can_be_met(
    limits: Limits, groups: Sequence[tuple[_Array, float, str]], shares: Sequence[tuple[_Array, float]]
) -> bool:
    """Whether weights exist (a linear program in w and one |w − benchmark| for every active share)."""
    from scipy.optimize import linprog

    n = limits.lower.shape[0]
    size = n * (1 + len(shares))
    rows, caps = [], []
    for exposure, cap, _ in groups:
        rows.append(np.concatenate([exposure, np.zeros(size - n)]))
        caps.append(cap)
    for place, (benchmark, cap) in enumerate(shares):
        first = n * (1 + place)
        for sign in (1.0, -1.0):
            block = np.zeros((n, size))
            block[:, :n] = sign * np.eye(n)
            block[:, first : first + n] = -np.eye(n)
            rows.extend(block)
            caps.extend(sign * benchmark)
        total = np.zeros(size)
        total[first : first + n] = 1.0
        rows.append(total)
        caps.append(cap)
    invested = np.zeros((1, size))
    invested[0, :n] = 1.0
    bounds = [*zip(limits.lower, limits.upper, strict=True), *([(0.0, np.inf)] * (size - n))]
    found = linprog(
        np.zeros(size), A_ub=np.array(rows), b_ub=np.array(caps), A_eq=invested, b_eq=np.ones(1), bounds=bounds
    )
    return bool(found.status != 2)


def raise_for_facts(
    facts: _Array,
    turnover: _Array,
    previous: _Array,
    dates: Sequence[object] | pd.DatetimeIndex | None,
    *,
    final: bool,
) -> None:
    """Turn the status column of the native solver into an error.

    Instances that are merely not certified pass, and those that did not converge if another solver may try (not
    ``final``).
    """
    from portfolio_dfl.allocation.kernels import solve as kernels

    bad = np.flatnonzero(facts[:, 0] >= (kernels.NOT_CONVERGED if final else kernels.BAD_NUMBER))
    if not bad.size:
        return
    element = int(bad[0])
    status = int(facts[element, 0])
    where = name_element(element, dates)
    others = f" ({bad.size - 1} more of this batch fail, too)" if bad.size > 1 else ""
    if status == kernels.BAD_NUMBER:
        message = "an expected return, covariance, previous weight or cost is NaN or infinite"
    elif status == kernels.BAD_PARAMETER:
        message = "risk aversion and turnover limits must be positive, transaction costs not negative"
    elif status == kernels.NOT_CONVEX:
        message = "the covariance has a negative eigenvalue, so that the problem is not convex: repair it first"
    elif status == kernels.OUT_OF_RANGE:
        message = (
            "its covariance times the risk aversion, or its returns, are numbers of about 1e-308 or 1e308, which "
            "cannot be scaled in double precision: give them in other units"
        )
    elif status == kernels.OUT_OF_REACH:
        limit = turnover[element if turnover.shape[0] > 1 else 0, 0]
        message = (
            f"the previous weights (sum {previous[element].sum():.6g}, least {previous[element].min():.6g}) are "
            f"further from every allowed portfolio than the turnover limit {limit:g} lets them move at first: "
            "normalise them, raise the limit, or widen the limits on weights"
        )
    else:
        message = "the solver did not converge; check the scale of its covariance and returns"
    raise AllocationError(f"{where}: {message}{others}")
