"""The program this layer is for: degenerate at every instance, with forecasts of 1e-3 and covariances of 1e-4."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from portfolio_programs import portfolio_qp, weights_only
from quadratic_programs import Problem, reference_gradients

from dxpp_core import QPSolution, solve_qp

INSTANCES = 30


def kkt_violation(problem: Problem, solution: QPSolution) -> float:
    """Optimality, checked from the arguments themselves in the units of weights and of the objective's gradient."""
    a = problem.arguments
    x, y, z = (t.detach() for t in (solution.x, solution.y, solution.z))
    stationarity = a["P"] @ x + a["q"] + a["A"].T @ y + a["G"].T @ z
    slack = a["h"] - a["G"] @ x
    parts = [
        float(stationarity.abs().max() / a["q"].abs().max()),
        float((a["A"] @ x - a["b"]).abs().max()),
        float(-slack.min()),
        float((z * slack).abs().max() / a["q"].abs().max()),
        float(-z.min()),
    ]
    return max(parts)


@pytest.mark.parametrize("horizon", [1, 5, 10, 20, 50])
def test_weights_and_gradients(horizon: int) -> None:
    vertices = 0
    for seed in range(INSTANCES):
        problem = portfolio_qp(horizon, seed)
        r = weights_only(problem, seed)
        solution = problem.solve()
        assert kkt_violation(problem, solution) < 1e-11, seed
        (solution.x @ r).backward()
        truth = reference_gradients(problem, solution, r.numpy())
        size = horizon * 7
        # Forecasts and covariances touch weights only.
        found_q, true_q = problem.leaves["q"].grad.numpy()[:size], truth["q"][:size]
        found_P, true_P = problem.leaves["P"].grad.numpy()[:size, :size], truth["P"][:size, :size]
        # At a vertex the true gradient is zero; elsewhere it is about 1/(λσ²) = 1e3.
        assert np.abs(found_q - true_q).max() <= 1e-6 * max(np.abs(true_q).max(), 1.0), seed
        assert np.abs(found_P - true_P).max() <= 1e-6 * max(np.abs(true_P).max(), 1.0), seed
        # The pre-trade weights enter two rows of the first stage with opposite signs.
        found_h, true_h = problem.leaves["h"].grad.numpy(), truth["h"]
        held = [g[:7] - g[size : size + 7] for g in (found_h, true_h)]
        assert np.abs(held[0] - held[1]).max() <= 1e-6 * max(np.abs(held[1]).max(), 1.0), seed
        vertices += int(np.abs(true_q).max() < 1e-6)
        assert not any(w.kind == "not polished" for w in solution.warnings), seed
    if horizon == 10:
        assert vertices > 0


@pytest.mark.parametrize("horizon", [1, 5, 10, 20])
def test_dense_and_sparse_input_agree(horizon: int) -> None:
    for seed in range(5):
        problem = portfolio_qp(horizon, seed)
        r = weights_only(problem, seed)
        dense = problem.solve()
        (dense.x @ r).backward()
        q = problem.arguments["q"].clone().requires_grad_()
        sparse_arguments = {
            name: value.to_sparse_csr() if name in ("P", "G", "A") else value
            for name, value in problem.arguments.items()
        }
        sparse = solve_qp(**{**sparse_arguments, "q": q})
        (sparse.x @ r).backward()
        size = horizon * 7
        torch.testing.assert_close(sparse.x[:size], dense.x[:size], rtol=0, atol=1e-10)
        expected = problem.leaves["q"].grad[:size]
        torch.testing.assert_close(
            q.grad[:size], expected, rtol=1e-7, atol=1e-7 * max(1.0, float(expected.abs().max()))
        )
