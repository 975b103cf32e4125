"""Gradients against the independent reference and finite differences, at the sizes of the paper's Table 1."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic_programs import random_qp, reference_gradients, relative_error

from dxpp_core import solve_qp


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


def test_the_plug_in_has_the_papers_error_and_is_best_at_an_intermediate_smoothing() -> None:
    """Table 1 reports 2.6e-7 at 100 × 20; Table 2 a U-shape over δ."""
    errors = []
    for delta in (1e-2, 1e-5, 1e-10):
        each = []
        for seed in range(5):
            problem = random_qp(100, 20, seed)
            solution = problem.solve(method="penalty", delta=delta)
            solution.x.sum().backward()
            truth = reference_gradients(problem, solution, np.ones(100))
            each.append(relative_error(problem.leaves["q"].grad, truth["q"]))
        errors.append(float(np.mean(each)))
    assert errors[1] < errors[0]
    assert errors[1] < errors[2]
    assert 1e-9 < errors[1] < 1e-4


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


def test_a_large_smoothing_without_pruning_informs_at_a_vertex() -> None:
    """At a vertex the exact gradient of q vanishes; the smoothed one points where the vertex would move."""
    arguments = {
        "P": 1e-3 * torch.eye(3, dtype=torch.float64),
        "A": torch.ones(1, 3, dtype=torch.float64),
        "b": torch.ones(1, dtype=torch.float64),
        "lb": torch.zeros(3, dtype=torch.float64),
    }
    q = torch.tensor([-1.0, -0.9, 0.0], dtype=torch.float64, requires_grad=True)
    loss = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    (exact,) = torch.autograd.grad(solve_qp(q=q, **arguments).x @ loss, q)
    assert float(exact.abs().max()) < 1e-12
    smooth_x = solve_qp(q=q, **arguments, method="penalty", delta=0.5, prune=False).x
    (smooth,) = torch.autograd.grad(smooth_x @ loss, q)
    assert float(smooth[0]) < 0.0 < float(smooth[1])
