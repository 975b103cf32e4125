"""The paper's plug-in: its accuracy, its smoothed gradients at vertices, and what enters them."""

from __future__ import annotations

import numpy as np
import torch
from quadratic_programs import random_qp, reference_gradients, relative_error

from dxpp_core import solve_qp

F64 = torch.float64


def test_a_row_without_limit_leaves_the_smoothed_gradients_of_the_others_alone() -> None:
    G = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=F64, requires_grad=True)
    more = torch.tensor([[0.0, 1.0]], dtype=F64)
    q, loss = torch.tensor([-1.2, -2.0], dtype=F64), torch.tensor([1.0, -1.0], dtype=F64)
    found = []
    for rows, h in ((G, [1.0, 0.5]), (torch.cat([G, more]), [1.0, 0.5, float("inf")])):
        h_ = torch.tensor(h, dtype=F64)
        x = solve_qp(torch.eye(2, dtype=F64), q, rows, h_, method="penalty", delta=0.3, prune=False).x
        found.append(torch.autograd.grad(x @ loss, G)[0])
    torch.testing.assert_close(found[0], found[1])


def test_smoothed_gradients_of_bounds_are_those_of_the_same_rows() -> None:
    options = {"method": "penalty", "delta": 0.3, "prune": False}
    P, q = torch.eye(2, dtype=F64), torch.tensor([-1.0, -2.5], dtype=F64)
    row, one = torch.ones(1, 2, dtype=F64), torch.ones(1, dtype=F64)
    lower = torch.full((2,), -0.5, dtype=F64, requires_grad=True)
    loss = torch.tensor([1.0, -1.0], dtype=F64)
    (as_bounds,) = torch.autograd.grad(solve_qp(P, q, row, one, lb=lower, **options).x @ loss, lower)
    G = torch.cat([row, -torch.eye(2, dtype=F64)])
    (as_rows,) = torch.autograd.grad(solve_qp(P, q, G, torch.cat([one, -lower]), **options).x @ loss, lower)
    torch.testing.assert_close(as_bounds, as_rows)
    assert float(as_rows.abs().max()) > 0.1


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
