"""How long the portfolio layer takes (the paper's runtime table): ours beside a bare PIQP solve and other layers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.tasks.charts import line_panels
from portfolio_dfl.tasks.peers import Program, find_peers, peer_layer
from portfolio_dfl.tasks.published import portfolio_times
from portfolio_dfl.tasks.records import TaskResult, describe_machine, paper_layout, require_place, save_task
from portfolio_dfl.tasks.settings import fits_memory, require_least, require_memory, require_positive
from portfolio_dfl.tasks.timing import time_side_by_side

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["runtime"]

_NAME = "runtime"
_HORIZONS = (10, 20, 50, 100, 150, 200)
_OURS, _BLACK_BOX, _BARE = "ours", "ours, PIQP as black box", "PIQP, bare solve"
_FRESH, _IDENTITY = "PIQP, set-up and solve", "identity (PyTorch alone)"
_AVERSION, _TURNOVER = 10.0, 0.2


def runtime(
    *,
    horizons: Sequence[int] | None = None,
    n_assets: int = 7,
    repeats: int = 31,
    batch: int = 120,
    batch_horizons: Sequence[int] = (10, 20),
    peers: Sequence[str] | None = None,
    peer_limit_s: float = 2.0,
    seed: int = 0,
    reduced: bool = False,
    folder: str | os.PathLike[str] = "runs",
) -> TaskResult:
    """Time forward and backward of one date, and of a batch, of the multi-period mean-variance layer.

    Forecasts are normal with a standard deviation of 0.1 % a day, covariances those of 20 days of correlated returns
    with a ridge; λ = 10 and τ = 0.2. PIQP's bare time is that of its solve alone (scaled objective, 1e-8), its set-up
    done before; beside it stands what a date with a covariance of its own takes, set-up and solve. The identity is an
    autograd function that does nothing: what PyTorch itself takes for the two passes.

    Parameters
    ----------
    horizons : sequence of int, optional
        By default the paper's: 10 to 200.
    n_assets : int
    repeats : int
        Timed calls of each layer; medians are reported.
    batch : int
        Dates in the batch that is timed against PIQP one by one; 0 leaves this out.
    batch_horizons : sequence of int
    peers : sequence of str, optional
        Layers of :mod:`portfolio_dfl.tasks.peers`; by default all that are installed.
    peer_limit_s : float
        A peer is left out of the horizons after one call took longer than this many seconds; all of them from a
        horizon on whose dense matrices exceed the memory.
    seed : int
    reduced : bool
        Fewer horizons and repeats.
    folder : path
        Folder of runs.

    Returns
    -------
    TaskResult
        Rows: layer, metric (forward, backward, total, batch), horizon, ms, ratio (to PIQP's bare solve), calls.

    Raises
    ------
    ConfigError
        For horizons or repeats that are not positive, a negative batch, one asset, a list of no horizons, or an
        unknown peer; or for sizes that exceed the memory.
    TrackingError
        If ``folder`` takes no results.
    """
    require_least(2, n_assets=n_assets)
    require_least(1, horizons=horizons, repeats=repeats, batch_horizons=batch_horizons)
    require_least(0, batch=batch, seed=seed)
    require_positive(peer_limit_s=peer_limit_s)
    chosen = list(horizons if horizons is not None else _HORIZONS[:3] if reduced else _HORIZONS)
    if reduced:
        repeats, batch = min(repeats, 7), min(batch, 24)
    for horizon in chosen:
        require_memory(_size_of_date(horizon, n_assets, repeats), f"horizons={horizon} with n_assets={n_assets}")
    for horizon in batch_horizons if batch else ():
        what = f"batch={batch} at batch_horizons={horizon} with n_assets={n_assets}"
        require_memory(_size_of_batch(horizon, n_assets, batch), what)
    here, absent = find_peers(peers)
    require_place(_NAME, folder)
    rows: list[dict[str, object]] = []
    able = list(here)
    for horizon in chosen:
        if not fits_memory(_size_for_peers(horizon, n_assets)):
            able.clear()
        rows += _one_date(horizon, n_assets, repeats, able, peer_limit_s, seed)
    for horizon in batch_horizons if batch else ():
        rows += _batch(horizon, n_assets, batch, max(3, repeats // 4), seed)
    frame = pd.DataFrame(rows)
    ours = frame[frame["layer"] == _OURS]
    return save_task(
        TaskResult(
            name=_NAME,
            title=f"Milliseconds of the multi-period portfolio layer, {n_assets} assets, medians of {repeats} calls",
            rows=frame,
            table=_table(frame, n_assets),
            figures={_NAME: _figure(frame)},
            parameters={"horizons": chosen, "n_assets": n_assets, "repeats": repeats, "batch": batch, "seed": seed},
            metrics={
                f"{metric}/{horizon}": float(ms)
                for metric, horizon, ms in zip(ours["metric"], ours["horizon"], ours["ms"], strict=True)
            },
            notes=[
                "PIQP's bare solve leaves out set-up and gradients; 'of PIQP' rows are ratios to it in the same run, "
                "those 'beyond the identity' without the time that PyTorch takes for a function that does nothing.",
                *([f"not installed, so not compared: {', '.join(absent)}"] if absent else []),
            ],
            machine=describe_machine(),
        ),
        folder,
    )


def _size_of_date(horizon: int, n_assets: int, repeats: int) -> float:
    """Bytes that one date takes in all layers: as measured, but for the problems' own numbers."""
    problems = 8.0 * (repeats + 2) * (horizon * n_assets + 20 * n_assets + 3 * n_assets**2)
    return problems + (9000.0 + 330.0 * n_assets) * horizon * n_assets


def _size_of_batch(horizon: int, n_assets: int, batch: int) -> float:
    """Bytes that a batch takes, as measured."""
    return (2200.0 + 40.0 * n_assets) * batch * horizon * n_assets


def _size_for_peers(horizon: int, n_assets: int) -> float:
    """Bytes of the dense matrices that peers are given, of those in between, and of the factors they make."""
    return 120.0 * (2.0 * horizon * n_assets) ** 2


def _problems(count: int, horizon: int, n_assets: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Forecasts [count, H, N], covariances [count, N, N] and held weights [count, N]."""
    import torch

    rng = np.random.default_rng([seed, horizon, n_assets])
    mix = np.eye(n_assets) + 0.3 * rng.normal(size=(n_assets, n_assets))
    days = 0.01 * rng.normal(size=(count, 20, n_assets)) @ mix
    covariance = np.stack([np.cov(window.T) for window in days]) + 1e-6 * np.eye(n_assets)
    forecasts = rng.normal(0.0, 1e-3, (count, horizon, n_assets))
    held = rng.dirichlet(np.ones(n_assets), size=count)
    return torch.from_numpy(forecasts), torch.from_numpy(covariance), torch.from_numpy(held)


def _bare(
    horizon: int, n_assets: int, covariance: Tensor, held: Tensor, size: float, *, fresh: bool = False
) -> Callable[[Tensor], Tensor]:
    """PIQP on the standard form: a call hands it new forecasts and solves.  Set up before, or (``fresh``) then."""
    import piqp
    import scipy.sparse as sp

    data = _standard_form(horizon, n_assets, covariance, held)
    n = data.q.shape[-1]

    def scipy_matrix(matrix: Tensor) -> Any:
        coo = matrix.coalesce()
        return sp.csc_matrix((coo.values().numpy(), coo.indices()[-2:].numpy()), shape=tuple(coo.shape[-2:]))

    scale = 1.0 / size
    P, A, G = scale * scipy_matrix(data.P), scipy_matrix(data.A), scipy_matrix(data.G)
    b, h = data.b.numpy(), data.h[0].numpy()
    nothing, zero, infinite = np.full(h.size, -np.inf), np.zeros(n), np.full(n, np.inf)
    q = scale * data.q[0].numpy()

    def set_up() -> Any:
        solver = piqp.SparseSolver()
        solver.settings.eps_abs, solver.settings.eps_rel = 1e-8, 0.0
        solver.setup(P, q, A, b, G, nothing, h, zero, infinite)
        return solver

    solver = set_up()

    def solve(forecasts: Tensor) -> Tensor:
        q[: horizon * n_assets] = -scale * forecasts.detach().numpy().ravel()
        if fresh:
            set_up().solve()
        else:
            solver.update(c=q)
            solver.solve()
        return forecasts.detach()

    return solve


def _standard_form(horizon: int, n_assets: int, covariance: Tensor, held: Tensor) -> Any:
    import torch

    from portfolio_dfl.allocation.limits import Limits
    from portfolio_dfl.allocation.standard_form import StandardForm

    one = torch.ones(1, dtype=torch.float64)
    return StandardForm(horizon, Limits.collect(n_assets, ())).assemble(
        torch.zeros(1, horizon, n_assets, dtype=torch.float64),
        covariance.reshape(1, 1, n_assets, n_assets),
        held.reshape(1, n_assets),
        _AVERSION * one,
        (_TURNOVER * one).expand(1, horizon),
        torch.zeros(1, horizon, n_assets, dtype=torch.float64),
    )


def _identity() -> Callable[[Tensor], Tensor]:
    """A function that autograd records and that computes nothing."""
    import torch

    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, upstream: Tensor) -> Tensor:
            return upstream

    return Identity.apply


def _peer(name: str, horizon: int, n_assets: int, covariance: Tensor, held: Tensor) -> Callable[[Tensor], Tensor]:
    """A peer on the standard form, bounds as rows of G, with a ridge of 1e-8 on u where it must factor P."""
    import torch

    data = _standard_form(horizon, n_assets, covariance, held)
    n, size = data.q.shape[-1], horizon * n_assets
    P = data.P.to_dense()[0] + 1e-8 * torch.diag((torch.arange(n) >= size).double())
    bounds = torch.cat([data.G.to_dense(), -torch.eye(n, dtype=torch.float64)])
    limits = torch.cat([data.h[0], torch.zeros(n, dtype=torch.float64)])
    layer = peer_layer(name, Program(P, data.q[0], bounds, limits, data.A.to_dense(), data.b), ("q",))
    nothing = torch.zeros(size, dtype=torch.float64)

    def solve(forecasts: Tensor) -> Tensor:
        x = layer(q=torch.cat([-forecasts.flatten(), nothing]))
        return x.reshape(-1)[:size]

    return solve


def _one_date(
    horizon: int, n_assets: int, repeats: int, able: list[str], limit_s: float, seed: int
) -> list[dict[str, object]]:
    """Rows of one horizon; takes peers that were too slow or failed out of ``able``."""
    from portfolio_dfl.allocation import MultiPeriodMeanVariance

    forecasts, covariances, held = _problems(repeats + 2, horizon, n_assets, seed)
    covariance, previous = covariances[:1], held[:1]
    settings: dict[str, Any] = {"risk_aversion": _AVERSION, "turnover_limit": _TURNOVER}
    native = MultiPeriodMeanVariance(n_assets, horizon, **settings)
    black_box = MultiPeriodMeanVariance(n_assets, horizon, solver="piqp", **settings)
    size = float(forecasts.abs().max())
    layers: dict[str, Callable[[Tensor], Tensor]] = {
        _OURS: lambda r: native(r, covariance, previous),
        _BLACK_BOX: lambda r: black_box(r, covariance, previous),
        _BARE: _bare(horizon, n_assets, covariance[0], previous[0], size),
        _FRESH: _bare(horizon, n_assets, covariance[0], previous[0], size, fresh=True),
        _IDENTITY: _identity(),
    }
    for name in list(able):
        start = time.perf_counter()
        try:
            layer = _peer(name, horizon, n_assets, covariance[0], previous[0])
            leaf = forecasts[:1].clone().requires_grad_()
            layer(leaf).sum().backward()
        except (RuntimeError, ValueError, ArithmeticError):
            able.remove(name)
            continue
        if time.perf_counter() - start > limit_s:
            able.remove(name)
        else:
            layers[name] = layer
    times = time_side_by_side(layers, lambda i: forecasts[i + 1 : i + 2], repeats=repeats)
    bare = times[_BARE].total
    return [
        {
            "layer": name,
            "metric": metric,
            "horizon": horizon,
            "ms": value,
            "ratio": value / bare,
            "calls": found.calls,
        }
        for name, found in times.items()
        for metric, value in (("forward", found.forward), ("backward", found.backward), ("total", found.total))
    ]


def _batch(horizon: int, n_assets: int, batch: int, repeats: int, seed: int) -> list[dict[str, object]]:
    """Rows of one batch: ours forward and backward at once, PIQP's bare solves one by one."""
    import torch

    from portfolio_dfl.allocation import MultiPeriodMeanVariance

    forecasts, covariances, held = _problems(batch, horizon, n_assets, seed)
    layer = MultiPeriodMeanVariance(n_assets, horizon, risk_aversion=_AVERSION, turnover_limit=_TURNOVER)
    size = float(forecasts.abs().max())
    alone = [_bare(horizon, n_assets, covariances[b], held[b], size) for b in range(batch)]
    upstream = torch.randn(forecasts.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    ours, bare = [], []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        leaf = forecasts.clone().requires_grad_()
        layer(leaf, covariances, held).backward(upstream)
        middle = time.perf_counter()
        for solve, one in zip(alone, forecasts, strict=True):
            solve(one)
        ours.append(1e3 * (middle - start))
        bare.append(1e3 * (time.perf_counter() - middle))
    first, second = float(np.median(ours[1:])), float(np.median(bare[1:]))
    metric = f"batch of {batch}"
    return [
        {"layer": name, "metric": metric, "horizon": horizon, "ms": ms, "ratio": ms / second, "calls": repeats}
        for name, ms in ((_OURS, first), (_BARE, second))
    ]


def _share(times: pd.DataFrame, name: str, of: str, without: str | None = None) -> pd.DataFrame:
    """Our times, less those of another layer, as shares of a solver's total time."""

    def ms(layer: str, metric: str) -> NDArray[np.float64]:
        rows = times[(times["layer"] == layer) & (times["metric"] == metric)]
        return rows.sort_values("horizon")["ms"].to_numpy(np.float64)

    horizons = np.sort(times["horizon"].unique())
    parts = []
    for metric in ("backward", "total"):
        left = ms(_OURS, metric) - (0.0 if without is None else ms(without, metric))
        parts.append(pd.DataFrame({"layer": name, "metric": metric, "horizon": horizons, "ms": left / ms(of, "total")}))
    return pd.concat(parts)


def _table(frame: pd.DataFrame, n_assets: int) -> str:
    single = frame[frame["metric"].isin(["backward", "total"])]
    shares = [
        _share(single, f"{_OURS}, of PIQP", _BARE),
        _share(single, f"{_OURS} beyond the identity, of PIQP", _BARE, without=_IDENTITY),
        _share(single, f"{_OURS}, of PIQP with set-up", _FRESH),
    ]
    both = pd.concat([single, *shares])
    if n_assets == 7:
        paper = portfolio_times()
        both = pd.concat([both, paper[paper["horizon"].isin(single["horizon"])]])
    order = {name: i for i, name in enumerate(dict.fromkeys(both["layer"]))}
    both = both.sort_values("layer", key=lambda column: column.map(order), kind="stable")
    parts = [paper_layout(both, ["layer", "metric"], "horizon", "ms")]
    batches = frame[frame["metric"].str.startswith("batch")]
    if len(batches):
        share = batches[batches["layer"] == _OURS].assign(layer=f"{_OURS}, of PIQP")
        share = share.drop(columns="ms").rename(columns={"ratio": "ms"})
        parts.append(paper_layout(pd.concat([batches, share]), ["layer", "metric"], "horizon", "ms"))
    return "\n\n".join(parts)


def _figure(frame: pd.DataFrame) -> Any:
    columns = ["layer", "metric", "horizon", "ms"]
    both = pd.concat([frame[columns], portfolio_times()])
    panels = {f"{metric.capitalize()} time": both[both["metric"] == metric] for metric in ("backward", "total")}
    return line_panels(
        panels,
        x="horizon",
        y="ms",
        by="layer",
        x_title="horizon H",
        y_titles=["milliseconds", "milliseconds"],
        log_x=False,
        dashed=[name for name in both["layer"].unique() if name.endswith("(paper)")],
    )
