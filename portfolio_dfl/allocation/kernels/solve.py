"""The batch loop of the native solver: solve every instance and certify it.

It takes the instances first, first + stride, … so that several threads share a batch without talking to one another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import compiled, inner
from portfolio_dfl.allocation.kernels.block_factor import System, factor_stages, new_system
from portfolio_dfl.allocation.kernels.certificate import Certificate, repair, verify
from portfolio_dfl.allocation.kernels.coupling import Coupling, Given, new_coupling
from portfolio_dfl.allocation.kernels.coupling_polish import leave_coupling, warm_coupling
from portfolio_dfl.allocation.kernels.coupling_trades import capped_pull
from portfolio_dfl.allocation.kernels.instance import Instance, Units, check_instance, scale_instance
from portfolio_dfl.allocation.kernels.interior_point import mean_product, newton_iteration, residuals
from portfolio_dfl.allocation.kernels.point import (
    FALL,
    RISE,
    Point,
    Problem,
    count_places,
    mark_rows,
    new_gaps,
    new_point,
)
from portfolio_dfl.allocation.kernels.polish import (
    Active,
    Equalities,
    assemble_springs,
    identify,
    load_polish,
    new_active,
    new_equalities,
    refine,
)
from portfolio_dfl.allocation.kernels.scratch import matrix, new_scratch, slab, vector
from portfolio_dfl.allocation.kernels.start import start_point
from portfolio_dfl.allocation.kernels.store import Found, Signs, open_signs, open_store
from portfolio_dfl.allocation.statuses import (
    CERTIFIED,
    NOT_CONVERGED,
    UNCERTIFIED,
)

__all__ = ["solve_batch"]

_Array = NDArray[np.float64]
_Signs = NDArray[np.int8]

# Violations of the scaled problem's KKT conditions that a certified point may have.
_TOLERANCE = 1e-10
# Violations up to which a point that could not be certified is still returned (and said to be uncertified).
_ACCEPTED = 1e-6
_ROUNDS = 80
_REPAIRS = 6
# The first polish is tried when the mean product slack · multiplier is below this.
_FIRST_TRY = 1e-4


class _Results(NamedTuple):
    """What is left behind of all instances; an earlier solution, where the start is warm."""

    weights: _Array
    signs: Signs
    found: Found


@inner
def _polish(
    problem: Problem,
    point: Point,
    active: Active,
    system: System,
    eq: Equalities,
    pull: _Array,
    coupling: Coupling | None,
) -> Certificate:
    """Solve for the active set, repair it while that helps, and certify; the factor is left in ``system``."""
    certificate = Certificate(np.inf, np.inf, np.inf, 0.0)
    for attempt in range(_REPAIRS + 1):
        assemble_springs(problem.P, active, system, coupling)
        if not factor_stages(problem.P, system, coupling):
            return Certificate(np.inf, np.inf, np.inf, 0.0)
        load_polish(problem, point, active, eq, coupling)
        refine(problem.P, active, system, eq, 1.0, coupling)
        certificate = verify(problem, active, eq, pull, coupling)
        worst = max(certificate.stationarity, certificate.primal, certificate.dual)
        if worst <= _TOLERANCE or attempt == _REPAIRS or not worst < 1e3:
            break
        if repair(problem, active, eq, pull, 0.1 * _TOLERANCE, coupling) == 0:
            break
    return certificate


@inner
def _load_warm(
    b: int,
    problem: Problem,
    units: Units,
    earlier: _Results,
    point: Point,
    active: Active,
    coupling: Coupling | None,
) -> None:
    """Take active set and multipliers from an earlier solution (unscaled)."""
    signs, found = earlier.signs, earlier.found
    alpha = units.alpha
    H, N = problem.r.shape
    for s in range(H):
        active.spent[s] = signs.spent[b, s] if problem.tau[s] < np.inf else 0
        point.budget_dual[s] = alpha * found.theta[b, s]
        point.nu[s] = alpha * found.nu[b, s] - units.rho
        for i in range(N):
            active.hold[s, i] = signs.hold[b, s, i]
            active.trade[s, i] = signs.trade[b, s, i]
            point.w[s, i] = earlier.weights[b, s, i]
            point.dual[RISE, s, i] = alpha * max(found.pressure[b, s, i], 0.0)
            point.dual[FALL, s, i] = alpha * max(-found.pressure[b, s, i], 0.0)
    if coupling is not None:
        warm_coupling(coupling, b, alpha)


@inner
def _leave(
    b: int,
    problem: Problem,
    given: Instance,
    units: Units,
    active: Active,
    eq: Equalities,
    pull: _Array,
    certificate: Certificate,
    results: _Results,
    coupling: Coupling | None,
) -> None:
    """Leave the polished point behind, in the units of the given problem, with its certificate and active set."""
    weights, signs, found = results.weights, results.signs, results.found
    alpha = units.alpha
    certified = max(certificate.stationarity, certificate.primal, certificate.dual) <= _TOLERANCE
    found.facts[b, 4] = certificate.stationarity
    found.facts[b, 5] = certificate.primal
    found.facts[b, 6] = certificate.dual
    found.facts[b, 7] = certificate.margin
    H, N = problem.r.shape
    for s in range(H):
        found.nu[b, s] = (eq.nu[s] + units.rho) / alpha
        found.theta[b, s] = eq.theta[s] / alpha if active.spent[s] == 1 else 0.0
        signs.spent[b, s] = active.spent[s]
        for i in range(N):
            weights[b, s, i] = eq.x[s, i]
            if certified:
                # Rounding may leave a weight that meets its bound a hair beyond it.
                weights[b, s, i] = min(max(eq.x[s, i], problem.lower[i]), problem.upper[i])
            kind = active.trade[s, i]
            value = 0.0
            if kind == 0:
                value = eq.tie[s, i] / alpha
            elif kind != 2:
                value = kind * (found.theta[b, s] + given.cost[s, i])
            if coupling is not None:
                value += capped_pull(coupling, s, i, eq.tie) / alpha
            found.pressure[b, s, i] = value
            found.pull[b, s, i] = pull[s, i] / alpha if active.hold[s, i] != 0 else 0.0
            signs.hold[b, s, i] = active.hold[s, i]
            signs.trade[b, s, i] = kind
    if coupling is not None:
        leave_coupling(coupling, b, alpha)


@inner
def _leave_factor(b: int, system: System, found: Found) -> None:
    """Leave the polish's factor behind, for the derivative."""
    H, N = system.q.shape
    for s in range(H):
        found.sigma[b, s] = system.sigma[s]
        for i in range(N):
            found.q[b, s, i] = system.q[s, i]
            for k in range(N):
                found.C[b, s, i, k] = system.C[s, i, k]


