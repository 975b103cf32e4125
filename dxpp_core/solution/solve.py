"""From arguments to a solved batch, by compiled loops where the program is for them, else one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..matrices import System
from ..matrices.pattern import SparsePattern
from ..options import Options
from ..program.layout import Layout
from ..program.problem import NAMES, Element, QuadraticProgram
from ..program.recognition import known_small_system, read_content
from ..program.units import scale
from .base import Solution
from .compiled import CompiledSolution
from .map import SolutionMap

__all__ = ["solve_batch"]

Array = NDArray[np.float64]
_FIRST = np.zeros(1, dtype=np.intp)


def solve_batch(
    arrays: Sequence[Array | None],
    patterns: dict[str, SparsePattern],
    options: Options,
    precision: float,
    limits_precision: float,
) -> Solution:
    """Solve the programs of these arguments, in the order of ``NAMES``; sparse ones by the values of their pattern.

    ``precision`` and ``limits_precision``: relative rounding with which P, and the rows and their limits, are known, if
    they came in lower precision than float64.
    """
    compiled = options.polish and options.penalty is None
    if compiled and not (patterns or precision or limits_precision):
        known = _solve_known(arrays, options)
        if known is not None:
            return known
    program = QuadraticProgram(dict(zip(NAMES, arrays, strict=True)), patterns, precision, limits_precision)
    found = program.compact() if compiled else None
    if found is None:
        return SolutionMap.solve(program, options)
    return CompiledSolution.solve(program.layout, *found, program.own_vectors(), options, lambda: program)


def _solve_known(arrays: Sequence[Array | None], options: Options) -> CompiledSolution | None:
    """One program with matrices that were met before needs no more checks than that the sizes fit them."""
    P, q, G, h, A, b, lb, ub = arrays
    known = known_small_system(P, G, A)
    if known is None or q is None or (h is None) != (G is None) or (b is None) != (A is None):
        return None
    system, content = known
    if system.compact is None:
        return None
    n, p = system.D.size, system.n_eq
    m = system.E.size - p
    given, sizes = (q, b, h, lb, ub), (n, p, m, n, n)
    if any(part is not None and part.shape != (size,) for part, size in zip(given, sizes, strict=True)):
        return None
    # Copies: what a backward pass reads is what was given here.
    vectors = [None if part is None else part[None].copy() for part in given]

    def program() -> QuadraticProgram:
        own_P, own_G, own_A = read_content(content)
        own_q, own_b, own_h, own_lb, own_ub = (None if part is None else part[0] for part in vectors)
        own = (own_P, own_q, own_G, own_h, own_A, own_b, own_lb, own_ub)
        return QuadraticProgram(dict(zip(NAMES, own, strict=True)), {})

    layout = Layout((), n, m, p, {})
    ready = None if options.direct else _ready(system, q, b, h, lb, ub)
    return CompiledSolution.solve(layout, [system.compact], _FIRST, vectors, options, program, ready)


def _ready(
    system: System, q: Array, b: Array | None, h: Array | None, lb: Array | None, ub: Array | None
) -> Element | None:
    """The program in equilibrated form, if nothing about its numbers needs a closer look."""
    scaled = scale(system, q, b, h, lb, ub)
    return Element(system, scaled.vectors(), None) if scaled.plain and scaled.alpha > 0.0 else None
