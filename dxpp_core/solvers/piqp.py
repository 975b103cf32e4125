"""PIQP (Schwan, Jiang, Kuhn and Jones 2023), the default: a proximal interior-point method with infeasible starts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np

from .base import RawSolution, SolverProblem, Status

__all__ = ["PIQP"]

_WORKSPACES_PER_STRUCTURE = 2
_STRUCTURES = 32


class PIQP:
    """Adapter that keeps PIQP's workspaces, one stack a structure, so that set-up is paid once.

    A workspace is checked out while it solves, so threads never share one, and is only ever updated with values of the
    pattern it was set up for: PIQP itself does not check that.  Nothing of an earlier solve enters a later result.
    """

    def __init__(self, max_iterations: int = 200) -> None:
        self.max_iterations = max_iterations
        self._idle: OrderedDict[Hashable, list[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, problem: SolverProblem, tolerance: float) -> RawSolution:
        # An update leaves bounds alone that are not given: a workspace serves problems with the same bounds only.
        structure = (problem.structure, problem.is_sparse, problem.lb is None, problem.ub is None)
        solver = self._check_out(structure)
        data = (
            problem.P,
            problem.q,
            problem.A,
            problem.b,
            problem.G,
            None,
            problem.h,
            problem.lb,
            problem.ub,
        )
        if solver is None:
            solver = self._new(problem.is_sparse, tolerance)
            solver.setup(*data)
        else:
            self._set_tolerance(solver.settings, tolerance)
            solver.update(*data)
        status = solver.solve()
        result = solver.result
        raw = RawSolution(
            x=np.array(result.x),
            y=np.array(result.y),
            z=np.array(result.z_u),
            z_box=result.z_bu - result.z_bl if problem.lb is not None or problem.ub is not None else None,
            status=_STATUS.get(int(status), Status.FAILED),
            iterations=int(result.info.iter),
            message=str(status),
        )
        if problem.structure is not None:
            self._check_in(structure, solver)
        return raw

    def _new(self, is_sparse: bool, tolerance: float) -> Any:
        import piqp

        solver = piqp.SparseSolver() if is_sparse else piqp.DenseSolver()
        settings = solver.settings
        settings.max_iter = self.max_iterations
        # The layer has equilibrated the problem already.
        settings.preconditioner_iter = 0
        self._set_tolerance(settings, tolerance)
        return solver

    @staticmethod
    def _set_tolerance(settings: Any, tolerance: float) -> None:
        settings.eps_abs = settings.eps_rel = tolerance
        settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = tolerance

    def _check_out(self, structure: Hashable) -> Any:
        with self._lock:
            stack = self._idle.get(structure)
            return stack.pop() if stack else None

    def _check_in(self, structure: Hashable, solver: Any) -> None:
        with self._lock:
            stack = self._idle.setdefault(structure, [])
            if len(stack) < _WORKSPACES_PER_STRUCTURE:
                stack.append(solver)
            self._idle.move_to_end(structure)
            while len(self._idle) > _STRUCTURES:
                self._idle.popitem(last=False)


_STATUS = {1: Status.SOLVED, -2: Status.INFEASIBLE, -3: Status.UNBOUNDED}
