"""Without a solver: corrections of an empty active set lead to what a solver finds, or the solver is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from quadratic_programs import check_same, random_limits, solve_and_differentiate

from dxpp_core import InfeasibleError, QPSolution, SolverAccuracyError, layer, solve_qp
from dxpp_core.solvers import RawSolution, SolverProblem, find_solver

Array = NDArray[np.float64]
F64 = torch.float64


def _program(seed: int, n: int, m: int, p: int, bounds: str, full: bool) -> dict[str, torch.Tensor]:
    """A feasible and strictly convex program; ``full``: P is not diagonal."""
    rng = np.random.default_rng(seed)
    inside = rng.normal(size=n)
    root = rng.normal(size=(n, n))
    P = root @ root.T + 0.1 * np.eye(n) if full else np.diag(rng.uniform(0.2, 3.0, n))
    data = {"P": P, "q": 3.0 * rng.normal(size=n), **random_limits(rng, inside, m, p, bounds)}
    return {name: torch.from_numpy(value).requires_grad_() for name, value in data.items()}


def _is_direct(found: QPSolution) -> bool:
    return bool(found.direct.all())


def _projection(point: Array, **changes: torch.Tensor) -> dict[str, Any]:
    """A point to be projected onto the simplex."""
    n = point.size
    one = torch.ones(n, dtype=F64)
    if n <= 48:
        P = torch.diag(2.0 * one)
    else:
        P = torch.sparse_csr_tensor(torch.arange(n + 1), torch.arange(n), 2.0 * one, (n, n))
    data = {"P": P, "q": -2.0 * torch.from_numpy(point), "A": one[None], "b": one[:1], "lb": 0.0 * one}
    return data | changes


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    m=st.integers(0, 5),
    p=st.integers(0, 3),
    bounds=st.sampled_from(["none", "lower", "upper", "both"]),
    full=st.booleans(),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_what_is_found_is_what_a_solver_finds(
    seed: int, n: int, m: int, p: int, bounds: str, full: bool, scale: float
) -> None:
    data = _program(seed, n, m, min(p, n - 1), bounds, full)
    if scale != 1.0:
        data |= {name: (scale * data[name]).detach().requires_grad_() for name in ("P", "q")}
    asked = solve_and_differentiate(data, seed, solver="piqp")
    assert not asked[0].direct.any()
    check_same(solve_and_differentiate(data, seed), asked, unit=scale, least=1e-7)


@pytest.mark.parametrize("bounds", ["lower", "upper", "both"])
def test_variables_in_other_units_need_no_solver_either(bounds: str) -> None:
    """x = S x' with S from 1e-3 to 1e3: bounds in the new units are S⁻¹ of the old ones."""
    S = 10.0 ** torch.linspace(-3.0, 3.0, 24, dtype=F64)
    for seed in range(20):
        data = {name: value.detach() for name, value in _program(seed, 24, 0, 1, bounds, True).items()}
        moved = data | {"P": S[:, None] * data["P"] * S, "q": S * data["q"], "A": data["A"] * S}
        moved |= {name: data[name] / S for name in ("lb", "ub") if name in data}
        plain, found = solve_qp(**data), solve_qp(**moved)
        assert _is_direct(plain)
        assert _is_direct(found)
        torch.testing.assert_close(S * found.x, plain.x, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("full", [True, False])
def test_most_programs_need_no_solver(full: bool) -> None:
    found = [
        solve_qp(**_program(seed, 24 if full else 400, 3, 1, "both", full), solver=solver)
        for seed in range(40)
        for solver in ("auto", "piqp")
    ]
    assert sum(map(_is_direct, found[::2])) >= 36
    assert not any(map(_is_direct, found[1::2]))
    assert all(int(one.iterations) > 0 for one in found)


@pytest.mark.parametrize("n", [2, 20, 1_000, 20_000])
def test_a_projection_is_that_of_the_sorted_sum(n: int) -> None:
    point = np.random.default_rng(n).normal(size=n)
    found = solve_qp(**_projection(point))
    assert _is_direct(found)
    # Held, Wolfe and Crowder 1974: the threshold comes from the largest entries.
    descending = np.sort(point)[::-1]
    thresholds = (np.cumsum(descending) - 1.0) / np.arange(1, n + 1)
    threshold = thresholds[np.flatnonzero(descending > thresholds)[-1]]
    np.testing.assert_allclose(found.x.numpy(), np.maximum(point - threshold, 0.0), atol=1e-14, rtol=0.0)


def test_the_solver_is_called_only_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    class CalledError(Exception):
        pass

    def refuse(problem: SolverProblem, tolerance: float) -> RawSolution:
        raise CalledError

    monkeypatch.setattr(layer, "find_solver", lambda name: refuse)
    point = np.random.default_rng(0).normal(size=12)
    for _ in range(2):
        found = solve_qp(**_projection(point))
        assert _is_direct(found)
        assert found.timings.solve == 0.0
    # A point of the simplex with zeros: these are weakly active, which corrections do not tell apart.
    on_it = np.zeros(12)
    on_it[:2] = 0.5
    one = torch.ones(12, dtype=F64)
    rows = {"G": torch.rand(9, 12, dtype=F64, generator=torch.Generator().manual_seed(0)), "h": 9.0 * one[:9]}
    assert _is_direct(solve_qp(**_projection(point, **rows)))
    for data in (
        _projection(on_it),
        _projection(point, b=-one[:1]),
        _projection(point, P=torch.diag(one - one * (torch.arange(12) == 3))),
    ):
        for _ in range(2):
            with pytest.raises(CalledError):
                solve_qp(**data)
    for asked in ({"solver": "piqp"}, {"polish": False}):
        with pytest.raises(CalledError):
            solve_qp(**_projection(point), **asked)


def test_what_it_does_not_settle_is_answered_as_ever() -> None:
    on_it = np.zeros(12)
    on_it[:2] = 0.5
    found = solve_qp(**_projection(on_it))
    assert not _is_direct(found)
    assert [warning.kind for warning in found.warnings] == ["weakly active"]
    with pytest.raises(InfeasibleError):
        solve_qp(**_projection(on_it, b=-torch.ones(1, dtype=F64)))


def test_elements_of_a_batch_are_told_apart() -> None:
    point = np.random.default_rng(0).normal(size=12)
    on_it = np.zeros(12)
    on_it[:2] = 0.5
    data = _projection(point)
    found = solve_qp(**data | {"q": torch.stack([data["q"], -2.0 * torch.from_numpy(on_it), -data["q"]])[:, None]})
    assert found.direct.tolist() == [[True], [False], [True]]
    data["b"] = torch.tensor([[1.0], [-1.0], [1.0]], dtype=F64)
    with pytest.raises(InfeasibleError) as caught:
        solve_qp(**data)
    assert caught.value.batch_element == (1,)


def test_a_set_that_contradicts_itself_leaves_no_rounding_behind() -> None:
    # The second set tried holds the row and the bound of one variable at once: its multiplier is of the order 1e6.
    data = {"P": [[0.2]], "q": [1.0], "G": [[-1.3]], "h": [-0.76], "lb": [-0.006]}
    found = solve_qp(**{name: torch.tensor(value, dtype=F64) for name, value in data.items()})
    assert _is_direct(found)
    assert int(found.iterations) == 3
    assert found.certificate.worst <= 1e-15


@pytest.mark.parametrize("place", ["x", "y", "z", "z_box"])
@pytest.mark.parametrize("polish", [True, False])
def test_what_a_solver_leaves_without_numbers_is_never_a_solution(place: str, polish: bool) -> None:
    one = torch.ones(3, dtype=F64)
    data = {"P": torch.diag(one), "q": -one, "A": one[None], "b": one[:1]}
    data |= {"G": -one[None], "h": one[:1], "lb": 0.0 * one}

    def unfinished(problem: SolverProblem, tolerance: float) -> RawSolution:
        found = find_solver("piqp")(problem, tolerance)
        part = np.array(getattr(found, place))
        part[0] = np.nan
        setattr(found, place, part)
        return found

    try:
        found = solve_qp(**data, solver=unfinished, polish=polish)
    except SolverAccuracyError:
        return
    assert torch.allclose(found.x, one / 3.0, atol=1e-9)
    assert found.certificate.worst <= 1e-8
