"""A differentiable QP layer for PyTorch: any black-box solver forward, one factor of a penalty Hessian backward.

Public are the names below and these modules: :mod:`dxpp_core.errors`; :mod:`dxpp_core.solvers`, for authors of a
solver; :mod:`dxpp_core.compilation`, :mod:`dxpp_core.threads` and :mod:`dxpp_core.tracing`, for compiled kernels, for
batches of what they treat, and for layers that call them; :mod:`dxpp_core.reference`, slow and plain gradients to
compare with; and :mod:`dxpp_core.benchmark`, a command, and layers of others behind one surface.
All other modules are internal and may change.

Names are looked up when they are first used: PyTorch is imported no sooner.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import (
    DoubleBackwardError,
    IllConditionedError,
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

if TYPE_CHECKING:
    from .kkt.active_set import Certificate
    from .kkt.differentiability import DifferentiabilityWarning
    from .layer import QPLayer, QPSolution, solve_qp
    from .solvers import RawSolution, Solver, SolverProblem, Status, find_solver, register_solver
    from .solvers import available as available_solvers

    #: Of the installed distribution; "unknown" where there is none.
    __version__: str

__all__ = [
    "Certificate",
    "DifferentiabilityWarning",
    "DoubleBackwardError",
    "IllConditionedError",
    "InfeasibleError",
    "NonConvexError",
    "NonFiniteError",
    "NotDifferentiableError",
    "ProblemError",
    "QPError",
    "QPLayer",
    "QPSolution",
    "RawSolution",
    "ShapeError",
    "Solver",
    "SolverAccuracyError",
    "SolverError",
    "SolverLimitError",
    "SolverNotFoundError",
    "SolverProblem",
    "Status",
    "TracingError",
    "UnboundedError",
    "__version__",
    "available_solvers",
    "find_solver",
    "register_solver",
    "solve_qp",
]

_PLACES = {
    "Certificate": ("kkt.active_set", "Certificate"),
    "DifferentiabilityWarning": ("kkt.differentiability", "DifferentiabilityWarning"),
    **{name: ("layer", name) for name in ("QPLayer", "QPSolution", "solve_qp")},
    **{
        name: ("solvers", name)
        for name in ("RawSolution", "Solver", "SolverProblem", "Status", "find_solver", "register_solver")
    },
    "available_solvers": ("solvers", "available"),
}


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        value = _version()
    elif name in _PLACES:
        module, own_name = _PLACES[name]
        value = getattr(importlib.import_module(f".{module}", __name__), own_name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    for distribution in ("dxpp-core", "portfolio-dfl"):  # alone, or with the application
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "unknown"
