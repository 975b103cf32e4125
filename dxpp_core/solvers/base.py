"""What a black-box solver is to the layer: a function from a problem and a tolerance to a primal-dual point."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["EMPTY", "Matrix", "RawSolution", "Solver", "SolverProblem", "Status"]

Vector = NDArray[np.float64]
# An array or a scipy.sparse.csc_matrix, which comes without types.
Matrix: TypeAlias = NDArray[np.float64] | Any


class Status(enum.Enum):
    """How a solve ended."""

    SOLVED = "solved"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    FAILED = "failed"


@dataclass(slots=True)
class SolverProblem:
    """One scaled problem: min ½xᵀPx + qᵀx s.t. Gx ≤ h, Ax = b, lb ≤ x ≤ ub.

    ``P``, ``G`` and ``A`` are all C-ordered arrays, or all ``scipy.sparse.csc_matrix``; absent pieces are None.
    ``h`` is finite; ``lb`` and ``ub`` may hold infinities.  ``structure`` equals that of another problem exactly if
    both share all shapes and sparsity patterns: an adapter may key a reusable workspace by it.
    """

    P: Matrix
    q: Vector
    G: Matrix | None
    h: Vector | None
    A: Matrix | None
    b: Vector | None
    lb: Vector | None
    ub: Vector | None
    structure: Hashable = None

    @property
    def is_sparse(self) -> bool:
        """Whether the matrices are SciPy's sparse ones; dense arrays otherwise."""
        return not isinstance(self.P, np.ndarray)


EMPTY = np.zeros(0)


@dataclass(slots=True)
class RawSolution:
    """What a solver found: x, multipliers y of Ax = b, z ≥ 0 of Gx ≤ h, and z_box (> 0 at ub, < 0 at lb)."""

    x: Vector
    y: Vector = field(default_factory=lambda: EMPTY)
    z: Vector = field(default_factory=lambda: EMPTY)
    z_box: Vector | None = None
    status: Status = Status.SOLVED
    iterations: int = 0
    message: str = ""


class Solver(Protocol):
    """A black-box solver: brings every residual of ``problem`` to ``tolerance``, absolute and relative."""

    def __call__(self, problem: SolverProblem, tolerance: float) -> RawSolution: ...
