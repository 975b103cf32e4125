"""The black boxes: one file a solver, all behind the protocol of :mod:`dxpp_core.solvers.base`."""

from .base import RawSolution, Solver, SolverProblem, Status, find_solver, register_solver
from .gurobi import solve_with_gurobi
from .piqp import PIQP

__all__ = ["RawSolution", "Solver", "SolverProblem", "Status", "available", "find_solver", "register_solver"]

register_solver("piqp")(PIQP())
register_solver("gurobi")(solve_with_gurobi)


def available() -> list[str]:
    """Names that ``solver=`` accepts on this machine."""
    from .base import _REGISTRY
    from .qpsolvers import installed

    return sorted({*_REGISTRY, *installed()})
