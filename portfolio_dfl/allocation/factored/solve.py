"""Solve and differentiate one problem under factor risk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portfolio_dfl.allocation.factored.active_set import (
    ActiveSet,
    Certificate,
    Equations,
    Solved,
    identify,
    repair,
    solve_active_set,
    verify,
)
from portfolio_dfl.allocation.factored.interior_point import InteriorPoint
from portfolio_dfl.allocation.factored.problem import FactoredProblem
from portfolio_dfl.allocation.factored.system import FactoredSystem

__all__ = ["ACCEPTED", "TOLERANCE", "FactoredPlan", "solve_factored"]

_Array = NDArray[np.float64]

#: Violations that a certified plan may have, and those up to which one is returned, and said to be uncertified.
TOLERANCE, ACCEPTED = 1e-10, 1e-6
_ITERATIONS = 80
# Repairs go on while they find less and less to repair, or no more than this.
_REPAIRS, _FEW = 8, 10
# The first polish is tried when the mean product slack · multiplier is below this over the square of N: weights of so
# many assets, and so their slacks, are about 1/N, and an active set is told once products are small beside them.
_FIRST_TRY = 1e-3
# Below this products are rounding, and residuals may grow again.
_LEAST, _LOST = 1e-14, 1e-3


@dataclass(slots=True)
class FactoredPlan:
    """A solved problem, all in its own units.

    ``pull`` [H, N] is the Lagrangian's gradient without multipliers of bounds.
    """

    problem: FactoredProblem
    active: ActiveSet
    solved: Solved
    certificate: Certificate
    pull: _Array
    iterations: int

    @property
    def weights(self) -> _Array:
        """The plan [H, N]; rounding may leave a weight that meets its bound a hair beyond it."""
        found: _Array = np.clip(self.solved.x, self.problem.lower, self.problem.upper)
        return found

    def adjoint(self, upstream: _Array) -> tuple[Solved, float]:
        """Solve the active set's equations for ``upstream`` [H, N] and no other right-hand side; and the residual."""
        problem = self.problem
        H, N = upstream.shape
        found = Solved(np.zeros((H, N)), np.zeros(H), np.zeros((H, N)), np.zeros(H), np.zeros((H, len(problem.caps))))
        size = float(np.abs(upstream).max())
        if size == 0.0:
            return found, 0.0
        equations = Equations(problem, _system(problem), self.active)
        if not equations.factor():
            return found, np.inf
        residual = equations.refine(found, upstream, 0.0, 0.0, np.zeros(H), size)
        return found, residual / size


def _system(problem: FactoredProblem) -> FactoredSystem:
    N = len(problem.previous)
    columns = np.column_stack([problem.loadings, np.ones(N), problem.rows.T])
    return FactoredSystem(columns, len(problem.turnover))


def solve_factored(problem: FactoredProblem) -> FactoredPlan | None:
    """The plan, or None where no point came near to one."""
    system = _system(problem)
    best: FactoredPlan | None = None
    # A step divides by slacks that vanish at the optimum: what is not finite then is not taken.
    with np.errstate(all="ignore"):
        course = InteriorPoint(problem, system)
        trigger = _FIRST_TRY / len(problem.previous) ** 2
        for iteration in range(1, _ITERATIONS + 1):
            going = course.advance() and np.isfinite(course.level) and course.level < 1e10
            finished = not going or course.level < _LEAST or (course.level < 1e-12 and course.dual > _LOST)
            if not finished and not (course.level < trigger and course.dual < _LOST and course.primal < 1e-6):
                continue
            trigger = 0.03 * course.level
            found = _polish(course, iteration)
            if found is not None and (best is None or found.certificate.worst < best.certificate.worst):
                best = found
            if finished or (best is not None and best.certificate.worst <= TOLERANCE):
                break
    return best


def _polish(course: InteriorPoint, iterations: int) -> FactoredPlan | None:
    """Solve for the active set, and repair it while that helps."""
    problem, active = course.problem, identify(course)
    best: FactoredPlan | None = None
    wrong = active.hold.size
    for attempt in range(_REPAIRS + 1):
        equations = Equations(problem, course.system, active)
        if not equations.factor():
            break
        solved = solve_active_set(course, equations)
        certificate, pull = verify(problem, active, solved)
        if not np.isfinite(certificate.worst):
            break
        if best is None or certificate.worst < best.certificate.worst:
            kept = ActiveSet(active.hold.copy(), active.trade.copy(), active.spent.copy(), active.full.copy())
            best = FactoredPlan(problem, kept, solved, certificate, pull, iterations)
        if certificate.worst <= TOLERANCE or attempt == _REPAIRS or not certificate.worst < 1e3:
            break
        flips = repair(problem, active, solved, pull, 0.1 * TOLERANCE)
        if flips == 0 or flips > max(wrong, _FEW):
            break
        wrong = flips
    return best
