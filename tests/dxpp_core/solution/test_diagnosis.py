"""What is said of a program without a solution is shown by its own numbers; where they do not tell, that is said."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from dxpp_core import (
    IllConditionedError,
    InfeasibleError,
    ProblemError,
    SolverAccuracyError,
    UnboundedError,
    solve_qp,
)

F64 = torch.float64
INF = float("inf")


def _tensor(value: object) -> Tensor:
    return torch.tensor(value, dtype=F64)


def _far_away(kind: str, eps: float) -> dict[str, Tensor]:
    """Programs whose only feasible point is (0, 1/eps)."""
    P, q = torch.eye(2, dtype=F64), torch.zeros(2, dtype=F64)
    limits: dict[str, object] = {
        "equalities": {"A": [[1.0, 0.0], [1.0, eps]], "b": [0.0, 1.0]},
        "close rows": {"A": [[1.0, 1.0], [1.0, 1.0 + eps]], "b": [0.0, 1.0]},
        "inequalities": {"G": [[1.0, 0.0], [-1.0, 0.0], [-1.0, -eps]], "h": [0.0, 0.0, -1.0]},
        "bounds": {"A": [[1.0, eps]], "b": [1.0], "lb": [0.0, -INF], "ub": [0.0, INF]},
    }[kind]  # type: ignore[assignment]
    return {"P": P, "q": q} | {name: _tensor(value) for name, value in limits.items()}  # type: ignore[attr-defined]


@pytest.mark.parametrize("solver", ["auto", "piqp", "clarabel"])
@pytest.mark.parametrize("eps", [1e-8, 1e-9, 1e-11])
@pytest.mark.parametrize("kind", ["equalities", "close rows", "inequalities", "bounds"])
def test_a_solution_far_away_is_found_or_not_ruled_out(kind: str, eps: float, solver: str) -> None:
    data = _far_away(kind, eps)
    try:
        x = solve_qp(**data, solver=solver).x
    except SolverAccuracyError:
        return
    assert abs(float(x[1]) * eps - 1.0) < 1e-3


def test_limits_of_which_double_precision_does_not_tell_are_said_to_be_undecided() -> None:
    with pytest.raises(IllConditionedError, match="too ill-conditioned to decide whether any x satisfies"):
        solve_qp(**_far_away("equalities", 1e-9))


@pytest.mark.parametrize("eps", [1e-8, 3e-9])
@pytest.mark.parametrize("kind", ["equalities", "close rows", "inequalities", "bounds"])
def test_a_solvers_own_verdict_that_the_numbers_do_not_show_is_said_to_be_no_more_than_that(
    kind: str, eps: float
) -> None:
    said = ""
    try:
        x = solve_qp(**_far_away(kind, eps), solver="piqp").x
    except IllConditionedError as error:
        said = str(error)
    assert "PIQP" not in said
    assert "too ill-conditioned" in said if said else abs(float(x[1]) * eps - 1.0) < 1e-3


def test_a_contradiction_within_the_rounding_of_single_precision_is_none() -> None:
    third = torch.full((3,), 1 / 3)
    data = {"A": torch.ones(1, 3), "b": torch.ones(1), "lb": third, "ub": third}
    with pytest.raises(SolverAccuracyError):
        solve_qp(torch.eye(3), torch.zeros(3), **data)
    with pytest.raises(InfeasibleError):
        solve_qp(torch.eye(3), torch.zeros(3), **data | {"b": 1.001 * torch.ones(1)})


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_bounds_that_cross_by_their_rounding_are_equal(dtype: torch.dtype) -> None:
    lb, ub = torch.tensor([0.1, -1.0], dtype=dtype) + torch.tensor([0.2, 0.0], dtype=dtype), torch.ones(2, dtype=dtype)
    ub[0] = lb[0] - torch.finfo(dtype).eps * lb[0]
    assert ub[0] < lb[0]
    found = solve_qp(torch.eye(2, dtype=dtype), torch.zeros(2, dtype=dtype), lb=lb, ub=ub)
    torch.testing.assert_close(found.x, torch.tensor([0.3, 0.0], dtype=dtype))
    ub[0] = lb[0] - 1e-4
    with pytest.raises(InfeasibleError, match="lb > ub for variable 0"):
        solve_qp(torch.eye(2, dtype=dtype), torch.zeros(2, dtype=dtype), lb=lb, ub=ub)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["rows", "equalities", "bounds"])
def test_random_contradictions_are_shown_whatever_their_units(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = 30, 8
    G, x = rng.normal(size=(m, n)), rng.normal(size=n)
    data = {"P": np.eye(n), "q": rng.normal(size=n)}
    if kind == "bounds":
        data |= {"G": np.abs(G), "h": -1e-4 * np.ones(m), "lb": np.zeros(n)}
    else:
        rows = np.vstack([G, -rng.uniform(0.1, 1.0, m) @ G])
        limits = rows @ x
        limits[-1] -= 1e-4
        data |= {"G": rows, "h": limits} if kind == "rows" else {"A": rows, "b": limits}
    for name in ("G", "A", "h", "b"):
        if name in data:
            data[name] = 10.0 ** (2 * seed - 6) * data[name]
    with pytest.raises(InfeasibleError, match="no x satisfies"):
        solve_qp(**{name: torch.from_numpy(value) for name, value in data.items()})


@pytest.mark.parametrize("seed", range(4))
def test_random_rays_are_shown_and_almost_flat_curvature_is_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(20, 12))
    P, q = torch.from_numpy(root @ root.T), torch.from_numpy(rng.normal(size=20))
    with pytest.raises(UnboundedError, match="falls without limit"):
        solve_qp(P, q)
    # It has a solution, far away: found or not, but not ruled out.
    ridge = 1e-7 * torch.eye(20, dtype=F64)
    try:
        x = solve_qp(P + ridge, q).x
    except SolverAccuracyError:
        return
    torch.testing.assert_close((P + ridge) @ x, -q, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [1e-320, 1e-310])
@pytest.mark.parametrize("names", [("P", "q"), ("P",), ("q",), ("A", "b"), ("b", "q")])
def test_numbers_beyond_what_can_be_scaled_are_refused_or_right(names: tuple[str, ...], size: float) -> None:
    data = {"P": [[2.0, 0.5], [0.5, 1.0]], "q": [-1.0, -3.0], "A": [[1.0, 1.0]], "b": [1.0]}
    tensors = {name: _tensor(value) * (size if name in names else 1.0) for name, value in data.items()}
    try:
        x = solve_qp(**tensors).x
    except (ProblemError, SolverAccuracyError):
        return
    assert torch.isfinite(x).all()
    torch.testing.assert_close(tensors["A"] @ x, tensors["b"])
