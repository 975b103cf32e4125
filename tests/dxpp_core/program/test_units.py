"""The unit of x is not set by limits that are far away."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic_programs import make_problem

F64 = torch.float64


@pytest.mark.parametrize("far", [1e6, 1e8, 1e10, 1e12, 1e20])
def test_a_slack_limit_far_away_does_not_set_the_unit_of_x(far: float) -> None:
    problem = make_problem(P=np.zeros((2, 2)), q=[-1.0, -2.0], G=[[1.0, 1.0], [1.0, -1.0]], h=[1.0, far], lb=[0.0, 0.0])
    solution = problem.solve(strict=True)
    torch.testing.assert_close(solution.x.detach(), torch.tensor([0.0, 1.0], dtype=F64), rtol=0, atol=1e-10)
    torch.testing.assert_close(solution.z.detach(), torch.tensor([2.0, 0.0], dtype=F64), rtol=0, atol=1e-9)
    solution.x[1].backward()
    torch.testing.assert_close(problem.leaves["h"].grad, torch.tensor([1.0, 0.0], dtype=F64), rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", [5, 60])
@pytest.mark.parametrize("total", [1e-6, 1e-3, 1.0])
def test_bounds_far_away_do_not_hide_an_equality(n: int, total: float) -> None:
    q = -np.arange(n, dtype=float)
    lower, upper = np.zeros(n), np.full(n, 1e12)
    x = make_problem(P=np.zeros((n, n)), q=q, A=np.ones((1, n)), b=[total], lb=lower, ub=upper).solve().x
    assert x.sum().item() == pytest.approx(total, rel=1e-9)
    assert x[-1].item() == pytest.approx(total, rel=1e-9)
