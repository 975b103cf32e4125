"""Batches of dense programs, forward and backward for q and h, beside whichever other layers are installed.

P, G and A are shared; times are medians of rounds in which every layer takes its turn, errors those of the gradients
against the exact reduced KKT system.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from .. import solve_qp
from ..reference import reduced_kkt_gradients
from .peers import PeerLayer, Program, find_peers, peer_layer

__all__ = ["BATCHES", "SHAPES", "BatchTimes", "measure_batch", "print_batches"]

#: Variables, inequalities and equalities.
SHAPES = ((10, 5, 2), (30, 30, 5), (100, 50, 20))
BATCHES = (1, 16, 128, 1024)
_OURS = "ours"
# A call of more than the first is timed once; of more than the second, the layer is left out of larger batches.
_LONG_S, _LONGEST_S = 1.0, 15.0
# How long the others take turns.
_ROUNDS_S = 3.0


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """Median milliseconds of forward and backward by layer, and the largest relative gradient error of each."""

    milliseconds: dict[str, float]
    errors: dict[str, float]


def random_batch(shape: tuple[int, int, int], batch: int, seed: int = 0) -> tuple[Program, Tensor, Tensor]:
    """A feasible program that a batch shares, and its q [batch, n] and h [batch, m]."""
    n, m, p = shape
    rng = np.random.default_rng(seed)
    root, G, A = rng.normal(size=(n, n)), rng.normal(size=(m, n)), rng.normal(size=(p, n))
    inside = rng.normal(size=n)
    P = root @ root.T / n + 0.1 * np.eye(n)
    q = torch.from_numpy(rng.normal(size=(batch, n)))
    h = torch.from_numpy(G @ inside + rng.uniform(0.0, 1.0, size=(batch, m)))
    matrices = [torch.from_numpy(part) for part in (P, G, A)]
    return Program(matrices[0], q[0], matrices[1], h[0], matrices[2], torch.from_numpy(A @ inside)), q, h


def _ours(program: Program, q: Tensor, h: Tensor) -> Tensor:
    return solve_qp(program.P, q, program.G, h, program.A, program.b).x


def _theirs(layer: PeerLayer, q: Tensor, h: Tensor) -> Tensor:
    return layer(q=q, h=h)


def measure_batch(shape: tuple[int, int, int], batch: int, layers: Sequence[str]) -> BatchTimes:
    """Time these layers (``"ours"`` or a peer's name) on one random batch."""
    program, q, h = random_batch(shape, batch)
    x_bar = torch.from_numpy(np.random.default_rng(1).normal(size=tuple(q.shape)))
    expected = _reference(program, q, h, x_bar)
    calls: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        name: partial(_ours, program) if name == _OURS else partial(_theirs, peer_layer(name, program, ("q", "h")))
        for name in layers
    }

    def timed(name: str) -> tuple[float, Sequence[Tensor]]:
        leaves = [part.detach().clone().requires_grad_() for part in (q, h)]
        start = time.perf_counter()
        found = torch.autograd.grad(calls[name](*leaves).reshape(x_bar.shape), leaves, x_bar)
        return time.perf_counter() - start, found

    times: dict[str, list[float]] = {}
    errors: dict[str, float] = {}
    for name in calls:
        seconds, found = timed(name)
        errors[name] = _error(found, expected)
        # What takes long at first is not timed again; what does not takes turns with the others.
        times[name] = [seconds] if seconds > _LONG_S else []
    begin = time.perf_counter()
    while not all(times.values()) or time.perf_counter() - begin < _ROUNDS_S:
        for name in calls:
            if not times[name] or times[name][0] <= _LONG_S:
                times[name].append(timed(name)[0])
    return BatchTimes({name: 1e3 * float(np.median(seen)) for name, seen in times.items()}, errors)


def _reference(program: Program, q: Tensor, h: Tensor, x_bar: Tensor) -> list[Tensor]:
    """Gradients of q and h by the exact reduced KKT system, at points solved to high accuracy."""
    solution = solve_qp(program.P, q, program.G, h, program.A, program.b, solver="piqp")
    P, G, A = (part.numpy() for part in (program.P, program.G, program.A))
    of_q, of_h = [], []
    for k in range(len(q)):
        x, y, z = (part[k].detach().numpy() for part in (solution.x, solution.y, solution.z))
        found = reduced_kkt_gradients(P, G, A, x, y, z, active=z > 0.0, x_bar=x_bar[k].numpy())
        of_q.append(found.q)
        of_h.append(found.h)
    return [torch.from_numpy(np.stack(part)) for part in (of_q, of_h)]


def _error(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    return max(float((one - other).norm() / other.norm()) for one, other in zip(found, expected, strict=True))


def print_batches(batches: Sequence[int] = BATCHES) -> None:
    """Print the table, a row a shape and batch size; a layer that has become too slow is left out from there on."""
    here, absent = find_peers()
    names = [_OURS, *here]
    print("\nbatches, forward and backward for q and h, milliseconds (relative gradient error)")
    print(f"{torch.get_num_threads()} threads")
    if absent:
        print(f"not installed: {', '.join(absent)}")
    print(f"{'n, ineq., eq.':>14} {'batch':>6}" + "".join(f"{name:>22}" for name in names))
    for shape in SHAPES:
        layers = list(names)
        for batch in batches:
            found = measure_batch(shape, batch, layers)
            cells = (
                f"{found.milliseconds[name]:>11.4g} ({found.errors[name]:.0e})".rjust(22)
                if name in found.milliseconds
                else f"{'–':>22}"
                for name in names
            )
            print(f"{', '.join(map(str, shape)):>14} {batch:>6}" + "".join(cells), flush=True)
            layers = [name for name in layers if found.milliseconds.get(name, np.inf) < 1e3 * _LONGEST_S]
