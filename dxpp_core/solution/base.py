"""What a solved batch offers, whichever way it was solved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..kkt.differentiability import DifferentiabilityWarning
from ..options import Timings
from ..program.layout import Layout

__all__ = ["TRUSTED", "Sensitivities", "Solution", "shares_of_bounds"]

Array = NDArray[np.float64]

# A refined sensitivity with a larger relative residual than this is not one.
TRUSTED = 1e-9


@dataclass(slots=True)
class Sensitivities:
    """v (n), s (p + m) and s_box (n), each with the batch in front, unscaled."""

    v: Array
    s: Array
    s_box: Array


class Solution(Protocol):
    """A solved batch: results in the user's units, [size, ·], and the linear maps of its derivatives."""

    layout: Layout
    x: Array
    y: Array
    z: Array
    z_box: Array
    timings: Timings
    warnings: list[DifferentiabilityWarning]
    direct: NDArray[np.bool_]

    @property
    def iterations(self) -> NDArray[np.int64]:
        """Iterations of the black box, or active sets tried where none was called, [size]."""
        ...

    def adjoint(
        self,
        x_bar: Array | None,
        y_bar: Array | None,
        z_bar: Array | None,
        z_box_bar: Array | None,
        *,
        of_rows: bool,
    ) -> Sensitivities:
        """Solve K[v; s; s_box] = [x̄; ȳ, z̄; z̄_box] on the active rows of every element.

        ``of_rows``: whether gradients of rows, limits or bounds are made of it, which need not exist where active rows
        depend on one another.
        """
        ...

    def tangent(
        self, g: Array, d: Array, d_lower: Array | None, d_upper: Array | None, *, of_rows: bool
    ) -> Sensitivities:
        """Solve K[dx; ds; ds_box] = [−g; d; d_bound] for perturbations g of stationarity, d of rows and of bounds."""
        ...

    def multipliers(self) -> Array:
        """Multipliers [size, p + m] that enter the gradients of the rows."""
        ...

    def split_between_bounds(self, s_box: Array) -> tuple[Array, Array]:
        """The parts of s_box [size, n] that belong to lb and to ub."""
        ...

    def certificates(self) -> Mapping[str, Array]:
        """Residuals of every element, by name."""
        ...


def shares_of_bounds(lower: Array, upper: Array, fixed: NDArray[np.bool_] | None) -> tuple[Array, Array]:
    """What belongs to the lower and to the upper bound of each variable; both bounds of a fixed one hold it."""
    if fixed is None:
        return lower, upper
    return np.where(fixed, 0.5, lower), np.where(fixed, 0.5, upper)
