"""The autograd functions behind the layer: reverse and forward mode, and their rules under ``vmap``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import forward_ad

from .arguments import own_numbers
from .errors import DoubleBackwardError
from .matrices.pattern import SparsePattern
from .options import Options
from .program.problem import NAMES
from .solution.base import Solution
from .solution.gradients import argument_gradients, solution_tangents
from .solution.solve import solve_batch
from .tracing import outside_graphs

__all__ = ["Call", "apply_solve"]

Array = NDArray[np.float64]
# Arguments that no row and no limit is made of.
_OBJECTIVE = {"P", "q"}
_CORE_RANK = {"P": 2, "q": 1, "G": 2, "h": 1, "A": 2, "b": 1, "lb": 1, "ub": 1}


class Call:
    """One call of the layer: what was asked for, the patterns of sparse arguments, and in the end the solution.

    ``arrays``: the numbers of all tensors, if these are dense ones of float64 on the CPU.
    """

    __slots__ = ("_solution", "arrays", "options", "patterns")

    def __init__(
        self, options: Options, patterns: dict[str, SparsePattern], arrays: list[Array | None] | None = None
    ) -> None:
        self.options, self.patterns, self.arrays = options, patterns, arrays
        self._solution: Solution | None = None

    def core_rank(self, name: str) -> int:
        return 1 if name in self.patterns else _CORE_RANK[name]

    @property
    def solution(self) -> Solution:
        """What was found, once it was."""
        assert self._solution is not None
        return self._solution

    @solution.setter
    def solution(self, found: Solution) -> None:
        self._solution = found


def _to_numpy(tensor: Tensor) -> Array:
    if tensor.dtype is not torch.float64:
        tensor = tensor.detach().to(torch.float64)
    try:
        array: Array = own_numbers(tensor)
    except (RuntimeError, TypeError):
        # On another device, or a view that negates.
        array = tensor.numpy(force=True)
    return array


def _to_torch(array: Array, like: Tensor) -> Tensor:
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    tensor = torch.from_numpy(array)
    if like.dtype is not torch.float64 or not like.is_cpu:
        tensor = tensor.to(device=like.device, dtype=like.dtype)
    return tensor


def _present(tensors: Sequence[Tensor | None]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in zip(NAMES, tensors, strict=True) if tensor is not None}


def _solve(call: Call, tensors: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    """Solve for these arguments; the solution is left in the call."""
    arrays, (P, q) = call.arrays, tensors[:2]
    assert P is not None
    assert q is not None
    if arrays is None:
        arrays = [None if tensor is None else _to_numpy(tensor) for tensor in tensors]
    limits_precision = max(_precision(tensor) for tensor in tensors[2:])
    solution = call.solution = solve_batch(arrays, call.patterns, call.options, _precision(P), limits_precision)
    call.arrays = None
    batch = solution.layout.batch_shape
    # Copies: a user may change a result in place, the solution keeps its own.
    return tuple(
        _to_torch(value.reshape(batch + value.shape[1:]).copy(), q)
        for value in (solution.x, solution.y, solution.z, solution.z_box)
    )


def _precision(tensor: Tensor | None) -> float:
    """Relative rounding of a tensor in lower precision than float64; else 0."""
    return 0.0 if tensor is None or tensor.dtype is torch.float64 else torch.finfo(tensor.dtype).eps


def _remember(ctx: Any, call: Call, tensors: Sequence[Tensor | None]) -> None:
    ctx.call = call
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors)
    # PyTorch has no public name for this; without it, everything is saved.
    if getattr(forward_ad, "_current_level", 0) >= 0:
        ctx.save_for_forward(*tensors)


@outside_graphs("the gradient of solve_qp")
def _vector_jacobian(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
    if all(bar is None for bar in bars):
        return (None,) * (1 + len(NAMES))
    wanted = dict(zip(NAMES, ctx.needs_input_grad[1:], strict=True))
    if torch.is_grad_enabled() or _inside_a_transform():
        return (None, *_apply_adjoint(ctx.call, wanted, *bars, *ctx.saved_tensors))
    return (None, *_adjoint(ctx.call, wanted, bars, ctx.saved_tensors))


@outside_graphs("the tangent of solve_qp")
def _jacobian_vector(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor, ...]:
    result: tuple[Tensor, ...] = _apply_tangent(ctx.call, *tangents, *ctx.saved_tensors)
    return result


class _SolveQP(torch.autograd.Function):
    """(P, q, G, h, A, b, lb, ub) → (x, y, z, z_box); sparse matrices come as the values of their pattern."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        _remember(ctx, call, tensors)
        return _solve(call, tensors)

    backward, jvp = staticmethod(_vector_jacobian), staticmethod(_jacobian_vector)


