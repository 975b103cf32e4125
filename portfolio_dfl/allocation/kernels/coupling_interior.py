"""The part that coupling rows have in the interior-point method (see `interior_point` for the rest of it).

Each function does for these rows what its namesake there does for bounds, trades and turnover. A linear row that is an
equality has neither slack nor barrier: its multiplier y moves by κ (eᵀw − cap) with a large fixed κ, the method of
multipliers, of which every Newton step is one step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner
from portfolio_dfl.allocation.kernels.block_factor import System
from portfolio_dfl.allocation.kernels.coupling import Coupling

__all__ = [
    "aim_coupling",
    "assemble_coupling",
    "count_coupling",
    "coupling_product",
    "coupling_residuals",
    "limit_multipliers",
    "move_coupling",
    "push_coupling",
    "recover_coupling",
    "start_coupling",
]

_Array = NDArray[np.float64]

# κ of an equality, in the scaled problem, whose gradients are of size one.
_EQUALITY = 1e6
# Least slack of a linear row at the start.
_ROOM = 0.01


@inner
def count_coupling(coupling: Coupling) -> int:
    """How many rows have a slack and a multiplier."""
    H, R = coupling.dual.shape
    count = 0
    for r in range(R):
        if coupling.equal[r] == 0.0:
            count += 1
    for member in coupling.members.ravel():
        count += 2 * int(member)
    total: int = H * count
    return total


@inner
def start_coupling(coupling: Coupling, w: _Array, start: float) -> None:
    """Slacks of the weights [H, N] where they are positive; a linear row's multiplier is ``start``."""
    H, N = w.shape
    G, D = coupling.exposures.shape[0], coupling.references.shape[0]
    for s in range(H):
        for r in range(G):
            held = 0.0
            for i in range(N):
                held += coupling.exposures[r, i] * w[s, i]
            free = coupling.equal[r] == 0.0
            coupling.slack[s, r] = max(coupling.caps[r] - held, _ROOM) if free else 0.0
            coupling.dual[s, r] = start if free else 0.0
        for d in range(D):
            cap = coupling.caps[G + d]
            distance = 0.0
            for i in range(N):
                distance += abs(w[s, i] - coupling.references[d, i]) * coupling.members[d, i]
            spare = max(cap - distance, 0.05 * cap)
            total = 0.0
            for i in range(N):
                gone = w[s, i] - coupling.references[d, i]
                member = coupling.members[d, i]
                away = (abs(gone) + 0.5 * spare / N) * member
                coupling.away[s, d, i] = away
                coupling.side_slack[s, 2 * d, i] = away - gone if member > 0.0 else 1.0
                coupling.side_slack[s, 2 * d + 1, i] = away + gone if member > 0.0 else 1.0
                total += away
            coupling.slack[s, G + d] = max(cap - total, 0.01 * cap)
            coupling.dual[s, G + d] = start / coupling.slack[s, G + d]
            for i in range(N):
                pull = 0.5 * coupling.dual[s, G + d] * coupling.members[d, i]
                coupling.side_dual[s, 2 * d, i] = pull
                coupling.side_dual[s, 2 * d + 1, i] = pull


@inner
def coupling_residuals(coupling: Coupling, w: _Array) -> tuple[float, float]:
    """Write the rows' residuals and ``force``; return the largest primal and the largest dual one."""
    H, N = w.shape
    G, D = coupling.exposures.shape[0], coupling.references.shape[0]
    force = coupling.force
    force[:] = 0.0
    primal = 0.0
    stationarity = 0.0
    for s in range(H):
        for r in range(G):
            left = coupling.caps[r] - coupling.slack[s, r]
            for i in range(N):
                left -= coupling.exposures[r, i] * w[s, i]
                force[s, i] += coupling.exposures[r, i] * coupling.dual[s, r]
            coupling.gap[s, r] = left
            primal = max(primal, abs(left))
        for d in range(D):
            left = coupling.caps[G + d] - coupling.slack[s, G + d]
            for i in range(N):
                gone = w[s, i] - coupling.references[d, i]
                away = coupling.away[s, d, i]
                left -= away
                member = coupling.members[d, i]
                above = (away - gone - coupling.side_slack[s, 2 * d, i]) * member
                below = (away + gone - coupling.side_slack[s, 2 * d + 1, i]) * member
                coupling.side_gap[s, 2 * d, i] = above
                coupling.side_gap[s, 2 * d + 1, i] = below
                primal = max(primal, abs(above), abs(below))
                up, down = coupling.side_dual[s, 2 * d, i], coupling.side_dual[s, 2 * d + 1, i]
                force[s, i] += up - down
                coupling.away_gap[s, d, i] = (coupling.dual[s, G + d] - up - down) * member
                stationarity = max(stationarity, abs(coupling.away_gap[s, d, i]))
            coupling.gap[s, G + d] = left
            primal = max(primal, abs(left))
    return primal, stationarity


