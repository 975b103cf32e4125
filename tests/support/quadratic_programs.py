"""Quadratic programs with known structure, and the independent check that every gradient is held to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dxpp_core import QPSolution, find_solver, solve_qp
from dxpp_core.arguments import native_arrays, split_argument
from dxpp_core.autograd import Call, apply_solve
from dxpp_core.matrices.pattern import SparsePattern
from dxpp_core.options import Options
from dxpp_core.program.problem import NAMES
from dxpp_core.reference import reduced_kkt_gradients


@dataclass
class Problem:
    """Arguments of one QP by name; ``solve`` makes leaves of them."""

    arguments: dict[str, Tensor]
    leaves: dict[str, Tensor] = field(default_factory=dict)

    def solve(self, **options: Any) -> QPSolution:
        self.leaves = {name: value.detach().clone().requires_grad_() for name, value in self.arguments.items()}
        return solve_qp(**self.leaves, **options)

    def gradients(self, loss: Callable[[QPSolution], Tensor], **options: object) -> dict[str, Tensor]:
        loss(self.solve(**options)).backward()
        return {name: leaf.grad for name, leaf in self.leaves.items() if leaf.grad is not None}


def make_problem(**arguments: object) -> Problem:
    return Problem({k: torch.as_tensor(v, dtype=torch.float64) for k, v in arguments.items() if v is not None})


def _beside_others(data: Mapping[str, Tensor], others: int) -> dict[str, Tensor]:
    """The same program beside as many variables that nothing ties to it, whose P is full and whose minimum is zero."""
    dense = {
        name: part if part.layout is torch.strided else part.to_dense(masked_grad=True) for name, part in data.items()
    }
    own = 0.5 * torch.eye(others, dtype=torch.float64) + 0.5
    wider = {"P": torch.block_diag(dense["P"], own)}
    for name in ("G", "A"):
        if name in dense:
            wider[name] = torch.nn.functional.pad(dense[name], (0, others))
    for name, filling in (("q", 0.0), ("lb", -torch.inf), ("ub", torch.inf)):
        if name in dense:
            wider[name] = torch.nn.functional.pad(dense[name], (0, others), value=filling)
    return dense | wider


def solve_and_differentiate(
    data: Mapping[str, Tensor], seed: int, *, others: int = 0, **options: Any
) -> tuple[QPSolution, dict[str, Tensor]]:
    """The solution, and dense gradients of a random linear loss of all its parts.

    Beside so many ``others`` (variables that have nothing to do with it) a program is not compact: no compiled loop
    serves it.
    """
    n = data["q"].numel()
    found = solve_qp(**(_beside_others(data, others) if others else data), **options)
    found = replace(found, x=found.x[:n], z_box=found.z_box[:n])
    generator = torch.Generator().manual_seed(seed)
    parts = (found.x, found.y, found.z, found.z_box)
    loss = torch.stack(
        [(torch.randn(part.shape, generator=generator, dtype=part.dtype) * part).sum() for part in parts]
    ).sum()
    gradients = torch.autograd.grad(loss, list(data.values()), allow_unused=True)
    return found, {name: g.to_dense() for name, g in zip(data, gradients, strict=True) if g is not None}


def call_layer(data: Mapping[str, Tensor], **options: Any) -> Call:
    """What ``solve_qp`` does by default, or with these fields of ``Options``; the call tells how it was done."""
    patterns: dict[str, SparsePattern] = {}
    tensors = [data.get(name) for name in NAMES]
    arrays = native_arrays(tensors)
    if arrays is None:
        tensors = [split_argument(name, tensor, patterns) for name, tensor in zip(NAMES, tensors, strict=True)]
    call = Call(Options(**{"solver": find_solver("piqp"), "direct": True} | options), patterns, arrays)
    apply_solve(call, *tensors)
    return call


def random_limits(rng: np.random.Generator, inside: np.ndarray, m: int, p: int, bounds: str) -> dict[str, np.ndarray]:
    """Limits that the point ``inside`` meets: m inequalities, p equalities, and bounds, of which two may be equal.

    ``bounds`` is none, lower, upper or both.
    """
    n = inside.size
    data: dict[str, np.ndarray] = {}
    if m:
        data["G"] = rng.normal(size=(m, n))
        data["h"] = data["G"] @ inside + rng.uniform(0.0, 1.0, m)
    if p:
        data["A"] = rng.normal(size=(p, n))
        data["b"] = data["A"] @ inside
    if bounds in ("lower", "both"):
        data["lb"] = inside - rng.uniform(0.1, 1.0, n)
    if bounds in ("upper", "both"):
        data["ub"] = inside + rng.uniform(0.1, 1.0, n)
    if bounds == "both" and n > p + 1:
        data["lb"][0] = data["ub"][0] = inside[0]
    return data


def check_same(
    one: tuple[QPSolution, Mapping[str, Tensor]],
    other: tuple[QPSolution, Mapping[str, Tensor]],
    *,
    unit: float = 1.0,
    least: float = 1.0,
) -> None:
    """Two ways found the same, multipliers in this unit, gradients relative to the largest entry or to ``least``."""
    (found, gradients), (expected, their_gradients) = one, other
    for name in ("x", "y", "z", "z_box"):
        size = 1.0 if name == "x" else unit
        assert torch.allclose(getattr(found, name) / size, getattr(expected, name) / size, rtol=1e-10, atol=1e-10), name
    assert gradients.keys() == their_gradients.keys()
    for name, gradient in their_gradients.items():
        size = max(least, float(gradient.abs().max()))
        assert float((gradients[name] - gradient).abs().max()) <= 1e-8 * size, name
    assert max(found.certificate.worst, expected.certificate.worst) <= 1e-12


def random_qp(n: int, m: int, seed: int, *, equalities: int | None = None) -> Problem:
    """The paper's recipe (section 4.1): P = P'P'ᵀ + 1e-6 I, the rest standard normal, x = 1 strictly feasible."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    root, ones = normal(n, n), torch.ones(n, dtype=torch.float64)
    p = m if equalities is None else equalities
    G, A = normal(m, n), normal(p, n)
    return make_problem(
        P=root @ root.T + 1e-6 * torch.eye(n, dtype=torch.float64), q=normal(n), G=G, h=G @ ones + 1.0, A=A, b=A @ ones
    )


