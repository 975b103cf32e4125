"""Whether portfolios keep to limits, by how much not, and which limits leave no portfolio at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portfolio_dfl.errors import AllocationError

if TYPE_CHECKING:
    from scipy import sparse

    from portfolio_dfl.allocation.limits import Limits

__all__ = ["Conflict", "find_conflict", "violations"]

_Array = NDArray[np.float64]

# Of a sum of weights of about 1: what the solver of linear programs leaves.
_TOLERANCE = 1e-9
# Multipliers of limits that do not matter, where the least violation counts each with 1.
_NO_PART = 1e-7
# Limits that a message lists.
_MOST_LISTED = 6


class Conflict(NamedTuple):
    """Limits that no portfolio satisfies together, in words, and by how much they miss one another."""

    limits: tuple[str, ...]
    amount: float

    def __str__(self) -> str:
        shown = self.limits if len(self.limits) <= _MOST_LISTED + 1 else self.limits[:_MOST_LISTED]
        rest = len(self.limits) - len(shown)
        listed = ", ".join(shown) + (f" and {rest} more" if rest else "")
        return f"{listed}: they miss one another by {self.amount:.4g}"


def violations(
    limits: Limits,
    weights: _Array,
    previous: _Array | None = None,
    *,
    turnover_limit: float = np.inf,
    covariance: _Array | None = None,
) -> dict[str, _Array]:
    """By how much portfolios break each limit, in the units of weights (of the tracking error: of volatility).

    Parameters
    ----------
    limits : Limits
    weights : array [T, N]
        Portfolios, one a row.
    previous : array [T, N], optional
        What was held before each; without it trades are not looked at.
    turnover_limit : float
        Largest ‖w − previous‖₁ over assets that count.
    covariance : array [T, N, N], optional
        Of the tracking error; without it that is not looked at.

    Returns
    -------
    dict of str to array [T]
        By limit, with the ticker where it is of one; only limits that some row breaks, and 0 in rows that keep them.
    """
    found = {"sum of weights": np.abs(weights.sum(axis=1) - 1.0)}
    for asset in range(weights.shape[1]):
        name = limits.name(asset)
        found[f"smallest weight of {name}"] = limits.lower[asset] - weights[:, asset]
        found[f"largest weight of {name}"] = weights[:, asset] - limits.upper[asset]
    for exposure, cap, label in limits.groups:
        beyond = weights @ exposure - cap
        found[label] = np.maximum(found[label], beyond) if label in found else beyond
    found["gross leverage"] = np.abs(weights) @ limits.counted - limits.gross
    for benchmark, cap in limits.shares:
        found["active share"] = 0.5 * (np.abs(weights - benchmark).sum(axis=1) - cap)
    if previous is not None:
        trades = np.abs(weights - previous)
        found["turnover limit"] = trades @ limits.counted - turnover_limit
        if limits.largest_trade is not None:
            for place in np.flatnonzero(np.isfinite(limits.largest_trade)):
                found[f"largest trade of {limits.name(int(place))}"] = trades[:, place] - limits.largest_trade[place]
    if covariance is not None and limits.tracking_error is not None:
        benchmark, most = limits.tracking_error
        away = weights - benchmark
        found["tracking error"] = np.sqrt(np.einsum("ti,tij,tj->t", away, covariance, away)) - most
    return {label: np.maximum(beyond, 0.0) for label, beyond in found.items() if (beyond > 0.0).any()}


def find_conflict(limits: Limits, previous: _Array | None = None, turnover_limit: float = np.inf) -> Conflict | None:
    """Limits that leave no portfolio, or none that one trade leads to from what is held; None where there is one.

    A linear program with a slack for every limit: its least sum tells by how much they miss one another, and its
    multipliers tell which. The tracking error, which is no linear limit, is left out.

    Parameters
    ----------
    limits : Limits
    previous : array [N], optional
        Weights held before the trade; without it neither trades nor turnover are limited.
    turnover_limit : float
        Largest ‖w − previous‖₁ over assets that count.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    n = limits.lower.shape[0]
    asked, meant = _asked(limits, previous, turnover_limit)
    blocks = list(dict.fromkeys(["w", *(block for part in (*asked, *meant) for block in part.rows)]))

    def stacked(parts: Sequence[_Rows]) -> sparse.csr_matrix:
        empty = sparse.csr_matrix((0, n * len(blocks)))
        lines = [
            sparse.hstack([part.rows.get(block, sparse.csr_matrix((len(part.bounds), n))) for block in blocks])
            for part in parts
        ]
        return sparse.vstack([empty, *lines], format="csr")

    bounds = np.concatenate([part.bounds for part in asked])
    known = np.isfinite(bounds)
    labels = [
        label for label, keep in zip([each for part in asked for each in part.labels], known, strict=True) if keep
    ]
    limited, definitions = stacked(asked)[known], stacked(meant)
    count, size = len(labels), n * len(blocks)
    slack = sparse.vstack([-sparse.identity(count), sparse.csr_matrix((definitions.shape[0], count))])
    invested = sparse.csr_matrix((np.ones(n), (np.zeros(n, np.int64), np.arange(n))), shape=(1, size + count))
    found = linprog(
        np.concatenate([np.zeros(size), np.ones(count)]),
        A_ub=sparse.hstack([sparse.vstack([limited, definitions]), slack], format="csr"),
        b_ub=np.concatenate([bounds[known], *(part.bounds for part in meant)]),
        A_eq=invested,
        b_eq=np.ones(1),
        bounds=[(None, None)] * size + [(0.0, None)] * count,
        method="highs",
    )
    if found.status != 0:
        raise AllocationError(f"whether the limits leave a portfolio could not be told: {found.message}")
    if found.fun <= _TOLERANCE:
        return None
    part = -found.ineqlin.marginals[:count]
    return Conflict(tuple(label for label, share in zip(labels, part, strict=True) if share > _NO_PART), found.fun)


