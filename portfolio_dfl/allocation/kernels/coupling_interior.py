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
from portfolio_dfl.allocation.kernels.coupling import (
    AWAY,
    AWAY_GAP,
    DAWAY,
    DDUAL,
    DSLACK,
    DUAL,
    GAP,
    GIVE,
    PULL,
    SLACK,
    STRENGTH,
    TARGET,
    Coupling,
)
from portfolio_dfl.allocation.kernels.coupling_trades import (
    EQUALITY,
    aim_steps,
    assemble_steps,
    limit_step_multipliers,
    push_steps,
    recover_steps,
    start_steps,
    step_residuals,
)

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

# Least slack of a linear row at the start.
_ROOM = 0.01


@inner
def count_coupling(coupling: Coupling) -> int:
    """How many rows have a slack and a multiplier."""
    rows = coupling.rows
    _, H, R = rows.shape
    count = 0
    for r in range(R):
        if coupling.equal[r] == 0.0:
            count += 1
    for member in coupling.members.reshape(-1):
        count += 2 * int(member)
    for most in coupling.most.reshape(-1):
        if 0.0 < most < np.inf:
            count += 2
    total: int = H * count
    return total


@inner
def start_coupling(coupling: Coupling, w: _Array, w0: _Array, start: float) -> None:
    """Slacks of the weights [H, N] where they are positive; a linear row's multiplier is ``start``."""
    rows, sides, parts = coupling.rows, coupling.sides, coupling.parts
    H, N = w.shape
    G, D = coupling.exposures.shape[0], coupling.references.shape[0]
    for s in range(H):
        for r in range(G):
            held = 0.0
            for i in range(N):
                held += coupling.exposures[r, i] * w[s, i]
            free = coupling.equal[r] == 0.0
            rows[SLACK, s, r] = max(coupling.caps[r] - held, _ROOM) if free else 0.0
            rows[DUAL, s, r] = start if free else 0.0
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
                parts[AWAY, s, d, i] = away
                sides[SLACK, s, 2 * d, i] = away - gone if member > 0.0 else 1.0
                sides[SLACK, s, 2 * d + 1, i] = away + gone if member > 0.0 else 1.0
                total += away
            rows[SLACK, s, G + d] = max(cap - total, 0.01 * cap)
            rows[DUAL, s, G + d] = start / rows[SLACK, s, G + d]
            for i in range(N):
                pull = 0.5 * rows[DUAL, s, G + d] * coupling.members[d, i]
                sides[DUAL, s, 2 * d, i] = pull
                sides[DUAL, s, 2 * d + 1, i] = pull
    start_steps(coupling, w, w0, start)


@inner
def coupling_residuals(coupling: Coupling, w: _Array, w0: _Array) -> tuple[float, float]:
    """Write the rows' residuals and ``force``; return the largest primal and the largest dual one."""
    rows, sides, parts = coupling.rows, coupling.sides, coupling.parts
    H, N = w.shape
    G, D = coupling.exposures.shape[0], coupling.references.shape[0]
    force = coupling.force
    force[:] = 0.0
    primal = 0.0
    stationarity = 0.0
    for s in range(H):
        for r in range(G):
            left = coupling.caps[r] - rows[SLACK, s, r]
            for i in range(N):
                left -= coupling.exposures[r, i] * w[s, i]
                force[s, i] += coupling.exposures[r, i] * rows[DUAL, s, r]
            rows[GAP, s, r] = left
            primal = max(primal, abs(left))
        for d in range(D):
            left = coupling.caps[G + d] - rows[SLACK, s, G + d]
            for i in range(N):
                gone = w[s, i] - coupling.references[d, i]
                away = parts[AWAY, s, d, i]
                left -= away
                member = coupling.members[d, i]
                above = (away - gone - sides[SLACK, s, 2 * d, i]) * member
                below = (away + gone - sides[SLACK, s, 2 * d + 1, i]) * member
                sides[GAP, s, 2 * d, i] = above
                sides[GAP, s, 2 * d + 1, i] = below
                primal = max(primal, abs(above), abs(below))
                up, down = sides[DUAL, s, 2 * d, i], sides[DUAL, s, 2 * d + 1, i]
                force[s, i] += up - down
                parts[AWAY_GAP, s, d, i] = (rows[DUAL, s, G + d] - up - down) * member
                stationarity = max(stationarity, abs(parts[AWAY_GAP, s, d, i]))
            rows[GAP, s, G + d] = left
            primal = max(primal, abs(left))
    primal = max(primal, step_residuals(coupling, w, w0))
    return primal, stationarity


