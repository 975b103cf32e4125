"""``torch.compile`` leaves the portfolio layer out of its graphs; graphs that would hold it are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.errors import AllocationError

N, H = 3, 2


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


class _Model(nn.Module):
    """Forecasts that are scaled, then the plan, its λ and c parameters."""

    def __init__(self, dtype: torch.dtype, solver: str) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5, dtype=dtype))
        self.layer = MultiPeriodMeanVariance(
            N,
            H,
            risk_aversion=nn.Parameter(torch.tensor(50.0, dtype=dtype)),
            transaction_cost=nn.Parameter(torch.full((N,), 1e-4, dtype=dtype)),
            turnover_limit=0.3,
            solver=solver,
        )

    def forward(self, returns: Tensor, covariance: Tensor, previous: Tensor) -> Tensor:
        weights = self.layer(self.scale * returns, covariance, previous)
        return (weights * torch.sin(1.0 + weights)).sum() + weights[..., 0].sum()


@pytest.mark.parametrize(
    ("backend", "dtype", "solver"),
    [
        ("eager", torch.float32, "auto"),
        ("aot_eager", torch.float64, "auto"),
        ("aot_eager", torch.float32, "auto"),
        ("aot_eager", torch.float64, "piqp"),
    ],
)
def test_a_compiled_model_gives_the_same_numbers(
    instances: Callable[..., Any], backend: str, dtype: torch.dtype, solver: str
) -> None:
    model, instance = _Model(dtype, solver), instances(2, H, N, seed=1)
    given = [part.to(dtype).requires_grad_() for part in (instance.returns, instance.covariance, instance.previous)]
    results = []
    for call in (model, torch.compile(model, backend=backend)):
        value = call(*given)
        results.append([value.detach(), *torch.autograd.grad(value, [*given, *model.parameters()])])
    for one, other in zip(*results, strict=True):
        assert one.dtype is dtype
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("strict", [False, True])
def test_an_export_is_refused(instances: Callable[..., Any], strict: bool) -> None:
    instance = instances(1, H, N, seed=1)
    with pytest.raises(AllocationError, match=r"MultiPeriodMeanVariance cannot be part of a graph of torch\.export"):
        torch.export.export(
            _Model(torch.float64, "auto"), (instance.returns, instance.covariance, instance.previous), strict=strict
        )


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_trace_is_refused(instances: Callable[..., Any]) -> None:
    instance = instances(1, H, N, seed=1)
    with pytest.raises(AllocationError, match=r"graph of torch\.jit\.trace"):
        torch.jit.trace(_Model(torch.float64, "auto"), (instance.returns, instance.covariance, instance.previous))
