"""The part that coupling rows have in the polish and the derivative (see `polish` for the rest of it).

An active row is Σ_i v_i x_i = level with v its exposures, or, of a distance, the signs of w − z; an asset that a spent
distance holds at its reference is x_i = place. Both become springs, as trades do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner
from portfolio_dfl.allocation.kernels.block_factor import System
from portfolio_dfl.allocation.kernels.coupling import (
    DUAL,
    LEVEL,
    PIN,
    PIN_GAP,
    PLACE,
    SLACK,
    SPRING,
    STRENGTH,
    THETA,
    THETA_GAP,
    Coupling,
)
from portfolio_dfl.allocation.kernels.coupling_trades import (
    cap_trades,
    load_trades,
    repair_trades,
    spring_trades,
    verify_trades,
)

__all__ = [
    "adjust_coupling",
    "answer_gaps",
    "coupling_gaps",
    "derive_coupling",
    "identify_coupling",
    "leave_coupling",
    "load_coupling",
    "repair_coupling",
    "spring_coupling",
    "verify_coupling",
    "warm_coupling",
]

_Array = NDArray[np.float64]
_Int8 = NDArray[np.int8]


@inner
def _copy(source: _Int8, target: _Int8) -> None:
    """Copy [H, T, N] entry by entry: Numba would make room for overlapping arrays."""
    H, T, N = source.shape
    for s in range(H):
        for t in range(T):
            for i in range(N):
                target[s, t, i] = source[s, t, i]


@inner
def identify_coupling(coupling: Coupling, trade: _Int8) -> None:
    """Read the active rows off the interior point."""
    rows, sides = coupling.rows, coupling.sides
    _, H, R = rows.shape
    G, (D, N) = coupling.exposures.shape[0], coupling.references.shape
    for s in range(H):
        for r in range(R):
            active = coupling.equal[r] > 0.0 or rows[DUAL, s, r] > rows[SLACK, s, r]
            coupling.spent[s, r] = 1 if active else 0
        for d in range(D):
            for i in range(N):
                above = sides[DUAL, s, 2 * d, i] > sides[SLACK, s, 2 * d, i]
                below = sides[DUAL, s, 2 * d + 1, i] > sides[SLACK, s, 2 * d + 1, i]
                counts = coupling.spent[s, G + d] == 1 and coupling.members[d, i] > 0.0
                coupling.side[s, d, i] = int(above) - int(below) if counts else 2
    cap_trades(coupling, trade)


@inner
def spring_coupling(coupling: Coupling, trade: _Int8, system: System, stiffness: float) -> None:
    """Write the springs of the active rows."""
    rows, terms, parts = coupling.rows, coupling.terms, coupling.parts
    _, H, R = rows.shape
    G, (D, N) = coupling.exposures.shape[0], coupling.references.shape
    for s in range(H):
        for r in range(R):
            square = 0.0
            for i in range(N):
                value = 0.0
                if coupling.spent[s, r] == 1:
                    if r < G:
                        value = coupling.exposures[r, i]
                    elif abs(coupling.side[s, r - G, i]) == 1:
                        value = coupling.side[s, r - G, i] * 1.0
                coupling.vector[s, r, i] = value
                square += value * value
            terms[STRENGTH, s, r] = stiffness / square if square > 0.0 else 0.0
        for d in range(D):
            for i in range(N):
                parts[SPRING, s, d, i] = stiffness if coupling.side[s, d, i] == 0 else 0.0
                system.d[s, i] += parts[SPRING, s, d, i]
    spring_trades(coupling, trade, system, stiffness)


@inner
def _write_force(coupling: Coupling) -> None:
    """What the active rows' multipliers add to the Lagrangian's gradient."""
    terms, parts = coupling.terms, coupling.parts
    H, R, N = coupling.vector.shape
    force = coupling.force
    force[:] = 0.0
    for s in range(H):
        for r in range(R):
            for i in range(N):
                force[s, i] += coupling.vector[s, r, i] * terms[THETA, s, r]
        for d in range(parts.shape[2]):
            for i in range(N):
                force[s, i] += parts[PIN, s, d, i]


@inner
def coupling_gaps(coupling: Coupling, x: _Array) -> float:
    """Write the residuals of the active rows, and ``force``; return the largest residual."""
    terms, parts = coupling.terms, coupling.parts
    H, R, N = coupling.vector.shape
    _write_force(coupling)
    worst = 0.0
    for s in range(H):
        for r in range(R):
            left = terms[LEVEL, s, r]
            for i in range(N):
                left -= coupling.vector[s, r, i] * x[s, i]
            terms[THETA_GAP, s, r] = left if coupling.spent[s, r] == 1 else 0.0
            worst = max(worst, abs(terms[THETA_GAP, s, r]))
        for d in range(parts.shape[2]):
            for i in range(N):
                left = parts[PLACE, s, d, i] - x[s, i] if coupling.side[s, d, i] == 0 else 0.0
                parts[PIN_GAP, s, d, i] = left
                worst = max(worst, abs(left))
    return worst


@inner
def answer_gaps(coupling: Coupling, right: _Array) -> None:
    """Add to the right-hand side what the springs answer to the gaps of their rows."""
    terms, parts = coupling.terms, coupling.parts
    H, R, N = coupling.vector.shape
    for s in range(H):
        for r in range(R):
            push = terms[STRENGTH, s, r] * terms[THETA_GAP, s, r]
            for i in range(N):
                right[s, i] += push * coupling.vector[s, r, i]
        for d in range(parts.shape[2]):
            for i in range(N):
                right[s, i] += parts[SPRING, s, d, i] * parts[PIN_GAP, s, d, i]


@inner
def adjust_coupling(coupling: Coupling, dx: _Array) -> None:
    """The multipliers' steps that belong to the weights' step."""
    terms, parts = coupling.terms, coupling.parts
    H, R, N = coupling.vector.shape
    for s in range(H):
        for r in range(R):
            moved = 0.0
            for i in range(N):
                moved += coupling.vector[s, r, i] * dx[s, i]
            terms[THETA, s, r] += terms[STRENGTH, s, r] * (moved - terms[THETA_GAP, s, r])
        for d in range(parts.shape[2]):
            for i in range(N):
                parts[PIN, s, d, i] += parts[SPRING, s, d, i] * (dx[s, i] - parts[PIN_GAP, s, d, i])


@inner
def load_coupling(coupling: Coupling, tie: _Array) -> None:
    """Start the active rows' multipliers from the interior point's, and write their right-hand sides."""
    rows, sides, terms, parts = coupling.rows, coupling.sides, coupling.terms, coupling.parts
    _, H, R = rows.shape
    G, (D, N) = coupling.exposures.shape[0], coupling.references.shape
    for s in range(H):
        for r in range(R):
            terms[THETA, s, r] = rows[DUAL, s, r] if coupling.spent[s, r] == 1 else 0.0
            terms[LEVEL, s, r] = coupling.caps[r]
        for d in range(D):
            for i in range(N):
                parts[PLACE, s, d, i] = coupling.references[d, i]
                # The distance is Σ side (w − z) over the assets that are away from their reference.
                terms[LEVEL, s, G + d] += coupling.vector[s, G + d, i] * coupling.references[d, i]
                parts[PIN, s, d, i] = 0.0
                if coupling.side[s, d, i] == 0:
                    parts[PIN, s, d, i] = sides[DUAL, s, 2 * d, i] - sides[DUAL, s, 2 * d + 1, i]
    load_trades(coupling, tie)


@inner
def warm_coupling(coupling: Coupling, b: int, alpha: float) -> None:
    """Take active rows and multipliers from an earlier solution (unscaled)."""
    rows, sides = coupling.rows, coupling.sides
    _, H, R = rows.shape
    D, N = coupling.references.shape
    for s in range(H):
        for r in range(R):
            coupling.spent[s, r] = coupling.found.spent[b, s, r]
            rows[DUAL, s, r] = alpha * coupling.found.theta[b, s, r]
        for d in range(D):
            for i in range(N):
                coupling.side[s, d, i] = coupling.found.side[b, s, d, i]
                sides[DUAL, s, 2 * d, i] = alpha * max(coupling.found.pin[b, s, d, i], 0.0)
                sides[DUAL, s, 2 * d + 1, i] = alpha * max(-coupling.found.pin[b, s, d, i], 0.0)
    _copy(coupling.found.capped[b], coupling.capped)
    coupling.steps[DUAL] = 0.0


@inner
def leave_coupling(coupling: Coupling, b: int, alpha: float) -> None:
    """Leave active rows and multipliers behind, in the units of the given problem."""
    rows, terms, parts = coupling.rows, coupling.terms, coupling.parts
    _, H, R = rows.shape
    D, N = coupling.references.shape
    for s in range(H):
        for r in range(R):
            coupling.found.spent[b, s, r] = coupling.spent[s, r]
            coupling.found.theta[b, s, r] = terms[THETA, s, r] / alpha
        for d in range(D):
            for i in range(N):
                coupling.found.side[b, s, d, i] = coupling.side[s, d, i]
                coupling.found.pin[b, s, d, i] = parts[PIN, s, d, i] / alpha
    _copy(coupling.capped, coupling.found.capped[b])


@inner
def derive_coupling(coupling: Coupling, b: int) -> None:
    """Take the active rows of a solution, all unknowns and right-hand sides zero."""
    rows, terms, parts = coupling.rows, coupling.terms, coupling.parts
    _, H, R = rows.shape
    D, N = coupling.references.shape
    for s in range(H):
        for r in range(R):
            coupling.spent[s, r] = coupling.found.spent[b, s, r]
            terms[THETA, s, r] = 0.0
            terms[LEVEL, s, r] = 0.0
        for d in range(D):
            for i in range(N):
                coupling.side[s, d, i] = coupling.found.side[b, s, d, i]
                parts[PIN, s, d, i] = 0.0
                parts[PLACE, s, d, i] = 0.0
    _copy(coupling.found.capped[b], coupling.capped)
    coupling.largest[:] = 0.0


@inner
def verify_coupling(coupling: Coupling, x: _Array, before: _Array, tie: _Array) -> tuple[float, float, float]:
    """Check the rows' conditions of optimality and write ``force``; primal and dual violation, and margin."""
    rows, terms, parts = coupling.rows, coupling.terms, coupling.parts
    _, H, R = rows.shape
    G, (D, N) = coupling.exposures.shape[0], coupling.references.shape
    _write_force(coupling)
    primal = 0.0
    dual = 0.0
    margin = np.inf
    for s in range(H):
        for r in range(R):
            left = coupling.caps[r]
            for i in range(N):
                if r < G:
                    left -= coupling.exposures[r, i] * x[s, i]
                else:
                    left -= abs(x[s, i] - coupling.references[r - G, i]) * coupling.members[r - G, i]
            theta = terms[THETA, s, r]
            if coupling.spent[s, r] == 1:
                primal = max(primal, abs(left))
                if coupling.equal[r] == 0.0:
                    dual = max(dual, -theta)
                    margin = min(margin, theta)
            else:
                primal = max(primal, -left)
                margin = min(margin, left)
        for d in range(D):
            for i in range(N):
                side = coupling.side[s, d, i]
                gone = x[s, i] - coupling.references[d, i]
                if side == 0:
                    strict = terms[THETA, s, G + d] - abs(parts[PIN, s, d, i])
                    primal = max(primal, abs(gone))
                    dual = max(dual, -strict)
                    margin = min(margin, strict)
                elif side != 2:
                    primal = max(primal, -side * gone)
                    margin = min(margin, side * gone)
    return verify_trades(coupling, x, before, tie, primal, dual, margin)


