"""Other differentiable QP layers from PyPI, each behind the same few lines; what is not installed is named, not used.

They come with the extra ``[peers]``.  OptNet's package pins an old NumPy in its requirements though it works with a
newer one: install it by ``pip install --no-deps qpth``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..errors import ProblemError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["PEERS", "Peer", "PeerLayer", "Program", "find_peers", "peer_layer"]

#: From the arguments that vary, by name, to the minimiser.
PeerLayer = Callable[..., "Tensor"]


@dataclass(frozen=True)
class Program:
    """min ½xᵀPx + qᵀx s.t. Gx ≤ h, Ax = b; matrices dense or sparse CSR; G and A may have no rows.

    Bounds are rows of G here: no peer but one takes them apart.
    """

    P: Tensor
    q: Tensor
    G: Tensor
    h: Tensor
    A: Tensor
    b: Tensor

    def dense(self, name: str) -> Tensor:
        """An argument as a dense tensor."""
        value: Tensor = getattr(self, name)
        return value.to_dense() if value.is_sparse or value.is_sparse_csr else value


def _optnet(program: Program, varying: Collection[str]) -> PeerLayer:
    """OptNet (Amos and Kolter 2017): primal-dual interior point in PyTorch, gradients from its last factor."""
    import torch
    from qpth.qp import QPFunction

    solve = QPFunction(verbose=-1)
    fixed = {name: program.dense(name) for name in ("P", "q", "G", "h", "A", "b")}
    empty = torch.empty(0, dtype=program.q.dtype)

    def layer(**changed: Tensor) -> Tensor:
        P, q, G, h, A, b = (changed.get(name, value) for name, value in fixed.items())
        if not A.shape[-2]:
            A = b = empty
        x: Tensor = solve(P, q, G, h, A, b)
        return x if q.dim() > 1 or x.dim() == 1 or x.shape[0] > 1 else x[0]

    return layer


def _qplayer(program: Program, varying: Collection[str]) -> PeerLayer:
    """QPLayer (Bambade et al. 2024): ProxQP forward, its augmented Lagrangian backward."""
    import torch
    from proxsuite.torch.qplayer import QPFunction

    solve = QPFunction(structural_feasibility=True)
    fixed = {name: program.dense(name) for name in ("P", "q", "G", "h", "A", "b")}

    def layer(**changed: Tensor) -> Tensor:
        P, q, G, h, A, b = (changed.get(name, value) for name, value in fixed.items())
        x: Tensor = solve(P, q, A, b, G, torch.full_like(h, -1e20), h)[0]
        return x if q.dim() > 1 or x.shape[0] > 1 else x[0]

    return layer


def _cvxpylayers(program: Program, varying: Collection[str]) -> PeerLayer:
    """CVXPYLayers (Agrawal et al. 2019): a cone program by DIFFCP; P enters by its Cholesky factor."""
    import cvxpy as cp
    import torch
    from cvxpylayers.torch import CvxpyLayer

    n = program.q.shape[-1]
    x = cp.Variable(n)
    parameters: dict[str, Any] = {}

    def value(name: str) -> Any:
        tensor = program.dense(name)
        if name not in varying:
            return tensor.numpy()
        parameters[name] = cp.Parameter(tuple(tensor.shape))
        return parameters[name]

    root = value("P") if "P" in varying else torch.linalg.cholesky(program.dense("P")).T.numpy()
    constraints = []
    if program.G.shape[-2]:
        constraints.append(value("G") @ x <= value("h"))
    if program.A.shape[-2]:
        constraints.append(value("A") @ x == value("b"))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(root @ x) + value("q") @ x), constraints)
    solve = CvxpyLayer(problem, parameters=list(parameters.values()), variables=[x])

    def layer(**changed: Tensor) -> Tensor:
        given = [
            torch.linalg.cholesky(changed[name]).transpose(-1, -2) if name == "P" else changed[name]
            for name in parameters
        ]
        result: Tensor = solve(*given)[0]
        return result

    return layer


def _moreau(program: Program, varying: Collection[str]) -> PeerLayer:
    """Moreau (Optimal Intellect): sparse conic interior point with built-in derivatives."""
    import moreau
    import torch
    from moreau.torch import Solver

    p, m = program.A.shape[-2], program.G.shape[-2]
    P = program.P.to_sparse_csr()
    rows = torch.cat([_coo(program.A), _coo(program.G)]).coalesce().to_sparse_csr()
    settings = moreau.Settings(solver="ipm", enable_grad=True)
    solver = Solver(
        program.q.shape[-1],
        p + m,
        P.crow_indices(),
        P.col_indices(),
        rows.crow_indices(),
        rows.col_indices(),
        moreau.Cones(num_zero_cones=p, num_nonneg_cones=m),
        settings,
    )
    P_values, row_values = P.values().clone(), rows.values().clone()
    P_at = _cells(P)
    row_at = _cells(rows)

    def layer(**changed: Tensor) -> Tensor:
        q = changed.get("q", program.q)
        b, h = changed.get("b", program.b), changed.get("h", program.h)
        batch = torch.broadcast_shapes(b.shape[:-1], h.shape[:-1])
        limits = torch.cat([b.expand(*batch, p), h.expand(*batch, m)], -1)
        hessian = changed["P"][..., P_at[0], P_at[1]] if "P" in changed else P_values
        matrix = row_values
        if "G" in changed or "A" in changed:
            both = torch.cat([changed.get("A", program.A), changed.get("G", program.G)], -2)
            matrix = both[..., row_at[0], row_at[1]]
        x: Tensor = solver.solve(hessian, matrix, q, limits).x
        return x

    return layer


def _coo(matrix: Tensor) -> Tensor:
    return matrix if matrix.is_sparse else matrix.to_sparse_coo() if matrix.is_sparse_csr else matrix.to_sparse()


def _cells(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of every stored entry of a CSR matrix."""
    import torch

    pointers = matrix.crow_indices()
    rows = torch.repeat_interleave(torch.arange(matrix.shape[-2]), pointers[1:] - pointers[:-1])
    return rows, matrix.col_indices()


@dataclass(frozen=True)
class Peer:
    """A layer of others: the package it is in, how to make it, and whether it keeps matrices sparse."""

    package: str
    make: Callable[[Program, Collection[str]], PeerLayer]
    sparse: bool = False


#: Layers of others by the name that tables show, installed or not.
PEERS = {
    "OptNet": Peer("qpth", _optnet),
    "QPLayer": Peer("proxsuite", _qplayer),
    "CVXPYLayers": Peer("cvxpylayers", _cvxpylayers),
    "Moreau": Peer("moreau", _moreau, sparse=True),
}


def find_peers(names: Sequence[str] | None = None) -> tuple[list[str], list[str]]:
    """Peers that are installed, and those that are not, out of ``names`` (default: all).

    Raises
    ------
    ProblemError
        If a name is not that of a peer.
    """
    wanted = list(PEERS) if names is None else list(names)
    for name in wanted:
        if name not in PEERS:
            raise ProblemError(f"no peer is called {name!r}; known are {', '.join(PEERS)}")
    here = [name for name in wanted if find_spec(PEERS[name].package) is not None]
    return here, [name for name in wanted if name not in here]


def peer_layer(name: str, program: Program, varying: Collection[str] = ("q",)) -> PeerLayer:
    """The layer of a peer for one program; it is called with the arguments in ``varying`` by keyword."""
    return PEERS[name].make(program, varying)
