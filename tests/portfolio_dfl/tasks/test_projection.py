"""Projections as layers: right answers and gradients, for batches and odd input; and their table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from portfolio_dfl.errors import AllocationError, ConfigError
from portfolio_dfl.tasks.projection import chain_gradient, projection, simplex_gradient
from portfolio_dfl.tasks.projection_layers import ChainProjection, SimplexProjection


def normal(*shape: int, scale: float = 1.0, seed: int = 0) -> torch.Tensor:
    return scale * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def sorted_projection(x: np.ndarray, total: float) -> np.ndarray:
    """Projection onto the simplex by sorting (Held, Wolfe and Crowder 1974)."""
    descending = np.sort(x)[::-1]
    thresholds = (np.cumsum(descending) - total) / np.arange(1, x.size + 1)
    return np.maximum(x - thresholds[np.flatnonzero(descending > thresholds)[-1]], 0.0)


@pytest.mark.parametrize("n", [2, 20, 49, 1000])
@pytest.mark.parametrize("total", [1.0, 5.0])
def test_simplex_projection_agrees_with_sorting(n: int, total: float) -> None:
    x = normal(3, n)
    projected = SimplexProjection(total)(x)
    for row, point in zip(projected, x, strict=True):
        np.testing.assert_allclose(row.numpy(), sorted_projection(point.numpy(), total), atol=1e-12)


@pytest.mark.parametrize("n", [5, 300])
def test_simplex_gradient_is_its_closed_form_for_every_element_of_a_batch(n: int) -> None:
    x, weights = normal(2, 3, n).requires_grad_(), normal(2, 3, n, seed=1)
    z = SimplexProjection()(x)
    (found,) = torch.autograd.grad(z, x, weights)
    torch.testing.assert_close(found, simplex_gradient(z.detach(), weights), rtol=0, atol=1e-12)


def test_simplex_projection_of_a_point_inside_changes_nothing() -> None:
    x = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    torch.testing.assert_close(SimplexProjection()(x), x)


@pytest.mark.parametrize("shape", [(5, 1), (4, 3), (2, 30, 4)])
def test_chain_projection_meets_its_steps_and_its_optimality(shape: tuple[int, ...]) -> None:
    x = normal(*shape, scale=5.0)
    z = ChainProjection()(x)
    assert z.shape == x.shape
    assert float((z.diff(dim=-2)).abs().max()) <= 1.0 + 1e-12
    # Nearest: for any other chain w that meets the limits, (x − z)ᵀ(w − z) ≤ 0.
    for seed in range(5):
        steps = 2.0 * torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) - 1.0
        other = steps.cumsum(-2)
        assert float(((x - z) * (other - z)).sum()) <= 1e-8


@pytest.mark.parametrize("shape", [(6, 2), (100, 5)])
def test_chain_gradient_is_the_mean_over_tied_points(shape: tuple[int, int]) -> None:
    x, weights = normal(*shape, scale=10.0).requires_grad_(), normal(*shape, seed=1)
    z = ChainProjection()(x)
    (found,) = torch.autograd.grad(z, x, weights)
    torch.testing.assert_close(found, chain_gradient(z.detach(), weights), rtol=0, atol=1e-12)


def test_finite_differences_agree() -> None:
    assert torch.autograd.gradcheck(SimplexProjection(), (normal(2, 4).requires_grad_(),))
    assert torch.autograd.gradcheck(ChainProjection(0.5), (normal(2, 4, 2).requires_grad_(),))


def test_single_precision_comes_back_in_single_precision() -> None:
    x = normal(60).float().requires_grad_()
    z = SimplexProjection()(x)
    z[0].backward()
    assert z.dtype == x.grad.dtype == torch.float32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SimplexProjection(0.0), "total is 0.0"),
        (lambda: ChainProjection(-1.0), "limit is -1.0"),
        (lambda: SimplexProjection()(torch.tensor(1.0)), "its last dimension"),
        (lambda: ChainProjection()(torch.zeros(1, 3)), "length ≥ 2"),
    ],
)
def test_what_cannot_be_projected_is_named(make: object, message: str) -> None:
    with pytest.raises(AllocationError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("kind", ["simplex", "chain"])
def test_the_table_holds_ours_exact_to_rounding_beside_the_papers_figures(kind: str, runs: Path) -> None:
    result = projection(kind, sizes=[200, 1000], repeats=2, peers=[], folder=runs)
    ours = result.rows[result.rows["solver"] == "ours"]
    assert list(ours["n"]) == [200, 1000]
    assert ours["gradient_error"].max() < 1e-12
    assert (ours[["forward_ms", "backward_ms", "total_ms", "cpu_ms"]] > 0.0).all(axis=None)
    assert "dXPP (paper)" in result.table
    folder = runs / "tasks" / f"projection-{kind}"
    assert (folder / f"projection-{kind}.csv").is_file()
    assert "plotly" in (folder / f"projection-{kind}.html").read_text()
    assert (runs / "mlflow.db").is_file()


@pytest.mark.parametrize(("kind", "sizes"), [("chain", [150]), ("chain", [2])])
def test_sizes_that_do_not_fit_are_refused(kind: str, sizes: list[int], runs: Path) -> None:
    with pytest.raises(ConfigError, match="does not fit"):
        projection(kind, sizes=sizes, folder=runs)
