"""What becomes of an argument after the call changes no gradient: it is an error of autograd's, or without effect."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from quadratic_programs import NAMES, random_limits
from torch import Tensor

from dxpp_core import QPSolution, solve_qp
from dxpp_core.solvers import RawSolution, SolverProblem, find_solver

Change = Callable[[Tensor], None]


def _with_autograd(tensor: Tensor) -> None:
    with torch.no_grad():
        tensor.mul_(3.0)


def _behind_its_back(tensor: Tensor) -> None:
    tensor.data.fill_(float("nan"))


def _through_numpy(tensor: Tensor) -> None:
    tensor.detach().numpy()[:] = np.nan


CHANGES = (_with_autograd, _behind_its_back, _through_numpy)


def _program(n: int, batch: int, seed: int) -> dict[str, Tensor]:
    """All eight arguments, of a strictly convex program with active rows and bounds."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    data = {"P": root @ root.T / n + np.eye(n), "q": 5.0 * rng.normal(size=(batch, n) if batch else n)}
    data |= random_limits(rng, 0.1 * rng.normal(size=n), 3, 1, "both")
    return {name: torch.from_numpy(data[name]) for name in NAMES}


def _dense(n: int, batch: int = 0, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    return {name: value.to(dtype) for name, value in _program(n, batch, seed=3).items()}


def _sparse(layout: torch.layout) -> dict[str, Tensor]:
    data = _dense(6)
    return {name: value.to_sparse(layout=layout) if name in ("P", "G", "A") else value for name, value in data.items()}


LAYOUTS: dict[str, Callable[[], dict[str, Tensor]]] = {
    "small": lambda: _dense(6),
    "large": lambda: _dense(60),
    "batch": lambda: _dense(6, 3),
    "single": lambda: _dense(6, 0, torch.float32),
    "csr": lambda: _sparse(torch.sparse_csr),
    "coo": lambda: _sparse(torch.sparse_coo),
}


def _loss(found: QPSolution) -> Tensor:
    """Of all results, multipliers included."""
    parts = (found.x, found.y, found.z, found.z_box)
    return torch.stack([(part * part.detach().cos()).sum() for part in parts]).sum()


def _gradients(
    data: dict[str, Tensor], change: Change | None, changed: str, options: dict[str, str]
) -> dict[str, Tensor]:
    leaves = {name: value.clone().requires_grad_() for name, value in data.items()}
    loss = _loss(solve_qp(**leaves, **options))
    if change is not None:
        tensor = leaves[changed]
        if tensor.layout is torch.sparse_coo:
            tensor = tensor.detach()._values()
        change(tensor if tensor.layout is torch.strided else tensor.values())
    found = torch.autograd.grad(loss, list(leaves.values()))
    return {name: gradient.to_dense() for name, gradient in zip(leaves, found, strict=True)}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("options", [{}, {"solver": "piqp"}, {"method": "penalty"}], ids=["auto", "piqp", "penalty"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_argument_changed_after_the_call_changes_no_gradient(layout: str, options: dict[str, str]) -> None:
    data = LAYOUTS[layout]()
    expected = _gradients(data, None, "", options)
    for name in NAMES:
        for change in CHANGES:
            try:
                found = _gradients(data, change, name, options)
            except RuntimeError:
                assert change is _with_autograd
                continue
            for of, gradient in found.items():
                assert torch.equal(gradient, expected[of]), (name, change.__name__, of)


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_solution_tells_later_is_of_its_own_arguments(change: Change) -> None:
    data = _dense(6)
    expected = solve_qp(**data).certificate
    found = solve_qp(**data)
    for value in data.values():
        change(value)
    assert found.certificate == expected


@pytest.mark.parametrize("name", ["P", "G", "A"])
def test_a_matrix_changed_behind_the_back_of_autograd_is_not_taken_for_the_old_one(name: str) -> None:
    data = _dense(6)
    data["lb"], data["ub"] = 100.0 * data["lb"], 100.0 * data["ub"]
    data["h"] -= 10.0
    old = solve_qp(**data).x
    data[name].detach().numpy()[:] *= 1.5
    new = solve_qp(**data).x
    again = solve_qp(**{key: value.clone() for key, value in data.items()}, solver="piqp").x
    assert not torch.allclose(new, old, atol=1e-3)
    assert torch.allclose(new, again, atol=1e-9)


def test_a_solver_may_reuse_the_memory_of_its_results() -> None:
    memory = {"x": np.zeros(6), "y": np.zeros(1), "z": np.zeros(3), "z_box": np.zeros(6)}

    def reusing(problem: SolverProblem, tolerance: float) -> RawSolution:
        found = find_solver("piqp")(problem, tolerance)
        for name, array in memory.items():
            array[:] = getattr(found, name)
        return RawSolution(memory["x"], memory["y"], memory["z"], memory["z_box"])

    data = _dense(6, 3)
    data["q"].requires_grad_()
    own = {"polish": False, "tolerance": 1e-7}
    gradients = []
    for solver in ("piqp", reusing):
        found = solve_qp(**data, solver=solver, method="penalty", prune=False, delta=1e-2, **own)
        gradients.append(torch.autograd.grad(found.x.square().sum(), data["q"])[0])
    assert torch.equal(*gradients)
