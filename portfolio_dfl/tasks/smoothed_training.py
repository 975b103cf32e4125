"""What training gains from smoothed derivatives: samples that teach, loss reached, time taken, and loss out of sample.

The linear predictor is trained through the portfolio layer on windows spread over a span, once for each derivative. On
prices, or on a market that is made up and known: each asset's expected return follows from the mean of the last ten
returns of the asset before it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.records import TaskResult, describe_machine, paper_layout, require_place, save_task
from portfolio_dfl.tasks.settings import require_least, require_positive, require_some

if TYPE_CHECKING:
    from portfolio_dfl.allocation.smoothing import Smoothing
    from portfolio_dfl.training.samples import Samples
    from portfolio_dfl.training.window import WindowTask

__all__ = ["smoothed_training"]

_NAME = "smoothed-training"
_EXACT = "exact"
_REALISED, _COVARIANCE = 20, 20
_KNOWN_DAYS, _KNOWN_ASSETS, _KNOWN_LOOKBACK = 1500, 5, 10
_FIGURES = {
    "zero_gradients": "without gradient",
    "training_loss": "training loss",
    "exact_loss": "of exact plans",
    "test_loss": "test loss",
    "seconds": "seconds a window",
}


def smoothed_training(
    market: Literal["prices", "known"] = "prices",
    *,
    source: str = "embedded",
    tickers: Sequence[str] | None = None,
    start: str | date | None = None,
    end: str | date | None = None,
    lookback: int = 120,
    horizon: int = 5,
    transaction_cost: float = 5e-4,
    windows: int = 10,
    samples: int = 120,
    test: int = 60,
    epochs: int = 20,
    barrier: Sequence[float] = (1e-6, 1e-5, 1e-4),
    penalty: Sequence[float] = (1e-5, 1e-4),
    perturbation: Sequence[float] = (2e-4, 5e-4, 1e-3),
    perturbed: int = 8,
    values: Sequence[Literal["exact", "smoothed"]] = ("exact",),
    seed: int = 0,
    reduced: bool = False,
    folder: str | os.PathLike[str] = "runs",
) -> TaskResult:
    """Train windows with the exact derivative and with smoothed ones of several strengths.

    Parameters
    ----------
    market : {"prices", "known"}
        Prices of ``source``, or the synthetic market of this module, which takes lookback 10 and its own dates.
    source : str
        Prices: ``"embedded"``, ``"yahoo"`` or the path of a file.
    tickers, start, end : optional
        Which prices of it; by default all.
    lookback : int
        Days of returns that the predictor sees.
    horizon : int
        Stages H of the plan.
    transaction_cost : float
        In the plan.
    windows, samples, test : int
        How many windows, evenly spread; the samples that each learns from, and those after it that judge.
    epochs : int
        Passes over the samples of a window, in steps of the whole window.
    barrier, penalty, perturbation : sequence of float
        Strengths of each way, in the units of returns; an empty one leaves the way out.
    perturbed : int
        Perturbed forecasts a decision.
    values : sequence of {"exact", "smoothed"}
        Which plans the loss is of.
    seed : int
        Of the predictors and of the synthetic market.
    reduced : bool
        Two windows and one strength of each way.
    folder : path
        Folder of runs.

    Returns
    -------
    TaskResult
        Rows: derivative, strength, value, zero_gradients (share of the last epoch's samples whose loss does not react
        to any forecast), training_loss (decision loss of the last epoch), exact_loss (of the exact plans of the trained
        predictor on the training samples), test_loss (of its exact plans on the samples that follow, all from equal
        weights), seconds (a window). All are means over windows.

    Raises
    ------
    ConfigError
        If a size is not positive, or the data too short.
    DataError
        If the prices do not serve.
    TrackingError
        If ``folder`` takes no results.
    """
    require_some(tickers=tickers, values=values)
    require_least(1, lookback=lookback, horizon=horizon, windows=windows, test=test, epochs=epochs)
    require_least(2, samples=samples, perturbed=perturbed)
    require_least(0, seed=seed, transaction_cost=transaction_cost)
    for name, strengths in (("barrier", barrier), ("penalty", penalty), ("perturbation", perturbation)):
        if strengths:
            require_positive(**{name: strengths})
    require_place(_NAME, folder)
    if reduced:
        windows, barrier, penalty, perturbation = min(windows, 2), barrier[:1], penalty[:1], perturbation[:1]
    if market == "known":
        lookback, returns = _KNOWN_LOOKBACK, _known_returns(seed)
    else:
        first, last = (None if day is None else str(day) for day in (start, end))
        returns = _price_returns(source, tickers, first, last)
    tasks = _tasks(returns, lookback, horizon, transaction_cost, windows, samples, test, epochs, seed)
    ways = {"barrier": barrier, "penalty": penalty, "perturbation": perturbation}
    rows = pd.DataFrame([_measure(tasks, smoothing) for smoothing in _smoothings(ways, perturbed, values)])
    figures = rows.melt(["derivative", "strength", "value"], list(_FIGURES), "figure", "number")
    figures["figure"] = figures["figure"].map(_FIGURES)
    where = "a known market" if market == "known" else f"prices of {source}"
    return save_task(
        TaskResult(
            name=_NAME,
            title=f"Training with smoothed derivatives on {where}: {returns.shape[1]} assets, H = {horizon}, "
            f"cost {transaction_cost:g} in the plan, {windows} windows of {samples} samples, {epochs} epochs",
            rows=rows,
            table=paper_layout(figures, ["derivative", "value", "strength"], "figure", "number", form="{:.3g}"),
            parameters={
                "market": market,
                "source": source,
                "horizon": horizon,
                "cost": transaction_cost,
                "windows": windows,
                "samples": samples,
                "epochs": epochs,
                "seed": seed,
            },
            metrics={
                f"{way}/{strength:g}/{value}/training_loss": loss
                for way, strength, value, loss in zip(
                    rows["derivative"], rows["strength"], rows["value"], rows["training_loss"], strict=True
                )
            },
            notes=["Strengths are in the units of returns; what is traded is the exact plan whatever the derivative."],
            machine=describe_machine(),
        ),
        folder,
    )


def _price_returns(source: str, tickers: Sequence[str] | None, start: str | None, end: str | None) -> pd.DataFrame:
    from portfolio_dfl.data.panel import build_panel
    from portfolio_dfl.data.sources import open_source

    raw = open_source(source, tickers=tickers, start=start, end=end).load()
    return build_panel(raw, tickers=tickers, start=start, end=end).returns


def _known_returns(seed: int) -> pd.DataFrame:
    """Returns of 1 % a day, whose expectation is half the mean of the asset before it over the last ten days."""
    rng = np.random.default_rng(seed)
    values = 0.01 * rng.normal(size=(_KNOWN_DAYS, _KNOWN_ASSETS))
    for day in range(_KNOWN_LOOKBACK, _KNOWN_DAYS):
        values[day] += 0.5 * np.roll(values[day - _KNOWN_LOOKBACK : day].mean(axis=0), 1)
    index = pd.bdate_range("2000-01-03", periods=_KNOWN_DAYS)
    return pd.DataFrame(values, index=index, columns=list("ABCDE"))


def _tasks(
    returns: pd.DataFrame,
    lookback: int,
    horizon: int,
    cost: float,
    windows: int,
    samples: int,
    test: int,
    epochs: int,
    seed: int,
) -> list[tuple[WindowTask, Samples]]:
    """The windows' trainings with exact derivatives, and the samples after each."""
    from portfolio_dfl.allocation import MultiPeriodMeanVariance
    from portfolio_dfl.forecasting import PredictorSpec
    from portfolio_dfl.risk.covariance import RollingCovariance, covariance_path
    from portfolio_dfl.training.samples import build_samples
    from portfolio_dfl.training.settings import TrainingSettings
    from portfolio_dfl.training.window import WindowTask

    usable = build_samples(
        returns,
        lookback=lookback,
        horizon=horizon,
        realised_window=_REALISED,
        covariance=covariance_path(returns, RollingCovariance(window=_COVARIANCE)),
    ).usable_at(pd.Timestamp(returns.index[-1]))
    first, last = samples + max(horizon, _REALISED), len(usable) - test
    if last < first:
        raise ConfigError(
            f"{len(usable)} samples are too few for {samples} to learn from and {test} to judge by: take fewer, or "
            "more prices"
        )
    layer = MultiPeriodMeanVariance(
        returns.shape[1], horizon, risk_aversion=10.0, turnover_limit=0.2, transaction_cost=cost
    )
    settings = TrainingSettings(epochs=epochs)
    chosen = []
    for place in np.unique(np.linspace(first, last, windows).astype(int)):
        day = usable.dates[place]
        learned = usable.usable_at(day).newest(samples)
        judged = usable.slice(int(place), int(place) + test)
        chosen.append((WindowTask(day, learned, PredictorSpec(), layer, settings, seed), judged))
    return chosen


