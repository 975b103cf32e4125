"""The black boxes: one file a solver, all behind the protocol of :mod:`dxpp_core.solvers.base`."""

from .base import RawSolution, Solver, SolverProblem, Status
from .registry import available, find_solver, register_solver

__all__ = ["RawSolution", "Solver", "SolverProblem", "Status", "available", "find_solver", "register_solver"]
