"""Projections onto the probability simplex and onto chains of bounded steps, as layers (problems P1 and P2).

Both are QPs with P = I; :mod:`dxpp_core` solves and differentiates them by their sparsity, so that a million variables
cost what their non-zeros cost.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dxpp_core import solve_qp
from portfolio_dfl.errors import AllocationError
from portfolio_dfl.execution.process import ignored_warnings

__all__ = ["ChainProjection", "SimplexProjection", "chain_program", "simplex_program"]

# Below this many variables dense matrices are quicker to take in than sparse ones.
_DENSE = 48


def simplex_program(n: int, total: float = 1.0) -> dict[str, Tensor]:
    """P, A, b and lb of the projection onto {0 ≤ z ≤ total, Σz = total}; q is minus the point.

    The upper bound follows from the rest and is left out: at a vertex it would only make multipliers ambiguous.
    """
    values = torch.ones(n, dtype=torch.float64)
    limit = torch.full((1,), total, dtype=torch.float64)
    row = values[None] if n <= _DENSE else _csr(torch.tensor([0, n]), torch.arange(n), values, (1, n))
    return {"P": _identity(n), "A": row, "b": limit, "lb": torch.zeros_like(values)}


def chain_program(length: int, width: int = 1, limit: float = 1.0) -> dict[str, Tensor]:
    """P, G and h of the projection onto {‖z_j − z_{j+1}‖∞ ≤ limit} of ``length`` points in ``width`` dimensions.

    The variables are ordered point by point; q is minus the points.
    """
    n, steps = length * width, (length - 1) * width
    first = torch.arange(steps)
    columns = torch.stack([first, first + width], 1).repeat(2, 1)
    one_way = torch.tensor([1.0, -1.0], dtype=torch.float64).expand(steps, 2)
    values = torch.cat([one_way, -one_way])
    if n <= _DENSE:
        rows = torch.zeros(2 * steps, n, dtype=torch.float64).scatter_(1, columns, values)
    else:
        rows = _csr(torch.arange(0, 4 * steps + 1, 2), columns.reshape(-1), values.reshape(-1), (2 * steps, n))
    return {"P": _identity(n), "G": rows, "h": torch.full((2 * steps,), limit, dtype=torch.float64)}


class SimplexProjection(nn.Module):
    """Euclidean projection of the last dimension onto {z ≥ 0, Σz = total}.

    Parameters
    ----------
    total : float
        What the entries sum to.
    **options
        Of :func:`dxpp_core.solve_qp`: ``solver``, ``tolerance``, ``method``, ….

    Examples
    --------
    >>> import torch
    >>> SimplexProjection()(torch.tensor([[0.2, 1.4, 0.0], [0.5, 0.5, 0.3]], dtype=torch.float64))
    tensor([[0.0000, 1.0000, 0.0000],
            [0.4000, 0.4000, 0.2000]], dtype=torch.float64)
    """

    def __init__(self, total: float = 1.0, **options: Any) -> None:
        super().__init__()
        if not total > 0.0:
            raise AllocationError(f"total is {total}; the entries of a point of the simplex sum to a positive number")
        self.total, self.options = total, options
        self._programs: dict[int, dict[str, Tensor]] = {}

    def forward(self, x: Tensor) -> Tensor:
        """Project x [*batch, n]; the result has its shape, dtype and device.

        Raises
        ------
        AllocationError
            If x has no dimension or no entries.
        dxpp_core.errors.QPError
            If x is not finite or the solver fails.
        """
        if x.dim() == 0 or not x.shape[-1]:
            raise AllocationError(f"x has shape {list(x.shape)}; its last dimension is projected and cannot be empty")
        n = int(x.shape[-1])
        if n not in self._programs:
            self._programs[n] = simplex_program(n, self.total)
        arguments: dict[str, Any] = {**self._programs[n], **self.options}
        return solve_qp(q=-x, **arguments).x

    def extra_repr(self) -> str:
        return f"total={self.total}"


class ChainProjection(nn.Module):
    """Euclidean projection of chains of points onto {‖z_j − z_{j+1}‖∞ ≤ limit}.

    Parameters
    ----------
    limit : float
        Largest step in each coordinate from one point to the next.
    **options
        Of :func:`dxpp_core.solve_qp`.

    Examples
    --------
    >>> import torch
    >>> ChainProjection()(torch.tensor([[0.0], [3.0]], dtype=torch.float64)).T
    tensor([[1., 2.]], dtype=torch.float64)
    """

    def __init__(self, limit: float = 1.0, **options: Any) -> None:
        super().__init__()
        if not limit >= 0.0:
            raise AllocationError(f"limit is {limit}; the largest step of a chain is not negative")
        self.limit, self.options = limit, options
        self._programs: dict[tuple[int, int], dict[str, Tensor]] = {}

    def forward(self, x: Tensor) -> Tensor:
        """Project x [*batch, length, width]; the result has its shape, dtype and device.

        Raises
        ------
        AllocationError
            If x does not have the two dimensions of a chain of at least two points.
        dxpp_core.errors.QPError
            If x is not finite or the solver fails.
        """
        if x.dim() < 2 or x.shape[-2] < 2 or not x.shape[-1]:
            raise AllocationError(f"x has shape {list(x.shape)}; it must be [*batch, length ≥ 2, width ≥ 1]")
        length, width = int(x.shape[-2]), int(x.shape[-1])
        if (length, width) not in self._programs:
            self._programs[length, width] = chain_program(length, width, self.limit)
        arguments: dict[str, Any] = {**self._programs[length, width], **self.options}
        q = -x.reshape(*x.shape[:-2], length * width)
        return solve_qp(q=q, **arguments).x.reshape(x.shape)

    def extra_repr(self) -> str:
        return f"limit={self.limit}"


def _identity(n: int) -> Tensor:
    if n <= _DENSE:
        return torch.eye(n, dtype=torch.float64)
    return _csr(torch.arange(n + 1), torch.arange(n), torch.ones(n, dtype=torch.float64), (n, n))


def _csr(pointers: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    # PyTorch says once a process that this layout may change.
    with ignored_warnings(message="Sparse CSR tensor support is in beta", category=UserWarning):
        return torch.sparse_csr_tensor(pointers, columns, values, size=shape, check_invariants=True)
