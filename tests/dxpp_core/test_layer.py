"""The surface: what is accepted, what is refused and how, dtypes, transforms, batches, threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from quadratic_programs import loss_weights, make_problem, random_qp

import dxpp_core
from dxpp_core import (
    DoubleBackwardError,
    InfeasibleError,
    NonFiniteError,
    ProblemError,
    QPError,
    QPLayer,
    ShapeError,
    solve_qp,
)

F64 = torch.float64
NAN, INF = float("nan"), float("inf")


def test_every_error_has_one_base() -> None:
    names = [name for name in dir(dxpp_core) if name.endswith("Error")]
    assert len(names) >= 12
    assert all(issubclass(getattr(dxpp_core, name), QPError) for name in names)
    assert issubclass(ShapeError, ProblemError)
    assert issubclass(ShapeError, ValueError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"P": np.eye(3), "q": [0.0, 0.0]}, r"P is 3 × 3 .* must be 2 × 2"),
        ({"P": np.eye(2), "q": [0.0, 0.0], "G": np.ones((1, 3)), "h": [1.0]}, r"G is 1 × 3 .* must be 1 × 2"),
        ({"P": np.eye(2), "q": [0.0, 0.0], "G": np.ones((1, 2))}, "G is given without h"),
        ({"P": np.eye(2), "q": [0.0, 0.0], "b": [1.0]}, "b is given without A"),
        ({"P": np.eye(2), "q": [0.0, 0.0], "lb": [0.0]}, r"lb is 1 .* must be 2"),
        ({"P": [1.0], "q": [0.0]}, "P has shape"),
        ({"P": np.zeros((0, 0)), "q": []}, "at least one variable"),
    ],
)
def test_misshapen_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        make_problem(**arguments).solve()


def test_batches_that_do_not_broadcast() -> None:
    with pytest.raises(ShapeError, match=r"P \[2\], q \[3\]"):
        solve_qp(torch.eye(2, dtype=F64).expand(2, 2, 2), torch.zeros(3, 2, dtype=F64))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("P", [[1.0, NAN], [0.0, 1.0]], r"P\[0, 1\] is nan"),
        ("q", [INF, 0.0], r"q\[0\] is inf"),
        ("h", [NAN], r"h\[0\] is nan"),
        ("b", [INF], r"b\[0\] is inf"),
        ("lb", [0.0, NAN], r"lb\[1\] is nan"),
        ("lb", [INF, 0.0], r"lb\[0\] is inf"),
        ("ub", [-INF, 0.0], r"ub\[0\] is -inf"),
    ],
)
def test_values_that_are_not_finite(name: str, value: object, message: str) -> None:
    arguments = {
        "P": np.eye(2), "q": [0.0, 0.0], "G": [[1.0, 0.0]], "h": [1.0], "A": [[1.0, 1.0]], "b": [1.0],
        "lb": [-9.0, -9.0], "ub": [9.0, 9.0],
    }  # fmt: skip
    with pytest.raises(NonFiniteError, match=message):
        make_problem(**{**arguments, name: value}).solve()


def test_nan_names_the_batch_element() -> None:
    q = torch.zeros(2, 3, 2, dtype=F64)
    q[1, 2, 0] = NAN
    with pytest.raises(NonFiniteError) as caught:
        solve_qp(torch.eye(2, dtype=F64), q)
    assert caught.value.batch_element == (1, 2)


def test_no_limit_below_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="row 0 of G"):
        make_problem(P=np.eye(2), q=[0.0, 0.0], G=[[1.0, 0.0]], h=[-INF]).solve()


def test_arguments_of_the_wrong_kind() -> None:
    with pytest.raises(ShapeError, match="dtype"):
        solve_qp(torch.eye(2, dtype=torch.int64), torch.zeros(2, dtype=F64))
    with pytest.raises(ShapeError, match=r"torch\.Tensor"):
        solve_qp(np.eye(2), torch.zeros(2, dtype=F64))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="method"):
        solve_qp(torch.eye(2, dtype=F64), torch.zeros(2, dtype=F64), method="other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tolerance"):
        solve_qp(torch.eye(2, dtype=F64), torch.zeros(2, dtype=F64), tolerance=0.0)


def test_single_precision_is_computed_in_double_and_returned_in_single() -> None:
    problem = random_qp(20, 5, 0)
    exact = problem.solve()
    (exact.x @ loss_weights(20)).backward()
    leaves = {k: v.float().requires_grad_() for k, v in problem.arguments.items()}
    single = solve_qp(**leaves)
    assert single.x.dtype is torch.float32
    (single.x @ loss_weights(20).float()).backward()
    assert leaves["q"].grad.dtype is torch.float32
    error = (leaves["q"].grad.double() - problem.leaves["q"].grad).norm() / problem.leaves["q"].grad.norm()
    assert float(error) < 1e-3


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


def test_the_stationarity_of_the_returned_point() -> None:
    a = random_qp(9, 4, 3).arguments
    s = solve_qp(**a, lb=torch.full((9,), 0.3, dtype=F64), ub=torch.full((9,), 1.5, dtype=F64))
    left = a["P"] @ s.x + a["q"] + a["A"].T @ s.y + a["G"].T @ s.z + s.z_box
    assert float(left.abs().max()) < 1e-11
    assert float(s.z.min()) >= 0.0
    assert s.certificate.worst < 1e-12
    assert s.status == "solved"
    assert s.iterations.item() > 0
    assert s.direct.item()
    assert s.timings.polish > 0.0
    assert solve_qp(a["P"], a["q"], solver="piqp").timings.solve > 0.0


def test_active_bounds_are_met_exactly() -> None:
    a = random_qp(9, 4, 3).arguments
    lb = torch.full((9,), 0.3, dtype=F64)
    s = solve_qp(a["P"], a["q"], lb=lb)
    assert float((s.x - lb).min()) == 0.0


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


def test_gradients_of_multipliers() -> None:
    a = random_qp(6, 3, 1).arguments
    arguments = (a["q"].clone().requires_grad_(), a["b"].clone().requires_grad_())

    def duals(q: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        s = solve_qp(a["P"], q, a["G"], a["h"], a["A"], b)
        return torch.cat([s.y, s.z])

    assert torch.autograd.gradcheck(duals, arguments)


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


def test_repeated_solves_are_identical_whatever_was_solved_between() -> None:
    def chain(n: int, seed: int) -> dict[str, torch.Tensor]:
        D = np.eye(n - 1, n) - np.eye(n - 1, n, 1)
        q = np.random.default_rng(seed).normal(size=n)
        return make_problem(P=np.eye(n), q=q, G=np.vstack([D, -D]), h=np.full(2 * n - 2, 0.3)).arguments

    first = solve_qp(**chain(80, 0)).x
    for seed in range(1, 4):
        solve_qp(**chain(80, seed))
    assert torch.equal(solve_qp(**chain(80, 0)).x, first)


def test_threads_do_not_share_a_workspace() -> None:
    n = 80
    D = torch.eye(n, dtype=F64)[:-1] - torch.eye(n, dtype=F64)[1:]
    qs = [torch.randn(n, dtype=F64, generator=torch.Generator().manual_seed(i)) for i in range(8)]

    def gradient(q: torch.Tensor) -> torch.Tensor:
        q = q.clone().requires_grad_()
        x = solve_qp(torch.eye(n, dtype=F64), q, D, torch.full((n - 1,), 0.3, dtype=F64)).x
        return torch.autograd.grad(x @ loss_weights(n), q)[0]

    alone = [gradient(q) for q in qs]
    together: list[torch.Tensor | None] = [None] * 8

    def work(i: int) -> None:
        for _ in range(3):
            together[i] = gradient(qs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for left, right in zip(alone, together, strict=True):
        assert right is not None
        assert torch.equal(left, right)


def test_the_module_passes_its_options_on() -> None:
    layer = QPLayer(solver="clarabel", tolerance=1e-7)
    q = torch.tensor([-1.0, -2.0], dtype=F64, requires_grad=True)
    x = layer(torch.eye(2, dtype=F64), q, lb=torch.zeros(2, dtype=F64)).x
    torch.testing.assert_close(x.detach(), torch.tensor([1.0, 2.0], dtype=F64))
    assert "clarabel" in repr(layer)
    assert not list(layer.parameters())


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_leaves_collect_gradients_on_their_pattern(layout: str) -> None:
    n = 60
    P = torch.diag(torch.linspace(1.0, 2.0, n, dtype=F64))
    P = (P.to_sparse() if layout == "coo" else P.to_sparse_csr()).requires_grad_()
    q = torch.ones(n, dtype=F64)
    solve_qp(P, q, lb=-0.7 * torch.ones(n, dtype=F64)).x.sum().backward()
    assert P.grad is not None
    assert P.grad.layout is P.layout
    assert P.grad._nnz() == n


def test_a_batch_of_sparse_matrices_shares_one_pattern() -> None:
    n = 60
    base = torch.diag(torch.linspace(1.0, 2.0, n, dtype=F64))
    P = torch.stack([base.to_sparse_csr().to_dense(), 2 * base]).to_sparse_csr().requires_grad_()
    q = torch.ones(n, dtype=F64)
    x = solve_qp(P, q).x
    assert x.shape == (2, n)
    x.sum().backward()
    torch.testing.assert_close(P.grad.to_dense()[1].diagonal(), (1 / (2 * base.diagonal()) ** 2))
    uneven = torch.stack([base, base.flip(0)]).to_sparse()
    with pytest.raises(ShapeError, match="share one"):
        solve_qp(uneven, q)