@inner
def assemble_coupling(coupling: Coupling, system: System) -> None:
    """Write the rows' part of the Newton system's matrix at this point."""
    rows, sides, terms, parts = coupling.rows, coupling.sides, coupling.terms, coupling.parts
    _, H, R = rows.shape
    N = system.d.shape[1]
    G = coupling.exposures.shape[0]
    for s in range(H):
        for r in range(G):
            free = coupling.equal[r] == 0.0
            terms[STRENGTH, s, r] = rows[DUAL, s, r] / rows[SLACK, s, r] if free else EQUALITY
            for i in range(N):
                coupling.vector[s, r, i] = coupling.exposures[r, i]
        for d in range(R - G):
            give = 0.0
            for i in range(N):
                coupling.vector[s, G + d, i] = 0.0
                parts[GIVE, s, d, i] = 0.0
                if coupling.members[d, i] == 0.0:
                    continue
                up = sides[DUAL, s, 2 * d, i] / sides[SLACK, s, 2 * d, i]
                down = sides[DUAL, s, 2 * d + 1, i] / sides[SLACK, s, 2 * d + 1, i]
                share = 1.0 / (up + down)
                system.d[s, i] += 4.0 * up * down * share
                coupling.vector[s, G + d, i] = (down - up) * share
                parts[GIVE, s, d, i] = share
                give += share
            budget = rows[DUAL, s, G + d] / rows[SLACK, s, G + d]
            terms[STRENGTH, s, G + d] = budget / (1.0 + budget * give)
    assemble_steps(coupling, system)


