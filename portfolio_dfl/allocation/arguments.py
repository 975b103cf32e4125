"""What a call of the portfolio layer is about: its arguments as a batch in float64 on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from portfolio_dfl.allocation.rounding import lifted, scaled_to_one
from portfolio_dfl.errors import AllocationError

__all__ = ["Batch", "absorb_tracking", "as_batch", "constants", "numbers_of", "spread"]

_Array = NDArray[np.float64]
_FLOAT = torch.float64


class Batch(NamedTuple):
    """What a call is about, in float64 on the CPU.

    Of λ, τ and c all ``numbers``, [1 or B, …], and as ``tensors`` those that were given as such: only these may ask
    for gradients.
    """

    returns: Tensor
    covariance: Tensor
    previous: Tensor
    numbers: tuple[_Array, _Array, _Array]
    tensors: tuple[Tensor | None, Tensor | None, Tensor | None]

    @property
    def parameters(self) -> tuple[Tensor, Tensor, Tensor]:
        """λ, τ and c, each as a tensor."""
        aversion, turnover, cost = (
            torch.from_numpy(numbers) if tensor is None else tensor
            for numbers, tensor in zip(self.numbers, self.tensors, strict=True)
        )
        return aversion, turnover, cost

    def of(self, rows: Tensor) -> Batch:
        """Some elements of the batch."""
        aversion, turnover, cost = (full[rows.numpy()] if full.shape[0] > 1 else full for full in self.numbers)
        one, two, three = (None if part is None else part[rows] if part.shape[0] > 1 else part for part in self.tensors)
        inputs = (self.returns[rows], self.covariance[rows], self.previous[rows])
        return Batch(*inputs, (aversion, turnover, cost), (one, two, three))


@lru_cache(maxsize=128)
def _constant(value: float, shape: tuple[int, ...]) -> _Array:
    """One number as an array of this shape, which nobody writes to."""
    return np.full(shape, value)


@lru_cache(maxsize=128)
def constants(aversion: float, limit: float, rate: float, H: int, N: int) -> tuple[_Array, _Array, _Array]:
    """λ [1], τ [1, H] and c [1, H, N] where all of them are numbers."""
    return _constant(aversion, (1,)), _constant(limit, (1, H)), _constant(rate, (1, H, N))


def as_batch(returns: Tensor, covariance: Tensor, previous: Tensor, H: int, N: int) -> tuple[Tensor, Tensor, Tensor]:
    """float64 on the CPU, as [B, H, N], [B, N, N] or [B, H, N, N], and [B, N]."""
    shape, given = returns.shape, covariance.shape
    if len(shape) != 3 or shape[1] != H or shape[2] != N:
        raise AllocationError(f"expected_returns is {list(shape)}; this layer takes [B, {H}, {N}]")
    B = shape[0]
    if covariance.dtype is not _FLOAT and covariance.is_floating_point() and given[-2:] == (N, N):
        covariance = lifted(covariance.to(device="cpu", dtype=_FLOAT), covariance.dtype)
    if given == (N, N):
        covariance = covariance.expand(B, N, N)
    elif given not in ((B, N, N), (B, H, N, N)):
        raise AllocationError(
            f"covariance is {list(given)}; with expected_returns [{B}, {H}, {N}] it is [{N}, {N}], "
            f"[{B}, {N}, {N}] or [{B}, {H}, {N}, {N}]"
        )
    held = previous.shape
    if previous.dtype is not _FLOAT and previous.is_floating_point():
        previous = scaled_to_one(previous.to(device="cpu", dtype=_FLOAT), previous.dtype)
    if held == (N,):
        previous = previous.expand(B, N)
    elif held != (B, N):
        raise AllocationError(f"previous_weights is {list(held)}; it is [{N}] or [{B}, {N}]")
    given_tensors = (returns, covariance, previous)
    for tensor in given_tensors:
        if tensor.dtype is not _FLOAT or not tensor.is_cpu:
            first, second, third = (tensor.to(device="cpu", dtype=_FLOAT) for tensor in given_tensors)
            return first, second, third
    return given_tensors


def spread(name: str, value: float | Sequence[float] | Tensor, shape: tuple[int, ...]) -> tuple[_Array, Tensor | None]:
    """A parameter as [1 or B, *shape]: its numbers, and the tensor itself if it is one."""
    if isinstance(value, (float, int)):
        return _constant(float(value), (1, *shape)), None
    tensor = torch.as_tensor(value).to(device="cpu", dtype=_FLOAT)
    if tensor.ndim <= len(shape):
        tensor = tensor.unsqueeze(0) if tensor.ndim == len(shape) else tensor.expand(1, *tensor.shape)
    if name == "transaction_cost" and tensor.ndim == 2:
        tensor = tensor.unsqueeze(1)
    try:
        tensor = tensor.expand(tensor.shape[0], *shape).contiguous()
    except RuntimeError:
        wanted = ", ".join(map(str, ("B", *shape)))
        raise AllocationError(f"{name} is {list(tensor.shape)}; it must broadcast to [{wanted}]") from None
    return tensor.detach().numpy(), tensor


def absorb_tracking(batch: Batch, tracking: Sequence[tuple[_Array, float]]) -> Batch:
    """Absorb tracking costs: γ/2 (w − b)ᵀΣ(w − b) raises λ by γ and the returns by γ Σ b, up to a constant."""
    covariance, returns, total = batch.covariance, batch.returns, batch.parameters[0]
    symmetric = 0.5 * (covariance + covariance.transpose(-1, -2))
    if symmetric.ndim == 3:
        symmetric = symmetric.unsqueeze(1)
    for benchmark, gamma in tracking:
        returns = returns + gamma * (symmetric @ torch.from_numpy(benchmark))
        total = total + gamma
    total = total.contiguous()
    return batch._replace(
        returns=returns,
        numbers=(total.detach().numpy(), *batch.numbers[1:]),
        tensors=(total if total.requires_grad else None, *batch.tensors[1:]),
    )


def numbers_of(tensor: Tensor, *, copied: bool = False) -> _Array:
    """The tensor's own numbers, or a copy of them where that is asked for or they do not lie one after the other."""
    try:
        # Twice as fast as `numpy(force=True)`, which asks for more.
        array: _Array = tensor.detach().numpy() if tensor.requires_grad else tensor.numpy()
    except RuntimeError:
        array = _forced_numbers(tensor)
    if not array.flags.c_contiguous:
        return np.ascontiguousarray(array)
    return array.copy() if copied else array


def _forced_numbers(tensor: Tensor) -> _Array:
    """The numbers of a view that negates; an error for what holds none."""
    try:
        array: _Array = tensor.numpy(force=True)
    except RuntimeError as error:
        raise AllocationError(
            "the layer takes tensors that hold numbers, which inside a transform of torch.func they do not: "
            f"give it a batch, and differentiate with torch.autograd ({error})"
        ) from error
    return array
