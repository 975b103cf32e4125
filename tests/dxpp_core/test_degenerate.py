"""The cases that layers get wrong: redundant, weakly active and barely active rows, missing curvature, no solution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic_programs import Problem, loss_weights, make_problem, random_qp, reference_gradients, relative_error

from dxpp_core import (
    InfeasibleError,
    NonConvexError,
    NotDifferentiableError,
    QPSolution,
    SolverAccuracyError,
    UnboundedError,
    available_solvers,
    solve_qp,
)

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


def test_zero_rows() -> None:
    problem = make_problem(P=np.eye(3), q=[1.0, 2.0, 3.0], G=np.zeros((0, 3)), h=np.zeros(0))
    assert problem.solve().z.shape == (0,)


def test_rows_without_entries() -> None:
    problem = make_problem(P=np.eye(2), q=[1.0, 2.0], G=np.zeros((1, 2)), h=[1.0])
    torch.testing.assert_close(problem.solve().x.detach(), torch.tensor([-1.0, -2.0], dtype=F64))


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


def test_weakly_active_rows_are_named_and_left_out() -> None:
    problem = make_problem(P=np.eye(2), q=[-1.0, -1.0], G=[[0.0, 1.0], [1.0, 0.0]], h=[5.0, 1.0])
    solution = problem.solve()
    (warning,) = solution.warnings
    assert warning.kind == "weakly active"
    assert warning.rows == (1,)
    (solution.x @ torch.tensor([1.0, 0.3], dtype=F64)).backward()
    torch.testing.assert_close(problem.leaves["q"].grad, torch.tensor([-1.0, -0.3], dtype=F64), rtol=1e-9, atol=1e-9)
    with pytest.raises(NotDifferentiableError, match=r"weakly active.*\[1\]"):
        problem.solve(strict=True)


def test_weakly_active_bounds_are_named() -> None:
    problem = make_problem(P=np.eye(2), q=[0.0, -1.0], lb=[0.0, 0.0])
    (warning,) = problem.solve().warnings
    assert warning.bounds == (0,)


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


def test_components_that_are_not_unique_do_not_disturb_a_loss_that_does_not_see_them() -> None:
    problem = make_problem(P=np.diag([2.0, 0.0]), q=[-1.0, 0.0], lb=[-1.0, -1.0], ub=[1.0, 1.0])
    solution = problem.solve()
    solution.x[0].backward()
    torch.testing.assert_close(problem.leaves["q"].grad[0].item(), -0.5, rtol=1e-10, atol=1e-10)
    assert not any(w.kind == "not unique" for w in solution.warnings)


def test_a_loss_that_sees_a_component_that_is_not_unique_is_told() -> None:
    problem = make_problem(P=np.diag([2.0, 0.0]), q=[-1.0, 0.0], lb=[-1.0, -1.0], ub=[1.0, 1.0])
    solution = problem.solve()
    solution.x.sum().backward()
    assert [w.kind for w in solution.warnings] == ["not unique"]
    torch.testing.assert_close(problem.leaves["q"].grad, torch.tensor([-0.5, 0.0], dtype=F64), rtol=1e-6, atol=1e-6)
    with pytest.raises(NotDifferentiableError, match="not unique"):
        problem.gradients(lambda s: s.x.sum(), strict=True)


@pytest.mark.parametrize("eps", [1e-1, 1e-3, 1e-5, 1e-6])
def test_nearly_dependent_rows_have_their_large_derivative(eps: float) -> None:
    problem = make_problem(P=np.eye(2), q=[0.1, 0.2], A=[[1.0, 0.0], [1.0, eps]], b=[1.0, 1.0 + eps])
    r = torch.tensor([0.3, 1.0], dtype=F64)
    gradients = problem.gradients(lambda s: s.x @ r)
    # x = (b₀, (b₁ − b₀)/ε).
    truth = np.array([0.3 - 1.0 / eps, 1.0 / eps])
    assert relative_error(gradients["b"], truth) < 1e-6


@pytest.mark.parametrize("eps", [1e-7, 1e-8, 1e-9, 1e-10])
def test_rows_that_rounding_cannot_tell_apart_are_refused_or_flagged(eps: float) -> None:
    problem = make_problem(P=np.eye(2), q=[0.1, 0.2], A=[[1.0, 0.0], [1.0, eps]], b=[1.0, 1.0 + eps])
    try:
        solution = problem.solve()
    except SolverAccuracyError:
        return
    (solution.x @ torch.tensor([0.3, 1.0], dtype=F64)).backward()
    truth = np.array([0.3 - 1.0 / eps, 1.0 / eps])
    assert solution.warnings or relative_error(problem.leaves["b"].grad, truth) < 1e-4


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


def test_infinite_limits_are_no_limits() -> None:
    full = random_qp(5, 2, 4).arguments
    inf = float("inf")
    limited = make_problem(P=full["P"], q=full["q"], G=full["G"], h=[inf, full["h"][1]], lb=[-inf] * 5, ub=[inf] * 5)
    plain = make_problem(P=full["P"], q=full["q"], G=full["G"][1:], h=full["h"][1:])
    torch.testing.assert_close(limited.solve().x, plain.solve().x, rtol=1e-10, atol=1e-11)
    assert limited.solve().z[0].item() == 0.0


@pytest.mark.parametrize("solver", available_solvers())
def test_infeasible(solver: str) -> None:
    with pytest.raises(InfeasibleError, match="no x satisfies"):
        make_problem(P=np.eye(2), q=[1.0, 1.0], G=[[1.0, 0.0], [-1.0, 0.0]], h=[-1.0, -1.0]).solve(solver=solver)


@pytest.mark.parametrize("solver", available_solvers())
def test_unbounded(solver: str) -> None:
    with pytest.raises(UnboundedError, match="falls without limit"):
        make_problem(P=np.diag([1.0, 0.0]), q=[1.0, -1.0], G=[[1.0, 0.0]], h=[1.0]).solve(solver=solver)


@pytest.mark.parametrize("n", [3, 80])
def test_indefinite_curvature(n: int) -> None:
    P = np.eye(n)
    P[0, 0] = -1.0
    with pytest.raises(NonConvexError, match="not positive semidefinite"):
        make_problem(P=P, q=np.ones(n), lb=-np.ones(n), ub=np.ones(n)).solve()


def test_one_infeasible_element_of_a_batch_is_named() -> None:
    h = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-2.0, 1.0]], dtype=F64)
    G = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=F64)
    with pytest.raises(InfeasibleError, match="batch element 2") as caught:
        solve_qp(torch.eye(2, dtype=F64), torch.zeros(2, dtype=F64), G, h)
    assert caught.value.batch_element == (2,)


def test_crossed_bounds_are_infeasible_before_solving() -> None:
    with pytest.raises(InfeasibleError, match="lb > ub for variable 1"):
        make_problem(P=np.eye(2), q=[0.0, 0.0], lb=[0.0, 2.0], ub=[1.0, 1.0]).solve()


def _dependent_kinds(solution: QPSolution) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(warning.rows, warning.equalities) for warning in solution.warnings if warning.kind == "dependent"]


def test_gradients_of_dependent_rows_are_named_a_choice() -> None:
    row = [1.0, 1.0]
    double = make_problem(P=np.eye(2), q=[-2.0, -1.0], G=[row, [1.0, -3.0], row], h=[1.0, 9.0, 1.0])
    for _ in range(2):
        solution = double.solve()
        assert solution.warnings == ()
        (solution.x @ torch.tensor([1.0, -0.3], dtype=F64)).backward()
        assert _dependent_kinds(solution) == [((0, 2), ())]
        assert "rows of G [0, 2]" in str(solution.warnings[0])
    A = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 2.0, 1.0]])
    equalities = make_problem(P=np.diag([1.0, 2.0, 3.0]), q=[0.3, -1.0, 0.2], A=A, b=[1.0, 0.5, 1.5])
    solution = equalities.solve()
    solution.x[0].backward()
    assert _dependent_kinds(solution) == [((), (0, 1, 2))]


def test_a_row_over_held_variables_alone_depends_on_their_bounds() -> None:
    one = torch.ones(2, dtype=F64)
    G = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=F64)
    arguments = {"P": torch.eye(3, dtype=F64), "q": torch.tensor([2.0, 2.0, -5.0], dtype=F64)}
    h = torch.tensor([0.0, 1.0], dtype=F64).requires_grad_()
    # x₀ + x₁ = 0 with both at zero: as an equality it holds whatever its multiplier is.
    solution = solve_qp(**arguments, A=G[:1], b=h[:1], G=G[1:], h=h[1:], lb=torch.zeros(3, dtype=F64))
    (solution.x[2] + solution.x[:2] @ one).backward()
    assert [warning.equalities for warning in solution.warnings if warning.kind == "dependent"] == [(0,)]


@pytest.mark.parametrize("n", [6, 60])
def test_dependence_is_looked_for_where_it_matters(n: int) -> None:
    rng = np.random.default_rng(n)
    row, root = rng.normal(size=n), rng.normal(size=(n, n))
    P = torch.from_numpy(root @ root.T + np.eye(n) if n < 48 else np.diag(rng.uniform(1.0, 2.0, n)))
    q = torch.from_numpy(rng.normal(size=n))
    A = torch.from_numpy(np.stack([row, 2.0 * row]))
    inside = torch.ones(n, dtype=F64)
    r = loss_weights(n)
    for wanted in ("P", "q", "A", "b"):
        arguments = {"P": P, "q": q, "A": A, "b": A @ inside}
        leaf = arguments[wanted] = arguments[wanted].clone().requires_grad_()
        for strict in (False, True):
            for _ in range(2):
                solution = solve_qp(**arguments, strict=strict)
                if strict and wanted in ("A", "b"):
                    with pytest.raises(NotDifferentiableError, match="dependent"):
                        (solution.x @ r).backward()
                else:
                    (solution.x @ r).backward()
                    assert _dependent_kinds(solution) == ([((), (0, 1))] if wanted in ("A", "b") else [])

    def x_of(b: torch.Tensor) -> torch.Tensor:
        return solve_qp(P, q, A=A, b=b, strict=True).x

    with pytest.raises(NotDifferentiableError, match="dependent"):
        torch.func.jvp(x_of, (A @ inside,), (A @ r,))
    assert leaf.grad is not None


@pytest.mark.parametrize(("n", "m", "p"), [(20, 5, 5), (100, 20, 20), (60, 30, 29)])
def test_rows_that_are_merely_many_or_close_are_not_called_dependent(n: int, m: int, p: int) -> None:
    problem = random_qp(n, m, 0, equalities=p)
    solution = problem.solve()
    (solution.x @ loss_weights(n)).backward()
    assert solution.warnings == ()
    close = make_problem(P=np.eye(2), q=[0.1, 0.2], A=[[1.0, 0.0], [1.0, 1e-5]], b=[1.0, 1.0 + 1e-5])
    solution = close.solve()
    (solution.x @ torch.tensor([0.3, 1.0], dtype=F64)).backward()
    assert _dependent_kinds(solution) == []
