"""Small dense programs are solved by compiled loops: what they find is what the general way finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from quadratic_programs import call_layer, check_same, solve_and_differentiate

from dxpp_core import (
    DoubleBackwardError,
    InfeasibleError,
    NonFiniteError,
    QPError,
    ShapeError,
    UnboundedError,
    solve_qp,
)
from dxpp_core.kkt.penalty import PluginPenalty
from dxpp_core.solution.compiled import CompiledSolution
from dxpp_core.solvers import RawSolution, SolverProblem, find_solver

Array = NDArray[np.float64]
F64 = torch.float64


def _program(seed: int, n: int, m: int, p: int, bounds: str) -> dict[str, torch.Tensor]:
    """A feasible program with m inequalities, p equalities and bounds, some of them infinite or equal."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    inside = rng.normal(size=n)
    data: dict[str, Array] = {"P": root @ root.T + 0.1 * np.eye(n), "q": 3.0 * rng.normal(size=n)}
    if m:
        data["G"] = rng.normal(size=(m, n))
        data["h"] = data["G"] @ inside + rng.uniform(0.0, 1.0, m)
        data["h"][rng.random(m) < 0.2] = np.inf
    if p:
        data["A"] = rng.normal(size=(p, n))
        data["b"] = data["A"] @ inside
    if bounds in ("lower", "both"):
        data["lb"] = inside - rng.uniform(0.0, 1.0, n)
        data["lb"][rng.random(n) < 0.3] = -np.inf
    if bounds in ("upper", "both"):
        data["ub"] = inside + rng.uniform(0.0, 1.0, n)
        data["ub"][rng.random(n) < 0.3] = np.inf
    if bounds == "both" and n > p + 1:
        data["lb"][0] = data["ub"][0] = inside[0]
    return {name: torch.from_numpy(value).requires_grad_() for name, value in data.items()}


def _simplex(n: int = 6, seed: int = 0) -> dict[str, torch.Tensor]:
    """Projection onto the simplex, with a row that is not active."""
    q = torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=F64)
    one = torch.ones(n, dtype=F64)
    data = {"P": 2.0 * torch.eye(n, dtype=F64), "q": q, "A": one[None].clone(), "b": one[:1].clone()}
    data |= {"G": one[None].clone(), "h": 3.0 * one[:1], "lb": 0.0 * one, "ub": one.clone()}
    solve_qp(**data)
    return data


def _is_compiled(data: dict[str, torch.Tensor], **options: Any) -> bool:
    solution = call_layer(data, **options).solution
    return isinstance(solution, CompiledSolution) and bool(solution.compiled.all())


def _wrong(name: str, value: float) -> dict[str, torch.Tensor]:
    data = _simplex()
    data[name] = data[name].clone()
    data[name].ravel()[0] = value
    return data


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 20),
    m=st.integers(0, 25),
    p=st.integers(0, 5),
    bounds=st.sampled_from(["none", "lower", "upper", "both"]),
)
def test_all_ways_find_the_same(seed: int, n: int, m: int, p: int, bounds: str) -> None:
    data = _program(seed, n, m, min(p, n - 1), bounds)
    ways = [solve_and_differentiate(data, seed, solver=solver) for solver in ("auto", "auto", "piqp")]
    general = solve_and_differentiate(data, seed, solver="piqp", others=151)
    for way in ways:
        check_same(way, general)


def test_small_programs_are_compiled() -> None:
    data = _simplex()
    assert _is_compiled(data)
    assert _is_compiled(data | {"q": torch.nn.Parameter(data["q"])})
    assert _is_compiled(data | {"q": torch.stack([data["q"], data["q"]], 1)[:, 0]})


@pytest.mark.parametrize("asked", [{"penalty": PluginPenalty()}, {"polish": False}])
def test_what_asks_for_more_takes_the_general_way(asked: dict[str, Any]) -> None:
    assert not _is_compiled(_simplex(), **asked)


@pytest.mark.parametrize("other", ["float32", "sparse", "batch"])
def test_tensors_of_other_kinds_are_compiled_too(other: str) -> None:
    data = _simplex()
    if other == "float32":
        data = {name: tensor.to(torch.float32) for name, tensor in data.items()}
    elif other == "sparse":
        data["P"] = data["P"].to_sparse()
    else:
        data["q"] = torch.stack([data["q"], -data["q"]])
    assert _is_compiled(data)


@pytest.mark.parametrize("name", ["q", "b", "h", "lb", "ub"])
def test_a_wrong_vector_beside_known_matrices_is_refused(name: str) -> None:
    with pytest.raises(NonFiniteError, match=name):
        solve_qp(**_wrong(name, float("nan")))
    data = _simplex()
    with pytest.raises(ShapeError, match=name):
        solve_qp(**data | {name: torch.cat([data[name], data[name]])})


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("lb", 2.0, InfeasibleError),
        ("lb", float("inf"), NonFiniteError),
        ("ub", float("-inf"), NonFiniteError),
        ("h", float("-inf"), InfeasibleError),
        ("h", 0.5, InfeasibleError),
        ("b", 7.0, InfeasibleError),
    ],
)
def test_programs_without_solution_are_refused(name: str, value: float, error: type[QPError]) -> None:
    with pytest.raises(error):
        solve_qp(**_wrong(name, value))


