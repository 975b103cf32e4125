"""Tensors as arguments: layouts, dtypes, and what is no argument."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic_programs import loss_weights, random_qp

from dxpp_core import (
    ShapeError,
    solve_qp,
)

F64 = torch.float64


def test_arguments_of_the_wrong_kind() -> None:
    with pytest.raises(ShapeError, match="dtype"):
        solve_qp(torch.eye(2, dtype=torch.int64), torch.zeros(2, dtype=F64))
    with pytest.raises(ShapeError, match=r"torch\.Tensor"):
        solve_qp(np.eye(2), torch.zeros(2, dtype=F64))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="method"):
        solve_qp(torch.eye(2, dtype=F64), torch.zeros(2, dtype=F64), method="other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tolerance"):
        solve_qp(torch.eye(2, dtype=F64), torch.zeros(2, dtype=F64), tolerance=0.0)


def test_single_precision_is_computed_in_double_and_returned_in_single() -> None:
    problem = random_qp(20, 5, 0)
    exact = problem.solve()
    (exact.x @ loss_weights(20)).backward()
    leaves = {k: v.float().requires_grad_() for k, v in problem.arguments.items()}
    single = solve_qp(**leaves)
    assert single.x.dtype is torch.float32
    (single.x @ loss_weights(20).float()).backward()
    assert leaves["q"].grad.dtype is torch.float32
    error = (leaves["q"].grad.double() - problem.leaves["q"].grad).norm() / problem.leaves["q"].grad.norm()
    assert float(error) < 1e-3


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_leaves_collect_gradients_on_their_pattern(layout: str) -> None:
    n = 60
    P = torch.diag(torch.linspace(1.0, 2.0, n, dtype=F64))
    P = (P.to_sparse() if layout == "coo" else P.to_sparse_csr()).requires_grad_()
    q = torch.ones(n, dtype=F64)
    solve_qp(P, q, lb=-0.7 * torch.ones(n, dtype=F64)).x.sum().backward()
    assert P.grad is not None
    assert P.grad.layout is P.layout
    assert P.grad._nnz() == n


def test_a_batch_of_sparse_matrices_shares_one_pattern() -> None:
    n = 60
    base = torch.diag(torch.linspace(1.0, 2.0, n, dtype=F64))
    P = torch.stack([base.to_sparse_csr().to_dense(), 2 * base]).to_sparse_csr().requires_grad_()
    q = torch.ones(n, dtype=F64)
    x = solve_qp(P, q).x
    assert x.shape == (2, n)
    x.sum().backward()
    torch.testing.assert_close(P.grad.to_dense()[1].diagonal(), (1 / (2 * base.diagonal()) ** 2))
    uneven = torch.stack([base, base.flip(0)]).to_sparse()
    with pytest.raises(ShapeError, match="share one"):
        solve_qp(uneven, q)


def test_sparse_matrices_without_entries() -> None:
    q, lower = torch.ones(3, dtype=F64), torch.zeros(3, dtype=F64)
    for layout in ("to_sparse", "to_sparse_csr", "to_sparse_csc"):
        nothing = getattr(torch.zeros(3, 3, dtype=F64), layout)()
        torch.testing.assert_close(solve_qp(nothing, q, lb=lower).x, lower)
