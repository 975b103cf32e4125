"""Stiffness of rows: how strongly the penalty Hessian H = P + Cᵀ diag(κ) C holds each active row.

Two choices.  *Row-scaled* stiffness κ_i = t / ‖C_i‖² in the equilibrated program makes H a preconditioner of the KKT
system that a few steps of refinement turn into the exact solution; it does not depend on multipliers or units.  The
paper's plug-in (section 3, W/δ) takes κ from the curvature of the softplus penalty with strengths ρ = ζ‖ν‖∞ and α =
ζ‖μ‖∞.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["STIFFNESS", "PluginPenalty", "plugin_stiffness"]

Vector = NDArray[np.float64]

# t of the row-scaled stiffness: each step of refinement gains about this factor, and rounding grows with it.
STIFFNESS = 1e6


@dataclass(frozen=True, slots=True)
class PluginPenalty:
    """The paper's smoothing δ and penalty strength ζ; ``prune`` drops the curvature of inactive rows (E_δ and F_δ)."""

    delta: float = 1e-6
    zeta: float = 10.0
    prune: bool = True


def plugin_stiffness(
    penalty: PluginPenalty, n_eq: int, multipliers: Vector, slack: Vector, active: NDArray[np.bool_]
) -> tuple[Vector, Vector]:
    """Stiffness κ and multiplier of each row at the solver's point (Propositions 2 and 3 of the paper).

    Parameters
    ----------
    multipliers, slack, active : (m,)
        Of equalities (first ``n_eq``) and inequalities, in the units of the user's problem; slack is d − Cx ≥ 0.

    Returns
    -------
    kappa, y : (m,)
        ρ/(2δ) for equalities; α p″(−slack) for inequalities, which is α/(4δ) where slack is 0; with pruning the
        inactive ones have stiffness and multiplier 0, without it α p′(−slack).
    """
    delta, zeta = penalty.delta, penalty.zeta
    rho = zeta * float(np.abs(multipliers[:n_eq]).max(initial=0.0))
    alpha = zeta * float(np.abs(multipliers[n_eq:]).max(initial=0.0))
    # p'(t) is the logistic function of t/δ; at t = −slack ≤ 0 written so that nothing overflows.
    decay = np.exp(-np.clip(slack, 0.0, None) / delta)
    first = decay / (1.0 + decay)
    kappa = alpha * first * (1.0 - first) / delta
    y = np.where(active, multipliers, 0.0 if penalty.prune else alpha * first)
    kappa[active] = alpha / (4.0 * delta)
    kappa[:n_eq] = rho / (2.0 * delta)
    y[:n_eq] = multipliers[:n_eq]
    if penalty.prune:
        kappa[~active] = 0.0
    return kappa, y
