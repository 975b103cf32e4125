"""Where an epoch of training goes: the solves of the portfolio layer, and everything around them."""

from __future__ import annotations

import cProfile
import os
import pstats
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.records import TaskResult, describe_machine, paper_layout, require_place, save_task
from portfolio_dfl.tasks.settings import require_least, require_some

if TYPE_CHECKING:
    from portfolio_dfl.training.samples import Samples

__all__ = ["epoch"]

_NAME = "epoch"
_EPOCH, _SOLVES, _REST = "the epoch", "its solves", "the rest"
_REALISED, _LOOKBACK, _COVARIANCE = 20, 120, 20


def epoch(
    source: str = "embedded",
    *,
    tickers: Sequence[str] | None = None,
    start: str | date | None = None,
    end: str | date | None = None,
    horizon: int = 10,
    batch: int = 120,
    repeats: int = 5,
    reduced: bool = False,
    folder: str | os.PathLike[str] = "runs",
) -> TaskResult:
    """Train the linear predictor through the portfolio layer for one epoch over all dates, with Lightning's Trainer.

    The epoch is timed as it is, Trainer included; a profile of another one tells the solves (forward and backward of
    the layer's native solver, called once a batch) and by package what the rest is made of.

    Parameters
    ----------
    source : str
        Prices: ``"embedded"``, ``"yahoo"`` or the path of a file.
    tickers, start, end : optional
        Which prices of it; by default all.
    horizon : int
        Stages H of the plan.
    batch : int
        Dates a training step.
    repeats : int
        Epochs of which the median is reported.
    reduced : bool
        Fewer repeats.
    folder : path
        Folder of runs.

    Returns
    -------
    TaskResult
        Rows: part, seconds, kind ("wall" for the epoch, its solves and the difference; "profile" for packages).

    Raises
    ------
    ConfigError
        If horizon, batch or repeats is not positive, the horizon too long, or tickers is a list of none.
    DataError
        If the prices do not serve.
    TrackingError
        If ``folder`` takes no results.
    """
    require_some(tickers=tickers)
    require_least(1, horizon=horizon, batch=batch, repeats=repeats)
    first, last = (None if day is None else str(day) for day in (start, end))
    samples = _samples(source, tickers, first, last, horizon)
    require_place(_NAME, folder)
    train = _trainer(samples, horizon, batch)
    train()
    clock = []
    for _ in range(min(repeats, 2) if reduced else repeats):
        begin = time.perf_counter()
        train()
        clock.append(time.perf_counter() - begin)
    profile = cProfile.Profile()
    profile.runcall(train)
    solves, packages = _by_package(profile)
    whole = float(pd.Series(clock).median())
    parts = {_EPOCH: whole, _SOLVES: solves, _REST: whole - solves}
    rows = pd.DataFrame(
        [
            *({"part": part, "seconds": seconds, "kind": "wall"} for part, seconds in parts.items()),
            *({"part": part, "seconds": seconds, "kind": "profile"} for part, seconds in packages.items()),
        ]
    )
    return save_task(
        TaskResult(
            name=_NAME,
            title=f"Seconds of one epoch over {len(samples):,} dates of {samples.n_assets} assets, H = {horizon}, "
            f"{batch} dates a step",
            rows=rows,
            table=paper_layout(rows, ["part"], "kind", "seconds"),
            parameters={"source": source, "dates": len(samples), "horizon": horizon, "batch": batch},
            metrics=parts,
            notes=["Profiled, Python takes longer: the packages' seconds tell shares of the rest, not its length."],
            machine=describe_machine(),
        ),
        folder,
    )


def _samples(source: str, tickers: Sequence[str] | None, start: str | None, end: str | None, horizon: int) -> Samples:
    """All dates with complete features and labels."""
    from portfolio_dfl.data.panel import build_panel
    from portfolio_dfl.data.sources import open_source
    from portfolio_dfl.risk.covariance import RollingCovariance, covariance_path
    from portfolio_dfl.training.samples import build_samples, returns_needed

    raw = open_source(source, tickers=tickers, start=start, end=end).load()
    returns = build_panel(raw, tickers=tickers, start=start, end=end).returns
    needed = returns_needed(
        1, lookback=_LOOKBACK, covariance_window=_COVARIANCE, horizon=horizon, realised_window=_REALISED
    )
    if len(returns) < needed:
        raise ConfigError(f"horizon {horizon} needs {needed} returns for one date, the data have {len(returns)}")
    samples = build_samples(
        returns,
        lookback=_LOOKBACK,
        horizon=horizon,
        realised_window=_REALISED,
        covariance=covariance_path(returns, RollingCovariance(window=_COVARIANCE)),
    )
    return samples.usable_at(pd.Timestamp(returns.index[-1]))


def _trainer(samples: Samples, horizon: int, batch: int) -> Callable[[], None]:
    """A function that trains a fresh model for one epoch."""
    from portfolio_dfl.allocation import MultiPeriodMeanVariance
    from portfolio_dfl.forecasting.linear import LinearPredictor
    from portfolio_dfl.training.decision import DecisionModel
    from portfolio_dfl.training.fitting import fit_by_gradient
    from portfolio_dfl.training.losses import DecisionLoss
    from portfolio_dfl.training.reproducible import reproducible
    from portfolio_dfl.training.settings import TrainingSettings

    settings = TrainingSettings(loss=DecisionLoss(), epochs=1, batch_size=batch)
    layer = MultiPeriodMeanVariance(samples.n_assets, horizon, risk_aversion=10.0, turnover_limit=0.2)

    def train() -> None:
        with reproducible(0):
            predictor = LinearPredictor(samples.n_assets, samples.lookback, horizon, start=0.01)
            fit_by_gradient(DecisionModel(predictor, layer), samples, None, settings)

    return train


def _by_package(profile: cProfile.Profile) -> tuple[float, dict[str, float]]:
    """Seconds within the native solver, and those of everything else by package, the largest first."""
    solves, packages = 0.0, dict[str, float]()
    native = str(Path("allocation") / "native.py")
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = vars(pstats.Stats(profile))["stats"]
    for (file, _, function), (_, _, own, cumulative, _) in stats.items():
        if file.endswith(native) and function in ("solve", "differentiate"):
            solves += cumulative
            continue
        path = Path(file).parts
        if "site-packages" in path:
            package = path[path.index("site-packages") + 1]
        elif "portfolio_dfl" in path:
            package = "portfolio_dfl"
        else:
            package = "torch's and Python's compiled functions" if file == "~" else "Python's library"
        if "allocation" not in path and "dxpp_core" not in path:
            packages[package] = packages.get(package, 0.0) + own
    return solves, dict(sorted(packages.items(), key=lambda item: -item[1])[:6])
