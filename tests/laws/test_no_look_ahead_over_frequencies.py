"""No decision depends on prices after it, however often is decided and however long a stage of the plan is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.sources import EmbeddedSource
from portfolio_dfl.strategies.walk import WalkTask, take_walk
from portfolio_dfl.study.plan import resolve_plan

STUDY: dict[str, Any] = {
    "covariance": {"window": 10},
    "allocation": {"horizon": 2, "stage": 5},
    "forecasting": {"lookback": 10},
    "training": {"samples": 20, "realised_window": 5, "retrain_every": 2, "epochs": 2},
    "backtest": {
        "start": "2018-06-01",
        "end": "2018-11-30",
        "strategies": ["decision_focused", "equal_weight", "historical_mean_variance"],
    },
}


def decided(prices: pd.DataFrame, folder: Path, rule: str, on: str) -> dict[str, pd.DataFrame]:
    folder.mkdir()
    prices.to_parquet(folder / "prices.parquet")
    source = {"source": str(folder / "prices.parquet"), "policies": {"jumps": "accept"}}
    config = StudyConfig.parse({**STUDY, "data": source, "tracking": {"folder": str(folder)}})
    plan = resolve_plan(config.override([f"backtest.rebalance={rule}", f"backtest.rebalance_on={on}"]))
    first, last = plan.span.dates[0], plan.span.dates[-1]
    walks = [
        take_walk(
            WalkTask(
                plan.setting, lane, plan.returns, first, last, plan.retrain_every, plan.ledger.lag, (), plan.span.dates
            )
        )
        for lane in plan.lanes
    ]
    return {walked.lane.strategy: walked.targets for walked in walks}


@pytest.mark.parametrize(
    ("rule", "on", "cut"),
    [
        ("monthly", "last", "2018-08-31"),
        ("weekly", "first", "2018-09-04"),
        ("every 7 sessions", "last", "2018-09-04"),
    ],
)
def test_prices_after_a_date_and_their_absence_move_no_decision_up_to_it(
    rule: str, on: str, cut: str, tmp_path: Path
) -> None:
    prices = EmbeddedSource().load().loc["2018-01-02":"2018-12-31"]
    t = pd.Timestamp(cut)
    shaken = prices.copy()
    later = prices.index > t
    shaken.loc[later] *= np.random.default_rng(0).lognormal(0.0, 0.05, (int(later.sum()), prices.shape[1]))
    expected, found = (
        decided(prices, tmp_path / "as they were", rule, on),
        decided(shaken, tmp_path / "shaken", rule, on),
    )
    # One more return than the decision needs is left: that it earns.
    cut_off = decided(prices.loc[: prices.index[int((~later).sum())]], tmp_path / "cut off", rule, on)
    for strategy, weights in expected.items():
        assert len(weights.loc[:t]) >= 3
        pd.testing.assert_frame_equal(found[strategy].loc[:t], weights.loc[:t], check_exact=True)
        pd.testing.assert_frame_equal(cut_off[strategy].loc[:t], weights.loc[:t], check_exact=True)
    assert not found["decision_focused"].equals(expected["decision_focused"])  # the change reached what came after
