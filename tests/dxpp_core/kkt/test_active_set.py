"""Active sets that layers get wrong: redundant, barely active and barely inactive rows, missing curvature."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic_programs import Problem, loss_weights, make_problem, random_qp, reference_gradients, relative_error

F64 = torch.float64


def check_against_reference(problem: Problem, tolerance: float = 1e-9) -> None:
    n = problem.arguments["q"].numel()
    r = loss_weights(n)
    solution = problem.solve()
    (solution.x @ r).backward()
    truth = reference_gradients(problem, solution, r.numpy())
    for name, value in truth.items():
        assert problem.leaves[name].grad is not None
        assert relative_error(problem.leaves[name].grad, value) < tolerance, name
    assert solution.certificate.worst < 1e-9


def test_without_constraints_the_solution_is_newton_s() -> None:
    problem = random_qp(6, 3, 0)
    problem = make_problem(P=problem.arguments["P"], q=problem.arguments["q"])
    solution = problem.solve()
    expected = torch.linalg.solve(problem.arguments["P"], -problem.arguments["q"])
    torch.testing.assert_close(solution.x, expected, rtol=1e-9, atol=1e-9)
    assert solution.y.numel() == solution.z.numel() == 0
    check_against_reference(problem)


def test_one_variable() -> None:
    problem = make_problem(P=[[2.0]], q=[-4.0], ub=[1.0])
    solution = problem.solve()
    solution.x.sum().backward()
    assert solution.x.item() == 1.0
    assert solution.z_box.item() == pytest.approx(2.0, abs=1e-12)
    assert problem.leaves["ub"].grad.item() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_equalities_only(seed: int) -> None:
    full = random_qp(8, 3, seed).arguments
    check_against_reference(make_problem(**{k: full[k] for k in ("P", "q", "A", "b")}))


def test_bounds_only() -> None:
    full = random_qp(8, 3, 1).arguments
    check_against_reference(
        make_problem(P=full["P"], q=full["q"], lb=-0.1 * torch.ones(8), ub=[0.1] * 4 + [float("inf")] * 4)
    )


def test_no_row_active() -> None:
    full = random_qp(8, 3, 2).arguments
    far = {**{k: full[k] for k in ("P", "q", "G")}, "h": full["h"] + 1e3}
    problem = make_problem(**far)
    check_against_reference(problem)
    assert float(problem.leaves["h"].grad.abs().max()) == 0.0


def test_duplicate_active_rows_share_the_multiplier_and_its_gradient() -> None:
    row = [1.0, 1.0]
    single = make_problem(P=np.eye(2), q=[-2.0, -1.0], G=[row], h=[1.0])
    double = make_problem(P=np.eye(2), q=[-2.0, -1.0], G=[row, row], h=[1.0, 1.0])
    r = torch.tensor([1.0, -0.3], dtype=F64)
    one = single.gradients(lambda s: s.x @ r)
    two = double.gradients(lambda s: s.x @ r)
    torch.testing.assert_close(two["q"], one["q"], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(two["P"], one["P"], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(two["h"].sum(), one["h"].sum(), rtol=1e-10, atol=1e-12)
    assert float(two["h"].min()) > 0.0


def test_dependent_consistent_equalities() -> None:
    A = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 2.0, 1.0]])
    full = make_problem(P=np.diag([1.0, 2.0, 3.0]), q=[0.3, -1.0, 0.2], A=A, b=[1.0, 0.5, 1.5])
    independent = make_problem(P=np.diag([1.0, 2.0, 3.0]), q=[0.3, -1.0, 0.2], A=A[:2], b=[1.0, 0.5])
    r = loss_weights(3)
    found, truth = full.gradients(lambda s: s.x @ r), independent.gradients(lambda s: s.x @ r)
    torch.testing.assert_close(found["q"], truth["q"], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found["P"], truth["P"], rtol=1e-10, atol=1e-12)
    # The right-hand side can only move along the range of A: there the derivative is determined.
    along = torch.as_tensor(A @ np.array([0.2, -0.4, 1.0]))
    torch.testing.assert_close(found["b"] @ along, truth["b"] @ along[:2], rtol=1e-9, atol=1e-12)


def test_an_equality_with_multiplier_zero_still_holds() -> None:
    # Projecting a point that satisfies the constraint already.
    problem = make_problem(P=np.eye(3), q=[-0.2, -0.3, -0.5], A=np.ones((1, 3)), b=[1.0])
    solution = problem.solve()
    assert abs(solution.y.item()) < 1e-12
    r = torch.tensor([1.0, 0.0, 0.0], dtype=F64)
    (solution.x @ r).backward()
    torch.testing.assert_close(
        problem.leaves["q"].grad, torch.tensor([-2 / 3, 1 / 3, 1 / 3], dtype=F64), rtol=1e-12, atol=1e-12
    )


def test_a_row_inactive_by_little_has_no_influence() -> None:
    # Unconstrained minimum (1, 1), the row misses it by 5e-6.
    problem = make_problem(P=np.eye(2), q=[-1.0, -1.0], G=[[1.0, 0.0]], h=[1.0 + 5e-6])
    gradients = problem.gradients(lambda s: s.x[0] + 0.3 * s.x[1])
    torch.testing.assert_close(gradients["q"], torch.tensor([-1.0, -0.3], dtype=F64), rtol=1e-12, atol=1e-12)
    assert gradients["h"].item() == 0.0


def test_a_row_active_with_a_tiny_multiplier_is_active() -> None:
    problem = make_problem(P=np.eye(2), q=[-1.0 - 2e-9, -1.0], G=[[1.0, 0.0]], h=[1.0])
    solution = problem.solve()
    assert solution.z.item() == pytest.approx(2e-9, rel=1e-5)
    assert not solution.warnings
    (solution.x @ torch.tensor([1.0, 0.3], dtype=F64)).backward()
    torch.testing.assert_close(problem.leaves["q"].grad, torch.tensor([0.0, -0.3], dtype=F64), rtol=1e-9, atol=1e-12)
    assert problem.leaves["h"].grad.item() == pytest.approx(1.0, abs=1e-12)


def test_a_linear_program_has_a_vertex_and_gradient_zero() -> None:
    problem = make_problem(P=np.zeros((3, 3)), q=[1.0, 2.0, 3.0], A=np.ones((1, 3)), b=[1.0], lb=np.zeros(3))
    solution = problem.solve()
    torch.testing.assert_close(solution.x.detach(), torch.tensor([1.0, 0.0, 0.0], dtype=F64), rtol=0, atol=1e-12)
    (solution.x @ loss_weights(3)).backward()
    assert float(problem.leaves["q"].grad.abs().max()) < 1e-12
    assert problem.leaves["b"].grad.item() == pytest.approx(loss_weights(3)[0].item(), abs=1e-10)


def test_curvature_on_the_feasible_directions_only() -> None:
    # P is singular, the solution is unique all the same.
    check_against_reference(make_problem(P=np.diag([1.0, 0.0]), q=[0.1, 1.0], A=[[1.0, 1.0]], b=[1.0], lb=[-5.0, -5.0]))


def test_a_fixed_variable() -> None:
    full = random_qp(5, 2, 3).arguments
    lb = np.array([-9.0, 0.4, -9.0, -9.0, -9.0])
    ub = np.array([9.0, 0.4, 9.0, 9.0, 9.0])
    problem = make_problem(P=full["P"], q=full["q"], lb=lb, ub=ub)
    solution = problem.solve()
    assert solution.x[1].item() == 0.4
    r = loss_weights(5)
    (solution.x @ r).backward()
    as_row = make_problem(P=full["P"], q=full["q"], A=np.eye(5)[1:2], b=[0.4])
    truth = as_row.gradients(lambda s: s.x @ r)
    torch.testing.assert_close(problem.leaves["q"].grad, truth["q"], rtol=1e-9, atol=1e-10)
    both = problem.leaves["lb"].grad + problem.leaves["ub"].grad
    torch.testing.assert_close(both[1], truth["b"][0], rtol=1e-9, atol=1e-10)
