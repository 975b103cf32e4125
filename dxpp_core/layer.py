"""The layer in PyTorch: ``solve_qp`` and ``QPLayer``, differentiable in reverse and forward mode and under ``vmap``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .arguments import native_arrays, split_argument
from .autograd import Call, apply_solve
from .errors import ProblemError, ShapeError, TracingError
from .kkt.active_set import Certificate
from .kkt.differentiability import DifferentiabilityWarning
from .kkt.penalty import PluginPenalty
from .matrices.pattern import SparsePattern
from .options import Options, Timings
from .program.problem import NAMES
from .solvers import Solver, find_solver
from .tracing import outside_graphs

__all__ = ["QPLayer", "QPSolution", "solve_qp"]

# Tolerance, δ and ζ where nothing else is asked for.
_USUAL = (1e-8, 1e-6, 10.0)


@dataclass(frozen=True, slots=True)
class QPSolution:
    """Solution of a batch of quadratic programs; gradients flow through ``x``, ``y``, ``z`` and ``z_box``.

    Attributes
    ----------
    x : Tensor [*batch, n]
        Minimiser.
    y : Tensor [*batch, p]
        Multipliers of Ax = b.
    z : Tensor [*batch, m]
        Multipliers of Gx ≤ h, z ≥ 0.
    z_box : Tensor [*batch, n]
        Multipliers of the bounds: positive at ub, negative at lb.  Px + q + Aᵀy + Gᵀz + z_box = 0.
    status : str
        ``"solved"``: whatever else happens raises an error of :mod:`dxpp_core.errors`.
    """

    x: Tensor
    y: Tensor
    z: Tensor
    z_box: Tensor
    status: str
    _call: Call

    @property
    def certificate(self) -> Certificate:
        """Largest KKT residuals over the batch, in the equilibrated program (dimensionless)."""
        each = self._call.solution.certificates()
        return Certificate(*(float(each[name].max(initial=0.0)) for name in ("primal", "dual", "gap")))

    @property
    def certificates(self) -> dict[str, Tensor]:
        """KKT residuals of every element: ``primal``, ``dual``, ``gap``, each [*batch]."""
        solution = self._call.solution
        shape = solution.layout.batch_shape
        return {name: torch.from_numpy(value.reshape(shape)) for name, value in solution.certificates().items()}

    @property
    def warnings(self) -> tuple[DifferentiabilityWarning, ...]:
        """Where the derivative is a documented choice; what a backward pass finds is added when it runs."""
        return tuple(self._call.solution.warnings)

    @property
    def iterations(self) -> Tensor:
        """Iterations of the black-box solver, or active sets tried where none was called, [*batch]."""
        solution = self._call.solution
        return torch.from_numpy(solution.iterations.reshape(solution.layout.batch_shape))

    @property
    def direct(self) -> Tensor:
        """Where ``solver="auto"`` needed no black box, [*batch] of bool."""
        solution = self._call.solution
        return torch.from_numpy(solution.direct.reshape(solution.layout.batch_shape).copy())

    @property
    def timings(self) -> Timings:
        """Seconds spent in each step so far."""
        return self._call.solution.timings


def _check_positive(**options: object) -> None:
    for name, value in options.items():
        if not isinstance(value, (int, float)) or not 0.0 < value < math.inf:
            raise ProblemError(f"{name} is {value!r}; it is a positive number")


@outside_graphs("solve_qp", TracingError)
def solve_qp(
    P: Tensor,
    q: Tensor,
    G: Tensor | None = None,
    h: Tensor | None = None,
    A: Tensor | None = None,
    b: Tensor | None = None,
    lb: Tensor | None = None,
    ub: Tensor | None = None,
    *,
    solver: str | Solver = "auto",
    tolerance: float = 1e-8,
    method: Literal["exact", "penalty"] = "exact",
    delta: float = 1e-6,
    zeta: float = 10.0,
    prune: bool = True,
    polish: bool = True,
    strict: bool = False,
) -> QPSolution:
    """Solve min ½xᵀPx + qᵀx s.t. Gx ≤ h, Ax = b, lb ≤ x ≤ ub, differentiably.

    Parameters
    ----------
    P : Tensor [*batch, n, n]
        Positive semidefinite; only its symmetric part enters.  Dense, or sparse COO, CSR or CSC.
    q : Tensor [*batch, n]
    G, h : Tensor [*batch, m, n], [*batch, m], optional
        Inequalities; an infinite h means no limit.
    A, b : Tensor [*batch, p, n], [*batch, p], optional
        Equalities.
    lb, ub : Tensor [*batch, n], optional
        Bounds; infinities mean none, lb = ub fixes a variable.
    solver : str or callable
        ``"piqp"``, ``"gurobi"``, the name of any installed back end of ``qpsolvers``, a name registered with
        :func:`dxpp_core.solvers.register_solver`, or a callable with that signature.  ``"auto"``: strictly convex dense
        programs of at most 150 variables, and projections with a diagonal P and few rows, are solved by active-set
        methods of our own, compiled and in as many threads as PyTorch uses; whatever these leave is for PIQP.
    tolerance : float
        What every residual of the returned certificate meets, relative, in the equilibrated program.
    method : {"exact", "penalty"}
        ``"exact"``: the sensitivities of the reduced KKT system to machine precision.  ``"penalty"``: the paper's
        plug-in estimate with smoothing ``delta`` and strength ``zeta``, with (``prune=True``) or without pruning of
        inactive rows; without pruning, a large ``delta`` gives informative gradients at vertices, where the exact
        ones vanish.
    polish : bool
        Replace the solver's point by the exact solution on its active set where that is feasible and optimal.
    strict : bool
        Raise :class:`NotDifferentiableError` instead of recording a warning.

    Returns
    -------
    QPSolution
        Computed in float64, returned in the dtype and on the device of ``q``.  Batch dimensions broadcast; gradients of
        an argument have its own shape, those of a sparse one its pattern, that of P is symmetric.

    Raises
    ------
    ShapeError, NonFiniteError, NonConvexError
        The arguments do not describe a convex QP.
    InfeasibleError, UnboundedError
        It has no solution.
    SolverAccuracyError, SolverLimitError, SolverNotFoundError
        The solver did not find it.
    TracingError
        ``torch.export`` or ``torch.jit.trace`` asked for a graph of it.  ``torch.compile`` breaks its graph here.

    Notes
    -----
    At weakly active rows (slack and multiplier zero) the derivative is that of the program without them; where the
    solution is not unique, it is that of the least-norm change.  Where active rows are linearly dependent, gradients of
    them and of their limits are those of least norm.  All are recorded in ``QPSolution.warnings``, what only a
    derivative shows when it is taken.

    References
    ----------
    Linghu, Liu and Deng, "A Penalty Approach for Differentiation Through Black-Box Quadratic Programming Solvers",
    2026.

    Examples
    --------
    >>> import torch
    >>> from dxpp_core import solve_qp
    >>> q = torch.tensor([-0.9, -0.5, 0.2], dtype=torch.float64, requires_grad=True)
    >>> one, zero = torch.ones(1, 3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    >>> x = solve_qp(torch.eye(3, dtype=torch.float64), q, A=one, b=one[:, 0], lb=zero).x
    >>> x.detach()
    tensor([0.7000, 0.3000, 0.0000], dtype=torch.float64)
    >>> torch.autograd.grad(x[0], q)[0][:2]
    tensor([-0.5000,  0.5000], dtype=torch.float64)
    """
    if method not in ("exact", "penalty"):
        raise ProblemError(f"method is {method!r}; it is 'exact' or 'penalty'")
    if (tolerance, delta, zeta) != _USUAL:
        _check_positive(tolerance=tolerance, delta=delta, zeta=zeta)
    if P is None or q is None:
        raise ShapeError(f"{'P' if P is None else 'q'} is None; P and q are required")
    penalty = PluginPenalty(delta, zeta, prune) if method == "penalty" else None
    direct = solver == "auto"
    options = Options(
        find_solver("piqp" if direct else solver), tolerance, penalty, polish, strict, direct, torch.get_num_threads()
    )
    patterns: dict[str, SparsePattern] = {}
    tensors: Sequence[Tensor | None] = (P, q, G, h, A, b, lb, ub)
    arrays = native_arrays(tensors)
    if arrays is None:
        tensors = [split_argument(name, tensor, patterns) for name, tensor in zip(NAMES, tensors, strict=True)]
    call = Call(options, patterns, arrays)
    x, y, z, z_box = apply_solve(call, *tensors)
    return QPSolution(x, y, z, z_box, "solved", call)


class QPLayer(nn.Module):
    """``solve_qp`` with its options fixed, as a module without parameters or state.

    Examples
    --------
    >>> import torch
    >>> from dxpp_core import QPLayer
    >>> layer = QPLayer()
    >>> q = torch.tensor([-1.0, -2.0, -3.0], dtype=torch.float64, requires_grad=True)
    >>> one = torch.ones(1, 3, dtype=torch.float64)
    >>> x = layer(torch.eye(3, dtype=torch.float64), q, A=one, b=one[0, :1], lb=torch.zeros(3, dtype=torch.float64)).x
    >>> x.detach()
    tensor([0., 0., 1.], dtype=torch.float64)
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(
        self,
        P: Tensor,
        q: Tensor,
        G: Tensor | None = None,
        h: Tensor | None = None,
        A: Tensor | None = None,
        b: Tensor | None = None,
        lb: Tensor | None = None,
        ub: Tensor | None = None,
    ) -> QPSolution:
        """Solve for these arguments: shapes, results and errors are those of :func:`solve_qp`."""
        return solve_qp(P, q, G, h, A, b, lb, ub, **self.options)

    def extra_repr(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self.options.items())
