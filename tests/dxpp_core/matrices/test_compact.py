"""A diagonal P beside a few full rows (projections, budgets) is polished by compiled loops: they find the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic_programs import call_layer, check_same, random_limits, solve_and_differentiate

from dxpp_core import solve_qp
from dxpp_core.reference import reduced_kkt_gradients
from dxpp_core.solution.compiled import CompiledSolution

F64 = torch.float64


def _program(seed: int, n: int, m: int, p: int, bounds: str, flat: bool) -> dict[str, torch.Tensor]:
    """Feasible, with m inequalities of which some may be missing, p equalities, and bounds of which some are equal.

    ``flat``: some variables have no curvature.
    """
    rng = np.random.default_rng(seed)
    inside = rng.normal(size=n)
    diagonal = rng.uniform(0.2, 3.0, n)
    if flat and bounds == "both":
        diagonal[rng.random(n) < 0.2] = 0.0
    data = {"P": np.diag(diagonal), "q": 3.0 * rng.normal(size=n), **random_limits(rng, inside, m, p, bounds)}
    if m:
        data["h"][rng.random(m) < 0.2] = np.inf
    tensors = {name: torch.from_numpy(value) for name, value in data.items()}
    for name in ("P", "G", "A"):
        if name in tensors:
            tensors[name] = tensors[name].to_sparse_csr()
    return {name: tensor.requires_grad_() for name, tensor in tensors.items()}


def _is_compiled(data: dict[str, Any], **options: Any) -> bool:
    solution = call_layer(data, **options).solution
    return isinstance(solution, CompiledSolution) and bool(solution.compiled.all())


def _projection(n: int) -> dict[str, Any]:
    """A point to be projected onto the simplex, with a budget that is not used up."""
    point = torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=F64)
    one = torch.ones(n, dtype=F64)
    return {
        "P": (2.0 * torch.eye(n, dtype=F64)).to_sparse_csr(),
        "q": (-2.0 * point).requires_grad_(),
        "A": one[None].to_sparse_csr(),
        "b": one[:1],
        "G": one[None].to_sparse_csr(),
        "h": 3.0 * one[:1],
        "lb": 0.0 * one,
        "ub": one,
    }


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(49, 90),
    m=st.integers(0, 4),
    p=st.integers(0, 3),
    bounds=st.sampled_from(["none", "lower", "upper", "both"]),
    flat=st.booleans(),
)
def test_compiled_loops_find_what_numpy_finds(seed: int, n: int, m: int, p: int, bounds: str, flat: bool) -> None:
    data = _program(seed, n, m, p, bounds, flat)
    both = [solve_and_differentiate(data, seed, solver=solver) for solver in ("auto", "piqp")]
    general = solve_and_differentiate(data, seed, others=8)
    for way in both:
        check_same(way, general)


@pytest.mark.parametrize("solver", ["auto", "piqp"])
@pytest.mark.parametrize("n", [50, 1000])
def test_a_projection_is_compiled_and_exact(n: int, solver: str) -> None:
    data = _projection(n)
    found = solve_qp(**data, solver=solver)
    assert _is_compiled(data, direct=solver == "auto")
    assert not found.warnings
    x_bar = torch.randn(n, generator=torch.Generator().manual_seed(1), dtype=F64)
    (gradient,) = torch.autograd.grad(found.x, data["q"], x_bar)
    held = (found.x == 0.0) | (found.x == 1.0)
    free = (~held).double()
    centred = free * (x_bar - (free * x_bar).sum() / free.sum())
    assert float((gradient + 0.5 * centred).abs().max()) <= 1e-13


def test_its_gradients_are_those_of_the_reduced_kkt_system() -> None:
    compiled = 0
    for seed in range(6):
        data = _program(seed, 60, 3, 2, "both", flat=False)
        data["h"] = torch.where(torch.isinf(data["h"]), 50.0, data["h"]).detach().requires_grad_()
        found = solve_qp(**data)
        compiled += _is_compiled(data)
        x_bar = torch.randn(60, generator=torch.Generator().manual_seed(seed), dtype=F64)
        gradients = torch.autograd.grad(found.x, list(data.values()), x_bar)
        x, y, z = (part.detach().numpy() for part in (found.x, found.y, found.z))
        P, G, A, lb, ub = (data[name].detach().to_dense().numpy() for name in ("P", "G", "A", "lb", "ub"))
        at_lower = x == lb
        expected = reduced_kkt_gradients(
            P, G, A, x, y, z, active=z > 0.0, at_lower=at_lower, at_upper=(x == ub) & ~at_lower, x_bar=x_bar.numpy()
        )
        for name, gradient in zip(data, gradients, strict=True):
            if name in ("lb", "ub"):
                continue  # that of a fixed variable is shared between the two
            other = getattr(expected, name)
            if name == "P":
                other = np.diag(np.diag(other))
            scale = max(1.0, float(np.abs(other).max()))
            assert float(np.abs(gradient.to_dense().numpy() - other).max()) <= 1e-11 * scale, name
    # Where the first guess from a rough point is wrong, NumPy corrects it.
    assert compiled >= 4


def test_a_weakly_active_bound_is_left_to_the_general_way_and_named() -> None:
    data = _projection(60)
    # It lies on the simplex: its zeros are not pushed against their bounds.
    point = torch.zeros(60, dtype=F64)
    point[:2] = 0.5
    data["q"] = (-2.0 * point).requires_grad_()
    found = solve_qp(**data)
    assert not _is_compiled(data)
    assert [warning.kind for warning in found.warnings] == ["weakly active"]


def test_directions_that_nothing_determines_are_found_by_its_factor() -> None:
    n = 1000
    flat = torch.ones(n, dtype=F64)
    flat[:2] = 0.0
    q = torch.zeros(n, dtype=F64)
    q[2:] = -1.0
    P, A = torch.diag(flat).to_sparse_csr(), flat[None].to_sparse_csr()
    found = solve_qp(P, q.requires_grad_(), A=A, b=torch.ones(1, dtype=F64))
    (gradient,) = torch.autograd.grad(found.x[0] + found.x[5], q)
    assert [warning.kind for warning in found.warnings] == ["not unique"]
    assert torch.isfinite(gradient).all()
    expected = torch.zeros(n, dtype=F64)
    expected[2:] = 1.0 / (n - 2)
    expected[5] -= 1.0
    assert float((gradient - expected).abs().max()) <= 1e-12
