"""Limits of single trades, |w_s − w_{s−1}| ≤ most: their part in the interior-point method and in the polish.

With Δ = w_s − w_{s−1} these are the rows most − Δ ≥ 0 and most + Δ ≥ 0. Eliminated, they add to the diagonal of what
couples consecutive stages. Where most is 0 (an asset that is not traded) Δ = 0 is an equality; its multiplier moves by
κ Δ with a large fixed κ, the method of multipliers, of which every Newton step is one step. In an active set such an
asset is one that is not traded, whatever its multiplier; a trade at its limit keeps its sign and is a tie as well, to
w_s − w_{s−1} = ±most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import inner
from portfolio_dfl.allocation.kernels.block_factor import System
from portfolio_dfl.allocation.kernels.coupling import DDUAL, DSLACK, DUAL, GAP, SLACK, TARGET, Coupling

__all__ = [
    "EQUALITY",
    "aim_steps",
    "assemble_steps",
    "cap_trades",
    "capped_gap",
    "capped_pull",
    "free_pull",
    "limit_step_multipliers",
    "load_trades",
    "push_steps",
    "recover_steps",
    "repair_trades",
    "spring_trades",
    "start_steps",
    "step_residuals",
    "verify_trades",
]

_Array = NDArray[np.float64]
_Int8 = NDArray[np.int8]

# κ of an equality, in the scaled problem, whose gradients are of size one.
EQUALITY = 1e6


@inner
def start_steps(coupling: Coupling, w: _Array, w0: _Array, start: float) -> None:
    """Slacks of the weights' own steps where they are positive; multipliers of ``start``."""
    steps = coupling.steps
    H, T, N = coupling.largest.shape
    for s in range(H):
        for t in range(T):
            for i in range(N):
                most = coupling.most[t, i]
                change = w[s, i] - (w[s - 1, i] if s > 0 else w0[i])
                limited = most > 0.0 and most < np.inf
                # A row that does not exist has slack 1 and multiplier 0, an equality no slack.
                steps[SLACK, s, 0, i] = max(most - change, 0.1 * most) if limited else min(most, 1.0)
                steps[SLACK, s, 1, i] = max(most + change, 0.1 * most) if limited else min(most, 1.0)
                steps[DUAL, s, 0, i] = start if limited else 0.0
                steps[DUAL, s, 1, i] = start if limited else 0.0


@inner
def step_residuals(coupling: Coupling, w: _Array, w0: _Array) -> float:
    """Write the rows' residuals and add to ``force``; return the largest residual."""
    steps, force = coupling.steps, coupling.force
    H, T, N = coupling.largest.shape
    primal = 0.0
    for s in range(H):
        for t in range(T):
            for i in range(N):
                most = coupling.most[t, i]
                change = w[s, i] - (w[s - 1, i] if s > 0 else w0[i])
                up, down = 0.0, 0.0
                if most < np.inf:
                    up = most - change - steps[SLACK, s, 0, i]
                    down = most + change - steps[SLACK, s, 1, i] if most > 0.0 else 0.0
                steps[GAP, s, 0, i] = up
                steps[GAP, s, 1, i] = down
                primal = max(primal, abs(up), abs(down))
                pull = steps[DUAL, s, 0, i] - steps[DUAL, s, 1, i]
                force[s, i] += pull
                if s > 0:
                    force[s - 1, i] -= pull
    return primal


@inner
def assemble_steps(coupling: Coupling, system: System) -> None:
    """Add the rows' part to the Newton system's matrix."""
    steps = coupling.steps
    H, T, N = coupling.largest.shape
    for s in range(H):
        for t in range(T):
            for i in range(N):
                if coupling.most[t, i] == 0.0:
                    system.m[s, i] += EQUALITY
                else:
                    system.m[s, i] += steps[DUAL, s, 0, i] / steps[SLACK, s, 0, i]
                    system.m[s, i] += steps[DUAL, s, 1, i] / steps[SLACK, s, 1, i]


