"""Projections of up to a million variables (Tables 3 and 4, Figure 2): ours, the bare solver, and other layers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.charts import line_panels
from portfolio_dfl.tasks.peers import PEERS, Program, find_peers, peer_layer
from portfolio_dfl.tasks.published import MACHINE, projection_times
from portfolio_dfl.tasks.records import TaskResult, describe_machine, paper_layout, require_place, save_task
from portfolio_dfl.tasks.settings import require_least, require_positive
from portfolio_dfl.tasks.timing import time_side_by_side

if TYPE_CHECKING:
    from torch import Tensor

    from portfolio_dfl.tasks.timing import Times

__all__ = ["chain_gradient", "projection", "simplex_gradient"]

Kind = Literal["simplex", "chain"]

_OURS, _BARE = "ours", "bare PIQP"
_POINTS = 100  # points of a chain; the number of its dimensions makes the size
_SIZES = {
    "simplex": (20, 100, 450, 1_000, 4_600, 10_000, 100_000),
    "chain": (200, 500, 1_000, 2_000, 4_000, 10_000, 100_000),
}
_REDUCED = {"simplex": (20, 100, 10_000), "chain": (200, 1_000, 10_000)}
# Timed calls at one size stop at about this many variables in all.
_VARIABLES = 2_000_000
_SCALE = {"simplex": 1.0, "chain": 10.0}
# Peers take dense matrices: rows × variables that still fit comfortably.
_CELLS = 60_000_000


def projection(
    kind: Kind = "simplex",
    *,
    sizes: Sequence[int] | None = None,
    repeats: int = 20,
    peers: Sequence[str] | None = None,
    peer_limit_s: float = 2.0,
    seed: int = 0,
    reduced: bool = False,
    folder: str | os.PathLike[str] = "runs",
) -> TaskResult:
    """Time forward and backward of projections side by side, and check every gradient against its closed form.

    Parameters
    ----------
    kind : {"simplex", "chain"}
        Projection onto the probability simplex (points from N(0, 1)), or onto chains of 100 points with steps of at
        most 1 (from N(0, 100)).
    sizes : sequence of int, optional
        Numbers of variables; for chains multiples of 100.  By default those of the paper up to 100,000.
    repeats : int
        Timed calls of each layer at one size, fewer from 100,000 variables on.
    peers : sequence of str, optional
        Layers of :mod:`portfolio_dfl.tasks.peers` to time alongside; by default all that are installed.
    peer_limit_s : float
        A peer is left out of sizes where a call would take longer than this many seconds.
    seed : int
    reduced : bool
        Fewer and smaller sizes.
    folder : path
        Folder of runs.

    Returns
    -------
    TaskResult
        Rows: kind, n, solver, forward_ms, backward_ms, total_ms, cpu_ms, gradient_error, calls; medians.

    Raises
    ------
    ConfigError
        For an unknown kind or peer, sizes below two or that do not make chains, none at all, or no repeats.
    TrackingError
        If ``folder`` takes no results.
    """
    if kind not in _SIZES:
        raise ConfigError(f"kind is {kind!r}; it is simplex or chain")
    require_least(2, sizes=sizes)
    require_least(1, repeats=repeats)
    require_least(0, seed=seed)
    require_positive(peer_limit_s=peer_limit_s)
    chosen = tuple(sizes) if sizes is not None else (_REDUCED if reduced else _SIZES)[kind]
    for n in chosen:
        if kind == "chain" and n % _POINTS:
            raise ConfigError(f"size {n} does not fit: chains have multiples of {_POINTS} variables")
    if reduced:
        repeats, peer_limit_s = min(repeats, 7), min(peer_limit_s, 0.2)
    here, absent = find_peers(peers)
    require_place(f"projection-{kind}", folder)
    last: dict[str, tuple[int, float]] = {}
    rows: list[dict[str, object]] = []
    for n in chosen:
        able = [peer for peer in here if _finishes(peer, kind, n, last.get(peer), peer_limit_s)]
        times, errors = _measure(kind, n, able, repeats, seed)
        for name, time in times.items():
            if name in here:
                last[name] = n, 1e-3 * time.total
            rows.append(
                {
                    "kind": kind,
                    "n": n,
                    "solver": name,
                    "forward_ms": time.forward,
                    "backward_ms": time.backward,
                    "total_ms": time.total,
                    "cpu_ms": time.cpu,
                    "gradient_error": errors.get(name, float("nan")),
                    "calls": time.calls,
                }
            )
    frame = pd.DataFrame(rows)
    name = f"projection-{kind}"
    result = TaskResult(
        name=name,
        title=f"Projection onto {'the probability simplex' if kind == 'simplex' else 'chains'}, milliseconds (medians)",
        rows=frame,
        table=_tables(frame, kind),
        figures={name: _figure(frame, kind)},
        parameters={"kind": kind, "sizes": list(chosen), "repeats": repeats, "seed": seed, "peers": here},
        metrics={
            f"{row.solver}/{metric}/{row.n}": getattr(row, f"{metric}_ms")
            for row in frame.itertuples()
            for metric in ("forward", "backward", "total")
        },
        notes=_notes(kind, absent, peer_limit_s),
        machine=describe_machine(),
    )
    return save_task(result, folder)


def simplex_gradient(z: Tensor, weights: Tensor) -> Tensor:
    """Gradient of weightsᵀz by the projected point: the weights less their mean on the support, zero elsewhere."""
    support = z > 0.0
    return support * (weights - (weights * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True))


def chain_gradient(z: Tensor, weights: Tensor, limit: float = 1.0) -> Tensor:
    """The same for a chain [length, width]: the mean over each run of points that full steps tie together."""
    import torch

    tied = ((z[1:] - z[:-1]).abs() > limit * (1.0 - 1e-9)).T
    starts = torch.cat([torch.ones(tied.shape[0], 1, dtype=torch.bool), ~tied], 1).reshape(-1)
    group = starts.cumsum(0) - 1
    flat = weights.T.reshape(-1)
    sums = torch.zeros(int(group[-1]) + 1, dtype=weights.dtype).index_add_(0, group, flat)
    return (sums / torch.bincount(group))[group].reshape(weights.T.shape).T


def _finishes(peer: str, kind: str, n: int, last: tuple[int, float] | None, limit_s: float) -> bool:
    """Whether a peer is likely to answer in time: dense work grows at least with the square of n."""
    sparse = PEERS[peer].sparse
    rows = n + 1 if kind == "simplex" else 2 * (n - n // _POINTS)
    if rows * n > _CELLS and not sparse:
        return False
    return last is None or last[1] * (n / last[0]) ** (1 if sparse else 2) <= limit_s


def _measure(
    kind: Kind, n: int, peers: Sequence[str], repeats: int, seed: int
) -> tuple[dict[str, Times], dict[str, float]]:
    import torch

    from portfolio_dfl.tasks.projection_layers import ChainProjection, SimplexProjection

    shape = (n,) if kind == "simplex" else (_POINTS, n // _POINTS)
    ours = SimplexProjection() if kind == "simplex" else ChainProjection()
    layers: dict[str, Callable[[Tensor], Tensor]] = {_BARE: _bare_piqp(kind, n), _OURS: ours}
    program = _as_program(kind, n) if peers else None
    for name in peers:
        assert program is not None
        layers[name] = _flattened(peer_layer(name, program))

    def inputs(i: int) -> Tensor:
        generator = torch.Generator().manual_seed(7919 * seed + 31 * i + n)
        return _SCALE[kind] * torch.randn(shape, dtype=torch.float64, generator=generator)

    errors = _gradient_errors({name: layer for name, layer in layers.items() if name != _BARE}, inputs, kind)
    return time_side_by_side(layers, inputs, repeats=max(2, min(repeats, _VARIABLES // n))), errors


def _gradient_errors(
    layers: Mapping[str, Callable[[Tensor], Tensor]], inputs: Callable[[int], Tensor], kind: Kind
) -> dict[str, float]:
    """‖g − g*‖ / ‖g*‖ on the first input whose projection is not a vertex, where g* is zero."""
    import torch

    closed_form = simplex_gradient if kind == "simplex" else chain_gradient
    for i in range(50):
        x = inputs(i)
        weights = torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(i))
        truth = closed_form(layers[_OURS](x), weights)
        if float(truth.norm()) > 1e-6:
            break
    errors = {}
    for name, layer in layers.items():
        leaf = x.clone().requires_grad_()
        (found,) = torch.autograd.grad(layer(leaf), leaf, weights)
        errors[name] = float((found - truth).norm() / truth.norm())
    return errors


def _bare_piqp(kind: Kind, n: int) -> Callable[[Tensor], Tensor]:
    """PIQP alone, set-up and solve, at the tolerance that our layer asks of it."""
    import piqp
    import torch
    from scipy import sparse

    program = _program_tensors(kind, n)
    dense = not program["P"].is_sparse_csr

    def matrix(name: str) -> Any:
        if name not in program:
            return None
        value = program[name]
        if dense:
            return value.numpy()
        csr = (value.values().numpy(), value.col_indices().numpy(), value.crow_indices().numpy())
        return sparse.csc_matrix(sparse.csr_matrix(csr, shape=tuple(value.shape)))

    P, A, G = matrix("P"), matrix("A"), matrix("G")
    b, h, lb = (program[name].numpy() if name in program else None for name in ("b", "h", "lb"))

    def solve(x: Tensor) -> Tensor:
        solver = piqp.DenseSolver() if dense else piqp.SparseSolver()
        solver.settings.eps_abs = solver.settings.eps_rel = 1e-9
        solver.settings.eps_duality_gap_abs = solver.settings.eps_duality_gap_rel = 1e-9
        solver.setup(P, -x.detach().reshape(-1).numpy(), A, b, G, None, h, lb, None)
        solver.solve()
        return torch.from_numpy(np.array(solver.result.x)).reshape(x.shape)

    return solve


def _program_tensors(kind: Kind, n: int) -> dict[str, Tensor]:
    from portfolio_dfl.tasks.projection_layers import chain_program, simplex_program

    return simplex_program(n) if kind == "simplex" else chain_program(_POINTS, n // _POINTS)


def _as_program(kind: Kind, n: int) -> Any:
    """The same program with its bounds written as rows of G, for layers that know no bounds."""
    import torch

    program = _program_tensors(kind, n)
    zero = torch.zeros(n, dtype=torch.float64)
    if kind == "chain":
        A, b = torch.zeros(0, n, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
        return Program(program["P"], zero, program["G"], program["h"], A, b)
    each = torch.arange(n)
    below = torch.sparse_coo_tensor(torch.stack([each, each]), -torch.ones_like(zero), (n, n), check_invariants=True)
    return Program(program["P"], zero, below.coalesce(), -program["lb"], program["A"], program["b"])


def _flattened(layer: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: layer(q=-x.reshape(-1)).reshape(x.shape)


def _tables(frame: pd.DataFrame, kind: str) -> str:
    ours = frame.melt(
        id_vars=["solver", "n"], value_vars=["backward_ms", "total_ms"], var_name="metric", value_name="ms"
    )
    ours["metric"] = ours["metric"].str.removesuffix("_ms")
    ours = ours[~((ours["solver"] == _BARE) & (ours["metric"] == "backward"))]
    order = {name: i for i, name in enumerate([_OURS, *frame["solver"]])}
    ours = ours.sort_values(["solver", "metric", "n"], key=lambda c: c.map(order) if c.name == "solver" else c)
    paper = projection_times(kind)
    both = pd.concat([ours, paper[paper["n"].isin(frame["n"])]])
    base = frame[frame["solver"] == _OURS].set_index("n")
    ratios = frame[frame["solver"] != _OURS].assign(
        ratio=lambda rows: rows["n"].map(base["total_ms"]) / rows["total_ms"],
        cpu_ratio=lambda rows: rows["n"].map(base["cpu_ms"]) / rows["cpu_ms"],
    )
    errors = frame[frame["solver"] != _BARE]
    return "\n\n".join(
        [
            paper_layout(both, ["solver", "metric"], "n", "ms", form="{:.2f}"),
            "Our total time as a share of the other's, in the same run\n"
            + paper_layout(ratios, ["solver"], "n", "ratio", form="{:.2f}"),
            "The same by processor time, which other programs on the machine disturb less\n"
            + paper_layout(ratios, ["solver"], "n", "cpu_ratio", form="{:.2f}"),
            "Relative error of the gradient against its closed form\n"
            + paper_layout(errors, ["solver"], "n", "gradient_error", form="{:.0e}"),
        ]
    )


def _figure(frame: pd.DataFrame, kind: str) -> Any:
    paper = projection_times(kind)
    paper = paper[paper["solver"].isin(["dXPP (paper)", "dQP (paper)"])]
    panels = {
        title: pd.concat(
            [
                frame[["solver", "n"]].assign(ms=frame[f"{metric}_ms"]),
                paper.loc[paper["metric"] == metric, ["solver", "n", "ms"]],
            ]
        )
        for title, metric in (("Backward", "backward"), ("Forward and backward", "total"))
    }
    return line_panels(
        panels,
        x="n",
        y="ms",
        by="solver",
        x_title="variables",
        y_titles=["milliseconds", "milliseconds"],
        dashed=["dXPP (paper)", "dQP (paper)"],
    )


def _notes(kind: Kind, absent: Sequence[str], peer_limit_s: float) -> list[str]:
    notes = [
        "Forward: an active set corrected without a solver; PIQP where that does not settle it."
        if kind == "simplex"
        else "Forward: PIQP.",
        f"Peers but Moreau get dense matrices; they stop where a call would take over {peer_limit_s:g} s; one thread.",
        MACHINE,
    ]
    return [*notes, f"not installed, so not timed: {', '.join(absent)}"] if absent else notes