@inner
def assemble_coupling(coupling: Coupling, system: System) -> None:
    """Write the rows' part of the Newton system's matrix at this point."""
    H, R = coupling.dual.shape
    N = system.d.shape[1]
    G = coupling.exposures.shape[0]
    for s in range(H):
        for r in range(G):
            free = coupling.equal[r] == 0.0
            coupling.strength[s, r] = coupling.dual[s, r] / coupling.slack[s, r] if free else _EQUALITY
            for i in range(N):
                coupling.vector[s, r, i] = coupling.exposures[r, i]
        for d in range(R - G):
            give = 0.0
            for i in range(N):
                coupling.vector[s, G + d, i] = 0.0
                coupling.give[s, d, i] = 0.0
                if coupling.members[d, i] == 0.0:
                    continue
                up = coupling.side_dual[s, 2 * d, i] / coupling.side_slack[s, 2 * d, i]
                down = coupling.side_dual[s, 2 * d + 1, i] / coupling.side_slack[s, 2 * d + 1, i]
                share = 1.0 / (up + down)
                system.d[s, i] += 4.0 * up * down * share
                coupling.vector[s, G + d, i] = (down - up) * share
                coupling.give[s, d, i] = share
                give += share
            budget = coupling.dual[s, G + d] / coupling.slack[s, G + d]
            coupling.strength[s, G + d] = budget / (1.0 + budget * give)


