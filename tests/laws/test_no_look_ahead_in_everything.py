"""No look-ahead where everything comes together: features, limits, costs, lag, every frequency, own parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from torch import Tensor

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.features import FeatureTable, feature_table
from portfolio_dfl.data.panel import PricePanel
from portfolio_dfl.data.sources import EmbeddedSource
from portfolio_dfl.strategies.walk import WalkTask, take_walk
from portfolio_dfl.study.plan import resolve_plan

TODAY = pd.Timestamp("2018-06-29")  # the end of a week, a month and a quarter
TICKERS = ("MTUM", "QUAL", "SIZE", "USMV", "VLUE")
STUDY: dict[str, Any] = {
    "features": {
        "macro": {"lag": 1, "max_age": 10},
        "score": {"known_at": "released", "columns": ["score"]},
        "momentum": {"builtin": "momentum", "options": {"windows": [5, 20], "skip": 1}},
        "day": {"builtin": "day_of_month"},
        "own": {"function": f"{__name__}:newest", "reach": 3},
    },
    "covariance": {"estimator": f"{__name__}:Sample", "window": 15},
    "allocation": {
        "horizon": 2,
        "stage": 3,
        "turnover_limit": 1.0,
        "limits": {"max_weight": 0.6, "groups": {"some": {"tickers": ["MTUM", "VLUE"], "max": 0.5}}},
    },
    "forecasting": {"predictor": "pooled", "lookback": 5, "prior": "equilibrium", "options": {"interactions": True}},
    "training": {
        "loss": f"{__name__}:gain",
        "samples": 15,
        "realised_window": 6,
        "epochs": 1,
        "learning_rate": 0.01,
        "two_stage": "least_squares",
        "retrain_every": 2,
    },
    "backtest": {
        "start": "2018-06-01",
        "end": "2018-07-13",
        "strategies": ["decision_focused", "two_stage", f"{__name__}:Chasing"],
    },
    "costs": {"rate": 0.0005},
}


def newest(returns: pd.DataFrame) -> pd.DataFrame:
    """Feature: the sum of three returns."""
    return returns.rolling(3).sum()


def gain(outcome: Any) -> Tensor:
    """Loss: what is missed of the first stage's return."""
    missed: Tensor = -(outcome.samples.future_returns * outcome.weights).sum(-1).mean()
    return missed


class Sample:
    """Covariance of the window alone."""

    def __init__(self, window: int) -> None:
        self.window = window

    def __call__(self, returns_window: np.ndarray) -> np.ndarray:
        return np.atleast_2d(np.cov(returns_window, rowvar=False))


class Chasing:
    """Strategy: more of what rose last."""

    def decide(self, history: pd.DataFrame, held: np.ndarray) -> np.ndarray:
        rose = np.exp(10.0 * history.iloc[-5:].sum().to_numpy())
        weights: np.ndarray = rose / rose.sum()
        return weights


def macro(dates: pd.DatetimeIndex, returns: pd.DataFrame) -> FeatureTable:
    frame = pd.DataFrame({"level": returns["MTUM"].rolling(3).mean(), "slope": returns["USMV"]}).iloc[3::2]
    return feature_table(frame, name="macro", tickers=TICKERS, lag=1, max_age=10)


def score(dates: pd.DatetimeIndex, returns: pd.DataFrame) -> FeatureTable:
    """Known two sessions after its date."""
    long = returns.iloc[:-2:4].rename_axis("date").reset_index().melt("date", var_name="ticker", value_name="score")
    position = dates.get_indexer(pd.Index(long["date"])) + 2
    long = long.assign(released=dates[position])
    return feature_table(long, name="score", tickers=TICKERS, known_at="released", columns=["score"])


@pytest.fixture(scope="module")
def prices() -> pd.DataFrame:
    return EmbeddedSource().load().loc["2018-01-02":"2018-10-31"]


def decided(prices: pd.DataFrame, settings: dict[str, Any], ahead: int = 0) -> dict[str, pd.DataFrame]:
    """Target weights by strategy; with ``ahead`` the table by date is known as many sessions too soon."""
    config = StudyConfig.parse(STUDY).override([f"{key}={value!r}" for key, value in settings.items()])
    returns = prices.pct_change().iloc[1:]
    dates = pd.DatetimeIndex(returns.index)
    tables = {make.__name__: make(dates, returns) for make in (macro, score)}
    plan = resolve_plan(config, PricePanel(prices), tables=tables)
    for feature in plan.features.features if plan.features is not None else ():
        if feature.name == "macro" and ahead:
            object.__setattr__(feature, "lag", -ahead)  # which its constructor refuses
    tasks = [
        WalkTask(
            plan.setting,
            lane,
            plan.returns,
            plan.span.dates[0],
            plan.span.dates[-1],
            plan.retrain_every,
            config.backtest.lag,
            decisions=plan.span.dates,
        )
        for lane in plan.lanes
    ]
    return {task.lane.label: take_walk(task).targets for task in tasks}


def shaken(prices: pd.DataFrame) -> pd.DataFrame:
    later = prices.index > TODAY
    noise = np.random.default_rng(1).lognormal(0.0, 0.04, (int(later.sum()), prices.shape[1]))
    other = prices.copy()
    other.loc[later] *= noise
    return other


def assert_causal(decide: Callable[[pd.DataFrame], dict[str, pd.DataFrame]], prices: pd.DataFrame) -> None:
    before, after = decide(prices), decide(shaken(prices))
    assert len(before) == 3
    for label, weights in before.items():
        assert len(weights.loc[:TODAY])
        pd.testing.assert_frame_equal(weights.loc[:TODAY], after[label].loc[:TODAY], check_exact=True)
        assert not weights.loc[TODAY:].iloc[1:].equals(after[label].loc[TODAY:].iloc[1:]), label


@pytest.mark.parametrize(
    "settings",
    [
        {"backtest.rebalance": "daily", "backtest.end": "2018-07-05", "backtest.start": "2018-06-25"},
        {"backtest.rebalance": "weekly", "backtest.lag": 1},
        {"backtest.rebalance": "weekly", "backtest.rebalance_on": "first", "training.expanding": True},
        {"backtest.rebalance": "monthly", "backtest.end": "2018-08-03", "training.warm_start": True},
        {"backtest.rebalance": "quarterly", "backtest.end": "2018-10-05"},
        {"backtest.rebalance": 7, "allocation.stage": 7},
        {"backtest.rebalance": ["2018-06-15", "2018-06-29", "2018-07-06"]},
    ],
    ids=["daily", "weekly-lag", "first-of-week", "monthly", "quarterly", "sevenths", "dates"],
)
def test_no_decision_depends_on_what_comes_after_it(settings: dict[str, Any], prices: pd.DataFrame) -> None:
    assert_causal(lambda seen: decided(seen, settings), prices)


def test_a_table_known_too_soon_is_caught_in_a_whole_study(prices: pd.DataFrame) -> None:
    with pytest.raises(AssertionError, match="different"):
        assert_causal(lambda seen: decided(seen, {"backtest.rebalance": "weekly"}, ahead=5), prices)
