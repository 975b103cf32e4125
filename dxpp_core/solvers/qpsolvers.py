"""Every back end that the ``qpsolvers`` package finds on this machine, behind the layer's protocol."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
from scipy import sparse

from .base import Matrix, RawSolution, SolverProblem, Status, Vector

__all__ = ["QPSolversAdapter", "installed"]

# What each back end calls the accuracy it is asked for; back ends without an entry have no such setting.
_TOLERANCES = {
    "clarabel": ("tol_feas", "tol_gap_abs", "tol_gap_rel"),
    "cvxopt": ("feastol", "abstol", "reltol"),
    "daqp": ("primal_tol", "dual_tol"),
    "ecos": ("feastol", "abstol", "reltol"),
    "highs": ("primal_feasibility_tolerance", "dual_feasibility_tolerance"),
    "osqp": ("eps_abs", "eps_rel"),
    "proxqp": ("eps_abs", "eps_rel"),
    "qpalm": ("eps_abs", "eps_rel"),
    "scs": ("eps_abs", "eps_rel"),
}
_ITERATIONS = {
    "clarabel": {"max_iter": 500},
    "highs": {"qp_iteration_limit": 20_000},
    "osqp": {"max_iter": 200_000},
    "proxqp": {"max_iter": 20_000},
    "scs": {"max_iters": 500_000},
}
# HiGHS refuses to be asked for more than this.
_FINEST = {"highs": 1e-10}


@functools.cache
def installed() -> tuple[str, ...]:
    """Names of the back ends that ``qpsolvers`` can import here."""
    import qpsolvers

    return tuple(qpsolvers.available_solvers)


class QPSolversAdapter:
    """One back end of ``qpsolvers``.  Bounds travel as rows, so that every back end returns their multipliers."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, problem: SolverProblem, tolerance: float) -> RawSolution:
        import qpsolvers

        dense_only = self.name not in qpsolvers.sparse_solvers
        n = problem.q.size
        G, h, bounds = _with_bound_rows(problem)
        standard = qpsolvers.Problem(
            _layout(problem.P, dense_only),
            problem.q,
            _layout(G, dense_only),
            h,
            _layout(problem.A, dense_only),
            problem.b,
        )
        finest = max(tolerance, _FINEST.get(self.name, 0.0))
        options: dict[str, Any] = dict.fromkeys(_TOLERANCES.get(self.name, ()), finest)
        options |= _ITERATIONS.get(self.name, {})
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = qpsolvers.solve_problem(standard, solver=self.name, **options)
        except qpsolvers.exceptions.QPError as error:
            return RawSolution(x=np.zeros(n), status=Status.FAILED, message=str(error))
        message = "" if found.found else str(found.extras.get("status", "not found"))
        if found.x is None or not (found.found or np.isfinite(found.x).all()):
            return RawSolution(x=np.zeros(n), status=Status.FAILED, message=message)
        z_all = np.asarray(found.z if found.z is not None else np.zeros(0), dtype=np.float64)
        n_rows = 0 if problem.h is None else problem.h.size
        z_box = None
        if bounds is not None:
            upper, lower = bounds
            z_box = np.zeros(n)
            z_box[upper] += z_all[n_rows : n_rows + upper.size]
            z_box[lower] -= z_all[n_rows + upper.size :]
        y = found.y if problem.b is not None else np.zeros(0)
        return RawSolution(
            x=np.asarray(found.x, dtype=np.float64),
            y=np.asarray(y, dtype=np.float64),
            z=z_all[:n_rows],
            z_box=z_box,
            # Where it was broken off is a guess, of which the certificate tells what it is worth.
            status=Status.SOLVED if found.found else Status.FAILED,
            message=message,
        )


def _layout(matrix: Matrix | None, dense: bool) -> Any:
    if matrix is None or isinstance(matrix, np.ndarray) == dense:
        return matrix
    return matrix.toarray() if not isinstance(matrix, np.ndarray) else sparse.csc_matrix(matrix)


def _with_bound_rows(problem: SolverProblem) -> tuple[Matrix | None, Vector | None, tuple[Any, Any] | None]:
    """Inequalities with the finite bounds appended as rows: upper ones first, then lower ones."""
    if problem.lb is None and problem.ub is None:
        return problem.G, problem.h, None
    n = problem.q.size
    ub = problem.ub if problem.ub is not None else np.full(n, np.inf)
    lb = problem.lb if problem.lb is not None else np.full(n, -np.inf)
    upper, lower = np.flatnonzero(np.isfinite(ub)), np.flatnonzero(np.isfinite(lb))
    if not upper.size and not lower.size:
        return problem.G, problem.h, (upper, lower)
    eye = sparse.identity(n, format="csr")
    rows = sparse.vstack([eye[upper], -eye[lower]])
    rhs = np.concatenate([ub[upper], -lb[lower]])
    if problem.G is not None and problem.h is not None:
        rows = sparse.vstack([sparse.csr_matrix(problem.G), rows])
        rhs = np.concatenate([problem.h, rhs])
    return sparse.csc_matrix(rows), rhs, (upper, lower)
