"""One contract for every black box: the same point to the same certificate, and errors of our own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic_programs import loss_weights, make_problem, random_qp

from dxpp_core import (
    SolverAccuracyError,
    available_solvers,
    register_solver,
    solve_qp,
)
from dxpp_core.solvers import RawSolution, SolverProblem

F64 = torch.float64
SOLVERS = available_solvers()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_solver_gives_the_same_point_and_gradient(solver: str, seed: int) -> None:
    data = random_qp(10, 4, seed).arguments
    problem = make_problem(**data, lb=torch.full((10,), 0.3), ub=torch.full((10,), 1.6))
    r = loss_weights(10)
    expected, found = problem.solve(), problem.solve(solver=solver)
    torch.testing.assert_close(found.x, expected.x, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.z, expected.z, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(found.y, expected.y, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(found.z_box, expected.z_box, rtol=1e-8, atol=1e-8)
    assert found.certificate.worst < 1e-10
    (found.x @ r).backward()
    gradients = problem.leaves["h"].grad.clone()
    truth = problem.gradients(lambda s: s.x @ r)["h"]
    torch.testing.assert_close(gradients, truth, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_takes_sparse_problems(solver: str) -> None:
    n = 60
    q = np.random.default_rng(0).normal(size=n)
    problem = make_problem(P=2 * np.eye(n), q=-2 * q, A=np.ones((1, n)), b=[1.0], lb=np.zeros(n), ub=np.ones(n))
    torch.testing.assert_close(problem.solve(solver=solver).x, problem.solve().x, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_takes_bare_problems(solver: str) -> None:
    x = make_problem(P=np.diag([1.0, 2.0]), q=[-1.0, -1.0]).solve(solver=solver).x
    torch.testing.assert_close(x.detach(), torch.tensor([1.0, 0.5], dtype=F64), rtol=1e-8, atol=1e-8)


def test_a_registered_solver_is_held_to_the_certificate() -> None:
    @register_solver("unconstrained")
    def unconstrained(problem: SolverProblem, tolerance: float) -> RawSolution:
        return RawSolution(x=np.linalg.solve(problem.P, -problem.q))

    problem = random_qp(5, 2, 0).arguments
    x = solve_qp(problem["P"], problem["q"], solver="unconstrained").x
    torch.testing.assert_close(x, torch.linalg.solve(problem["P"], -problem["q"]), rtol=1e-8, atol=1e-8)
    with pytest.raises(SolverAccuracyError, match="primal"):
        solve_qp(problem["P"], problem["q"], A=problem["A"], b=problem["b"], solver="unconstrained", polish=False)


def test_a_solver_of_low_accuracy_is_refused_with_its_residuals_or_polished() -> None:
    rough = random_qp(8, 3, 0)
    exact = rough.solve().x.detach()

    def careless(problem: SolverProblem, tolerance: float) -> RawSolution:
        from dxpp_core.solvers import find_solver

        raw = find_solver("piqp")(problem, 1e-4)
        raw.x = raw.x + 1e-5
        return raw

    torch.testing.assert_close(rough.solve(solver=careless).x.detach(), exact, rtol=1e-10, atol=1e-10)
    with pytest.raises(SolverAccuracyError, match="misses the tolerance 1e-08"):
        rough.solve(solver=careless, polish=False)
