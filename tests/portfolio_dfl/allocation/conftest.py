"""Random portfolio problems of realistic scale, and the plain reference that gradients are measured against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]


@dataclass
class Instance:
    """A batch of problems: returns of about 1e-3, covariances of about 1e-4, held weights."""

    returns: Tensor
    covariance: Tensor
    previous: Tensor

    def leaves(self) -> tuple[Tensor, Tensor, Tensor]:
        return tuple(tensor.clone().requires_grad_() for tensor in (self.returns, self.covariance, self.previous))


def draw(batch: int, horizon: int, n_assets: int, seed: int, scale: float = 1e-3) -> Instance:
    rng = np.random.default_rng(seed)
    mix = np.eye(n_assets) + 0.3 * rng.normal(size=(batch, n_assets, n_assets))
    days = 0.01 * rng.normal(size=(batch, 3 * n_assets + 20, n_assets)) @ mix
    covariance = np.stack([np.cov(one.T).reshape(n_assets, n_assets) for one in days]) + 1e-6 * np.eye(n_assets)
    returns = rng.normal(0.0, scale, (batch, horizon, n_assets))
    previous = rng.dirichlet(np.ones(n_assets), size=batch)
    return Instance(torch.from_numpy(returns), torch.from_numpy(covariance), torch.from_numpy(previous))


@pytest.fixture
def instances() -> Callable[..., Instance]:
    return draw


def reduced_kkt(
    instance: Instance, b: int, weights: Array, duals: dict[str, Array], upstream: Array, aversion: float, limit: float
) -> dict[str, Array]:
    """Gradients of upstream·w by least squares on the KKT system of the active rows, in the paper's variables [w; u].

    The plainest possible code: dense, all rows with zero slack, numpy's minimum-norm solution. Rows with a multiplier
    of zero make an instance non-differentiable; callers avoid those.
    """
    covariance, previous = instance.covariance[b].numpy(), instance.previous[b].numpy()
    H, N = weights.shape
    n = 2 * H * N
    scale = 1.0 / instance.returns[b].abs().max().item()
    P = np.zeros((n, n))
    for s in range(H):
        P[s * N : (s + 1) * N, s * N : (s + 1) * N] = scale * aversion * covariance
    rows: list[Array] = []
    meaning: list[tuple[Any, ...]] = []
    spent = duals["turnover"] > 0.0
    before = np.vstack([previous, weights[:-1]])
    for s in range(H):
        one = np.zeros(n)
        one[s * N : (s + 1) * N] = 1.0
        rows.append(one)
        meaning.append(("sum", s))
        if spent[s]:
            budget = np.zeros(n)
            budget[H * N + s * N : H * N + (s + 1) * N] = 1.0
            rows.append(budget)
            meaning.append(("budget", s))
        for i in range(N):
            place, trade = s * N + i, H * N + s * N + i
            change = weights[s, i] - before[s, i]
            if weights[s, i] < 1e-11:
                row = np.zeros(n)
                row[place] = -1.0
                rows.append(row)
                meaning.append(("long", s, i))
            for sign in (1.0, -1.0):
                # sign (w_s − w_{s−1}) − u ≤ 0 is active where u = |Δ| has that sign (if a spent budget makes u unique).
                if spent[s] and sign * change > -1e-11:
                    row = np.zeros(n)
                    row[place], row[trade] = sign, -1.0
                    if s > 0:
                        row[place - N] = -sign
                    rows.append(row)
                    meaning.append(("trade", s, i, sign))
    B = np.array(rows)
    K = np.block([[P, B.T], [B, np.zeros((len(rows), len(rows)))]])
    right = np.concatenate([upstream.ravel(), np.zeros(n - H * N + len(rows))])
    solution = np.linalg.lstsq(K, right, rcond=1e-11)[0]
    v, y = scale * solution[: H * N].reshape(H, N), solution[n:]
    grad_previous, grad_limit = np.zeros(N), 0.0
    for row, value in zip(meaning, y, strict=True):
        if row[0] == "budget":
            grad_limit += value
        if row[0] == "trade" and row[1] == 0:
            grad_previous[row[2]] += row[3] * value
    outer = np.einsum("si,sj->ij", v, weights)
    return {
        "returns": v,
        "covariance": -0.5 * aversion * (outer + outer.T),
        "previous": grad_previous,
        "aversion": np.array(-np.einsum("si,ij,sj->", v, covariance, weights)),
        "limit": np.array(grad_limit),
    }


@pytest.fixture
def reference() -> Callable[..., dict[str, Array]]:
    return reduced_kkt
