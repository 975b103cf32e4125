"""How exact gradients are (Tables 1 and 2): ours, ours in the paper's plug-in over its smoothing, and other layers."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.charts import line_panels
from portfolio_dfl.tasks.peers import Program, find_peers, peer_layer
from portfolio_dfl.tasks.published import accuracy, smoothing_accuracy
from portfolio_dfl.tasks.records import TaskResult, describe_machine, paper_layout, require_place, save_task
from portfolio_dfl.tasks.settings import require_least, require_positive, require_some

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["gradient_accuracy", "random_program"]

_NAME = "gradient-accuracy"
_SIZES = ((10, 5), (50, 10), (100, 20), (500, 100), (1000, 200))
_REDUCED = ((10, 5), (50, 10), (100, 20))
_SCALES = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
_ARGUMENTS = ("P", "q", "G", "h", "A", "b")
_OURS, _PLUG_IN = "ours, exact", "ours, the paper's plug-in"


def gradient_accuracy(
    *,
    sizes: Sequence[Sequence[int]] | None = None,
    instances: int = 10,
    scales: Sequence[float] = _SCALES,
    peers: Sequence[str] | None = None,
    peer_limit_s: float = 5.0,
    seed: int = 0,
    reduced: bool = False,
    folder: str | os.PathLike[str] = "runs",
) -> TaskResult:
    """Compare gradients of the sum of x with the reduced KKT system solved in the plainest way.

    The programs follow section 4.1 of the paper: P = P'P'ᵀ + 10⁻⁶ I, everything else standard normal, n variables, m
    equalities and m inequalities.  The error is ‖g − g*‖₂ / ‖g*‖₂, averaged over P, q, G, h, A and b.

    Parameters
    ----------
    sizes : sequence of (n, m), optional
        By default those of the paper up to 1000 × 200.
    instances : int
        Random programs of each size; one beyond 1500 variables.
    scales : sequence of float
        Smoothing δ of the plug-in as a multiple of ‖KKT‖, rounded to a power of ten as in Table 2.
    peers : sequence of str, optional
        Layers of :mod:`portfolio_dfl.tasks.peers`; by default all that are installed.
    peer_limit_s : float
        A peer is left out of sizes where one gradient would take longer than this many seconds.
    seed : int
    reduced : bool
        Smaller sizes and fewer instances.
    folder : path
        Folder of runs.

    Returns
    -------
    TaskResult
        Rows: layer, size, n, m, instance, scale (NaN but for the sweep), argument, error.

    Raises
    ------
    ConfigError
        For sizes that are not pairs, scales or instances that are not positive, a list of nothing, or an unknown peer.
    TrackingError
        If ``folder`` takes no results.
    """
    require_some(sizes=sizes)
    require_least(1, instances=instances)
    require_least(0, seed=seed)
    require_positive(scales=scales, peer_limit_s=peer_limit_s)
    chosen = [_pair(size) for size in (sizes if sizes is not None else _REDUCED if reduced else _SIZES)]
    if reduced:
        instances, peer_limit_s = min(instances, 3), min(peer_limit_s, 1.0)
    here, absent = find_peers(peers)
    require_place(_NAME, folder)
    rows: list[dict[str, object]] = []
    spent: dict[str, tuple[int, float]] = {}
    for n, m in chosen:
        able = [
            name for name in here if name not in spent or spent[name][1] * (n / spent[name][0]) ** 3 <= peer_limit_s
        ]
        for instance in range(instances if n <= 1500 else 1):
            program = random_program(n, m, seed=1000 * seed + instance)
            for layer, scale, errors in _errors(program, able, scales, spent):
                rows += [
                    {
                        "layer": layer,
                        "size": f"{n}×{m}",
                        "n": n,
                        "m": m,
                        "instance": instance,
                        "scale": scale,
                        "argument": argument,
                        "error": error,
                    }
                    for argument, error in errors.items()
                ]
    frame = pd.DataFrame(rows)
    summary = frame[frame["scale"].isna()].groupby(["layer", "size"], sort=False)["error"].mean().reset_index()
    result = TaskResult(
        name=_NAME,
        title="Relative error of gradients against the exact reduced KKT system, mean over P, q, G, h, A and b",
        rows=frame,
        table=_tables(frame),
        figures={_NAME: _figure(frame)},
        parameters={"sizes": [f"{n}x{m}" for n, m in chosen], "instances": instances, "scales": list(scales)},
        metrics={f"{layer}/{size}": float(mean) for layer, size, mean in summary.itertuples(index=False)},
        notes=[
            "The paper's figures are differences from dQP's gradient at Gurobi's tolerance, not from an exact one.",
            *([f"not installed, so not compared: {', '.join(absent)}"] if absent else []),
        ],
        machine=describe_machine(),
    )
    return save_task(result, folder)


def random_program(n: int, m: int, seed: int) -> dict[str, Tensor]:
    """The paper's random strictly convex program: arguments P, q, G, h, A, b; x = 1 is strictly feasible."""
    import torch

    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    root, q, G, A = normal(n, n), normal(n), normal(m, n), normal(m, n)
    P = root @ root.T + 1e-6 * torch.eye(n, dtype=torch.float64)
    return {"P": P, "q": q, "G": G, "h": G.sum(-1) + 1.0, "A": A, "b": A.sum(-1)}


