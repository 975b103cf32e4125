"""What a large smoothing δ does near vertices: how far its gradient is from the exact one, and what it tells.

At a vertex the solution does not move with q, so the exact gradient of a loss is zero and training stands still.  The
penalty's gradient without pruning leans towards the neighbouring faces: biased, but it points somewhere.  Whether it
points the right way is measured by a step: does moving against it lower the loss once the vertex changes?
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from portfolio_dfl.tasks.records import TaskResult, describe_machine, paper_layout, require_place, save_task
from portfolio_dfl.tasks.settings import require_least, require_positive

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["smoothing"]

_NAME = "smoothing"
_DELTAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
_FACES, _VERTICES = "inside a face", "at a vertex"
_STEPS = 40
_LONGEST_STEP = 0.1


def smoothing(
    *,
    n: int = 8,
    instances: int = 30,
    deltas: Sequence[float] = _DELTAS,
    seed: int = 0,
    reduced: bool = False,
    folder: str | os.PathLike[str] = "runs",
) -> TaskResult:
    """Compare smoothed gradients with exact ones inside faces, and their use with their bias at vertices.

    The program is a portfolio in small: min ½ γ‖x‖² + qᵀx on the simplex, q standard normal; γ = 2 puts solutions
    inside faces, γ = 10⁻³ at vertices.  The loss is cᵀx, c standard normal.

    Parameters
    ----------
    n : int
        Number of variables.
    instances : int
        Random programs of each kind.
    deltas : sequence of float
        Smoothing δ, without pruning of inactive rows.
    seed : int
    reduced : bool
        Fewer instances.
    folder : path
        Folder of runs.

    Returns
    -------
    TaskResult
        Rows: where, delta, bias (‖g_δ − g‖/‖g‖ where g is not zero, median), informative (share of gradients
        larger than 10⁻³ ‖c‖), fall (mean share of the possible fall of the loss that 40 descent steps on q reach, each
        of the gradient clipped to a length of 0.1).  The row with δ = 0 is the exact gradient.

    Raises
    ------
    ConfigError
        For a δ or a number of instances that is not positive, no δ at all, or fewer than two variables.
    TrackingError
        If ``folder`` takes no results.
    """
    require_least(2, n=n)
    require_least(1, instances=instances)
    require_least(0, seed=seed)
    require_positive(deltas=deltas)
    require_place(_NAME, folder)
    if reduced:
        instances, deltas = min(instances, 10), tuple(deltas)[::2]
    rows = []
    for where, curvature in ((_FACES, 2.0), (_VERTICES, 1e-3)):
        for delta in (0.0, *deltas):
            bias, informative, fall = _measure(n, curvature, delta, instances, seed)
            rows.append(
                {
                    "where": where,
                    "delta": delta,
                    "bias": bias,
                    "informative": informative,
                    "fall": fall,
                }
            )
    frame = pd.DataFrame(rows)
    vertices = frame[frame["where"] == _VERTICES]
    result = TaskResult(
        name=_NAME,
        title=f"Smoothing δ on the simplex of {n} variables: bias against use",
        rows=frame,
        table=_tables(frame),
        figures={_NAME: _figure(frame)},
        parameters={"n": n, "instances": instances, "deltas": list(deltas), "seed": seed},
        metrics={
            f"fall at vertices/{delta:g}": fall for delta, fall in zip(vertices["delta"], vertices["fall"], strict=True)
        },
        notes=["δ = 0 stands for the exact gradient; without pruning of inactive rows otherwise."],
        machine=describe_machine(),
    )
    return save_task(result, folder)


def _measure(n: int, curvature: float, delta: float, instances: int, seed: int) -> tuple[float, float, float]:
    """Median bias, share of gradients that say anything, and mean share of the possible fall that descent reaches."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(instances, n, dtype=torch.float64, generator=generator)
    c = torch.randn(instances, n, dtype=torch.float64, generator=generator)
    x, smooth = _gradients(q, c, curvature, delta)
    exact = _gradients(q, c, curvature, 0.0)[1]
    size = exact.norm(dim=1)
    moving = size > 1e-9
    bias = float(((smooth - exact).norm(dim=1) / size)[moving].median()) if moving.any() else float("nan")
    informative = float((smooth.norm(dim=1) > 1e-3 * c.norm(dim=1)).double().mean())
    first = best = (c * x).sum(1)
    for _ in range(_STEPS):
        x, gradient = _gradients(q, c, curvature, delta)
        best = torch.minimum(best, (c * x).sum(1))
        q = q - gradient * (_LONGEST_STEP / gradient.norm(dim=1, keepdim=True)).clamp(max=1.0)
    possible = first - c.amin(1)
    some = possible > 1e-9
    return bias, informative, float(((first - best)[some] / possible[some]).mean())


def _gradients(q: Tensor, c: Tensor, curvature: float, delta: float) -> tuple[Tensor, Tensor]:
    """Solutions [k, n] and gradients of cᵀx by q; δ = 0 for the exact ones."""
    import torch

    from dxpp_core import solve_qp

    n = q.shape[1]
    leaf = q.clone().requires_grad_()
    one = torch.ones(1, n, dtype=torch.float64)
    options: dict[str, Any] = {"method": "penalty", "delta": delta, "prune": False} if delta else {}
    P = curvature * torch.eye(n, dtype=torch.float64)
    x = solve_qp(P, leaf, A=one, b=one[0, :1], lb=torch.zeros(n, dtype=torch.float64), **options).x
    (gradient,) = torch.autograd.grad((c * x).sum(), leaf)
    return x.detach(), gradient


def _tables(frame: pd.DataFrame) -> str:
    long = frame.rename(columns={"fall": "fall in loss"}).melt(
        id_vars=["where", "delta"], value_vars=["bias", "informative", "fall in loss"], var_name="figure"
    )
    order = {_FACES: 0, _VERTICES: 1}
    long = long.sort_values("where", key=lambda column: column.map(order), kind="stable")
    return paper_layout(long, ["where", "figure"], "delta", "value", form="{:.2g}")


def _figure(frame: pd.DataFrame) -> Any:
    from portfolio_dfl.tasks.charts import line_panels

    shown = frame[frame["delta"] > 0.0]
    exact = frame[frame["delta"] == 0.0]
    flat = [
        shown[shown["where"] == where].assign(where=f"{where}, exact gradient", fall=fall)
        for where, fall in zip(exact["where"], exact["fall"], strict=True)
    ]
    bias, fall = (
        part[["where", "delta"]].assign(value=part[column])
        for part, column in ((shown[shown["where"] == _FACES], "bias"), (pd.concat([shown, *flat]), "fall"))
    )
    return line_panels(
        {"Bias of the gradient": bias, "Fall in loss that descent reaches": fall},
        x="delta",
        y="value",
        by="where",
        x_title="smoothing δ",
        y_titles=["relative error", "share of what is possible"],
        log_y=False,
        dashed=[f"{where}, exact gradient" for where in exact["where"]],
    )
