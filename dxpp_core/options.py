"""What a caller asks for, and what a call took."""

from __future__ import annotations

from dataclasses import dataclass

from .kkt.penalty import PluginPenalty
from .solvers.base import Solver

__all__ = ["Options", "Timings"]


@dataclass(slots=True)
class Options:
    """What the caller chose."""

    solver: Solver
    tolerance: float = 1e-8
    penalty: PluginPenalty | None = None
    polish: bool = True
    strict: bool = False
    # Whether programs that are likely to be solved by correcting their active set alone are tried that way first.
    direct: bool = False
    # Compiled loops over a batch run in at most so many threads.
    threads: int = 1


@dataclass(slots=True)
class Timings:
    """Seconds spent: preparing and scaling, in the black box, in polish and certificate, in sensitivities."""

    prepare: float = 0.0
    solve: float = 0.0
    polish: float = 0.0
    sensitivity: float = 0.0
