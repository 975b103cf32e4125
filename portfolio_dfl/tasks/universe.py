"""A study of hundreds of assets under factor risk: how long it takes, part by part, and how much memory.

The market is made up and labelled so: returns of a market factor, some weaker ones and what each asset has of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from portfolio_dfl.tasks.records import TaskResult, describe_machine, require_place, save_task
from portfolio_dfl.tasks.settings import require_least, require_some

__all__ = ["universe"]

_NAME = "universe"
_STAGES = {"Training windows": "training_s", "Backtest": "decisions_s"}


def universe(
    *,
    assets: Sequence[int] = (250, 500),
    years: int = 10,
    learned_years: int = 2,
    factors: int = 10,
    horizon: int = 2,
    samples: int = 60,
    epochs: int = 5,
    seed: int = 0,
    reduced: bool = False,
    folder: str | os.PathLike[str] = "runs",
) -> TaskResult:
    """Run the study of ``configs/universe.yaml`` on synthetic prices, in one process.

    Parameters
    ----------
    assets : sequence of int
        Sizes N, of forty and more, where covariances are kept in their parts.
    years : int
        Years of 252 sessions; the first ``learned_years`` come before the test span.
    learned_years : int
    factors : int
        Factors of the market that is made up; how many the study finds is its own affair.
    horizon, samples, epochs : int
        Of the study.
    seed : int
    reduced : bool
        Sixty assets, three years and one epoch.
    folder : path
        Folder of runs; the studies are kept in it, too.

    Returns
    -------
    TaskResult
        Rows: assets, weeks, and the seconds of all trainings (training_s), of the decisions of all strategies
        (decisions_s), of prices, evaluation and report (rest_s), and together; ``mebibytes`` is the most memory that
        the process has used so far.

    Raises
    ------
    ConfigError, TrackingError
        As of a study.
    """
    import resource

    from portfolio_dfl.study.run import run_study

    require_some(assets=assets)
    require_least(40, assets=assets)
    require_least(1, learned_years=learned_years, factors=factors, horizon=horizon, epochs=epochs)
    require_least(learned_years + 1, years=years)
    require_least(2, samples=samples)
    require_least(0, seed=seed)
    require_place(_NAME, folder)
    if reduced:
        assets, years, learned_years, samples, epochs = [60], 3, 2, min(samples, 20), 1
    rows = []
    for count in assets:
        prices = synthetic_prices(count, 252 * years, factors, seed)
        marks: dict[str, list[float]] = {}

        def mark(stage: str, done: int, total: int, marks: dict[str, list[float]] = marks) -> None:
            marks.setdefault(stage, []).append(time.perf_counter())

        began = time.perf_counter()
        result = run_study(
            {
                "name": _NAME,
                "data": {"calendar": None, "policies": {"jumps": "accept"}},
                "covariance": {"estimator": "factor", "window": 250},
                "allocation": {
                    "horizon": horizon,
                    "stage": 5,
                    "risk_aversion": 5.0,
                    "turnover_limit": 0.3,
                    "max_weight": 0.05,
                },
                "features": {
                    "momentum": {"builtin": "momentum", "options": {"windows": [126, 252], "skip": 21}},
                    "reversal": {"builtin": "reversal", "options": {"windows": 21}},
                    "volatility": {"builtin": "volatility", "options": {"windows": 63}},
                },
                "forecasting": {"predictor": "pooled", "prior": "equilibrium", "lookback": 21},
                "training": {
                    "retrain_every": 52,
                    "samples": samples,
                    "realised_window": 21,
                    "epochs": epochs,
                    "learning_rate": 1e-3,
                    "loss": "net_utility",
                    "two_stage": "least_squares",
                },
                "backtest": {"rebalance": "weekly", "start": prices.index[252 * learned_years].date()},
                "costs": {"rate": 5e-4},
                "execution": {"backend": "sequential"},
                "tracking": {"folder": str(Path(folder) / "tasks" / _NAME / "studies")},
            },
            prices=prices,
            progress=mark,
        )
        spent = {name: marks[stage][-1] - marks[stage][0] for stage, name in _STAGES.items() if stage in marks}
        total = time.perf_counter() - began
        weeks = pd.DatetimeIndex(result.ledgers["Equal weight"].daily.index).to_period("W").unique()
        rows.append(
            {
                "assets": count,
                "weeks": len(weeks),
                **{name: spent.get(name, 0.0) for name in _STAGES.values()},
                "rest_s": total - sum(spent.values()),
                "seconds": total,
                "mebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
            }
        )
    frame = pd.DataFrame(rows)
    return save_task(
        TaskResult(
            name=_NAME,
            title=f"A study of many assets (synthetic): {years} years, weekly decisions, H = {horizon}, factor risk, "
            "one process, five strategies",
            rows=frame,
            table=frame.to_string(index=False, float_format="{:.4g}".format),
            parameters={"years": years, "horizon": horizon, "samples": samples, "epochs": epochs, "seed": seed},
            metrics={f"{row['assets']}/seconds": float(row["seconds"]) for row in rows},
            notes=["Seconds of training and decisions are those of all strategies together."],
            machine=describe_machine(),
        ),
        folder,
    )


def synthetic_prices(assets: int, days: int, factors: int, seed: int) -> pd.DataFrame:
    """Prices [days, assets] of a market that is made up, from weekdays of 2014 on."""
    rng = np.random.default_rng(seed)
    spread = np.concatenate([[0.009], np.full(factors - 1, 0.004)])
    exposures = 0.4 * rng.normal(size=(assets, factors))
    exposures[:, 0] = 1.0 + 0.3 * rng.normal(size=assets)
    common = (spread * rng.normal(size=(days, factors))) @ exposures.T
    own = rng.uniform(0.008, 0.02, assets) * rng.normal(size=(days, assets))
    index = pd.bdate_range("2014-01-02", periods=days, name="date")
    names = [f"S{place:04d}" for place in range(assets)]
    return pd.DataFrame(100.0 * np.cumprod(1.0 + 3e-4 + common + own, axis=0), index, names)
