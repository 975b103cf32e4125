"""What is trained, and along which derivative: the objective of a plan or the executed path, exact or smoothed.

Whole walk-forward studies on one setting that a practitioner would start from: an equilibrium prior with a learned
scale moved by pooled momentum, costs in plan and books, all the past as samples. Every study is run on several
beginnings of the test span, since differences between two of them are often of the size of chance.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from portfolio_dfl.tasks.records import TaskResult, describe_machine, require_place, save_task
from portfolio_dfl.tasks.settings import require_least, require_positive, require_some

__all__ = ["objectives"]

_NAME = "objectives"
_LOSSES = {"plan": "net_utility", "executed path": "executed_utility"}
_COLUMNS = {
    "zero_gradients": "without gradient",
    "training_loss": "training loss",
    "regret": "test regret",
    "utility": "net utility",
    "sharpe": "Sharpe",
    "turnover": "turnover",
}


def objectives(
    *,
    source: str = "embedded",
    tickers: Sequence[str] | None = None,
    start: date | None = None,
    end: date | None = None,
    starts: Sequence[date] = (date(2017, 1, 3), date(2018, 1, 2), date(2019, 1, 2)),
    cost: float = 5e-4,
    risk_aversion: float = 10.0,
    horizon: int = 5,
    samples: int = 250,
    retrain_every: int = 240,
    epochs: int = 20,
    learning_rate: float = 1e-3,
    strength: float = 1e-5,
    reduced: bool = False,
    folder: str | os.PathLike[str] = "runs",
) -> TaskResult:
    """Train on the plan's objective and on the executed path, by exact and by smoothed derivatives.

    Parameters
    ----------
    source : str
        Prices: ``"embedded"`` (synthetic), ``"yahoo"`` or the path of a file.
    tickers, start, end : optional
        Which prices of it; by default all.
    starts : sequence of date
        Beginnings of the test span, one study each.
    cost : float
        Proportional, in the plan and in the books.
    risk_aversion, horizon : float, int
        Of plans; the utility is taken at the same λ.
    samples : int
        The least number; all the past is learned from.
    retrain_every : int
        Days from one training to the next.
    epochs, learning_rate
        Of every training.
    strength : float
        μ of the barrier, in the units of returns.
    reduced : bool
        One beginning and three months of test.
    folder : path
        Folder of runs; the studies are kept in it, too.

    Returns
    -------
    TaskResult
        Rows: trained_on, derivative, start, and of the test span ``regret`` (of first stages, mean), ``utility`` (net,
        a year), ``sharpe`` and ``turnover``; of the trainings ``zero_gradients`` (share of samples without gradient)
        and ``training_loss``, means over windows. Losses of the two objectives are not of one unit. Equal weights and
        two-stage training stand beside them.

    Raises
    ------
    ConfigError, DataError, TrackingError
        As of a study.
    """
    from portfolio_dfl.study.run import run_study

    require_some(starts=starts, tickers=tickers)
    require_least(1, retrain_every=retrain_every, epochs=epochs, horizon=horizon)
    require_least(2, samples=samples)
    require_least(0, cost=cost)
    require_positive(risk_aversion=risk_aversion, learning_rate=learning_rate, strength=strength)
    require_place(_NAME, folder)
    chosen = list(starts)[:1] if reduced else list(starts)
    rows: list[dict[str, Any]] = []
    for first in chosen:
        for trained_on, loss in _LOSSES.items():
            for derivative in ("exact", "smoothed"):
                soon = (pd.Timestamp(first) + pd.DateOffset(months=3)).date()
                stop = end if not reduced else soon if end is None else min(soon, end)
                # What is compared beside is the same in all: once a beginning is enough.
                beside = ["two_stage", "equal_weight"] if not rows or rows[-1]["start"] != first else []
                result = run_study(
                    {
                        "name": _NAME,
                        "data": {"source": source, "tickers": tickers, "start": start, "end": end},
                        "features": {"momentum": {"builtin": "momentum", "options": {"windows": [20, 60, 120, 250]}}},
                        "covariance": {"estimator": "ledoit_wolf", "window": 120},
                        "allocation": {"horizon": horizon, "risk_aversion": risk_aversion, "turnover_limit": 0.2},
                        "costs": {"rate": cost},
                        "forecasting": {
                            "predictor": "pooled",
                            "lookback": 20,
                            "prior": "equilibrium",
                            "prior_options": {"learn_scale": True},
                        },
                        "training": {
                            "loss": loss,
                            "gradient": derivative,
                            "smoothing": {"strength": strength},
                            "samples": samples,
                            "expanding": True,
                            "retrain_every": retrain_every,
                            "epochs": epochs,
                            "learning_rate": learning_rate,
                            "two_stage": "least_squares",
                        },
                        "backtest": {
                            "start": first,
                            "end": stop,
                            "strategies": ["decision_focused", *beside],
                        },
                        "evaluation": {"bootstrap": 0},
                        "execution": {"backend": "sequential"},
                        "tracking": {"folder": str(Path(folder) / "tasks" / _NAME / "studies")},
                    }
                )
                rows += _rows(result, trained_on, derivative, first)
    frame = pd.DataFrame(rows)
    means = frame.drop(columns="start").groupby(["trained_on", "derivative"], sort=False).mean()
    table = means.rename(columns=_COLUMNS).rename_axis(["trained on", "derivative"])
    each = frame.pivot_table("utility", ["trained_on", "derivative"], "start", sort=False)
    each.columns = [f"utility from {first:%Y-%m}" for first in each.columns]
    text = table.join(each.rename_axis(["trained on", "derivative"])).to_string(
        float_format="{:.4g}".format, na_rep="–"
    )
    synthetic = " (synthetic)" if source == "embedded" else ""
    return save_task(
        TaskResult(
            name=_NAME,
            title=f"What is trained, on prices of {source}{synthetic}: H = {horizon}, cost {cost:g} in plan and books, "
            f"means over {len(chosen)} beginnings of the test span",
            rows=frame,
            table=text,
            parameters={
                "source": source,
                "starts": [str(first) for first in chosen],
                "cost": cost,
                "horizon": horizon,
                "risk_aversion": risk_aversion,
                "epochs": epochs,
                "strength": strength,
            },
            metrics={
                "/".join(filter(None, (*map(str, key), str(name)))).replace(" ", "_"): float(value)
                for key, numbers in zip(means.index.tolist(), means.to_dict("records"), strict=True)
                for name, value in numbers.items()
                if pd.notna(value)
            },
            notes=["Training losses of the two objectives have no unit in common."],
            machine=describe_machine(),
        ),
        folder,
    )


def _rows(result: Any, trained_on: str, derivative: str, first: date) -> list[dict[str, Any]]:
    """A row a strategy of one study."""
    found = []
    for lane in result.lanes:
        trained = lane.strategy == "decision_focused"
        windows = result.windows[result.windows["strategy"] == lane.strategy] if trained else result.windows.iloc[:0]
        found.append(
            {
                "trained_on": trained_on if trained else lane.label,
                "derivative": derivative if trained else "",
                "start": first,
                "zero_gradients": windows["zero_gradient_share"].mean(),
                "training_loss": windows["train_loss"].mean(),
                "regret": result.scores.loc[lane.label, "regret"],
                "utility": result.metrics.loc[lane.label, "utility"],
                "sharpe": result.metrics.loc[lane.label, "sharpe"],
                "turnover": result.metrics.loc[lane.label, "turnover"],
            }
        )
    return found