@inner
def aim_steps(coupling: Coupling, share: float, centring: float) -> None:
    """Ask of each product slack · multiplier what it should fall by; corrected by a share of the step found before."""
    steps = coupling.steps
    H, T, N = coupling.largest.shape
    for s in range(H):
        for t in range(T):
            for i in range(N):
                limited = coupling.most[t, i] > 0.0 and coupling.most[t, i] < np.inf
                for k in range(2):
                    correction = 0.0
                    if limited:
                        correction = share * steps[DSLACK, s, k, i] * steps[DDUAL, s, k, i] - centring
                    steps[TARGET, s, k, i] = steps[SLACK, s, k, i] * steps[DUAL, s, k, i] + correction


@inner
def push_steps(coupling: Coupling, f: _Array) -> None:
    """Add the rows' part to the right-hand side; multipliers' steps carry what does not depend on the weights'."""
    steps = coupling.steps
    H, T, N = coupling.largest.shape
    for s in range(H):
        for t in range(T):
            for i in range(N):
                up, down = EQUALITY * steps[GAP, s, 0, i], 0.0
                if coupling.most[t, i] > 0.0:
                    up = (steps[TARGET, s, 0, i] + steps[DUAL, s, 0, i] * steps[GAP, s, 0, i]) / steps[SLACK, s, 0, i]
                    down = (steps[TARGET, s, 1, i] + steps[DUAL, s, 1, i] * steps[GAP, s, 1, i]) / steps[SLACK, s, 1, i]
                steps[DDUAL, s, 0, i] = up
                f[s, i] += up - down
                if s > 0:
                    f[s - 1, i] -= up - down


@inner
def recover_steps(coupling: Coupling, dw: _Array) -> None:
    """The rows' part of the step, from the weights' step."""
    steps = coupling.steps
    H, T, N = coupling.largest.shape
    for s in range(H):
        for t in range(T):
            for i in range(N):
                change = dw[s, i] - (dw[s - 1, i] if s > 0 else 0.0)
                most = coupling.most[t, i]
                if most == 0.0:
                    steps[DDUAL, s, 0, i] = EQUALITY * change - steps[DDUAL, s, 0, i]
                    continue
                for k in range(2):
                    moved = 0.0
                    if most < np.inf:
                        moved = steps[GAP, s, k, i] + (change if k == 1 else -change)
                    steps[DSLACK, s, k, i] = moved
                    value = steps[TARGET, s, k, i] + steps[DUAL, s, k, i] * moved
                    steps[DDUAL, s, k, i] = -value / steps[SLACK, s, k, i]


@inner
def limit_step_multipliers(coupling: Coupling, worst: float) -> float:
    """`interior_point._longest` over the multipliers of rows, of which those of equalities have any sign."""
    steps = coupling.steps
    H, T, N = coupling.largest.shape
    for s in range(H):
        for t in range(T):
            for i in range(N):
                if coupling.most[t, i] > 0.0:
                    for k in range(2):
                        if -steps[DDUAL, s, k, i] > worst * steps[DUAL, s, k, i]:
                            worst = -steps[DDUAL, s, k, i] / steps[DUAL, s, k, i]
    return worst


@inner
def cap_trades(coupling: Coupling, trade: _Int8) -> None:
    """Read off the interior point which trades are at their limits; assets of which most is 0 are not traded."""
    steps = coupling.steps
    H, T, N = coupling.largest.shape
    for s in range(H):
        for t in range(T):
            for i in range(N):
                up = steps[DUAL, s, 0, i] > steps[SLACK, s, 0, i]
                down = steps[DUAL, s, 1, i] > steps[SLACK, s, 1, i]
                coupling.capped[s, t, i] = int(up) - int(down) if coupling.most[t, i] > 0.0 else 0
                if coupling.most[t, i] == 0.0:
                    trade[s, i] = 0


