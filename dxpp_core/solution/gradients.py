"""Gradients and tangents of the arguments from the solutions of the KKT system.

With K[v; s; s_box] = [x̄; ȳ; z̄; z̄_box] on the active rows, a loss of (x, y, z, z_box) has the gradients

    ∂q = −v,   ∂P = −½(v xᵀ + x vᵀ),   ∂C = −(y vᵀ + s xᵀ),   ∂d = s,   ∂lb, ∂ub = s_box

for C = [A; G], d = [b; h] and the multipliers y of both (section 3 of the paper; the plug-in differs in v, s and y
only).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..program.layout import Layout
from .base import Sensitivities, Solution

__all__ = ["argument_gradients", "solution_tangents"]

Array = NDArray[np.float64]


Shape = tuple[int, ...]


def argument_gradients(solved: Solution, found: Sensitivities, wanted: dict[str, Shape]) -> dict[str, Array]:
    """Gradients of the wanted arguments, summed over the batch dimensions that their shapes given here do not have."""
    layout, x, v, s, p = solved.layout, solved.x, found.v, found.s, solved.layout.p
    y = solved.multipliers() if "G" in wanted or "A" in wanted else None
    out: dict[str, Array] = {}
    for name, shape in wanted.items():
        if name == "q":
            out[name] = _sum_to(layout, shape, -v)
        elif name == "P":
            out[name] = -0.5 * (_outer(layout, name, shape, v, x) + _outer(layout, name, shape, x, v))
        elif name in ("A", "G"):
            assert y is not None
            rows = slice(0, p) if name == "A" else slice(p, None)
            out[name] = -(_outer(layout, name, shape, y[:, rows], v) + _outer(layout, name, shape, s[:, rows], x))
        elif name in ("b", "h"):
            out[name] = _sum_to(layout, shape, s[:, :p] if name == "b" else s[:, p:])
        else:
            out[name] = _sum_to(layout, shape, solved.split_between_bounds(found.s_box)[name == "ub"])
    return out


def _outer(layout: Layout, name: str, shape: Shape, left: Array, right: Array) -> Array:
    """Σ left rightᵀ in the layout of a matrix argument: all of it, or its pattern only."""
    alone = all(length == 1 for length in shape[: len(shape) - (1 if name in layout.patterns else 2)])
    if name in layout.patterns:
        pattern = layout.patterns[name]
        if alone:
            total: Array = np.einsum("ki,ki->i", left[:, pattern.rows], right[:, pattern.indices])
            return total.reshape(shape)
        return _sum_to(layout, shape, left[:, pattern.rows] * right[:, pattern.indices])
    if alone:
        # Not by BLAS, whose sums over a batch may depend on the number of its threads.
        summed: Array = np.einsum("ki,kj->ij", left, right)
        return summed.reshape(shape)
    return _sum_to(layout, shape, left[:, :, None] * right[:, None, :])


def _sum_to(layout: Layout, shape: Shape, full: Array) -> Array:
    """Sum [size, *core] over the batch dimensions along which an argument of this shape was broadcast."""
    if layout.size == 1:
        return full.reshape(shape)
    core = full.shape[1:]
    own = shape[: len(shape) - len(core)]
    batch = layout.batch_shape
    full = full.reshape(batch + core)
    lead = len(batch) - len(own)
    axes = tuple(range(lead)) + tuple(lead + i for i, length in enumerate(own) if length == 1 and batch[lead + i] != 1)
    total: Array = full.sum(axis=axes)
    return total.reshape(shape)


def solution_tangents(solved: Solution, tangents: dict[str, Array]) -> tuple[Array, Array, Array, Array]:
    """Tangents of x, y, z and z_box [size, ·] along tangents of the arguments, each in the shape of its argument."""
    layout = solved.layout
    size, n, m, p = layout.size, layout.n, layout.m, layout.p

    def spread(name: str) -> Array:
        """The tangent of a vector argument, or of the values of a matrix, for each element."""
        tangent = tangents[name]
        core = tangent.ndim - (1 if name in layout.patterns or name not in ("P", "G", "A") else 2)
        shape = layout.batch_shape + tangent.shape[core:]
        spread_out: Array = np.broadcast_to(tangent, shape).reshape(size, *tangent.shape[core:])
        return spread_out

    def times(name: str, vector: Array, *, transpose: bool = False) -> Array:
        values = spread(name)
        if name not in layout.patterns:
            product: Array = np.einsum("kij,ki->kj" if transpose else "kij,kj->ki", values, vector)
            return product
        pattern = layout.patterns[name]
        matrices = (pattern.matrix(np.ascontiguousarray(row)) for row in values)
        return np.stack([(M.T if transpose else M) @ row for M, row in zip(matrices, vector, strict=True)])

    g = np.zeros((size, n))
    d = np.zeros((size, p + m))
    if "q" in tangents:
        g += spread("q")
    if "P" in tangents:
        g += 0.5 * (times("P", solved.x) + times("P", solved.x, transpose=True))
    y = solved.multipliers()
    for name, rows in (("A", slice(0, p)), ("G", slice(p, None))):
        if name in tangents:
            g += times(name, y[:, rows], transpose=True)
            d[:, rows] -= times(name, solved.x)
    for name, rows in (("b", slice(0, p)), ("h", slice(p, None))):
        if name in tangents:
            d[:, rows] += spread(name)
    bounds = [spread(name) if name in tangents else None for name in ("lb", "ub")]
    found = solved.tangent(g, d, *bounds, of_rows=not tangents.keys() <= {"P", "q"})
    return found.v, found.s[:, :p], found.s[:, p:], found.s_box
