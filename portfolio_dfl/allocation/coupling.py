"""Limits that couple the weights of a stage, and those of single trades, as the compiled solver takes them.

`kernels.coupling` has them in this order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portfolio_dfl.allocation.limits import Limits

__all__ = ["CouplingRows"]

_Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CouplingRows:
    """Linear rows, eᵀw_s ≤ cap or = cap, and distances, Σ_i |w_s − z| ≤ cap over members, at every stage.

    Attributes
    ----------
    exposures : array [G, N]
        Of the linear rows, the largest of each 1, so that all slacks are of the size of weights.
    caps, equal : array [G + D]
        Right-hand sides of linear rows, then of distances; 1 for an equality, else 0.
    references, members : array [D, N]
    most : array [T, N]
        Largest trades, infinite for none and 0 for assets that are not traded; T is 0 where there are no such limits.
    """

    exposures: _Array
    caps: _Array
    equal: _Array
    references: _Array
    members: _Array
    most: _Array

    @classmethod
    def collect(cls, limits: Limits) -> CouplingRows | None:
        """Rows of groups and exposures, leverage and active share, and largest trades; None where there are none."""
        n = limits.lower.shape[0]
        linear: list[tuple[_Array, float, float]] = []
        for exposure, cap, _ in limits.groups:
            scale = float(np.abs(exposure).max())
            if float(np.ptp(exposure)) <= 1e-14 * scale:
                # The same for all assets: Σw = 1 has decided it.
                continue
            row, most = exposure / scale, cap / scale
            opposite = next(
                (place for place, (other, least, _) in enumerate(linear) if least == -most and (other == -row).all()),
                None,
            )
            if opposite is None:
                linear.append((row, most, 0.0))
            else:
                linear[opposite] = (linear[opposite][0], linear[opposite][1], 1.0)
        distances = [(benchmark, np.ones(n), cap) for benchmark, cap in limits.shares if cap < np.inf]
        if limits.gross < np.inf:
            counted = limits.counted > 0.0
            if (limits.lower[counted] < 0.0).any():
                distances.append((np.zeros(n), limits.counted, limits.gross))
            elif not counted.all():
                linear.append((limits.counted, limits.gross, 0.0))
        largest = limits.largest_trade
        trades = [] if largest is None or np.isinf(largest).all() else [largest]
        if not linear and not distances and not trades:
            return None
        return cls(
            np.array([row for row, _, _ in linear]).reshape(-1, n),
            np.array([cap for _, cap, _ in linear] + [cap for _, _, cap in distances]),
            np.array([equal for _, _, equal in linear] + [0.0] * len(distances)),
            np.array([reference for reference, _, _ in distances]).reshape(-1, n),
            np.array([members for _, members, _ in distances]).reshape(-1, n),
            np.array(trades).reshape(-1, n),
        )

    @property
    def numbers(self) -> _Array:
        """All of them in one array, in the order of `kernels.coupling.Given`."""
        parts = (self.exposures, self.caps, self.equal, self.references, self.members, self.most)
        return np.concatenate([part.ravel() for part in parts])

    @property
    def counts(self) -> tuple[int, int, int]:
        """G, D and T."""
        return self.exposures.shape[0], self.references.shape[0], self.most.shape[0]
