"""Laws of the solution map: how x and every gradient transform when the same program is written differently.

They hold for every solver that is installed.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from quadratic_programs import Problem, loss_weights, make_problem, random_qp
from torch import Tensor

from dxpp_core import available_solvers, solve_qp

every_solver = pytest.mark.parametrize("solver", ["auto", *available_solvers()])
TOLERANCE = 1e-9
seeds = st.integers(0, 10_000)
powers = st.sampled_from([-6, -3, 3, 6])


def box_qp(seed: int, n: int = 8) -> Problem:
    """Equalities, inequalities and bounds, some of each active."""
    data = random_qp(n, 3, seed, equalities=2).arguments
    return make_problem(**data, lb=torch.full((n,), 0.2), ub=torch.full((n,), 1.7))


def solve_with_gradients(problem: Problem, r: Tensor, **options: object) -> tuple[Tensor, dict[str, Tensor]]:
    solution = problem.solve(**options)
    (solution.x @ r).backward()
    return solution.x.detach(), {k: v.grad for k, v in problem.leaves.items() if v.grad is not None}


def assert_same(found: Tensor, expected: Tensor, what: str) -> None:
    """Both in the units of the base problem, of order one; at vertices some gradients vanish."""
    size = max(float(expected.abs().max()), 1e-3)
    assert float((found - expected).abs().max()) <= TOLERANCE * size, what


@every_solver
@given(seed=seeds, power=powers)
@hypothesis_settings(max_examples=40)
def test_units_of_x(solver: str, seed: int, power: int) -> None:
    """x = u x': P' = u²P, q' = uq, G' = uG, A' = uA, bounds divided by u."""
    u, base, r = 10.0**power, box_qp(seed), loss_weights(8)
    x, gradient = solve_with_gradients(base, r, solver=solver)
    a = base.arguments
    scaled = make_problem(
        P=u * u * a["P"], q=u * a["q"], G=u * a["G"], h=a["h"], A=u * a["A"], b=a["b"], lb=a["lb"] / u, ub=a["ub"] / u
    )
    x_scaled, gradient_scaled = solve_with_gradients(scaled, r * u, solver=solver)
    assert_same(x_scaled * u, x, "x")
    for name, factor in {"P": u**-2, "q": 1 / u, "G": 1 / u, "A": 1 / u, "h": 1, "b": 1, "lb": u, "ub": u}.items():
        assert_same(gradient_scaled[name] / factor, gradient[name], name)


@every_solver
@given(seed=seeds, power=powers)
@hypothesis_settings(max_examples=40)
def test_units_of_the_objective(solver: str, seed: int, power: int) -> None:
    c, base, r = 10.0**power, box_qp(seed), loss_weights(8)
    x, gradient = solve_with_gradients(base, r, solver=solver)
    scaled = make_problem(**{**base.arguments, "P": c * base.arguments["P"], "q": c * base.arguments["q"]})
    x_scaled, gradient_scaled = solve_with_gradients(scaled, r, solver=solver)
    assert_same(x_scaled, x, "x")
    for name in gradient:
        assert_same(gradient_scaled[name] * (c if name in ("P", "q") else 1.0), gradient[name], name)


@every_solver
@given(seed=seeds, exponents=st.lists(st.floats(-4, 4), min_size=5, max_size=5))
@hypothesis_settings(max_examples=40)
def test_units_of_rows(solver: str, seed: int, exponents: list[float]) -> None:
    """Each row in units of its own, mixed over eight orders of magnitude."""
    base, r = box_qp(seed), loss_weights(8)
    rows = 10.0 ** torch.tensor(exponents, dtype=torch.float64)
    of_G, of_A = rows[:3], rows[3:]
    x, gradient = solve_with_gradients(base, r, solver=solver)
    a = base.arguments
    scaled = make_problem(
        **{**a, "G": of_G[:, None] * a["G"], "h": of_G * a["h"], "A": of_A[:, None] * a["A"], "b": of_A * a["b"]}
    )
    x_scaled, gradient_scaled = solve_with_gradients(scaled, r, solver=solver)
    assert_same(x_scaled, x, "x")
    for name in ("P", "q", "lb", "ub"):
        assert_same(gradient_scaled[name], gradient[name], name)
    for name, factor in (("h", of_G), ("b", of_A)):
        assert_same(gradient_scaled[name] * factor, gradient[name], name)
    for name, factor in (("G", of_G), ("A", of_A)):
        assert_same(gradient_scaled[name] * factor[:, None], gradient[name], name)


@every_solver
@given(seed=seeds, power=st.sampled_from([-3, 3]), exponents=st.lists(st.floats(-3, 3), min_size=8, max_size=8))
@hypothesis_settings(max_examples=40)
def test_units_of_each_variable(solver: str, seed: int, power: int, exponents: list[float]) -> None:
    base, r = box_qp(seed), loss_weights(8)
    D = 10.0 ** torch.tensor(exponents, dtype=torch.float64)
    c = 10.0**power
    x, gradient = solve_with_gradients(base, r, solver=solver)
    a = base.arguments
    scaled = make_problem(
        P=c * D[:, None] * a["P"] * D, q=c * D * a["q"], G=a["G"] * D, h=a["h"], A=a["A"] * D, b=a["b"],
        lb=a["lb"] / D, ub=a["ub"] / D,
    )  # fmt: skip
    x_scaled, gradient_scaled = solve_with_gradients(scaled, D * r, solver=solver)
    assert_same(D * x_scaled, x, "x")
    assert_same(gradient_scaled["q"] * c * D, gradient["q"], "q")
    assert_same(gradient_scaled["h"], gradient["h"], "h")