@inner
def aim_coupling(coupling: Coupling, share: float, centring: float) -> None:
    """Ask of each product slack · multiplier what it should fall by; corrected by a share of the step found before."""
    rows, sides = coupling.rows, coupling.sides
    _, H, R = rows.shape
    for s in range(H):
        for r in range(R):
            correction = 0.0
            if coupling.equal[r] == 0.0:
                correction = share * rows[DSLACK, s, r] * rows[DDUAL, s, r] - centring
            rows[TARGET, s, r] = rows[SLACK, s, r] * rows[DUAL, s, r] + correction
        for k in range(sides.shape[2]):
            for i in range(sides.shape[3]):
                correction = share * sides[DSLACK, s, k, i] * sides[DDUAL, s, k, i] - centring
                correction *= coupling.members[k // 2, i]
                sides[TARGET, s, k, i] = sides[SLACK, s, k, i] * sides[DUAL, s, k, i] + correction
    aim_steps(coupling, share, centring)


@inner
def push_coupling(coupling: Coupling, f: _Array) -> None:
    """Add the rows' part to the right-hand side; multipliers' steps carry what does not depend on the weights'."""
    rows, sides, terms, parts = coupling.rows, coupling.sides, coupling.terms, coupling.parts
    H, N = f.shape
    G, D = coupling.exposures.shape[0], coupling.references.shape[0]
    g = parts[PULL]
    for s in range(H):
        for r in range(G):
            part = EQUALITY * rows[GAP, s, r]
            if coupling.equal[r] == 0.0:
                part = (rows[TARGET, s, r] + rows[DUAL, s, r] * rows[GAP, s, r]) / rows[SLACK, s, r]
            rows[DDUAL, s, r] = part
            for i in range(N):
                f[s, i] += part * coupling.exposures[r, i]
        for d in range(D):
            r, above, below = G + d, 2 * d, 2 * d + 1
            budget = (rows[TARGET, s, r] + rows[DUAL, s, r] * rows[GAP, s, r]) / rows[SLACK, s, r]
            pull = 0.0
            for i in range(N):
                for k in range(above, below + 1):
                    part = sides[TARGET, s, k, i] + sides[DUAL, s, k, i] * sides[GAP, s, k, i]
                    sides[DDUAL, s, k, i] = part / sides[SLACK, s, k, i]
                up, down = sides[DDUAL, s, above, i], sides[DDUAL, s, below, i]
                g[s, d, i] = budget - parts[AWAY_GAP, s, d, i] - up - down
                pull += g[s, d, i] * parts[GIVE, s, d, i]
            pull *= terms[STRENGTH, s, r]
            for i in range(N):
                up, down = sides[DDUAL, s, above, i], sides[DDUAL, s, below, i]
                f[s, i] -= down - up + coupling.vector[s, r, i] * (g[s, d, i] - pull)
    push_steps(coupling, f)


@inner
def recover_coupling(coupling: Coupling, dw: _Array) -> None:
    """The rows' part of the step, from the weights' step."""
    rows, sides, terms, parts = coupling.rows, coupling.sides, coupling.terms, coupling.parts
    H, N = dw.shape
    G, D = coupling.exposures.shape[0], coupling.references.shape[0]
    daway, give = parts[DAWAY], parts[GIVE]
    for s in range(H):
        for r in range(G):
            moved = 0.0
            for i in range(N):
                moved += coupling.exposures[r, i] * dw[s, i]
            if coupling.equal[r] == 0.0:
                rows[DSLACK, s, r] = rows[GAP, s, r] - moved
                value = rows[TARGET, s, r] + rows[DUAL, s, r] * rows[DSLACK, s, r]
                rows[DDUAL, s, r] = -value / rows[SLACK, s, r]
            else:
                rows[DSLACK, s, r] = 0.0
                rows[DDUAL, s, r] = EQUALITY * moved - rows[DDUAL, s, r]
        for d in range(D):
            r, above, below = G + d, 2 * d, 2 * d + 1
            pull = 0.0
            for i in range(N):
                daway[s, d, i] = parts[PULL, s, d, i] * give[s, d, i] - coupling.vector[s, r, i] * dw[s, i]
                pull += daway[s, d, i]
            pull *= terms[STRENGTH, s, r]
            total = 0.0
            for i in range(N):
                move = daway[s, d, i] - pull * give[s, d, i]
                daway[s, d, i] = move
                total += move
                member = coupling.members[d, i]
                sides[DSLACK, s, above, i] = (move - dw[s, i]) * member + sides[GAP, s, above, i]
                sides[DSLACK, s, below, i] = (move + dw[s, i]) * member + sides[GAP, s, below, i]
                for k in range(above, below + 1):
                    value = sides[TARGET, s, k, i] + sides[DUAL, s, k, i] * sides[DSLACK, s, k, i]
                    sides[DDUAL, s, k, i] = -value / sides[SLACK, s, k, i]
            rows[DSLACK, s, r] = rows[GAP, s, r] - total
            value = rows[TARGET, s, r] + rows[DUAL, s, r] * rows[DSLACK, s, r]
            rows[DDUAL, s, r] = -value / rows[SLACK, s, r]
    recover_steps(coupling, dw)


@inner
def limit_multipliers(coupling: Coupling, worst: float) -> float:
    """`interior_point._longest` over the multipliers of rows, of which those of equalities have any sign."""
    rows = coupling.rows
    _, H, R = rows.shape
    for s in range(H):
        for r in range(R):
            if coupling.equal[r] == 0.0 and -rows[DDUAL, s, r] > worst * rows[DUAL, s, r]:
                worst = -rows[DDUAL, s, r] / rows[DUAL, s, r]
    return limit_step_multipliers(coupling, worst)


@inner
def _product(of: _Array, primal: float, dual: float, moved: bool) -> float:
    """Sum of slack · multiplier over one kind of rows, laid out by pages."""
    total = 0.0
    slack, multiplier = of[SLACK].reshape(-1), of[DUAL].reshape(-1)
    dslack, ddual = of[DSLACK].reshape(-1), of[DDUAL].reshape(-1)
    for i in range(slack.shape[0]):
        if moved:
            total += (slack[i] + primal * dslack[i]) * (multiplier[i] + dual * ddual[i])
        else:
            total += slack[i] * multiplier[i]
    return total


@inner
def coupling_product(coupling: Coupling, primal: float, dual: float, moved: bool) -> float:
    """Sum of slack · multiplier, with ``moved`` after steps of these lengths."""
    rows, sides = coupling.rows, coupling.sides
    total = _product(rows, primal, dual, moved) + _product(sides, primal, dual, moved)
    return total + _product(coupling.steps, primal, dual, moved)


@inner
def move_coupling(coupling: Coupling, primal: float, dual: float) -> None:
    """Take the step, with these lengths."""
    rows, sides, parts = coupling.rows, coupling.sides, coupling.parts
    for value, move, length in (
        (rows[SLACK].reshape(-1), rows[DSLACK].reshape(-1), primal),
        (rows[DUAL].reshape(-1), rows[DDUAL].reshape(-1), dual),
        (parts[AWAY].reshape(-1), parts[DAWAY].reshape(-1), primal),
        (sides[SLACK].reshape(-1), sides[DSLACK].reshape(-1), primal),
        (sides[DUAL].reshape(-1), sides[DDUAL].reshape(-1), dual),
        (coupling.steps[SLACK].reshape(-1), coupling.steps[DSLACK].reshape(-1), primal),
        (coupling.steps[DUAL].reshape(-1), coupling.steps[DDUAL].reshape(-1), dual),
    ):
        for i in range(value.shape[0]):
            value[i] += length * move[i]