@inner
def aim_coupling(coupling: Coupling, corrected: bool, centring: float) -> None:
    """Ask of each product slack · multiplier what it should fall by; ``corrected`` for the step found before."""
    H, R = coupling.dual.shape
    for s in range(H):
        for r in range(R):
            correction = 0.0
            if corrected and coupling.equal[r] == 0.0:
                correction = coupling.dslack[s, r] * coupling.ddual[s, r] - centring
            coupling.target[s, r] = coupling.slack[s, r] * coupling.dual[s, r] + correction
        for k in range(coupling.side_slack.shape[1]):
            for i in range(coupling.side_slack.shape[2]):
                correction = 0.0
                if corrected:
                    correction = coupling.side_dslack[s, k, i] * coupling.side_ddual[s, k, i] - centring
                correction *= coupling.members[k // 2, i]
                coupling.side_target[s, k, i] = coupling.side_slack[s, k, i] * coupling.side_dual[s, k, i] + correction


@inner
def push_coupling(coupling: Coupling, f: _Array) -> None:
    """Add the rows' part to the right-hand side; multipliers' steps carry what does not depend on the weights'."""
    H, N = f.shape
    G, D = coupling.exposures.shape[0], coupling.references.shape[0]
    g = coupling.g
    for s in range(H):
        for r in range(G):
            part = _EQUALITY * coupling.gap[s, r]
            if coupling.equal[r] == 0.0:
                part = (coupling.target[s, r] + coupling.dual[s, r] * coupling.gap[s, r]) / coupling.slack[s, r]
            coupling.ddual[s, r] = part
            for i in range(N):
                f[s, i] += part * coupling.exposures[r, i]
        for d in range(D):
            r, above, below = G + d, 2 * d, 2 * d + 1
            budget = (coupling.target[s, r] + coupling.dual[s, r] * coupling.gap[s, r]) / coupling.slack[s, r]
            pull = 0.0
            for i in range(N):
                for k in range(above, below + 1):
                    part = coupling.side_target[s, k, i] + coupling.side_dual[s, k, i] * coupling.side_gap[s, k, i]
                    coupling.side_ddual[s, k, i] = part / coupling.side_slack[s, k, i]
                up, down = coupling.side_ddual[s, above, i], coupling.side_ddual[s, below, i]
                g[s, d, i] = budget - coupling.away_gap[s, d, i] - up - down
                pull += g[s, d, i] * coupling.give[s, d, i]
            pull *= coupling.strength[s, r]
            for i in range(N):
                up, down = coupling.side_ddual[s, above, i], coupling.side_ddual[s, below, i]
                f[s, i] -= down - up + coupling.vector[s, r, i] * (g[s, d, i] - pull)


@inner
def recover_coupling(coupling: Coupling, dw: _Array) -> None:
    """The rows' part of the step, from the weights' step."""
    H, N = dw.shape
    G, D = coupling.exposures.shape[0], coupling.references.shape[0]
    daway, give = coupling.daway, coupling.give
    for s in range(H):
        for r in range(G):
            moved = 0.0
            for i in range(N):
                moved += coupling.exposures[r, i] * dw[s, i]
            if coupling.equal[r] == 0.0:
                coupling.dslack[s, r] = coupling.gap[s, r] - moved
                value = coupling.target[s, r] + coupling.dual[s, r] * coupling.dslack[s, r]
                coupling.ddual[s, r] = -value / coupling.slack[s, r]
            else:
                coupling.dslack[s, r] = 0.0
                coupling.ddual[s, r] = _EQUALITY * moved - coupling.ddual[s, r]
        for d in range(D):
            r, above, below = G + d, 2 * d, 2 * d + 1
            pull = 0.0
            for i in range(N):
                daway[s, d, i] = coupling.g[s, d, i] * give[s, d, i] - coupling.vector[s, r, i] * dw[s, i]
                pull += daway[s, d, i]
            pull *= coupling.strength[s, r]
            total = 0.0
            for i in range(N):
                move = daway[s, d, i] - pull * give[s, d, i]
                daway[s, d, i] = move
                total += move
                member = coupling.members[d, i]
                coupling.side_dslack[s, above, i] = (move - dw[s, i]) * member + coupling.side_gap[s, above, i]
                coupling.side_dslack[s, below, i] = (move + dw[s, i]) * member + coupling.side_gap[s, below, i]
                for k in range(above, below + 1):
                    value = coupling.side_target[s, k, i] + coupling.side_dual[s, k, i] * coupling.side_dslack[s, k, i]
                    coupling.side_ddual[s, k, i] = -value / coupling.side_slack[s, k, i]
            coupling.dslack[s, r] = coupling.gap[s, r] - total
            value = coupling.target[s, r] + coupling.dual[s, r] * coupling.dslack[s, r]
            coupling.ddual[s, r] = -value / coupling.slack[s, r]


@inner
def limit_multipliers(coupling: Coupling, worst: float) -> float:
    """`interior_point._longest` over the multipliers of rows, of which those of equalities have any sign."""
    H, R = coupling.dual.shape
    for s in range(H):
        for r in range(R):
            if coupling.equal[r] == 0.0 and -coupling.ddual[s, r] > worst * coupling.dual[s, r]:
                worst = -coupling.ddual[s, r] / coupling.dual[s, r]
    return worst


@inner
def coupling_product(coupling: Coupling, primal: float, dual: float, moved: bool) -> float:
    """Sum of slack · multiplier, with ``moved`` after steps of these lengths."""
    total = 0.0
    for slack, dslack, multiplier, ddual in (
        (coupling.slack.ravel(), coupling.dslack.ravel(), coupling.dual.ravel(), coupling.ddual.ravel()),
        (
            coupling.side_slack.ravel(),
            coupling.side_dslack.ravel(),
            coupling.side_dual.ravel(),
            coupling.side_ddual.ravel(),
        ),
    ):
        for i in range(slack.shape[0]):
            if moved:
                total += (slack[i] + primal * dslack[i]) * (multiplier[i] + dual * ddual[i])
            else:
                total += slack[i] * multiplier[i]
    return total


@inner
def move_coupling(coupling: Coupling, primal: float, dual: float) -> None:
    """Take the step, with these lengths."""
    for value, move, length in (
        (coupling.slack.ravel(), coupling.dslack.ravel(), primal),
        (coupling.dual.ravel(), coupling.ddual.ravel(), dual),
        (coupling.away.ravel(), coupling.daway.ravel(), primal),
        (coupling.side_slack.ravel(), coupling.side_dslack.ravel(), primal),
        (coupling.side_dual.ravel(), coupling.side_ddual.ravel(), dual),
    ):
        for i in range(value.shape[0]):
            value[i] += length * move[i]
