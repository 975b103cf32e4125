"""PIQP (Schwan, Jiang, Kuhn and Jones 2023), the default: a proximal interior-point method with infeasible starts."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from .base import EMPTY, Matrix, RawSolution, SolverProblem, Status

__all__ = ["PIQP"]

_WORKSPACES_PER_STRUCTURE = 2
_STRUCTURES = 32


class _Workspace:
    """A solver of PIQP's, the tolerance it is set to, and the matrices it has seen last."""

    __slots__ = ("A", "G", "P", "solver", "tolerance")

    def __init__(self, solver: Any) -> None:
        self.solver, self.tolerance = solver, 0.0
        self.P: Matrix | None = None
        self.A: Matrix | None = None
        self.G: Matrix | None = None


class PIQP:
    """Adapter that keeps PIQP's workspaces, one stack a structure, so that set-up is paid once.

    A workspace is checked out while it solves, so threads never share one, and is only ever updated with values of the
    pattern it was set up for: PIQP itself does not check that.  Matrices that are the very objects of the last solve
    are not copied again: nobody writes into them.  Nothing of an earlier solve enters a later result.
    """

    def __init__(self, max_iterations: int = 200) -> None:
        self.max_iterations = max_iterations
        # Taken from and put back by single operations, which threads cannot come between.
        self._idle: dict[Hashable, list[_Workspace]] = {}

    def __call__(self, problem: SolverProblem, tolerance: float) -> RawSolution:
        P, A, G = problem.P, problem.A, problem.G
        # An update leaves bounds alone that are not given: a workspace serves problems with the same bounds only.
        has_lb, has_ub = problem.lb is not None, problem.ub is not None
        structure = (problem.structure, problem.is_sparse, has_lb, has_ub)
        workspace = self._check_out(structure)
        if workspace is None:
            workspace = self._new(problem.is_sparse)
            workspace.solver.setup(P, problem.q, A, problem.b, G, None, problem.h, problem.lb, problem.ub)
        else:
            workspace.solver.update(
                None if P is workspace.P else P,
                problem.q,
                None if A is workspace.A else A,
                problem.b,
                None if G is workspace.G else G,
                None,
                problem.h,
                problem.lb,
                problem.ub,
            )
        workspace.P, workspace.A, workspace.G = P, A, G
        solver = workspace.solver
        if tolerance != workspace.tolerance:
            settings = solver.settings
            settings.eps_abs = settings.eps_rel = tolerance
            settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = tolerance
            workspace.tolerance = tolerance
        status = int(solver.solve())
        result = solver.result
        found = _STATUS.get(status, Status.FAILED)
        raw = RawSolution(
            result.x.copy(),
            EMPTY if problem.b is None else result.y.copy(),
            EMPTY if problem.h is None else result.z_u.copy(),
            result.z_bu - result.z_bl if has_lb or has_ub else None,
            found,
            result.info.iter,
            "" if found is Status.SOLVED else str(result.info.status),
        )
        if problem.structure is not None:
            self._check_in(structure, workspace)
        return raw

    def _new(self, is_sparse: bool) -> _Workspace:
        import piqp

        solver = piqp.SparseSolver() if is_sparse else piqp.DenseSolver()
        settings = solver.settings
        settings.max_iter = self.max_iterations
        # The layer has equilibrated the problem already.
        settings.preconditioner_iter = 0
        return _Workspace(solver)

    def _check_out(self, structure: Hashable) -> _Workspace | None:
        try:
            return self._idle[structure].pop()
        except (KeyError, IndexError):
            return None

    def _check_in(self, structure: Hashable, workspace: _Workspace) -> None:
        stack = self._idle.get(structure)
        if stack is None:
            for oldest in list(self._idle)[: len(self._idle) + 1 - _STRUCTURES]:
                self._idle.pop(oldest, None)
            stack = self._idle.setdefault(structure, [])
        if len(stack) < _WORKSPACES_PER_STRUCTURE:
            stack.append(workspace)


_STATUS = {1: Status.SOLVED, -2: Status.INFEASIBLE, -3: Status.UNBOUNDED}