def test_an_unbounded_program_of_known_matrices_is_refused() -> None:
    P, q = torch.diag(torch.tensor([1.0, 0.0], dtype=F64)), torch.tensor([1.0, 0.0], dtype=F64)
    bounds = {"lb": torch.zeros(2, dtype=F64), "ub": torch.full((2,), torch.inf, dtype=F64)}
    solve_qp(P, q, **bounds)
    with pytest.raises(UnboundedError):
        solve_qp(P, q - 1.0, **bounds)


def test_a_limit_that_is_none_is_dropped() -> None:
    data = _simplex()
    expected = solve_qp(**data).x
    found = solve_qp(**_wrong("h", float("inf")))
    assert torch.allclose(found.x, expected, atol=1e-12)
    assert float(found.z) == 0.0


def test_a_result_changed_in_place_changes_no_gradient() -> None:
    data = _simplex()
    data["P"].requires_grad_()
    weights = torch.arange(6.0, dtype=F64)
    expected = torch.autograd.grad(solve_qp(**data).x.dot(weights), data["P"])[0]
    assert float(expected.abs().max()) > 1e-3
    found = solve_qp(**data)
    loss = found.x.dot(weights)
    with torch.no_grad():
        found.x.data.mul_(5.0)
    assert torch.equal(torch.autograd.grad(loss, data["P"])[0], expected)


@pytest.mark.parametrize("solver", ["auto", "piqp"])
def test_all_that_a_solution_tells_is_there(solver: str) -> None:
    data = _simplex()
    data["q"].requires_grad_()
    found = solve_qp(**data, solver=solver)
    assert _is_compiled(data, direct=solver == "auto")
    found.x[0].backward()
    assert found.certificate.worst <= 1e-12
    assert found.warnings == ()
    assert int(found.iterations) > 0
    assert found.direct.item() is (solver == "auto")
    assert (found.timings.solve > 0.0) is (solver == "piqp")
    assert found.timings.sensitivity > 0.0


def test_tangents_and_maps_of_known_matrices() -> None:
    data = _simplex()
    rest = {name: tensor for name, tensor in data.items() if name != "q"}

    def x_of(q: torch.Tensor) -> torch.Tensor:
        return solve_qp(q=q, **rest).x

    by_rows = torch.autograd.functional.jacobian(x_of, data["q"])
    assert torch.allclose(torch.func.jacrev(x_of)(data["q"]), by_rows, atol=1e-12)
    assert torch.allclose(torch.func.jacfwd(x_of)(data["q"]), by_rows, atol=1e-12)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(data["q"], torch.ones_like(data["q"]))
        tangent = torch.autograd.forward_ad.unpack_dual(x_of(dual)).tangent
    assert tangent is not None
    assert torch.allclose(tangent, by_rows.sum(1), atol=1e-12)


def test_second_derivatives_are_refused() -> None:
    data = _simplex()
    data["q"].requires_grad_()
    gradient = torch.autograd.grad((solve_qp(**data).x ** 2).sum(), data["q"], create_graph=True)[0]
    with pytest.raises(DoubleBackwardError):
        gradient.sum().backward()


def test_a_solver_that_gives_no_multipliers_is_served() -> None:
    data = _simplex()
    expected = solve_qp(**data).x

    def primal_only(problem: SolverProblem, tolerance: float) -> RawSolution:
        return RawSolution(find_solver("piqp")(problem, 1e-10).x)

    for _ in range(2):
        assert torch.allclose(solve_qp(**data, solver=primal_only).x, expected, atol=1e-6)


def test_what_the_equalities_settle_needs_no_solver() -> None:
    """An equality twice, a row that they keep from its limit, and a variable that they fix where its bounds do."""
    data = _program(4, n=8, m=5, p=3, bounds="both")
    with torch.no_grad():
        A, b, G, h = (data[name] for name in ("A", "b", "G", "h"))
        # The difference of two equalities fixes the first variable, up to rounding.
        shifted = A[2:] / 3.0
        shifted[0, 0] += 0.7
        data["A"] = torch.cat([A, -0.5 * A[:1], shifted]).requires_grad_()
        data["b"] = torch.cat([b, -0.5 * b[:1], b[2:] / 3.0 + 0.7 * data["lb"][:1]]).requires_grad_()
        data["G"] = torch.cat([G, A[1:2] + A[2:3]]).requires_grad_()
        data["h"] = torch.cat([h, b[1:2] + b[2:3] + 1.0]).requires_grad_()
    solution = solve_qp(**data)
    assert bool(solution.direct)
    assert solution.certificate.worst <= 1e-12
    expected = solve_qp(**data, solver="piqp")
    assert torch.allclose(solution.x, expected.x, rtol=0.0, atol=1e-12)
    assert float(solution.z[-1]) == 0.0
    gradients, others = (torch.autograd.grad(found.x.sum(), data["q"])[0] for found in (solution, expected))
    assert torch.allclose(gradients, others, rtol=0.0, atol=1e-12)
    data["b"] = data["b"] + torch.tensor([0.0, 0.0, 0.0, 1e-3, 0.0], dtype=F64)
    with pytest.raises(InfeasibleError):
        solve_qp(**data)
