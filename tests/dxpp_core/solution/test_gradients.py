"""Gradients against the independent reference and finite differences, at the sizes of the paper's Table 1."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic_programs import loss_weights, make_problem, random_qp, reference_gradients, relative_error

from dxpp_core import (
    solve_qp,
)

F64 = torch.float64


def test_the_gradient_of_curvature_is_symmetric_and_only_the_symmetric_part_enters() -> None:
    problem = random_qp(6, 2, 5)
    skew = torch.triu(torch.ones(6, 6, dtype=F64), 1)
    skew = skew - skew.T
    plain = problem.solve()
    twisted = make_problem(**{**problem.arguments, "P": problem.arguments["P"] + skew})
    solution = twisted.solve()
    torch.testing.assert_close(solution.x, plain.x, rtol=1e-10, atol=1e-11)
    (solution.x @ loss_weights(6)).backward()
    gradient = twisted.leaves["P"].grad
    torch.testing.assert_close(gradient, gradient.T, rtol=0, atol=0)


def test_gradients_of_multipliers() -> None:
    a = random_qp(6, 3, 1).arguments
    arguments = (a["q"].clone().requires_grad_(), a["b"].clone().requires_grad_())

    def duals(q: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        s = solve_qp(a["P"], q, a["G"], a["h"], a["A"], b)
        return torch.cat([s.y, s.z])

    assert torch.autograd.gradcheck(duals, arguments)


@pytest.mark.parametrize(("n", "m", "instances"), [(10, 5, 10), (50, 10, 10), (100, 20, 5), (500, 100, 1)])
def test_exact_gradients_reach_machine_precision(n: int, m: int, instances: int) -> None:
    errors: dict[str, list[float]] = {}
    for seed in range(instances):
        problem = random_qp(n, m, seed)
        solution = problem.solve()
        solution.x.sum().backward()
        for name, truth in reference_gradients(problem, solution, np.ones(n)).items():
            errors.setdefault(name, []).append(relative_error(problem.leaves[name].grad, truth))
    for name, values in errors.items():
        assert np.mean(values) < 1e-12, name


@pytest.mark.parametrize("seed", range(3))
def test_finite_differences_in_both_modes(seed: int) -> None:
    problem = random_qp(5, 2, seed)
    names = list(problem.arguments)
    values = [v.clone().requires_grad_() for v in problem.arguments.values()]

    def results(*arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        solution = solve_qp(**dict(zip(names, arguments, strict=True)))
        return solution.x, solution.y, solution.z

    assert torch.autograd.gradcheck(results, values, check_forward_ad=True)


def test_finite_differences_with_bounds() -> None:
    problem = random_qp(5, 2, 1)
    lb = torch.full((5,), 0.5, dtype=torch.float64, requires_grad=True)
    ub = torch.full((5,), 1.2, dtype=torch.float64, requires_grad=True)
    P, q = (problem.arguments[k].clone().requires_grad_() for k in ("P", "q"))

    def results(*arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        P, q, lb, ub = arguments
        solution = solve_qp(P, q, lb=lb, ub=ub)
        return solution.x, solution.z_box

    assert torch.autograd.gradcheck(results, (P, q, lb, ub), check_forward_ad=True)