@inner
def repair_coupling(coupling: Coupling, x: _Array, before: _Array, tie: _Array, tolerance: float) -> int:
    """Flip every decision about the rows that its own solution contradicts; return how many were flipped."""
    rows, terms, parts = coupling.rows, coupling.terms, coupling.parts
    _, H, R = rows.shape
    G, (_, N) = coupling.exposures.shape[0], coupling.references.shape
    flips: int = 0
    for s in range(H):
        for r in range(R):
            left = coupling.caps[r]
            for i in range(N):
                if r < G:
                    left -= coupling.exposures[r, i] * x[s, i]
                else:
                    left -= abs(x[s, i] - coupling.references[r - G, i]) * coupling.members[r - G, i]
            spent = coupling.spent[s, r] == 1
            freed = spent and coupling.equal[r] == 0.0 and terms[THETA, s, r] < -tolerance
            bound = not spent and left < -tolerance
            if freed or bound:
                coupling.spent[s, r] = 1 if bound else 0
                flips += 1
            if r < G:
                continue
            for i in range(N):
                side = coupling.side[s, r - G, i]
                gone = x[s, i] - coupling.references[r - G, i]
                if coupling.members[r - G, i] == 0.0:
                    continue
                if freed:
                    coupling.side[s, r - G, i] = 2
                elif bound:
                    coupling.side[s, r - G, i] = 1 if gone > tolerance else (-1 if gone < -tolerance else 0)
                elif abs(side) == 1 and side * gone < -tolerance:
                    coupling.side[s, r - G, i] = 0
                    flips += 1
                elif side == 0 and abs(parts[PIN, s, r - G, i]) > terms[THETA, s, r] + tolerance:
                    coupling.side[s, r - G, i] = 1 if parts[PIN, s, r - G, i] > 0.0 else -1
                    flips += 1
    return flips + repair_trades(coupling, x, before, tie, tolerance)
