"""Reverse and forward mode, ``vmap`` and ``torch.func``, and what autograd does around the layer."""

from __future__ import annotations

import pytest
import torch
from quadratic_programs import loss_weights, random_qp
from torch.func import jacfwd, jacrev, jvp, vmap

from dxpp_core import (
    DoubleBackwardError,
    solve_qp,
)

F64 = torch.float64


def test_forward_and_reverse_jacobians_agree_under_torch_func() -> None:
    problem = random_qp(5, 2, 2)
    a = problem.arguments

    def x_of(q: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return solve_qp(**{**a, "q": q, "h": h}).x

    reverse = torch.func.jacrev(x_of, argnums=(0, 1))(a["q"], a["h"])
    forward = torch.func.jacfwd(x_of, argnums=(0, 1))(a["q"], a["h"])
    for left, right in zip(reverse, forward, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-11)
    _, tangent = torch.func.jvp(x_of, (a["q"], a["h"]), (torch.ones(5, dtype=F64), torch.zeros(2, dtype=F64)))
    torch.testing.assert_close(tangent, reverse[0].sum(1), rtol=1e-9, atol=1e-11)


def test_vmap_is_a_batch() -> None:
    a = random_qp(5, 2, 2).arguments
    q = torch.randn(4, 5, dtype=F64, generator=torch.Generator().manual_seed(0))
    P = torch.stack([a["P"], 2 * a["P"]])

    def x_of(q: torch.Tensor) -> torch.Tensor:
        return solve_qp(P, q, A=a["A"], b=a["b"]).x

    mapped = torch.func.vmap(x_of)(q)
    assert mapped.shape == (4, 2, 5)
    torch.testing.assert_close(mapped, solve_qp(P, q[:, None], A=a["A"], b=a["b"]).x)
    per_sample = torch.func.vmap(torch.func.grad(lambda q: x_of(q)[0, 0]))(q)
    for i in range(4):
        torch.testing.assert_close(per_sample[i], torch.func.grad(lambda q: x_of(q)[0, 0])(q[i]))


def test_second_derivatives_are_refused() -> None:
    problem = random_qp(5, 2, 2)
    solution = problem.solve()
    q = problem.leaves["q"]
    (first,) = torch.autograd.grad((solution.x**2).sum(), q, create_graph=True)
    with pytest.raises(DoubleBackwardError):
        first.sum().backward()
    with pytest.raises(DoubleBackwardError):
        torch.func.hessian(lambda q: (solve_qp(**{**problem.arguments, "q": q}).x ** 2).sum())(problem.arguments["q"])


def test_no_gradient_is_worked_out_when_none_is_asked_for() -> None:
    a = random_qp(6, 3, 1).arguments
    solution = solve_qp(**a)
    assert not solution.x.requires_grad
    assert solution.timings.sensitivity == 0.0


def test_a_result_changed_in_place_does_not_change_the_gradient() -> None:
    problem = random_qp(6, 3, 1)
    expected = problem.gradients(lambda s: s.x @ loss_weights(6))["P"]
    solution = problem.solve()
    with torch.no_grad():
        solution.x.mul_(5.0)
    (solution.x @ loss_weights(6)).backward()
    torch.testing.assert_close(problem.leaves["P"].grad, expected, rtol=0, atol=0)


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


def test_a_view_with_its_sign_pending() -> None:
    q = torch.complex(torch.zeros(3, dtype=F64), loss_weights(3)).conj().imag
    torch.testing.assert_close(solve_qp(torch.eye(3, dtype=F64), q).x, loss_weights(3))