@compiled
def solve_batch(
    first: int,
    stride: int,
    returns: _Array,
    covariance: _Array,
    previous: _Array,
    aversion: _Array,
    turnover: _Array,
    cost: _Array,
    box: _Array,
    warm: bool,
    signs: _Signs,
    weights: _Array,
    store: _Array,
    keep: bool,
    given_rows: Given | None,
    numbers: _Array,
) -> int:
    """Solve instances of a batch (see `native.NativeSolver` for the meaning and shapes of the arrays).

    ``box`` [3, N] holds lower and upper bounds and what is counted; ``signs`` and ``store`` are as in `store`. With
    ``warm``, these and the weights hold an earlier solution on entry. Returns how many
    instances were not certified.
    """
    B, H, N = returns.shape
    lower, upper, counted = box[0], box[1], box[2]
    results = _Results(weights, open_signs(signs, B, H, N), open_store(store, B, H, N, keep))
    facts = results.found.facts
    scratch = new_scratch(numbers)
    P = slab(scratch, covariance.shape[1], N, N)
    r = matrix(scratch, H, N)
    c = matrix(scratch, H, N)
    exists = slab(scratch, 4, H, N)
    centre = vector(scratch, N)
    system = new_system(scratch, H, N)
    point = new_point(scratch, H, N)
    step = new_point(scratch, H, N)
    gaps = new_gaps(scratch, H, N)
    active = new_active(scratch, H, N)
    eq = new_equalities(scratch, H, N)
    pull = matrix(scratch, H, N)
    coupling = new_coupling(scratch, given_rows, B, H, N)
    places = count_places(lower, upper, H)
    doubtful = 0
    for b in range(first, B, stride):
        tau = turnover[b if turnover.shape[0] > 1 else 0]
        rate = cost[b if cost.shape[0] > 1 else 0]
        lam = aversion[b if aversion.shape[0] > 1 else 0]
        given = Instance(returns[b], covariance[b], previous[b], lam, tau, rate)
        facts[b] = 0.0
        status = check_instance(given, lower, upper)
        units = Units(0.0, 0.0)
        if status == CERTIFIED:
            status, units = scale_instance(given, P, r, c, system.S)
        if status != CERTIFIED:
            facts[b, 0] = status
            doubtful += 1
            continue
        problem = Problem(P, r, c, previous[b], lower, upper, counted, tau, exists, places)
        level = np.inf
        trigger = _FIRST_TRY
        best = np.inf
        rows = mark_rows(problem, coupling)
        iterations = 0
        tries = 0
        # Round 0 tries the active set of a warm start; the solver's own point starts when that does not settle it.
        for attempt in range(0 if warm else 1, _ROUNDS):
            finished = False
            if attempt == 0:
                _load_warm(b, problem, units, results, point, active, coupling)
            else:
                if attempt == 1:
                    start_point(problem, point, centre, coupling)
                    level = mean_product(problem, point, rows, coupling)
                else:
                    going, level = newton_iteration(problem, point, system, gaps, step, rows, level, coupling, 0.0)
                    iterations += 1
                    finished = not going or not level < 1e10
                primal, dual = residuals(problem, point, gaps, coupling)
                finished = finished or (level < 1e-13 and max(primal, dual) < 1e-9)
                if not finished and not (level < trigger and dual < 1e-3 and primal < 1e-6):
                    continue
                identify(problem, point, active, coupling)
                trigger = 0.03 * level
            certificate = _polish(problem, point, active, system, eq, pull, coupling)
            worst = max(certificate.stationarity, certificate.primal, certificate.dual)
            tries += 1
            if worst < best:
                best = worst
                _leave(b, problem, given, units, active, eq, pull, certificate, results, coupling)
                if keep:
                    _leave_factor(b, system, results.found)
            if best <= _TOLERANCE or finished:
                break
        facts[b, 0] = NOT_CONVERGED
        if best <= _ACCEPTED:
            facts[b, 0] = CERTIFIED if best <= _TOLERANCE else UNCERTIFIED
        facts[b, 1] = iterations
        facts[b, 2] = tries
        facts[b, 3] = 1.0 if warm and iterations == 0 else 0.0
        facts[b, 8] = units.alpha
        if facts[b, 0] != CERTIFIED:
            doubtful += 1
    return doubtful
