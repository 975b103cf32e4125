"""Where the derivative is a choice: weakly active or dependent rows, and solutions that are not unique."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic_programs import loss_weights, make_problem, random_qp, relative_error

from dxpp_core import (
    NotDifferentiableError,
    QPSolution,
    SolverAccuracyError,
    solve_qp,
)

F64 = torch.float64


def _dependent_kinds(solution: QPSolution) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(warning.rows, warning.equalities) for warning in solution.warnings if warning.kind == "dependent"]


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


@pytest.mark.parametrize("eps", [1e-11, 1e-12])
def test_equalities_that_differ_by_rounding_are_refused_or_flagged(eps: float) -> None:
    problem = make_problem(P=np.eye(2), q=[-3.0, -1.0], A=[[1.0, 0.0], [1.0, eps]], b=[1.0, 1.0])
    assert problem.solve().warnings or abs(problem.solve().x[1].item()) < 1e-6


def test_strict_raises_every_time() -> None:
    q = torch.zeros(2, dtype=F64, requires_grad=True)
    bound = torch.ones(2, dtype=F64)
    solution = solve_qp(torch.diag(torch.tensor([1.0, 0.0], dtype=F64)), q, lb=-bound, ub=bound, strict=True)
    for _ in range(2):
        with pytest.raises(NotDifferentiableError):
            torch.autograd.grad(solution.x.sum(), q, retain_graph=True)
