# %% [markdown]
# # The QP layer alone
#
# `dxpp_core` solves min ½xᵀPx + qᵀx subject to Gx ≤ h, Ax = b, lb ≤ x ≤ ub, and differentiates the solution with
# respect to all eight arguments. It needs nothing of the rest: `pip install ./dxpp_core`.
#
# ## Solve and differentiate
#
# The nearest point of the simplex to a given one:

# %%
import torch

from dxpp_core import InfeasibleError, solve_qp
from dxpp_core.solvers import RawSolution, find_solver, register_solver

point = torch.tensor([0.9, 0.5, -0.2], dtype=torch.float64, requires_grad=True)
one, eye = torch.ones(1, 3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
solution = solve_qp(eye, -point, A=one, b=one[:, 0], lb=torch.zeros(3, dtype=torch.float64))
print(solution.x.detach())
(slope,) = torch.autograd.grad(solution.x[0], point)
print(slope)

# %% [output]
# tensor([0.7000, 0.3000, 0.0000], dtype=torch.float64)
# tensor([ 0.5000, -0.5000,  0.0000], dtype=torch.float64)

# %% [markdown]
# Raising the first coordinate by ε raises x₀ by ε/2 and lowers x₁ as much: both lie on the face x₂ = 0. The gradient
# is that of the exact solution, not of a solver's iterations.
#
# The solution has its multipliers, and a certificate: the residuals of the optimality conditions, relative, which meet
# `tolerance`. Gradients flow through `x`, `y`, `z` and `z_box` alike.

# %%
print("multiplier of 1ᵀx = 1:", float(solution.y.detach()[0]))
print("multipliers of the bounds:", solution.z_box.detach().tolist())
print("certified:", solution.certificate.worst < 1e-8)

# %% [output]
# multiplier of 1ᵀx = 1: 0.2
# multipliers of the bounds: [0.0, 0.0, -0.4]
# certified: True

# %% [markdown]
# ## Batches
#
# Leading dimensions are batches and broadcast. A gradient has the shape of its argument: that of a shared one is
# summed over the batch.

# %%
torch.manual_seed(0)
P = torch.diag(torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)).requires_grad_()
q = torch.randn(100, 3, dtype=torch.float64, requires_grad=True)
x = solve_qp(P, q, A=one, b=one[:, 0]).x
x.square().sum().backward()
print(tuple(x.shape), tuple(P.grad.shape), tuple(q.grad.shape))

# %% [output]
# (100, 3) (3, 3) (100, 3)

# %% [markdown]
# ## Where there is no solution
#
# Problems without a solution raise an error of their own that names the element of the batch, and so do misshapen,
# non-convex and NaN ones.

# %%
try:
    totals = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)  # x ≥ 0 cannot sum to −1
    solve_qp(P.detach(), q[0].detach(), A=one, b=totals, lb=torch.zeros(3, dtype=torch.float64))
except InfeasibleError as error:
    print(error)

# %% [output]
# batch element 1: no x satisfies all of Gx ≤ h, Ax = b and the bounds

# %% [markdown]
# ## Where the exact derivative is zero
#
# A linear objective has its solution at a vertex, which does not move with q: the exact gradient is zero and teaches
# nothing. The paper's penalty with a large δ and without pruning has a gradient there that says which way to go.

# %%
q = torch.tensor([-1.0, -0.9, 0.0], dtype=torch.float64, requires_grad=True)
simplex = {"A": one, "b": one[:, 0], "lb": torch.zeros(3, dtype=torch.float64)}
nearly_linear = 1e-3 * eye
exact = solve_qp(nearly_linear, q, **simplex).x
smooth = solve_qp(nearly_linear, q, **simplex, method="penalty", delta=0.5, prune=False).x
print("exact: zero?", bool(torch.autograd.grad(exact[0], q)[0].abs().max() < 1e-12))
print("smoothed:   ", [round(value, 3) for value in torch.autograd.grad(smooth[0], q)[0].tolist()])

# %% [output]
# exact: zero? True
# smoothed:    [-0.244, 0.098, 0.098]

# %% [markdown]
# ## A solver of your own
#
# A solver is a function of a problem and a tolerance that gives x and the multipliers. Its answer is polished to the
# exact solution on its active set and certified, so that a rough solver does.


# %%
@register_solver("mine")
def mine(problem, tolerance):  # problem.P, .q, .G, .h, .A, .b, .lb, .ub
    raw = find_solver("piqp")(problem, tolerance)  # in place of this, your own
    return RawSolution(x=raw.x, y=raw.y, z=raw.z, z_box=raw.z_box)


print(solve_qp(eye, -point.detach(), **simplex, solver="mine").x)

# %% [output]
# tensor([0.7000, 0.3000, 0.0000], dtype=torch.float64)

# %% [markdown]
# `solver=` also takes `"piqp"`, `"gurobi"` and every back end of `qpsolvers` that is installed; `portfolio-dfl doctor`
# lists them. The default `"auto"` solves small strictly convex dense programs, and projections with few rows, by
# compiled active-set methods, and leaves the rest to PIQP; `solution.direct` says where no solver was called.
#
# Why the gradients are exact is told in [the method](../explanation/method.md); all names are in the
# [reference](../reference/qp_layer.md).
