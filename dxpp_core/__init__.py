"""A differentiable QP layer for PyTorch: any black-box solver forward, one factor of a penalty Hessian backward."""

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
    TracingError,
    UnboundedError,
)
from .kkt.active_set import Certificate
from .kkt.differentiability import DifferentiabilityWarning
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
    "TracingError",
    "UnboundedError",
    "available_solvers",
    "register_solver",
    "solve_qp",
]
