"""Names of solvers."""

from __future__ import annotations

import pytest
import torch

from dxpp_core import (
    ProblemError,
    SolverNotFoundError,
    register_solver,
    solve_qp,
)

F64 = torch.float64


def test_the_name_of_the_default_choice_is_not_given_away() -> None:
    with pytest.raises(ProblemError, match="'auto'"):
        register_solver("auto")


def test_an_unknown_solver_lists_the_known_ones() -> None:
    with pytest.raises(SolverNotFoundError, match=r"'cplex2'.*piqp"):
        solve_qp(torch.eye(2, dtype=F64), torch.zeros(2, dtype=F64), solver="cplex2")