class _Rows(NamedTuple):
    """Rows of a linear program: by block of variables, N wide each; what they are at most; what each is called."""

    rows: dict[str, sparse.spmatrix]
    bounds: _Array
    labels: list[str]


def _asked(limits: Limits, previous: _Array | None, turnover_limit: float) -> tuple[list[_Rows], list[_Rows]]:
    """What limits ask of weights w, and what makes absolute values of them: trades d, short parts v, distances a."""
    from scipy import sparse

    n = limits.lower.shape[0]
    one, names = sparse.identity(n, format="csr"), [limits.name(asset) for asset in range(n)]
    asked = [
        _Rows(
            {"w": one},
            limits.upper,
            [f"{name} at most {cap:.6g}" for name, cap in zip(names, limits.upper, strict=True)],
        ),
        _Rows(
            {"w": -one},
            -limits.lower,
            [f"{name} at least {low:.6g}" for name, low in zip(names, limits.lower, strict=True)],
        ),
    ]
    meant: list[_Rows] = []

    def line(block: str, factors: _Array, bound: float, label: str) -> _Rows:
        return _Rows({block: sparse.csr_matrix(factors[None])}, np.array([bound]), [label])

    def absolute(block: str, centre: _Array) -> None:
        meant.extend(_Rows({"w": sign * one, block: -one}, sign * centre, []) for sign in (1.0, -1.0))

    for exposure, cap, label in limits.groups:
        least = bool((exposure <= 0.0).all())
        asked.append(
            line("w", exposure, cap, f"{label} at least {-cap:.6g}" if least else f"{label} at most {cap:.6g}")
        )
    if limits.gross < np.inf:
        absolute("v", np.zeros(n))
        asked.append(line("v", limits.counted, limits.gross, f"gross leverage at most {limits.gross:.6g}"))
    for place, (benchmark, cap) in enumerate(limits.shares):
        absolute(f"a{place}", benchmark)
        asked.append(line(f"a{place}", np.ones(n), cap, f"active share at most {0.5 * cap:.6g}"))
    if previous is not None:
        absolute("d", previous)
        asked.append(line("d", limits.counted, turnover_limit, f"turnover at most {turnover_limit:.6g}"))
        if limits.largest_trade is not None:
            most = limits.largest_trade
            words = [f"trade of {name} at most {cap:.6g}" for name, cap in zip(names, most, strict=True)]
            asked.append(_Rows({"d": one}, most, words))
    return asked, meant
