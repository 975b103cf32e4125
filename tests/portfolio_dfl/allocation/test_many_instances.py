"""Fifty-four instances that are not degenerate, each against the exact reduced KKT system and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from portfolio_dfl.allocation import MultiPeriodMeanVariance

AVERSION, LIMIT, ASSETS, EACH = 10.0, 0.2, 7, 18


@pytest.mark.parametrize("horizon", [1, 5, 20])
def test_each_gradient_agrees_with_both_truths(instances: Any, reference: Any, horizon: int) -> None:
    # A plan of one step is often a vertex.
    drawn = (8 if horizon == 1 else 2) * EACH
    instance = instances(drawn, horizon, ASSETS, seed=4000 + horizon)
    seeded = torch.Generator().manual_seed(horizon)
    upstream = torch.randn(drawn, horizon, ASSETS, dtype=torch.float64, generator=seeded)
    layer = MultiPeriodMeanVariance(ASSETS, horizon, risk_aversion=AVERSION, turnover_limit=LIMIT)
    returns, covariance, previous = leaves = instance.leaves()
    found = layer(returns, covariance, previous, return_solution=True)
    grads = dict(
        zip(
            ("returns", "covariance", "previous"),
            torch.autograd.grad((found.weights * upstream).sum(), leaves),
            strict=True,
        )
    )
    generator = torch.Generator().manual_seed(1)
    directions = {
        "returns": torch.randn(returns.shape, dtype=torch.float64, generator=generator),
        "covariance": torch.randn(covariance.shape, dtype=torch.float64, generator=generator),
        "previous": torch.randn(previous.shape, dtype=torch.float64, generator=generator),
    }
    directions["covariance"] = directions["covariance"] + directions["covariance"].mT
    directions["previous"] = directions["previous"] - directions["previous"].mean(-1, keepdim=True)
    steps = {"returns": 1e-8, "covariance": 1e-9, "previous": 1e-6}

    def values(name: str, step: float) -> torch.Tensor:
        moved = dict(zip(("returns", "covariance", "previous"), leaves, strict=True))
        moved[name] = moved[name] + step * directions[name]
        with torch.no_grad():
            return (layer(moved["returns"], moved["covariance"], moved["previous"]) * upstream).sum((1, 2))

    differences = {
        name: (8 * (values(name, step) - values(name, -step)) - (values(name, 2 * step) - values(name, -2 * step)))
        / (12 * step)
        for name, step in steps.items()
    }
    compared = 0
    for b in range(drawn):
        # Not degenerate: no row within reach of changing its mind, and not a vertex, where the gradient is zero.
        if found.margin[b] < 1e-4 or float(grads["returns"][b].abs().max()) < 1e-3 or compared == EACH:
            continue
        exact = reference(
            instance,
            b,
            found.weights[b].detach().numpy(),
            {"turnover": found.turnover_dual[b]},
            upstream[b].numpy(),
            AVERSION,
            LIMIT,
        )
        for name in steps:
            size = max(1.0, float(np.abs(exact[name]).max()))
            got = grads[name][b].reshape(exact[name].shape).numpy()
            np.testing.assert_allclose(got / size, exact[name] / size, rtol=0, atol=1e-6, err_msg=f"{name} of {b}")
            along = float((grads[name][b] * directions[name][b]).sum())
            assert along == pytest.approx(float(differences[name][b]), rel=1e-6, abs=1e-6 * size), (name, b)
        compared += 1
    assert compared == EACH