def reference_gradients(problem: Problem, solution: QPSolution, x_bar: np.ndarray) -> Mapping[str, np.ndarray]:
    """Gradients of x̄ᵀx by the plain reduced KKT system; activity read off slacks and multipliers of the exact point."""
    data = {name: value.numpy() for name, value in problem.arguments.items()}
    n = data["q"].size
    G, h = data.get("G", np.zeros((0, n))), data.get("h", np.zeros(0))
    A = data.get("A", np.zeros((0, n)))
    x, y, z, z_box = (t.detach().numpy() for t in (solution.x, solution.y, solution.z, solution.z_box))
    row_size = np.linalg.norm(G, axis=1)
    slack = (h - G @ x) / np.where(row_size > 0, row_size, 1.0)
    active = z * np.where(row_size > 0, row_size, 1.0) > slack
    lower = -z_box > x - data["lb"] if "lb" in data else np.zeros(n, dtype=bool)
    upper = z_box > data["ub"] - x if "ub" in data else np.zeros(n, dtype=bool)
    found = reduced_kkt_gradients(
        data["P"], G, A, x, y, z, active=active, at_lower=lower, at_upper=upper & ~lower, x_bar=x_bar
    )
    return {name: getattr(found, name) for name in NAMES if name in data}


def relative_error(found: np.ndarray | Tensor, truth: np.ndarray, floor: float = 1e-12) -> float:
    return float(np.linalg.norm(np.asarray(found) - truth) / max(np.linalg.norm(truth), floor))


def loss_weights(n: int, seed: int = 7) -> Tensor:
    """Fixed random weights of a linear loss: never one that a constraint fixes."""
    return torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
