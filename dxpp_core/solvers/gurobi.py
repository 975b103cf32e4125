"""Gurobi's barrier method, as the paper uses it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import SolverLimitError, SolverNotFoundError
from .base import RawSolution, SolverProblem, Status

__all__ = ["solve_with_gurobi"]

_TOO_LARGE = 10010
# Gurobi accepts tolerances between these two.
_FINEST_FEASIBILITY, _COARSEST_FEASIBILITY = 1e-9, 1e-2


@functools.cache
def _environment() -> Any:
    try:
        import gurobipy
    except ImportError as error:
        raise SolverNotFoundError("solver 'gurobi' needs the package gurobipy: pip install gurobipy") from error
    return gurobipy.Env(params={"OutputFlag": 0})


def solve_with_gurobi(problem: SolverProblem, tolerance: float) -> RawSolution:
    """Solve by the barrier method; raises :class:`SolverLimitError` where the licence does not cover the size."""
    import gurobipy as gp

    n = problem.q.size
    feasibility = min(max(tolerance, _FINEST_FEASIBILITY), _COARSEST_FEASIBILITY)
    with gp.Model(env=_environment()) as model:
        model.Params.Method = 2
        model.Params.Threads = 1
        model.Params.BarConvTol = min(tolerance * 1e-3, 1e-8)
        model.Params.BarQCPConvTol = min(tolerance * 1e-3, 1e-8)
        model.Params.FeasibilityTol = model.Params.OptimalityTol = feasibility
        x = model.addMVar(
            n,
            lb=-gp.GRB.INFINITY if problem.lb is None else problem.lb,
            ub=gp.GRB.INFINITY if problem.ub is None else problem.ub,
        )
        P = sparse.csr_matrix(problem.P)
        model.setObjective(0.5 * (x @ P @ x) + problem.q @ x if P.nnz else problem.q @ x)
        equalities = model.addConstr(sparse.csr_matrix(problem.A) @ x == problem.b) if problem.A is not None else None
        inequalities = model.addConstr(sparse.csr_matrix(problem.G) @ x <= problem.h) if problem.G is not None else None
        try:
            model.optimize()
        except gp.GurobiError as error:
            if error.errno != _TOO_LARGE:
                raise
            raise SolverLimitError(
                f"Gurobi's licence here does not cover a QP of {n} variables and {model.NumConstrs} rows "
                f"(error {_TOO_LARGE}): "
                "the licence that comes with gurobipy ends at 200 variables in a model with a quadratic term; use the "
                "default solver='piqp', a smaller problem (a shorter horizon), or install a full licence"
            ) from error
        status = _STATUS.get(model.Status, Status.FAILED)
        if not model.SolCount:
            return RawSolution(x=np.zeros(n), status=status, message=f"Gurobi status {model.Status}")
        return RawSolution(
            x=np.asarray(x.X),
            # Gurobi's prices have the opposite sign of the multipliers in f + yᵀ(Ax − b) + zᵀ(Gx − h).
            y=-np.asarray(equalities.Pi) if equalities is not None else np.zeros(0),
            z=-np.asarray(inequalities.Pi) if inequalities is not None else np.zeros(0),
            z_box=-np.asarray(x.RC) if problem.lb is not None or problem.ub is not None else None,
            status=status,
            iterations=int(model.BarIterCount),
            message=f"Gurobi status {model.Status}",
        )


_STATUS = {2: Status.SOLVED, 3: Status.INFEASIBLE, 4: Status.INFEASIBLE, 5: Status.UNBOUNDED}
