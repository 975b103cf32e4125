"""Why a solve failed: infeasible, unbounded, or merely unsolved, decided by linear programs (HiGHS, through SciPy)."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from ..errors import InfeasibleError, UnboundedError
from ..solvers.base import RawSolution, SolverProblem

__all__ = ["explain_failure"]

_LARGEST = 200_000
_INFEASIBLE = 2
_SMALLEST_DESCENT = 1e-7


def explain_failure(problem: SolverProblem, raw: RawSolution, batch_element: tuple[int, ...]) -> None:
    """Raise :class:`InfeasibleError` or :class:`UnboundedError` if the problem is; return if it has a solution.

    A solver's word alone is not taken: feasibility is a linear program, and an unbounded problem has a direction d with
    Pd = 0, Ad = 0, Gd ≤ 0 that respects the bounds and along which qᵀd < 0, which is another.
    """
    if problem.q.size > _LARGEST:
        return
    n = problem.q.size
    lb = problem.lb if problem.lb is not None else np.full(n, -np.inf)
    ub = problem.ub if problem.ub is not None else np.full(n, np.inf)
    feasible = linprog(
        np.zeros(n),
        A_ub=problem.G,
        b_ub=problem.h,
        A_eq=problem.A,
        b_eq=problem.b,
        bounds=np.column_stack([lb, ub]),
        method="highs",
    )
    if feasible.status == _INFEASIBLE:
        raise InfeasibleError("no x satisfies all of Gx ≤ h, Ax = b and the bounds", batch_element=batch_element)
    P = sparse.csr_matrix(problem.P)
    level = sparse.vstack([P, sparse.csr_matrix(problem.A)]) if problem.A is not None else P
    descent = linprog(
        problem.q,
        A_ub=problem.G,
        b_ub=None if problem.G is None else np.zeros(problem.G.shape[0]),
        A_eq=level,
        b_eq=np.zeros(level.shape[0]),
        bounds=np.column_stack([np.where(np.isinf(lb), -1.0, 0.0), np.where(np.isinf(ub), 1.0, 0.0)]),
        method="highs",
    )
    if descent.status == 0 and descent.fun < -_SMALLEST_DESCENT * max(1.0, float(np.abs(problem.q).max())):
        variable = int(np.abs(descent.x).argmax())
        raise UnboundedError(
            f"the objective falls without limit along a feasible direction (largest in variable {variable}); "
            "bound x or add curvature to P",
            batch_element=batch_element,
        )
