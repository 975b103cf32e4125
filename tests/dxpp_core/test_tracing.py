"""What PyTorch's tracers make of the layer: ``torch.compile`` leaves it out, others are told that it is no graph."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from dxpp_core import QPLayer, TracingError, solve_qp


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def _simplex(dtype: torch.dtype) -> dict[str, Tensor]:
    return {
        "P": torch.diag(torch.arange(1.0, 5.0)).to(dtype),
        "A": torch.ones(1, 4, dtype=dtype),
        "b": torch.ones(1, dtype=dtype),
        "lb": torch.zeros(4, dtype=dtype),
    }


class _Model(nn.Module):
    """The layer between two others, its P a parameter."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer, self.rest = QPLayer(), _simplex(dtype)
        self.P = nn.Parameter(self.rest.pop("P"))
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=dtype))

    def forward(self, q: Tensor) -> Tensor:
        found = self.layer(self.P, self.scale * torch.sin(q), **self.rest)
        return (found.x * torch.cos(q)).sum() + found.y.sum()


def _with_gradients(model: nn.Module, q: Tensor, call: nn.Module) -> list[Tensor]:
    value = call(q)
    return [value.detach(), *torch.autograd.grad(value, [q, *model.parameters()])]


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [
        ("eager", torch.float64),
        ("eager", torch.float32),
        ("aot_eager", torch.float64),
        ("aot_eager", torch.float32),
        ("inductor", torch.float32),
    ],
)
def test_a_compiled_model_gives_the_same_numbers(backend: str, dtype: torch.dtype) -> None:
    model = _Model(dtype)
    compiled = torch.compile(model, backend=backend)
    for seed in range(2):
        q = torch.randn(4, dtype=dtype, generator=torch.Generator().manual_seed(seed)).requires_grad_()
        found, expected = _with_gradients(model, q, compiled), _with_gradients(model, q, model)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype is dtype
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_compiled_step_with_its_backward_pass_gives_the_same_gradient(dtype: torch.dtype) -> None:
    model = _Model(dtype)
    q = torch.linspace(-1.0, 1.0, 4, dtype=dtype)

    def step(q: Tensor) -> Tensor:
        model.zero_grad()
        model(q).backward()
        assert model.P.grad is not None
        return 2.0 * model.P.grad

    expected = step(q)
    assert float(expected.abs().max()) > 1e-3
    torch.testing.assert_close(torch.compile(step, backend="aot_eager")(q), expected)


def test_what_a_solution_tells_can_be_read_in_a_compiled_function() -> None:
    data = _simplex(torch.float32)

    def told(q: Tensor) -> Tensor:
        found = solve_qp(q=torch.sin(q), **data)
        return found.x.sum() + found.iterations + len(found.warnings) + found.certificates["gap"].max()

    q = torch.ones(4)
    torch.testing.assert_close(torch.compile(told, backend="eager")(q), told(q))


def test_one_graph_for_all_is_refused_with_the_reason() -> None:
    data = _simplex(torch.float64)
    whole = torch.compile(lambda q: solve_qp(q=2.0 * q, **data).x, backend="eager", fullgraph=True)
    with pytest.raises(RuntimeError, match="solve_qp runs a solver on numbers"):
        whole(torch.ones(4, dtype=torch.float64))


@pytest.mark.parametrize("strict", [False, True])
def test_an_export_is_refused(strict: bool) -> None:
    q = torch.ones(4, dtype=torch.float64)
    with pytest.raises(TracingError, match=r"solve_qp cannot be part of a graph of torch\.export"):
        torch.export.export(_Model(torch.float64), (q,), strict=strict)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_trace_is_refused() -> None:
    with pytest.raises(TracingError, match=r"solve_qp cannot be part of a graph of torch\.jit\.trace"):
        torch.jit.trace(_Model(torch.float64), (torch.ones(4, dtype=torch.float64),))


def test_without_a_tracer_none_is_imported() -> None:
    code = (
        "import sys, torch; from dxpp_core import solve_qp; one = torch.ones(2, requires_grad=True);"
        "solve_qp(torch.eye(2), one).x.sum().backward(); print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
