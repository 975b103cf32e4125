"""Programs and calls that once went wrong, each with the right value."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic_programs import loss_weights, make_problem
from torch.func import jacfwd, jacrev, jvp, vmap

from dxpp_core import InfeasibleError, NotDifferentiableError, ProblemError, solve_qp

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


def test_a_workspace_forgets_the_bounds_of_an_earlier_call() -> None:
    n = 60
    P, q, lower = torch.eye(n, dtype=F64), -torch.ones(n, dtype=F64), torch.zeros(n, dtype=F64)
    first = solve_qp(P, q, lb=lower, polish=False).x
    solve_qp(P, q, lb=lower, ub=torch.full((n,), 0.1, dtype=F64))
    assert torch.equal(solve_qp(P, q, lb=lower, polish=False).x, first)


def test_tangents_under_vmap_where_an_argument_has_its_own_batch() -> None:
    generator = torch.Generator().manual_seed(0)
    eye = torch.eye(3, dtype=F64)
    h = torch.rand(2, 3, dtype=F64, generator=generator)
    for count in (2, 3):
        q, dq = (torch.randn(count, 3, dtype=F64, generator=generator) for _ in range(2))

        def tangent(q: torch.Tensor, dq: torch.Tensor) -> torch.Tensor:
            return jvp(lambda q: solve_qp(eye, q, -eye, h).x, (q,), (dq,))[1]

        torch.testing.assert_close(
            vmap(tangent)(q, dq), torch.stack([tangent(a, b) for a, b in zip(q, dq, strict=True)])
        )


def test_gradients_under_nested_vmap() -> None:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 4, 3, dtype=F64, generator=generator)
    P = torch.eye(3, dtype=F64) * torch.tensor([1.0, 2.0, 3.0], dtype=F64)
    lower = torch.zeros(3, dtype=F64)

    def loss(q: torch.Tensor, P: torch.Tensor) -> torch.Tensor:
        return solve_qp(P, q, lb=lower).x @ torch.tensor([1.0, 2.0, 3.0], dtype=F64)

    both = torch.func.grad(loss, argnums=(0, 1))
    nested = vmap(vmap(both, in_dims=(0, None)), in_dims=(0, None))(q, P)
    for i in range(2):
        for j in range(4):
            for found, expected in zip(nested, both(q[i, j], P), strict=True):
                torch.testing.assert_close(found[i, j], expected)


@pytest.mark.parametrize(("n", "rank"), [(5, 2), (20, 5), (60, 10)])
def test_a_semidefinite_matrix_of_single_precision_is_convex(n: int, rank: int) -> None:
    root = torch.randn(n, rank, generator=torch.Generator().manual_seed(0))
    one = torch.ones(n)
    x = solve_qp(root @ root.T, torch.randn(n, generator=torch.Generator().manual_seed(1)), lb=-one, ub=one).x
    assert x.dtype is torch.float32
    assert float(x.abs().max()) <= 1.0


@pytest.mark.parametrize("eps", [1e-11, 1e-12])
def test_equalities_that_differ_by_rounding_are_refused_or_flagged(eps: float) -> None:
    problem = make_problem(P=np.eye(2), q=[-3.0, -1.0], A=[[1.0, 0.0], [1.0, eps]], b=[1.0, 1.0])
    assert problem.solve().warnings or abs(problem.solve().x[1].item()) < 1e-6


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


def test_strict_raises_every_time() -> None:
    q = torch.zeros(2, dtype=F64, requires_grad=True)
    bound = torch.ones(2, dtype=F64)
    solution = solve_qp(torch.diag(torch.tensor([1.0, 0.0], dtype=F64)), q, lb=-bound, ub=bound, strict=True)
    for _ in range(2):
        with pytest.raises(NotDifferentiableError):
            torch.autograd.grad(solution.x.sum(), q, retain_graph=True)


def test_forward_mode_reports_what_is_not_unique() -> None:
    with torch.autograd.forward_ad.dual_level():
        q = torch.autograd.forward_ad.make_dual(torch.zeros(2, dtype=F64), torch.tensor([0.0, 1.0], dtype=F64))
        bound = torch.ones(2, dtype=F64)
        solution = solve_qp(torch.diag(torch.tensor([1.0, 0.0], dtype=F64)), q, lb=-bound, ub=bound)
    assert [warning.kind for warning in solution.warnings] == ["not unique"]


def test_a_fixed_variable_has_one_jacobian_in_both_modes() -> None:
    P, q = torch.eye(2, dtype=F64), torch.zeros(2, dtype=F64)
    bound = torch.tensor([0.5, 1.0], dtype=F64)

    def x_of(lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
        return solve_qp(P, q, lb=lower - torch.tensor([0.0, 3.0], dtype=F64), ub=upper).x

    for left, right in zip(jacrev(x_of, (0, 1))(bound, bound), jacfwd(x_of, (0, 1))(bound, bound), strict=True):
        torch.testing.assert_close(left, right)
        assert left[0, 0].item() == pytest.approx(0.5)


def test_sparse_matrices_without_entries() -> None:
    q, lower = torch.ones(3, dtype=F64), torch.zeros(3, dtype=F64)
    for layout in ("to_sparse", "to_sparse_csr", "to_sparse_csc"):
        nothing = getattr(torch.zeros(3, 3, dtype=F64), layout)()
        torch.testing.assert_close(solve_qp(nothing, q, lb=lower).x, lower)


def test_batches_of_size_zero() -> None:
    for n in (3, 49):
        assert solve_qp(torch.zeros(0, n, n, dtype=F64), torch.ones(n, dtype=F64)).x.shape == (0, n)
    assert solve_qp(torch.zeros(0, 3, 3, dtype=F64).to_sparse(), torch.ones(3, dtype=F64)).x.shape == (0, 3)


@pytest.mark.parametrize("option", [{"delta": 0.0}, {"delta": float("nan")}, {"zeta": 0.0}, {"tolerance": "a"}])
def test_options_that_make_no_sense(option: dict[str, object]) -> None:
    with pytest.raises(ProblemError, match=next(iter(option))):
        make_problem(P=np.eye(2), q=[0.0, 0.0]).solve(**option)


def test_a_view_with_its_sign_pending() -> None:
    q = torch.complex(torch.zeros(3, dtype=F64), loss_weights(3)).conj().imag
    torch.testing.assert_close(solve_qp(torch.eye(3, dtype=F64), q).x, loss_weights(3))
