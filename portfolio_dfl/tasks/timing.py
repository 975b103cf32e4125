"""Timing of differentiable layers side by side: interleaved calls, medians, wall clock and processor time."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Layer", "Times", "time_side_by_side"]

#: From the input to the layer's output; without a gradient for a bare solver.
Layer = Callable[["Tensor"], "Tensor"]

#: A call that takes more seconds than this is long.
LONG_S = 0.02


@dataclass(frozen=True)
class Times:
    """Median times of one layer in milliseconds; backward is NaN for one without gradients.

    ``cpu`` is processor time of forward and backward together, which other programs on the machine disturb less.
    """

    forward: float
    backward: float
    total: float
    cpu: float
    calls: int


def time_side_by_side(
    layers: Mapping[str, Layer],
    inputs: Callable[[int], Tensor],
    *,
    repeats: int,
    warm_up: int = 1,
) -> dict[str, Times]:
    """Time forward and backward of each layer on the same inputs, taking turns, one thread each.

    In its turn a layer is called twice and the second call counts: like in a training loop, it finds its code and data
    in the processor's cache, and not those of the layer before it. One that takes long is called once, as that matters
    little then.

    Parameters
    ----------
    layers : mapping
        Layers by name; each gets its own leaf with the values of ``inputs(i)``.
    inputs : callable
        The i-th input; the loss is a fixed random linear function of the output, different for every i.
    repeats : int
        Timed calls of each layer.
    warm_up : int
        Calls beforehand that are not counted: they set up what a layer keeps between calls.
    """
    import torch

    clocks: dict[str, list[tuple[float, float, float]]] = {name: [] for name in layers}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    # Collections are made between rounds, and of what the rounds leave only.
    gc.collect()
    gc.freeze()
    try:
        quick: set[str] = set()
        for i in range(-warm_up, repeats):
            figures = _one_round(layers, inputs(i), i, quick)
            quick = {name for name, clock in figures.items() if np.nansum(clock[:2]) < LONG_S}
            if i >= 0:
                for name, clock in figures.items():
                    clocks[name].append(clock)
    finally:
        gc.unfreeze()
        torch.set_num_threads(threads)
    return {name: _median(figures) for name, figures in clocks.items()}


def _one_round(
    layers: Mapping[str, Layer], values: Tensor, i: int, quick: Set[str]
) -> dict[str, tuple[float, float, float]]:
    """A turn of each layer, a different one first every time; the quick ones are called once before."""
    names = list(layers)
    turn = i % len(names)
    gc.collect()
    gc.disable()
    try:
        figures = {}
        for name in names[turn:] + names[:turn]:
            for _ in range(2 if name in quick else 1):
                figures[name] = _one_call(layers[name], values.detach().clone().requires_grad_(), seed=1000 + i)
        return figures
    finally:
        gc.enable()


def _one_call(layer: Layer, x: Tensor, *, seed: int) -> tuple[float, float, float]:
    """Seconds of the forward call, of the backward call (NaN without gradient), and of processor time in both."""
    import torch

    start, cpu = time.perf_counter(), time.process_time()
    out = layer(x)
    forward, cpu = time.perf_counter() - start, time.process_time() - cpu
    if not out.requires_grad:
        return forward, float("nan"), cpu
    weights = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(seed))
    start, before = time.perf_counter(), time.process_time()
    out.backward(weights)
    return forward, time.perf_counter() - start, cpu + time.process_time() - before


def _median(figures: list[tuple[float, float, float]]) -> Times:
    forward, backward, cpu = np.array(figures).T * 1e3
    total = np.where(np.isnan(backward), forward, forward + backward)
    return Times(
        float(np.median(forward)),
        float(np.median(backward)),
        float(np.median(total)),
        float(np.median(cpu)),
        len(figures),
    )