def _pair(size: Sequence[int]) -> tuple[int, int]:
    if not isinstance(size, Sequence) or len(size) != 2 or not all(isinstance(k, int) and k > 0 for k in size):
        raise ConfigError(f"size {size!r} is not a pair of variables and constraints, as in [100, 20]")
    return int(size[0]), int(size[1])


def _errors(
    program: Mapping[str, Tensor], peers: Sequence[str], scales: Sequence[float], spent: dict[str, tuple[int, float]]
) -> list[tuple[str, float, dict[str, float]]]:
    """Errors by argument of every layer on one program; notes how long peers took."""
    from dxpp_core import solve_qp

    def gradients(layer: Any) -> dict[str, NDArray[np.float64]]:
        leaves = {name: value.clone().requires_grad_() for name, value in program.items()}
        layer(**leaves).sum().backward()
        found = {name: leaf.grad.numpy() for name, leaf in leaves.items() if leaf.grad is not None}
        found["P"] = 0.5 * (found["P"] + found["P"].T)
        return found

    truth, norm = _truth(program)
    whole = float(np.sqrt(sum(np.vdot(value, value) for value in truth.values())))

    def compare(found: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
        return {name: _relative_error(found[name], truth[name], whole) for name in _ARGUMENTS}

    none = float("nan")
    out = [
        (_OURS, none, compare(gradients(lambda **leaves: solve_qp(**leaves).x))),
        (_PLUG_IN, none, compare(gradients(lambda **leaves: solve_qp(**leaves, method="penalty").x))),
    ]
    for scale in scales:
        delta = 10.0 ** round(float(np.log10(scale * norm)))

        def smoothed(delta: float = delta, **leaves: Any) -> Tensor:
            return solve_qp(**leaves, method="penalty", delta=delta).x

        out.append((_PLUG_IN, scale, compare(gradients(smoothed))))
    n = program["q"].shape[-1]
    for name in peers:
        start = time.perf_counter()
        layer = peer_layer(name, Program(**program), _ARGUMENTS)
        out.append((name, none, compare(gradients(layer))))
        spent[name] = n, time.perf_counter() - start
    return out


def _relative_error(found: NDArray[np.float64], truth: NDArray[np.float64], whole: float) -> float:
    """‖found − truth‖ / ‖truth‖; where no inequality is active, G and h have no gradient: then over that of all."""
    return float(np.linalg.norm(found - truth)) / (float(np.linalg.norm(truth)) or whole)


def _truth(program: Mapping[str, Tensor]) -> tuple[dict[str, NDArray[np.float64]], float]:
    """Exact gradients, and the spectral norm of the reduced KKT matrix.

    The point is refined on its active set in extended precision, so that it is not the layer's own that is judged.
    """
    from dxpp_core import solve_qp
    from dxpp_core.reference import reduced_kkt_gradients

    solution = solve_qp(*(program[name] for name in _ARGUMENTS))
    P, q, G, h, A, b = (program[name].numpy() for name in _ARGUMENTS)
    x, y, z = (value.numpy() for value in (solution.x, solution.y, solution.z))
    active = z > (h - G @ x)
    B = np.concatenate([A, G[active]])
    k = B.shape[0]
    K = np.block([[P, B.T], [B, np.zeros((k, k))]])
    point = _solve_in_extended_precision(K, np.concatenate([-q, b, h[active]]))
    n, p = q.size, b.size
    z = np.zeros(h.size)
    x, y, z[active] = point[:n], point[n : n + p], point[n + p :]
    found = reduced_kkt_gradients(P, G, A, x, y, z, active=active, x_bar=np.ones(n))
    return {name: getattr(found, name) for name in _ARGUMENTS}, float(np.linalg.norm(K, 2))


def _solve_in_extended_precision(K: NDArray[np.float64], rhs: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.linalg import lu_factor, lu_solve

    factors = lu_factor(K)
    exact_K, exact_rhs = K.astype(np.longdouble), rhs.astype(np.longdouble)
    solution = np.zeros(rhs.size, dtype=np.longdouble)
    for _ in range(4):
        solution = solution + lu_solve(factors, (exact_rhs - exact_K @ solution).astype(np.float64))
    rounded: NDArray[np.float64] = solution.astype(np.float64)
    return rounded


def _tables(frame: pd.DataFrame) -> str:
    once = frame[frame["scale"].isna()]
    each = once.groupby(["layer", "size", "instance"], sort=False)["error"].mean().reset_index()
    table = each.groupby(["layer", "size"], sort=False)["error"].agg(["mean", "std"]).reset_index()
    paper = accuracy()
    both = pd.concat([table, paper[paper["size"].isin(table["size"])]])
    long = both.melt(id_vars=["layer", "size"], var_name="over instances", value_name="error")
    order = {name: i for i, name in enumerate(dict.fromkeys(both["layer"]))}
    long = long.sort_values("layer", key=lambda column: column.map(order), kind="stable")
    sweep = frame[frame["scale"].notna()].groupby(["layer", "size", "scale"], sort=False)["error"].mean().reset_index()
    theirs = smoothing_accuracy()
    sweep = sweep.rename(columns={"error": "mean"})
    sweeps = pd.concat([sweep, theirs[theirs["size"].isin(sweep["size"]) & theirs["scale"].isin(sweep["scale"])]])
    return "\n\n".join(
        [
            paper_layout(long, ["layer", "over instances"], "size", "error", form="{:.1e}"),
            "Effect of the smoothing δ = scale · ‖KKT‖ on the plug-in\n"
            + paper_layout(sweeps, ["layer", "size"], "scale", "mean", form="{:.1e}"),
        ]
    )


def _figure(frame: pd.DataFrame) -> Any:
    paper = accuracy()
    paper["n"] = paper["size"].str.split("×").str[0].astype(int)
    once = frame[frame["scale"].isna()].groupby(["layer", "n"], sort=False)["error"].mean().reset_index()
    by_size = pd.concat([once, paper.rename(columns={"mean": "error"})[["layer", "n", "error"]]])
    sweep = frame[frame["scale"].notna()].groupby(["size", "scale"], sort=False)["error"].mean().reset_index()
    panels = {
        "By size": by_size.rename(columns={"n": "x"}),
        "Plug-in by smoothing": sweep.assign(layer="plug-in, " + sweep["size"]).rename(columns={"scale": "x"}),
    }
    return line_panels(
        panels,
        x="x",
        y="error",
        by="layer",
        x_title=["variables", "δ/‖KKT‖"],
        y_titles=["relative error", "relative error"],
        dashed=["dXPP against dQP (paper)"],
    )