@every_solver
@given(seed=seeds)
@hypothesis_settings(max_examples=30)
def test_order_of_rows_and_variables(solver: str, seed: int) -> None:
    base, r = box_qp(seed), loss_weights(8)
    generator = torch.Generator().manual_seed(seed)
    v, g, e = (torch.randperm(k, generator=generator) for k in (8, 3, 2))
    x, gradient = solve_with_gradients(base, r, solver=solver)
    a = base.arguments
    moved = make_problem(
        P=a["P"][v][:, v], q=a["q"][v], G=a["G"][g][:, v], h=a["h"][g], A=a["A"][e][:, v], b=a["b"][e],
        lb=a["lb"][v], ub=a["ub"][v],
    )  # fmt: skip
    x_moved, gradient_moved = solve_with_gradients(moved, r[v], solver=solver)
    assert_same(x_moved, x[v], "x")
    assert_same(gradient_moved["q"], gradient["q"][v], "q")
    assert_same(gradient_moved["h"], gradient["h"][g], "h")
    assert_same(gradient_moved["A"], gradient["A"][e][:, v], "A")


@every_solver
@given(seed=seeds)
@hypothesis_settings(max_examples=30)
def test_bounds_are_rows(solver: str, seed: int) -> None:
    base, r = box_qp(seed), loss_weights(8)
    x, gradient = solve_with_gradients(base, r, solver=solver)
    a = base.arguments
    eye = torch.eye(8, dtype=torch.float64)
    as_rows = make_problem(
        P=a["P"],
        q=a["q"],
        A=a["A"],
        b=a["b"],
        G=torch.cat([a["G"], eye, -eye]),
        h=torch.cat([a["h"], a["ub"], -a["lb"]]),
    )
    x_rows, gradient_rows = solve_with_gradients(as_rows, r, solver=solver)
    assert_same(x_rows, x, "x")
    for name in ("P", "q", "A", "b"):
        assert_same(gradient_rows[name], gradient[name], name)
    assert_same(gradient_rows["h"][3:11], gradient["ub"], "ub")
    assert_same(-gradient_rows["h"][11:], gradient["lb"], "lb")


def _sparse_qp(seed: int, n: int = 70) -> Problem:
    """A problem large and sparse enough to take the sparse path."""
    rng = np.random.default_rng(seed)
    P = np.diag(rng.uniform(0.5, 2.0, n))
    P[np.arange(n - 1), np.arange(1, n)] = P[np.arange(1, n), np.arange(n - 1)] = 0.2
    G = np.zeros((n - 1, n))
    G[np.arange(n - 1), np.arange(n - 1)], G[np.arange(n - 1), np.arange(1, n)] = 1.0, -1.0
    A = np.ones((1, n))
    return make_problem(
        P=P, q=rng.normal(size=n), G=G, h=np.full(n - 1, 0.2), A=A, b=[3.0], lb=np.full(n, -0.3), ub=np.full(n, 0.5)
    )


@every_solver
@pytest.mark.parametrize("layout", ["dense", "coo", "csr", "csc"])
@pytest.mark.parametrize("seed", [0, 1])
def test_layout_of_the_matrices(solver: str, seed: int, layout: str) -> None:
    base = _sparse_qp(seed)
    n, r = 70, loss_weights(70)
    x, gradient = solve_with_gradients(base, r, solver=solver)
    leaves = {k: v.clone().requires_grad_() for k, v in base.arguments.items()}
    convert = {
        "dense": lambda t: t,
        "coo": lambda t: t.to_sparse(),
        "csr": lambda t: t.to_sparse_csr(),
        "csc": lambda t: t.to_sparse_csc(),
    }[layout]
    given_ = {k: (convert(v.detach()).requires_grad_() if k in ("P", "G", "A") else v) for k, v in leaves.items()}
    solution = solve_qp(**given_, solver=solver)
    wanted = list(given_.values())
    found = dict(zip(given_, torch.autograd.grad(solution.x @ r, wanted), strict=True))
    assert_same(solution.x.detach(), x, "x")
    for name, value in found.items():
        dense = value.to_dense() if value.layout is not torch.strided else value
        pattern = (
            (base.arguments[name] != 0) if name in ("P", "G", "A") and layout != "dense" else torch.ones_like(dense)
        )
        assert_same(dense, gradient[name] * pattern, name)
    assert n == x.numel()


@every_solver
@given(seed=seeds)
@hypothesis_settings(max_examples=15)
def test_a_batch_is_a_loop(solver: str, seed: int) -> None:
    """Shared arguments collect the sum of the gradients of the elements."""
    base, r = box_qp(seed), loss_weights(8)
    generator = torch.Generator().manual_seed(seed + 1)
    q = torch.randn(2, 3, 8, dtype=torch.float64, generator=generator)
    a = base.arguments
    leaves = {k: v.clone().requires_grad_() for k, v in {**a, "q": q}.items()}
    solution = solve_qp(**leaves, solver=solver)
    (solution.x @ r).sum().backward()
    total = {k: torch.zeros_like(v) for k, v in a.items() if k != "q"}
    for i in range(2):
        for j in range(3):
            x, gradient = solve_with_gradients(make_problem(**{**a, "q": q[i, j]}), r, solver=solver)
            assert_same(solution.x[i, j].detach(), x, "x")
            assert_same(leaves["q"].grad[i, j], gradient["q"], "q")
            for name in total:
                total[name] += gradient[name]
    for name, value in total.items():
        assert_same(leaves[name].grad, value, name)
