"""What is checked of the arguments: shapes, numbers, convexity, limits that are none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic_programs import make_problem, random_qp

from dxpp_core import (
    InfeasibleError,
    NonConvexError,
    NonFiniteError,
    ShapeError,
    solve_qp,
)

F64 = torch.float64
NAN, INF = float("nan"), float("inf")


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


def test_zero_rows() -> None:
    problem = make_problem(P=np.eye(3), q=[1.0, 2.0, 3.0], G=np.zeros((0, 3)), h=np.zeros(0))
    assert problem.solve().z.shape == (0,)


def test_rows_without_entries() -> None:
    problem = make_problem(P=np.eye(2), q=[1.0, 2.0], G=np.zeros((1, 2)), h=[1.0])
    torch.testing.assert_close(problem.solve().x.detach(), torch.tensor([-1.0, -2.0], dtype=F64))


def test_infinite_limits_are_no_limits() -> None:
    full = random_qp(5, 2, 4).arguments
    inf = float("inf")
    limited = make_problem(P=full["P"], q=full["q"], G=full["G"], h=[inf, full["h"][1]], lb=[-inf] * 5, ub=[inf] * 5)
    plain = make_problem(P=full["P"], q=full["q"], G=full["G"][1:], h=full["h"][1:])
    torch.testing.assert_close(limited.solve().x, plain.solve().x, rtol=1e-10, atol=1e-11)
    assert limited.solve().z[0].item() == 0.0


@pytest.mark.parametrize("n", [3, 80])
def test_indefinite_curvature(n: int) -> None:
    P = np.eye(n)
    P[0, 0] = -1.0
    with pytest.raises(NonConvexError, match="not positive semidefinite"):
        make_problem(P=P, q=np.ones(n), lb=-np.ones(n), ub=np.ones(n)).solve()


def test_crossed_bounds_are_infeasible_before_solving() -> None:
    with pytest.raises(InfeasibleError, match="lb > ub for variable 1"):
        make_problem(P=np.eye(2), q=[0.0, 0.0], lb=[0.0, 2.0], ub=[1.0, 1.0]).solve()


@pytest.mark.parametrize(("n", "rank"), [(5, 2), (20, 5), (60, 10)])
def test_a_semidefinite_matrix_of_single_precision_is_convex(n: int, rank: int) -> None:
    root = torch.randn(n, rank, generator=torch.Generator().manual_seed(0))
    one = torch.ones(n)
    x = solve_qp(root @ root.T, torch.randn(n, generator=torch.Generator().manual_seed(1)), lb=-one, ub=one).x
    assert x.dtype is torch.float32
    assert float(x.abs().max()) <= 1.0


def test_batches_of_size_zero() -> None:
    for n in (3, 49):
        assert solve_qp(torch.zeros(0, n, n, dtype=F64), torch.ones(n, dtype=F64)).x.shape == (0, n)
    assert solve_qp(torch.zeros(0, 3, 3, dtype=F64).to_sparse(), torch.ones(3, dtype=F64)).x.shape == (0, 3)
