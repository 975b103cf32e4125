"""Matrices for compiled loops: of a small dense program, or of one with a diagonal P and a few full rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from ..threads import share

__all__ = ["CompactMatrices", "compact_matrices", "is_definite", "responses", "stack"]

Array = NDArray[np.float64]

# A scaled P without curvature below this has an inverse that tells active sets.
CURVED = 1e-7
# Beside a diagonal P and at most so many rows, an active set that starts empty is likely to find itself.
FEW_ROWS = 8
# Responses are square in variables and rows.
_MOST_RESPONSES = 450


@dataclass(slots=True, eq=False)
class CompactMatrices:
    """One system for the kernels, each array with a leading dimension of one.

    Attributes
    ----------
    P : array [1, n, n] or [1, n]
        P̂, or its diagonal.
    others : array [1, (n + 1) m + n]
        Ĉ, D and E, one after the other.
    objective : array [1, 2]
        The unit of the objective, and whether P is more than zero.
    n_eq : int
    direct : bool
        Whether active sets can be found without a solver.
    response : array [1, n + m, n + m], optional
        See `responses`.
    """

    P: Array
    others: Array
    objective: Array
    n_eq: int
    direct: bool
    response: Array | None = field(default=None, repr=False)

    @property
    def n(self) -> int:
        return int(self.P.shape[1])

    @property
    def m(self) -> int:
        return int(self.others.shape[1] - self.n) // (self.n + 1)

    @property
    def few_rows(self) -> bool:
        """Whether an active set that starts empty is likely to find itself."""
        return self.m <= FEW_ROWS

    @property
    def has_response(self) -> bool:
        """Whether `responses` are not too large."""
        return self.n + self.m <= _MOST_RESPONSES


def responses(systems: Sequence[CompactMatrices], threads: int) -> Array:
    """How rows and bounds move one another in programs that are ``direct``, [S, n + m, n + m].

    See :func:`dxpp_core.kernels.dual_active_set.respond`.  Made when first asked for: a system may be settled without.
    """
    missing = [system for system in systems if system.response is None]
    if missing:
        respond, scratch_size = _kernel()
        n, m = missing[0].n, missing[0].m
        made = np.empty((len(missing), n + m, n + m))
        P, others, _ = stack(missing)
        share(respond, (P, others, missing[0].n_eq, made), len(missing), threads, scratch_size(n, m))
        for system, response in zip(missing, made, strict=True):
            system.response = response[None]
    found = [system.response for system in systems if system.response is not None]
    return found[0] if len(found) == 1 else np.concatenate(found)


def stack(systems: Sequence[CompactMatrices]) -> tuple[Array, Array, Array]:
    """P, others and objective of all systems; diagonals become matrices where others are."""
    if len(systems) == 1:
        return systems[0].P, systems[0].others, systems[0].objective
    parts = [system.P for system in systems]
    if len({part.ndim for part in parts}) > 1:
        parts = [part if part.ndim == 3 else np.diag(part[0])[None] for part in parts]
    return (
        np.concatenate(parts),
        np.concatenate([system.others for system in systems]),
        np.concatenate([system.objective for system in systems]),
    )


def compact_matrices(P: Array, C: Array, D: Array, E: Array, c: float, n_eq: int) -> CompactMatrices:
    """``P`` scaled, or its diagonal, and the scaled rows ``C``."""
    curved = bool(P.min() > CURVED) if P.ndim == 1 else is_definite(P, -CURVED)
    few = P.ndim == 1 and len(C) <= FEW_ROWS
    objective = np.array([[c, float(P.any())]])
    direct = curved and (few or sum(C.shape) <= _MOST_RESPONSES)
    return CompactMatrices(P[None], np.concatenate([C.ravel(), D, E])[None], objective, n_eq, direct)


def is_definite(P: Array, shift: float) -> bool:
    """Whether P + shift I is positive definite."""
    shifted = P.copy()
    shifted.ravel()[:: shifted.shape[0] + 1] += shift
    info: int = lapack.dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)[1]
    return info == 0


@cache
def _kernel() -> tuple[Callable[..., int], Callable[[int, int], int]]:
    """Imported when first needed: Numba takes its time."""
    from ..kernels.dual_active_set import respond, response_scratch_size

    return respond, response_scratch_size
