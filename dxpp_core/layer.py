"""The layer in PyTorch: ``solve_qp`` and ``QPLayer``, differentiable in reverse and forward mode and under ``vmap``."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .active_set import Certificate
from .errors import DoubleBackwardError, ProblemError, ShapeError
from .factorization.sparse import SparsePattern
from .gradients import argument_gradients, solution_tangents
from .penalty import PluginPenalty
from .problem import NAMES, QuadraticProgram
from .solution_map import DifferentiabilityWarning, Options, SolutionMap, Timings
from .solvers import Solver, find_solver

__all__ = ["QPLayer", "QPSolution", "solve_qp"]

Array = NDArray[np.float64]
_CORE_RANK = {"P": 2, "q": 1, "G": 2, "h": 1, "A": 2, "b": 1, "lb": 1, "ub": 1}


class _Call:
    """One call of the layer: what was asked for, the patterns of sparse arguments, and in the end the solved map."""

    __slots__ = ("options", "patterns", "solved")

    def __init__(self, options: Options, patterns: dict[str, SparsePattern]) -> None:
        self.options, self.patterns = options, patterns
        self.solved: SolutionMap | None = None

    def core_rank(self, name: str) -> int:
        return 1 if name in self.patterns else _CORE_RANK[name]

    def map(self) -> SolutionMap:
        assert self.solved is not None
        return self.solved


def _to_numpy(tensor: Tensor) -> Array:
    tensor = tensor.detach().resolve_neg()
    if tensor.dtype is not torch.float64 or tensor.device.type != "cpu":
        tensor = tensor.to(device="cpu", dtype=torch.float64)
    array: Array = tensor.numpy()
    return array


def _to_torch(array: Array, like: Tensor) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if like.dtype is not torch.float64 or like.device.type != "cpu":
        tensor = tensor.to(device=like.device, dtype=like.dtype)
    return tensor


def _present(tensors: Sequence[Tensor | None]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in zip(NAMES, tensors, strict=True) if tensor is not None}


class _SolveQP(torch.autograd.Function):
    """(P, q, G, h, A, b, lb, ub) → (x, y, z, z_box); sparse matrices come as the values of their pattern."""

    @staticmethod
    def forward(call: _Call, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        arrays = {
            name: None if tensor is None else _to_numpy(tensor) for name, tensor in zip(NAMES, tensors, strict=True)
        }
        P = tensors[0]
        assert P is not None
        precision = 0.0 if P.dtype is torch.float64 else torch.finfo(P.dtype).eps
        program = QuadraticProgram(arrays, call.patterns, precision)
        solved = call.solved = SolutionMap.solve(program, call.options)
        q = tensors[1]
        assert q is not None
        batch = program.batch_shape
        # Copies: a user may change a result in place, the map keeps its own.
        return tuple(
            _to_torch(value.reshape(batch + value.shape[1:]).copy(), q)
            for value in (solved.x, solved.y, solved.z, solved.z_box)
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        call, *tensors = inputs
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
        if all(bar is None for bar in bars):
            return (None,) * (1 + len(NAMES))
        wanted = dict(zip(NAMES, ctx.needs_input_grad[1:], strict=True))
        return (None, *_apply_adjoint(ctx.call, wanted, *bars, *ctx.saved_tensors))

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor, ...]:
        result: tuple[Tensor, ...] = _apply_tangent(ctx.call, *tangents, *ctx.saved_tensors)
        return result

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], call: _Call, *tensors: Tensor | None) -> tuple[Any, Any]:
        return _apply_solve(call, *_lift(call, tensors, in_dims[1:], _batch_rank(call, tensors, in_dims[1:]))), (
            0,
            0,
            0,
            0,
        )


def _batch_rank(call: _Call, arguments: Sequence[Tensor | None], dims: Sequence[int | None]) -> int:
    """Number of batch dimensions of the arguments, the mapped one not counted."""
    return max(
        t.dim() - call.core_rank(name) - (dim is not None)
        for name, t, dim in zip(NAMES, arguments, dims, strict=True)
        if t is not None
    )


def _lift(call: _Call, tensors: Sequence[Tensor | None], dims: Sequence[int | None], rank: int) -> list[Tensor | None]:
    """Arguments, or tangents of arguments, whose mapped dimension has become the first of all batch dimensions."""
    lifted: list[Tensor | None] = []
    for name, t, dim in zip(NAMES, tensors, dims, strict=True):
        if t is None or dim is None:
            lifted.append(t)
            continue
        moved = t.movedim(dim, 0)
        missing = rank - (moved.dim() - 1 - call.core_rank(name))
        lifted.append(moved.reshape(moved.shape[0], *(1,) * missing, *moved.shape[1:]))
    return lifted


class _Adjoint(torch.autograd.Function):
    """The vector-Jacobian product, as a function of its own so that vmap over cotangents (jacrev) has a rule."""

    @staticmethod
    def forward(call: _Call, wanted: dict[str, Any], *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        solved = call.map()
        size = solved.program.size
        bars = [None if bar is None else _to_numpy(bar).reshape(size, bar.shape[-1]) for bar in tensors[:4]]
        arguments = _present(tensors[4:])
        shapes = {
            name: tuple(wanted[name]) if isinstance(wanted[name], tuple) else tuple(argument.shape)
            for name, argument in arguments.items()
            if wanted[name]
        }
        gradients = argument_gradients(solved, solved.adjoint(*bars), shapes)
        return tuple(_to_torch(gradients[name], arguments[name]) if name in gradients else None for name in NAMES)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise DoubleBackwardError(
            "second derivatives through solve_qp are not provided: its gradient is treated as a constant; "
            "detach the gradient, or call it without create_graph=True"
        )

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        _Adjoint.backward(ctx)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], call: _Call, wanted: dict[str, Any], *tensors: Tensor | None) -> Any:
        if all(dim is None for dim in in_dims[6:]):
            # Several cotangents of one solution.
            return _one_by_one(info.batch_size, in_dims[2:], tensors, lambda *t: _apply_adjoint(call, wanted, *t))
        # One cotangent for each of the mapped problems, whose gradients stay apart even where they share an argument.
        rank = _batch_rank(call, tensors[4:], in_dims[6:])
        arguments = _lift(call, tensors[4:], in_dims[6:], rank)
        batch = np.broadcast_shapes(
            *(t.shape[: t.dim() - call.core_rank(name)] for name, t in _present(arguments).items())
        )
        bars = [
            None if bar is None else _full(bar if dim is None else bar.movedim(dim, 0), batch, dim is not None)
            for bar, dim in zip(tensors[:4], in_dims[2:6], strict=True)
        ]
        apart: dict[str, Any] = dict(wanted)
        own: dict[str, tuple[int, ...]] = {}
        for name, argument, dim in zip(NAMES, tensors[4:], in_dims[6:], strict=True):
            if argument is not None and wanted[name]:
                shape = wanted[name]
                if not isinstance(shape, tuple):
                    shape = tuple(argument.shape if dim is None else argument.movedim(dim, 0).shape[1:])
                missing = rank - (len(shape) - call.core_rank(name))
                apart[name] = (info.batch_size, *(1,) * missing, *shape)
                own[name] = (info.batch_size, *shape)
        found = _apply_adjoint(call, apart, *bars, *arguments)
        outputs = tuple(
            None if value is None else value.reshape(own[name]) for name, value in zip(NAMES, found, strict=True)
        )
        return outputs, tuple(None if value is None else 0 for value in outputs)


def _full(bar: Tensor, batch: tuple[int, ...], mapped: bool) -> Tensor:
    """A cotangent in the batch shape of all mapped problems."""
    if not mapped:
        bar = bar.unsqueeze(0)
    return bar.expand(*batch, bar.shape[-1])


class _Tangent(torch.autograd.Function):
    """The Jacobian-vector product, with a rule for vmap over tangents (jacfwd)."""

    @staticmethod
    def forward(call: _Call, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        solved = call.map()
        given = _present(tensors[: len(NAMES)])
        like = _present(tensors[len(NAMES) :])["q"]
        batch = solved.program.batch_shape
        found = solution_tangents(solved, {name: _to_numpy(tangent) for name, tangent in given.items()})
        return tuple(_to_torch(value.reshape(batch + value.shape[1:]), like) for value in found)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        _Adjoint.backward(ctx)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        _Adjoint.backward(ctx)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], call: _Call, *tensors: Tensor | None) -> Any:
        count = len(NAMES)
        if all(dim is None for dim in in_dims[1 + count :]):
            return _one_by_one(info.batch_size, in_dims[1:], tensors, lambda *t: _apply_tangent(call, *t))
        rank = _batch_rank(call, tensors[count:], in_dims[1 + count :])
        tangents = _lift(call, tensors[:count], in_dims[1 : 1 + count], rank)
        arguments = _lift(call, tensors[count:], in_dims[1 + count :], rank)
        return _apply_tangent(call, *tangents, *arguments), (0, 0, 0, 0)


def _one_by_one(count: int, in_dims: Sequence[Any], tensors: Sequence[Tensor | None], function: Any) -> Any:
    """Apply ``function`` to each slice along the mapped dimensions and stack: all slices share one factor."""
    rows = []
    for i in range(count):
        slices = [t if t is None or dim is None else t.select(dim, i) for t, dim in zip(tensors, in_dims, strict=True)]
        rows.append(function(*slices))
    outputs = tuple(None if column[0] is None else torch.stack(column) for column in zip(*rows, strict=True))
    return outputs, tuple(None if output is None else 0 for output in outputs)


def _callable(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """``function.apply`` with the signature of ``forward`` noted down, which PyTorch looks up at every call."""
    forward: Any = function.forward
    forward.__signature__ = inspect.signature(forward)
    apply: Callable[..., Any] = function.apply
    return apply


_apply_solve, _apply_adjoint, _apply_tangent = _callable(_SolveQP), _callable(_Adjoint), _callable(_Tangent)


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
    _call: _Call

    @property
    def certificate(self) -> Certificate:
        """Largest KKT residuals over the batch, in the equilibrated program (dimensionless)."""
        each = self._call.map().certificates()
        return Certificate(*(float(each[name].max(initial=0.0)) for name in ("primal", "dual", "gap")))

    @property
    def certificates(self) -> dict[str, Tensor]:
        """KKT residuals of every element: ``primal``, ``dual``, ``gap``, each [*batch]."""
        solved = self._call.map()
        shape = solved.program.batch_shape
        return {name: torch.from_numpy(value.reshape(shape)) for name, value in solved.certificates().items()}

    @property
    def warnings(self) -> tuple[DifferentiabilityWarning, ...]:
        """Where the derivative is a documented choice; what a backward pass finds is added when it runs."""
        return tuple(self._call.map().warnings)

    @property
    def iterations(self) -> Tensor:
        """Iterations of the black-box solver, [*batch]."""
        solved = self._call.map()
        return torch.tensor([one.iterations for one in solved.solved]).reshape(solved.program.batch_shape)

    @property
    def timings(self) -> Timings:
        """Seconds spent in each step so far."""
        return self._call.map().timings


def _split(name: str, tensor: Tensor | None, patterns: dict[str, SparsePattern]) -> Tensor | None:
    """A dense argument as it is; a sparse one as its values in row-major order, its pattern put beside."""
    if tensor is None:
        return None
    if not isinstance(tensor, Tensor):
        raise ShapeError(f"{name} is a {type(tensor).__name__}; every argument is a torch.Tensor or None")
    if tensor.device.type == "meta":
        raise ShapeError(f"{name} is a meta tensor, which has no values")
    if not tensor.dtype.is_floating_point:
        raise ShapeError(f"{name} has dtype {tensor.dtype}; arguments are floating-point tensors")
    layout = tensor.layout
    if layout is torch.strided:
        return tensor
    if name not in ("P", "G", "A"):
        raise ShapeError(f"{name} is sparse; only the matrices P, G and A may be")
    if layout is torch.sparse_coo:
        return _split_coo(name, tensor.coalesce(), patterns)
    if layout not in (torch.sparse_csr, torch.sparse_csc):
        raise ShapeError(f"{name} has layout {layout}; use strided, COO, CSR or CSC")
    by_rows = layout is torch.sparse_csr
    pointers = (tensor.crow_indices() if by_rows else tensor.ccol_indices()).cpu().numpy()
    minors = (tensor.col_indices() if by_rows else tensor.row_indices()).cpu().numpy()
    pointers = pointers.reshape(-1, pointers.shape[-1])
    minors = minors.reshape(pointers.shape[0], minors.shape[-1])
    if len(pointers) > 1 and ((pointers != pointers[0]).any() or (minors != minors[0]).any()):
        raise ShapeError(f"the elements of the sparse batch {name} have different patterns; they must share one")
    rows, columns = int(tensor.shape[-2]), int(tensor.shape[-1])
    values = tensor.values()
    lengths = pointers[0, 1:] - pointers[0, :-1]
    majors = np.repeat(np.arange(lengths.size, dtype=np.int32), lengths)
    if by_rows:
        # Sorted within each row: every step to a smaller or equal column is a step to another row.
        back = minors[0, 1:] <= minors[0, :-1]
        if not back.any() or (majors[1:] != majors[:-1])[back].all():
            patterns[name] = SparsePattern(pointers[0], minors[0], (rows, columns), majors)
            return values
    i, j = (majors, minors[0]) if by_rows else (minors[0], majors)
    order = np.lexsort((j, i))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=rows))])
    patterns[name] = SparsePattern(indptr, j[order], (rows, columns))
    return values[..., torch.from_numpy(order).to(values.device)]


def _split_coo(name: str, tensor: Tensor, patterns: dict[str, SparsePattern]) -> Tensor:
    indices = tensor.indices().cpu().numpy()
    values = tensor.values()
    if tensor.dense_dim():
        raise ShapeError(f"{name} is a hybrid sparse tensor; its entries must be numbers")
    *batch, rows, columns = (int(length) for length in tensor.shape)
    count = int(np.prod(batch)) if batch else 1
    if not count:
        patterns[name] = SparsePattern(np.zeros(rows + 1), np.zeros(0), (rows, columns))
        return values.reshape(*batch, 0)
    if values.numel() % count:
        raise ShapeError(f"the elements of the sparse batch {name} have different patterns; they must share one")
    cells = (indices[-2].astype(np.int64) * columns + indices[-1]).reshape(count, -1)
    if (cells != cells[0]).any():
        raise ShapeError(f"the elements of the sparse batch {name} have different patterns; they must share one")
    i, j = cells[0] // columns, cells[0] % columns
    patterns[name] = SparsePattern(np.concatenate([[0], np.cumsum(np.bincount(i, minlength=rows))]), j, (rows, columns))
    return values.reshape(*batch, -1)


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
    solver: str | Solver = "piqp",
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
        :func:`dxpp_core.solvers.register_solver`, or a callable with that signature.
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

    Notes
    -----
    At weakly active rows (slack and multiplier zero) the derivative is that of the program without them; where the
    solution is not unique, it is that of the least-norm change.  Both are recorded in ``QPSolution.warnings``.

    References
    ----------
    Linghu, Liu and Deng, "A Penalty Approach for Differentiation Through Black-Box Quadratic Programming Solvers",
    2026.
    """
    if method not in ("exact", "penalty"):
        raise ProblemError(f"method is {method!r}; it is 'exact' or 'penalty'")
    for option, value in (("tolerance", tolerance), ("delta", delta), ("zeta", zeta)):
        if not isinstance(value, (int, float)) or not 0.0 < value < math.inf:
            raise ProblemError(f"{option} is {value!r}; it is a positive number")
    if P is None or q is None:
        raise ShapeError(f"{'P' if P is None else 'q'} is None; P and q are required")
    penalty = PluginPenalty(delta, zeta, prune) if method == "penalty" else None
    options = Options(find_solver(solver), tolerance, penalty, polish, strict)
    patterns: dict[str, SparsePattern] = {}
    tensors = [_split(name, tensor, patterns) for name, tensor in zip(NAMES, (P, q, G, h, A, b, lb, ub), strict=True)]
    call = _Call(options, patterns)
    x, y, z, z_box = _apply_solve(call, *tensors)
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
        return solve_qp(P, q, G, h, A, b, lb, ub, **self.options)

    def extra_repr(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self.options.items())