class _MappedSolveQP(torch.autograd.Function):
    """The same inside the transforms of ``torch.func``, which ask for a form that takes longer to call."""

    @staticmethod
    def forward(call: Call, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        return _solve(call, tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _remember(ctx, inputs[0], inputs[1:])

    backward, jvp = staticmethod(_vector_jacobian), staticmethod(_jacobian_vector)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], call: Call, *tensors: Tensor | None) -> tuple[Any, Any]:
        lifted = _lift(call, tensors, in_dims[1:], _batch_rank(call, tensors, in_dims[1:]))
        return apply_solve(call, *lifted), (0, 0, 0, 0)


def _batch_rank(call: Call, arguments: Sequence[Tensor | None], dims: Sequence[int | None]) -> int:
    """Number of batch dimensions of the arguments, the mapped one not counted."""
    return max(
        t.dim() - call.core_rank(name) - (dim is not None)
        for name, t, dim in zip(NAMES, arguments, dims, strict=True)
        if t is not None
    )


def _lift(call: Call, tensors: Sequence[Tensor | None], dims: Sequence[int | None], rank: int) -> list[Tensor | None]:
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


def _adjoint(
    call: Call, wanted: dict[str, Any], bars: Sequence[Tensor | None], arguments: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """Gradients of the wanted arguments (a shape in place of True: summed to that) for cotangents of the results."""
    solution = call.solution
    size = solution.layout.size
    given = [None if bar is None else _to_numpy(bar).reshape(size, bar.shape[-1]) for bar in bars]
    present = _present(arguments)
    shapes = {
        name: tuple(wanted[name]) if isinstance(wanted[name], tuple) else tuple(argument.shape)
        for name, argument in present.items()
        if wanted[name]
    }
    found = solution.adjoint(*given, of_rows=not shapes.keys() <= _OBJECTIVE)
    gradients = argument_gradients(solution, found, shapes)
    return tuple(_to_torch(gradients[name], present[name]) if name in gradients else None for name in NAMES)


class _Adjoint(torch.autograd.Function):
    """The vector-Jacobian product, as a function of its own so that vmap over cotangents (jacrev) has a rule."""

    @staticmethod
    def forward(call: Call, wanted: dict[str, Any], *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        return _adjoint(call, wanted, tensors[:4], tensors[4:])

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
    def vmap(info: Any, in_dims: tuple[Any, ...], call: Call, wanted: dict[str, Any], *tensors: Tensor | None) -> Any:
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
    def forward(call: Call, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        solution = call.solution
        given = _present(tensors[: len(NAMES)])
        like = _present(tensors[len(NAMES) :])["q"]
        batch = solution.layout.batch_shape
        found = solution_tangents(solution, {name: _to_numpy(tangent) for name, tangent in given.items()})
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
    def vmap(info: Any, in_dims: tuple[Any, ...], call: Call, *tensors: Tensor | None) -> Any:
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


_apply_mapped = _callable(_MappedSolveQP)
# `Function.apply` without its questions about transforms, which are asked below.
_apply_plain: Callable[..., Any] = super(torch.autograd.Function, _SolveQP).apply
_apply_adjoint, _apply_tangent = _callable(_Adjoint), _callable(_Tangent)

# PyTorch has no public name for this question; without an answer the form that serves everywhere is taken.
_inside_a_transform: Callable[[], bool] = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)


def apply_solve(call: Call, *tensors: Tensor | None) -> tuple[Tensor, ...]:
    """Solve, recorded by autograd: (P, q, G, h, A, b, lb, ub) → (x, y, z, z_box)."""
    apply = _apply_mapped if _inside_a_transform() else _apply_plain
    result: tuple[Tensor, ...] = apply(call, *tensors)
    return result
