"""How long plans under factor risk take: ours forward and backward beside the forward solves of PIQP and Clarabel."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from portfolio_dfl.tasks.charts import line_panels
from portfolio_dfl.tasks.records import TaskResult, describe_machine, paper_layout, require_place, save_task
from portfolio_dfl.tasks.settings import require_least, require_memory, require_some

if TYPE_CHECKING:
    from torch import Tensor

    from portfolio_dfl.risk import FactorCovariance

__all__ = ["factor_risk"]

_NAME = "factor-risk"
_SIZES = ((500, 5, 20), (500, 10, 20), (1000, 5, 30), (2000, 5, 30), (3000, 5, 30))
_OURS, _FORWARD, _BACKWARD = "ours", "ours, forward", "ours, backward"
_PIQP, _CLARABEL = "PIQP, forward", "Clarabel, forward"
_AVERSION, _TURNOVER, _COST = 10.0, 0.2, 5e-4
_TOLERANCE = 1e-8


def factor_risk(
    *,
    sizes: Sequence[tuple[int, int, int]] | None = None,
    repeats: int = 5,
    seed: int = 0,
    reduced: bool = False,
    folder: str | os.PathLike[str] = "runs",
) -> TaskResult:
    """Time plans of one date under factor risk, in one interleaved run on one thread.

    Exposures are normal, so that factors explain about half of the variance of returns of 1 to 2 % a day; λ = 10,
    τ = 0.2 and costs of 5 bp. PIQP and Clarabel are given the factors as variables of a sparse program (scaled
    objective, 1e-8); their times are those of set-up and solve, without gradients.

    Parameters
    ----------
    sizes : sequence of (int, int, int), optional
        Assets N, stages H and factors K of each problem.
    repeats : int
        Timed calls of each; medians are reported.
    seed : int
    reduced : bool
        The smallest problem only, in few repeats.
    folder : path
        Folder of runs.

    Returns
    -------
    TaskResult
        Rows: assets, horizon, factors, layer, ms, ratio (to the better of the two solvers), certificate, difference
        (largest, of weights from PIQP's), MiB (at most, while solving and differentiating).

    Raises
    ------
    ConfigError
        For sizes that are not positive, or exceed the memory.
    TrackingError
        If ``folder`` takes no results.
    """
    require_some(sizes=sizes)
    require_least(1, repeats=repeats)
    require_least(0, seed=seed)
    chosen = list(sizes) if sizes is not None else list(_SIZES[:1] if reduced else _SIZES)
    for size in chosen:
        require_least(1, sizes=size)
        require_memory(8.0 * size[0] * size[1] * 60 + 8.0 * size[0] * (size[2] + 2) ** 2, f"sizes={list(size)}")
    require_place(_NAME, folder)
    repeats = min(repeats, 3) if reduced else repeats
    frame = pd.DataFrame([row for size in chosen for row in _one_size(size, repeats, seed)])
    ours = frame[frame["layer"] == _OURS]
    return save_task(
        TaskResult(
            name=_NAME,
            title=f"Milliseconds of plans under factor risk, one date, one thread, medians of {repeats} calls",
            rows=frame,
            table=_table(frame),
            figures={_NAME: _figure(frame)},
            parameters={"sizes": [list(size) for size in chosen], "repeats": repeats, "seed": seed},
            metrics={
                f"ratio/{assets}-{horizon}-{factors}": float(ratio)
                for assets, horizon, factors, ratio in ours[["assets", "horizon", "factors", "ratio"]].itertuples(
                    index=False
                )
            },
            notes=[
                "Synthetic problems. Ratios: our forward and backward passes together, over the forward solve alone of "
                "the better of PIQP and Clarabel in factor form.",
            ],
            machine=describe_machine(),
        ),
        folder,
    )


def _problem(N: int, H: int, K: int, seed: int) -> tuple[Tensor, FactorCovariance, Tensor]:
    """Forecasts [1, H, N], risk and held weights [1, N]."""
    import torch

    from portfolio_dfl.risk import FactorCovariance

    rng = np.random.default_rng([seed, N, H, K])
    exposures = rng.normal(size=(1, N, K))
    factors = np.diag(rng.uniform(0.5, 1.5, K) * 1e-4 / K)[None]
    specific = rng.uniform(0.005, 0.02, (1, N)) ** 2
    risk = FactorCovariance(*(torch.from_numpy(part) for part in (exposures, factors, specific)))
    forecasts = rng.normal(0.0, 1e-3, (1, H, N))
    return torch.from_numpy(forecasts), risk, torch.from_numpy(rng.dirichlet(np.full(N, 5.0), 1))


def _one_size(sizes: tuple[int, int, int], repeats: int, seed: int) -> list[dict[str, object]]:
    import torch
    from threadpoolctl import threadpool_limits

    from portfolio_dfl.allocation import MultiPeriodMeanVariance

    N, H, K = sizes
    forecasts, risk, held = _problem(N, H, K, seed)
    layer = MultiPeriodMeanVariance(
        N,
        H,
        risk_aversion=_AVERSION,
        turnover_limit=_TURNOVER,
        transaction_cost=_COST,
        solver="factored",
        threads=1,
    )
    upstream = torch.randn(1, H, N, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    others = _peers(forecasts[0].numpy(), risk, held[0].numpy())
    times: dict[str, list[float]] = {name: [] for name in (_FORWARD, _BACKWARD, _OURS, *others)}
    found: dict[str, Any] = {}
    with threadpool_limits(1):
        for repeat in range(-1, repeats):
            leaf = forecasts.clone().requires_grad_()
            start = time.perf_counter()
            found[_OURS] = layer(leaf, risk, held, return_solution=True)
            middle = time.perf_counter()
            found[_OURS].weights.backward(upstream)
            clock = {_FORWARD: middle - start, _BACKWARD: time.perf_counter() - middle}
            clock[_OURS] = clock[_FORWARD] + clock[_BACKWARD]
            for name, solve in others.items():
                start = time.perf_counter()
                found[name] = solve()
                clock[name] = time.perf_counter() - start
            if repeat >= 0:
                for name, seconds in clock.items():
                    times[name].append(1e3 * seconds)
        tracemalloc.start()
        layer(forecasts.clone().requires_grad_(), risk, held).backward(upstream)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
    best = min(float(np.median(times[name])) for name in others)
    plan = found[_OURS].weights.detach().numpy()[0]
    size: dict[str, object] = {"assets": N, "horizon": H, "factors": K}
    ours = {
        "certificate": float(found[_OURS].certificate.max()),
        "difference": float(np.abs(plan - found[_PIQP]).max()),
        "MiB": peak,
    }
    return [
        size
        | {"layer": name, "ms": float(np.median(each)), "ratio": float(np.median(each)) / best}
        | (ours if name == _OURS else {})
        for name, each in times.items()
    ]


def _peers(r: Any, risk: FactorCovariance, held: Any) -> dict[str, Callable[[], Any]]:
    """Set-up and solve of the problem in w, u = |Δw| and the factors' exposures y = Fᵀw; plans [H, N]."""
    import clarabel
    import piqp
    import scipy.sparse as sp

    H, N = r.shape
    F, omega, d = (part[0].numpy() for part in (risk.exposures, risk.factor_covariance, risk.specific_variance))
    size = max(float(np.abs(r).max()), _AVERSION * float((d + np.einsum("ik,kl,il->i", F, omega, F)).max()))
    stages, eye = sp.identity(H, format="csc"), sp.identity(H * N, format="csc")
    curvature = sp.block_diag([sp.kron(stages, sp.diags(d)), sp.csc_matrix((H * N, H * N)), sp.kron(stages, omega)])
    P = sp.triu(_AVERSION / size * curvature, format="csc")
    K = F.shape[1]
    q = np.concatenate([-r.ravel(), np.full(H * N, _COST), np.zeros(H * K)]) / size
    change = sp.kron(sp.diags([np.ones(H), -np.ones(H - 1)], [0, -1]), sp.identity(N), format="csc")
    ones, nothing = sp.kron(stages, np.ones((1, N))), sp.csc_matrix((H * N, H * K))
    A = sp.vstack(
        [
            sp.hstack([ones, sp.csc_matrix((H, H * (N + K)))]),
            sp.hstack([sp.kron(stages, F.T), sp.csc_matrix((H * K, H * N)), -sp.identity(H * K)]),
        ],
        format="csc",
    )
    b = np.concatenate([np.ones(H), np.zeros(H * K)])
    G = sp.vstack(
        [
            sp.hstack([change, -eye, nothing]),
            sp.hstack([-change, -eye, nothing]),
            sp.hstack([sp.csc_matrix((H, H * N)), ones, sp.csc_matrix((H, H * K))]),
        ],
        format="csc",
    )
    first = np.concatenate([held, np.zeros((H - 1) * N)])
    h = np.concatenate([first, -first, np.full(H, _TURNOVER)])
    lower = np.concatenate([np.zeros(2 * H * N), np.full(H * K, -np.inf)])
    upper = np.full(q.size, np.inf)

    def with_piqp() -> Any:
        solver = piqp.SparseSolver()
        solver.settings.eps_abs, solver.settings.eps_rel = _TOLERANCE, 0.0
        full = (P + sp.triu(P, 1).T).tocsc()
        solver.setup(full, q, A, b, G, np.full(h.size, -np.inf), h, lower, upper)
        solver.solve()
        return np.array(solver.result.x[: H * N]).reshape(H, N)

    positive = sp.hstack([-sp.identity(2 * H * N), sp.csc_matrix((2 * H * N, H * K))])
    rows = sp.vstack([A, G, positive], format="csc")
    right = np.concatenate([b, h, np.zeros(2 * H * N)])
    cones = [clarabel.ZeroConeT(A.shape[0]), clarabel.NonnegativeConeT(G.shape[0] + 2 * H * N)]

    def with_clarabel() -> Any:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        solution = clarabel.DefaultSolver(P, q, rows, right, cones, settings).solve()
        return np.array(solution.x[: H * N]).reshape(H, N)

    return {_PIQP: with_piqp, _CLARABEL: with_clarabel}


def _sizes_of(frame: pd.DataFrame) -> pd.Series[str]:
    return pd.Series(
        [
            f"N={assets:,} H={horizon} K={factors}"
            for assets, horizon, factors in frame[["assets", "horizon", "factors"]].itertuples(index=False)
        ],
        index=frame.index,
    )


def _table(frame: pd.DataFrame) -> str:
    shown = frame.assign(size=_sizes_of(frame))
    ours = shown[shown["layer"] == _OURS]
    rows = [shown[["layer", "size", "ms"]]]
    for name, column in (
        ("ours, of the better solver", "ratio"),
        ("certificate", "certificate"),
        ("largest difference from PIQP's weights", "difference"),
        ("MiB at most", "MiB"),
    ):
        rows.append(ours[["size"]].assign(layer=name, ms=ours[column]))
    return paper_layout(pd.concat(rows), ["layer"], "size", "ms")


def _figure(frame: pd.DataFrame) -> Any:
    """Milliseconds against the number of assets, for the horizon and the factors that most sizes have."""
    shape, _ = max(frame.groupby(["horizon", "factors"]), key=lambda group: group[1]["assets"].nunique())
    same = frame[(frame["horizon"] == shape[0]) & (frame["factors"] == shape[1])]
    return line_panels(
        {f"H = {shape[0]}, K = {shape[1]}": same},
        x="assets",
        y="ms",
        by="layer",
        x_title="assets N",
        y_titles=["milliseconds"],
        log_x=True,
        dashed=[],
    )