def _smoothings(
    ways: dict[str, Sequence[float]], perturbed: int, values: Sequence[Literal["exact", "smoothed"]]
) -> list[Smoothing | None]:
    """None for the exact derivative, then every way in every strength."""
    from portfolio_dfl.allocation.smoothing import Smoothing

    return [
        None,
        *(
            Smoothing(way, strength, perturbed, value=value)  # type: ignore[arg-type]
            for value in values
            for way, strengths in ways.items()
            for strength in strengths
        ),
    ]


def _measure(tasks: list[tuple[WindowTask, Samples]], smoothing: Smoothing | None) -> dict[str, float | str]:
    """One row of the table."""
    import torch

    from portfolio_dfl.training.decision import Outcome
    from portfolio_dfl.training.losses import DecisionLoss
    from portfolio_dfl.training.window import load_state, train_window

    figures = []
    for task, judged in tasks:
        started = time.perf_counter()
        window = train_window(replace(task, settings=replace(task.settings, smoothing=smoothing)))
        seconds = time.perf_counter() - started
        if window.state is None:
            raise ConfigError(f"training at {window.date.date()} failed: {window.failure}")
        model = task.build_model()
        load_state(model, window.state)
        losses = []
        for part in (task.samples, judged):
            held = torch.full((len(part), part.n_assets), 1.0 / part.n_assets, dtype=torch.float64)
            with torch.no_grad():
                losses.append(float(DecisionLoss()(Outcome(model, part, held))))
        figures.append((window.health.zero_gradient_share, window.losses[-1], *losses, seconds))
    means = [float(column.mean()) for column in np.array(figures).T]
    return {
        "derivative": _EXACT if smoothing is None else smoothing.way,
        "strength": 0.0 if smoothing is None else smoothing.size,
        "value": _EXACT if smoothing is None else smoothing.value,
        **dict(zip(_FIGURES, means, strict=True)),
    }