@inner
def spring_trades(coupling: Coupling, trade: _Int8, system: System, stiffness: float) -> None:
    """Write the springs of trades at their limits, and how large those are."""
    H, T, N = coupling.largest.shape
    for s in range(H):
        for t in range(T):
            for i in range(N):
                if trade[s, i] == 0:
                    coupling.capped[s, t, i] = 0
                if coupling.capped[s, t, i] != 0:
                    system.m[s, i] += stiffness


@inner
def load_trades(coupling: Coupling, tie: _Array) -> None:
    """Add the interior point's multipliers to those of ties, and write the right-hand sides."""
    steps = coupling.steps
    H, T, N = coupling.largest.shape
    for s in range(H):
        for t in range(T):
            for i in range(N):
                capped = coupling.capped[s, t, i]
                coupling.largest[s, t, i] = capped * coupling.most[t, i] if capped != 0 else 0.0
                if capped != 0 or coupling.most[t, i] == 0.0:
                    tie[s, i] += steps[DUAL, s, 0, i] - steps[DUAL, s, 1, i]


@inner
def capped_gap(coupling: Coupling, s: int, i: int, change: float) -> float:
    """Residual of a trade at its limit, else 0."""
    for t in range(coupling.capped.shape[1]):
        if coupling.capped[s, t, i] != 0:
            gap: float = coupling.largest[s, t, i] - change
            return gap
    return 0.0


@inner
def capped_pull(coupling: Coupling, s: int, i: int, tie: _Array) -> float:
    """Multiplier of a trade at its limit, else 0."""
    for t in range(coupling.capped.shape[1]):
        if coupling.capped[s, t, i] != 0:
            pull: float = tie[s, i]
            return pull
    return 0.0


@inner
def free_pull(coupling: Coupling, i: int) -> float:
    """Beyond its cost, what the multiplier of an asset not traded may be: anything where most is 0, else nothing."""
    for t in range(coupling.most.shape[0]):
        if coupling.most[t, i] == 0.0:
            return np.inf
    return 0.0


@inner
def verify_trades(
    coupling: Coupling, x: _Array, before: _Array, tie: _Array, primal: float, dual: float, margin: float
) -> tuple[float, float, float]:
    """Check the limits' conditions of optimality, add to ``force``, and return the three with these counted."""
    H, T, N = coupling.largest.shape
    for s in range(H):
        for t in range(T):
            for i in range(N):
                most = coupling.most[t, i]
                change = x[s, i] - (x[s - 1, i] if s > 0 else before[i])
                primal = max(primal, abs(change) - most)
                sign = coupling.capped[s, t, i]
                if sign != 0:
                    coupling.force[s, i] += tie[s, i]
                    if s > 0:
                        coupling.force[s - 1, i] -= tie[s, i]
                    primal = max(primal, abs(change - sign * most))
                    dual = max(dual, -sign * tie[s, i])
                    margin = min(margin, sign * tie[s, i])
                elif most > 0.0:
                    margin = min(margin, most - abs(change))
    return primal, dual, margin


@inner
def repair_trades(coupling: Coupling, x: _Array, before: _Array, tie: _Array, tolerance: float) -> int:
    """Flip every decision about the limits that its own solution contradicts; return how many were flipped."""
    H, T, N = coupling.largest.shape
    flips: int = 0
    for s in range(H):
        for t in range(T):
            for i in range(N):
                most = coupling.most[t, i]
                change = x[s, i] - (x[s - 1, i] if s > 0 else before[i])
                sign = coupling.capped[s, t, i]
                if sign != 0 and sign * tie[s, i] < -tolerance:
                    coupling.capped[s, t, i] = 0
                    flips += 1
                elif sign == 0 and most > 0.0 and abs(change) > most + tolerance:
                    coupling.capped[s, t, i] = 1 if change > 0.0 else -1
                    flips += 1
    return flips
