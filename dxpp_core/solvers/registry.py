"""Solvers by name: those registered here, and the back ends that ``qpsolvers`` finds."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ProblemError, SolverNotFoundError
from .base import Solver
from .gurobi import solve_with_gurobi
from .piqp import PIQP
from .qpsolvers import QPSolversAdapter, installed

__all__ = ["available", "find_solver", "register_solver"]

_REGISTERED: dict[str, Solver] = {"piqp": PIQP(), "gurobi": solve_with_gurobi}


def register_solver(name: str) -> Callable[[Solver], Solver]:
    """Register a solver under a name, as a decorator.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from dxpp_core import solve_qp
    >>> from dxpp_core.solvers import RawSolution, register_solver
    >>> @register_solver("unconstrained")
    ... def unconstrained(problem, tolerance):
    ...     return RawSolution(x=np.linalg.solve(problem.P, -problem.q))
    >>> solve_qp(2.0 * torch.eye(2).double(), torch.tensor([2.0, -4.0]).double(), solver="unconstrained").x
    tensor([-1.,  2.], dtype=torch.float64)

    Raises
    ------
    ProblemError
        For ``"auto"``, which ``solve_qp`` knows as something else.
    """
    if name == "auto":
        raise ProblemError("a solver cannot be called 'auto', which is solve_qp's default choice: choose another name")

    def register(solver: Solver) -> Solver:
        _REGISTERED[name] = solver
        return solver

    return register


def find_solver(name: str | Solver) -> Solver:
    """The solver registered under ``name``, or an adapter for the ``qpsolvers`` back end of that name.

    Raises
    ------
    SolverNotFoundError
        If there is none of that name on this machine; the message lists those that there are.
    """
    if not isinstance(name, str):
        if not callable(name):
            raise SolverNotFoundError(f"solver is {name!r}; it is a name or a callable")
        return name
    if name not in _REGISTERED:
        if name not in installed():
            raise SolverNotFoundError(f"no solver is called {name!r}; found here: {', '.join(available())}")
        _REGISTERED[name] = QPSolversAdapter(name)
    return _REGISTERED[name]


def available() -> list[str]:
    """Names that ``solver=`` accepts on this machine."""
    return sorted({*_REGISTERED, *installed()})
