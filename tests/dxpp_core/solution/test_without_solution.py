"""Programs without solution are told apart, whatever the solver said."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic_programs import make_problem

from dxpp_core import (
    InfeasibleError,
    UnboundedError,
    available_solvers,
    solve_qp,
)

F64 = torch.float64


@pytest.mark.parametrize("solver", available_solvers())
def test_infeasible(solver: str) -> None:
    with pytest.raises(InfeasibleError, match="no x satisfies"):
        make_problem(P=np.eye(2), q=[1.0, 1.0], G=[[1.0, 0.0], [-1.0, 0.0]], h=[-1.0, -1.0]).solve(solver=solver)


@pytest.mark.parametrize("solver", available_solvers())
def test_unbounded(solver: str) -> None:
    with pytest.raises(UnboundedError, match="falls without limit"):
        make_problem(P=np.diag([1.0, 0.0]), q=[1.0, -1.0], G=[[1.0, 0.0]], h=[1.0]).solve(solver=solver)


def test_one_infeasible_element_of_a_batch_is_named() -> None:
    h = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-2.0, 1.0]], dtype=F64)
    G = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=F64)
    with pytest.raises(InfeasibleError, match="batch element 2") as caught:
        solve_qp(torch.eye(2, dtype=F64), torch.zeros(2, dtype=F64), G, h)
    assert caught.value.batch_element == (2,)


def test_a_zero_row_that_cannot_hold_is_infeasible_whatever_the_bounds() -> None:
    with pytest.raises(InfeasibleError):
        make_problem(
            P=np.zeros((2, 2)),
            q=[1.0, 1.0],
            G=[[0.0, 0.0], [-1.0, -1.0]],
            h=[-1e-3, -1.0],
            lb=[0.0, 0.0],
            ub=[1e9, 1e9],
        ).solve()
