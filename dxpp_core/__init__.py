"""A differentiable QP layer for PyTorch: any black-box solver forward, one factor of a penalty Hessian backward."""

from .active_set import Certificate
from .differentiability import DifferentiabilityWarning
from .errors import (
    DoubleBackwardError,
    InfeasibleError,
    NonConvexError,
    NonFiniteError,
    NotDifferentiableError,
    ProblemError,
    QPError,
    ShapeError,
    SolverAccuracyError,
    SolverError,
    SolverLimitError,
    SolverNotFoundError,
    UnboundedError,
)
from .layer import QPLayer, QPSolution, solve_qp
from .solvers import available as available_solvers
from .solvers import register_solver

__all__ = [
    "Certificate",
    "DifferentiabilityWarning",
    "DoubleBackwardError",
    "InfeasibleError",
    "NonConvexError",
    "NonFiniteError",
    "NotDifferentiableError",
    "ProblemError",
    "QPError",
    "QPLayer",
    "QPSolution",
    "ShapeError",
    "SolverAccuracyError",
    "SolverError",
    "SolverLimitError",
    "SolverNotFoundError",
    "UnboundedError",
    "available_solvers",
    "register_solver",
    "solve_qp",
]
