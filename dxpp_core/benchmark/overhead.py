"""What the layer costs beside the bare solver.

Projection onto the probability simplex, forward and backward, against PIQP alone on the same program at the same
tolerance, interleaved in one process: the layer as it is called by default, which needs no solver here, and with PIQP.
Times are medians; on a shared machine trust the ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import piqp
import torch
from scipy import sparse

from .. import solve_qp

__all__ = ["SIZES", "Overhead", "measure_overhead", "print_overhead"]

_TOLERANCE = 1e-9
SOLVERS = ("auto", "piqp")
SIZES = (20, 100, 1_000, 10_000, 100_000)


@dataclass(frozen=True, slots=True)
class Overhead:
    """Median milliseconds of one size: PIQP's set-up and solve alone, and the layer's two passes by ``solver=``."""

    n: int
    bare: float
    forward: dict[str, float]
    backward: dict[str, float]

    def ratio(self, solver: str) -> float:
        """Both passes over the bare solve."""
        return (self.forward[solver] + self.backward[solver]) / self.bare


def measure_overhead(n: int, repetitions: int) -> Overhead:
    """Time the projection of a normal vector of length n onto the simplex."""
    point = np.random.default_rng(0).normal(size=n)
    P, A = 2.0 * sparse.identity(n, format="csc"), sparse.csc_matrix(np.ones((1, n)))
    linear, b, lower, upper = -2.0 * point, np.ones(1), np.zeros(n), np.ones(n)

    def bare() -> None:
        solver = piqp.SparseSolver()
        solver.settings.eps_abs = solver.settings.eps_rel = _TOLERANCE
        solver.settings.eps_duality_gap_abs = solver.settings.eps_duality_gap_rel = _TOLERANCE
        solver.setup(P, linear, A, b, None, None, None, lower, upper)
        solver.solve()

    diagonal = torch.arange(n)
    ones = torch.ones(n, dtype=torch.float64)
    P_tensor = torch.sparse_csr_tensor(torch.arange(n + 1), diagonal, 2.0 * ones, (n, n), check_invariants=False)
    A_tensor = torch.sparse_csr_tensor(torch.tensor([0, n]), diagonal, ones, (1, n), check_invariants=False)
    if n < 100:
        P_tensor, A_tensor = P_tensor.to_dense(), A_tensor.to_dense()
    q = torch.from_numpy(linear.copy()).requires_grad_()
    right, lowest, highest = (torch.from_numpy(part) for part in (b, lower, upper))
    loss = torch.from_numpy(np.random.default_rng(1).normal(size=n))
    x = ones

    def forward(solver: str) -> None:
        nonlocal x
        x = solve_qp(P_tensor, q, A=A_tensor, b=right, lb=lowest, ub=highest, solver=solver).x

    def backward() -> None:
        torch.autograd.grad(x, q, loss)

    timed: dict[str, Callable[[], None]] = {"bare": bare}
    for solver in SOLVERS:
        timed |= {f"forward {solver}": partial(forward, solver), f"backward {solver}": backward}
    times: dict[str, list[float]] = {name: [] for name in timed}
    for repetition in range(repetitions + 1):
        for name, function in timed.items():
            start = time.perf_counter()
            function()
            if repetition:
                times[name].append(1e3 * (time.perf_counter() - start))
    median = {name: float(np.median(seen)) for name, seen in times.items()}
    passes = ({solver: median[f"{which} {solver}"] for solver in SOLVERS} for which in ("forward", "backward"))
    return Overhead(n, median["bare"], *passes)


def print_overhead(sizes: Sequence[int] = SIZES) -> None:
    """Print the table, a row a size."""
    torch.set_num_threads(1)
    print("projection onto the simplex, milliseconds, medians; ratio: forward and backward over PIQP alone")
    print(" " * 22 + "".join(f"{f'solver={solver!r}':>28}" for solver in SOLVERS))
    print(f"{'n':>9} {'PIQP alone':>12}" + f"{'forward':>11}{'backward':>10}{'ratio':>7}" * len(SOLVERS))
    for n in sizes:
        found = measure_overhead(n, max(3, min(300, 1_000_000 // n)))
        columns = (
            f"{found.forward[solver]:>11.3f}{found.backward[solver]:>10.3f}{found.ratio(solver):>7.2f}"
            for solver in SOLVERS
        )
        print(f"{n:>9,} {found.bare:>12.3f}" + "".join(columns))
