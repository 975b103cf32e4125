"""Small dense programs are settled by compiled loops: what they find is what the general way finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dxpp_core import QPSolution, problem, solve_qp
from dxpp_core.factorization import dense

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


def _solve_and_differentiate(data: dict[str, torch.Tensor], seed: int) -> tuple[QPSolution, dict[str, torch.Tensor]]:
    found = solve_qp(**data)
    generator = torch.Generator().manual_seed(seed)
    parts = (found.x, found.y, found.z, found.z_box)
    loss = torch.stack([(torch.randn(part.shape, generator=generator, dtype=F64) * part).sum() for part in parts]).sum()
    gradients = torch.autograd.grad(loss, list(data.values()), allow_unused=True)
    return found, {name: g for name, g in zip(data, gradients, strict=True) if g is not None}


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 20),
    m=st.integers(0, 25),
    p=st.integers(0, 5),
    bounds=st.sampled_from(["none", "lower", "upper", "both"]),
)
def test_both_ways_find_the_same(seed: int, n: int, m: int, p: int, bounds: str) -> None:
    data = _program(seed, n, m, min(p, n - 1), bounds)
    quick, gradients = _solve_and_differentiate(data, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "_SMALL_VARIABLES", 0)
        # Systems that were made the compiled way are not recognised.
        patch.setattr(problem, "_small_systems", problem.LeastRecentlyUsed(1))
        general, expected = _solve_and_differentiate(data, seed)
    for name in ("x", "y", "z", "z_box"):
        one, other = getattr(quick, name), getattr(general, name)
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-10), name
    for name, other in expected.items():
        scale = max(1.0, float(other.abs().max()))
        assert float((gradients[name] - other).abs().max()) <= 1e-8 * scale, name
    assert quick.certificate.worst <= 1e-12
    assert general.certificate.worst <= 1e-12
