"""A solver of your own: rough projected gradients, whose answer comes back exact, certified and differentiable."""

import numpy as np
import torch

from dxpp_core import solve_qp
from dxpp_core.solvers import RawSolution, SolverProblem, register_solver


@register_solver("projected-gradient")
def projected_gradient(problem: SolverProblem, tolerance: float) -> RawSolution:
    """Minimise ½xᵀPx + qᵀx over lb ≤ x ≤ ub, and over nothing else."""
    step = 1.0 / np.linalg.norm(problem.P, 2)
    x = np.clip(np.zeros_like(problem.q), problem.lb, problem.ub)
    for _ in range(100_000):
        slope = problem.P @ x + problem.q
        moved = np.clip(x - step * slope, problem.lb, problem.ub)
        close = np.abs(moved - x).max() < tolerance
        x = moved
        if close:
            break
    slope = problem.P @ x + problem.q
    at_bound = (x <= problem.lb) | (x >= problem.ub)
    return RawSolution(x=x, z_box=np.where(at_bound, -slope, 0.0))


torch.manual_seed(0)
factor = torch.randn(6, 6, dtype=torch.float64)
P = factor @ factor.T + torch.eye(6, dtype=torch.float64)
q = (4.0 * torch.randn(6, dtype=torch.float64)).requires_grad_()
box = {"lb": -torch.ones(6, dtype=torch.float64), "ub": torch.ones(6, dtype=torch.float64)}

mine = solve_qp(P, q, **box, solver="projected-gradient")
reference = solve_qp(P, q, **box, solver="piqp")
(slopes,) = torch.autograd.grad(mine.x.sum(), q)
print("x                     ", "  ".join(f"{float(value):+.4f}" for value in mine.x.detach()))
print("distance to PIQP's x   ", f"{float((mine.x - reference.x).detach().abs().max()):.1e}")
print("d Σx / dq              ", "  ".join(f"{float(value):+.4f}" for value in slopes))
