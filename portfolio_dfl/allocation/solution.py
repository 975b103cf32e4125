"""What a call of the layer found besides weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from portfolio_dfl.allocation.native import NativeResult

__all__ = ["AllocationSolution"]


@dataclass(frozen=True, slots=True)
class AllocationSolution:
    """Weights with their certificate; batch first, multipliers in units of the objective.

    Attributes
    ----------
    weights : Tensor [B, H, N]
        Differentiable.
    solver : str
        Who solved it: ``"native"`` or the black box's name.
    trades : array [B, H, N]
        w_s − w_{s−1}; the paper's u is its absolute value (where the turnover budget is slack, u is not unique, and
        this is its least value).
    budget_dual : array [B, H]
        Multiplier ν of 1ᵀw_s = 1.
    lower_dual, upper_dual : array [B, H, N]
        Multipliers of the bounds of weights, ≥ 0.
    turnover_dual : array [B, H]
        Multiplier of the turnover budget, ≥ 0: what the objective would gain from a unit more of turnover.
    certificate : array [B, 3]
        Violations of the KKT conditions in the scaled problem: stationarity, primal, dual.
    margin : array [B]
        Smallest slack of an inactive row or multiplier of an active one (scaled problem). At about zero a row is
        weakly active and the gradient is that of one side.
    certified : array of bool [B]
        Whether the weights are exact to rounding (polished and certified).
    iterations : array of int [B]
    warm_hits : array of bool [B]
        Whether the active set of the warm start was optimal (after a few repairs), so that no iteration was needed.
    """

    weights: Tensor
    solver: str
    trades: NDArray[np.float64]
    budget_dual: NDArray[np.float64]
    lower_dual: NDArray[np.float64]
    upper_dual: NDArray[np.float64]
    turnover_dual: NDArray[np.float64]
    certificate: NDArray[np.float64]
    margin: NDArray[np.float64]
    certified: NDArray[np.bool_]
    iterations: NDArray[np.int64]
    warm_hits: NDArray[np.bool_]
    native: NativeResult | None = None


def from_native(weights: Tensor, previous: NDArray[np.float64], result: NativeResult) -> AllocationSolution:
    """Name the columns of a native result; what a warm start reads of it again is copied."""
    found = result.found
    before = np.concatenate([previous[:, None, :], result.weights[:, :-1]], axis=1)
    return AllocationSolution(
        weights=weights,
        solver="native",
        trades=result.weights - before,
        budget_dual=found.nu.copy(),
        lower_dual=np.maximum(found.pull, 0.0),
        upper_dual=np.maximum(-found.pull, 0.0),
        turnover_dual=found.theta.copy(),
        certificate=found.facts[:, 4:7],
        margin=found.facts[:, 7],
        certified=found.facts[:, 0] == 0.0,
        iterations=found.facts[:, 1].astype(np.int64),
        warm_hits=found.facts[:, 3] > 0.0,
        native=result,
    )
