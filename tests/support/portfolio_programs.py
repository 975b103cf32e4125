"""The paper's multi-period portfolio program (eq. 22, standard form) with random data of realistic size."""

from __future__ import annotations

import numpy as np
import torch
from quadratic_programs import Problem, make_problem


def portfolio_qp(
    horizon: int, seed: int, *, n_assets: int = 7, risk_aversion: float = 10.0, turnover: float = 0.2
) -> Problem:
    """Variables [w; u], w and u of all stages: w on the simplex, |Δw| ≤ u, 1ᵀu ≤ τ at each stage."""
    rng = np.random.default_rng(seed)
    H, N = horizon, n_assets
    daily = rng.normal(0.0, 0.01, (20, N)) @ (0.5 * np.eye(N) + 0.5 * rng.uniform(size=(N, N)) / N)
    covariance = np.cov(daily.T) + 1e-5 * np.eye(N)
    forecast = rng.normal(0.0, 1e-3, (H, N))
    held = rng.dirichlet(np.ones(N))
    k = H * N
    eye = np.eye(k)
    difference = eye - np.eye(k, k=-N)
    first = np.concatenate([held, np.zeros(k - N)])
    stage_sum = np.kron(np.eye(H), np.ones((1, N)))
    zero = np.zeros((k, k))
    G = np.block(
        [
            [difference, -eye],
            [-difference, -eye],
            [-eye, zero],
            [zero, -eye],
            [np.zeros((H, k)), stage_sum],
        ]
    )
    h = np.concatenate([first, -first, np.zeros(2 * k), np.full(H, turnover)])
    P = np.zeros((2 * k, 2 * k))
    P[:k, :k] = np.kron(np.eye(H), risk_aversion * covariance)
    return make_problem(
        P=P,
        q=np.concatenate([-forecast.ravel(), np.zeros(k)]),
        G=G,
        h=h,
        A=np.concatenate([stage_sum, np.zeros((H, k))], axis=1),
        b=np.ones(H),
    )


def weights_only(problem: Problem, seed: int) -> torch.Tensor:
    """A random linear loss of the weights; the auxiliary variables are not unique and no loss looks at them."""
    size = problem.arguments["q"].numel()
    r = torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    r[size // 2 :] = 0.0
    return r
