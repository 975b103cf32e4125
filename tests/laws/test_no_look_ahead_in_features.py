"""The law of no look-ahead for features: what becomes known after a date changes no weight decided up to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.backtest import roll
from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.features import (
    BUILTIN,
    BuiltinFeature,
    FeatureSet,
    FeatureTable,
    OwnFeature,
    feature_table,
    read_feature_file,
)
from portfolio_dfl.data.panel import PricePanel
from portfolio_dfl.forecasting import PredictorSpec, PriorSpec
from portfolio_dfl.risk import RollingCovariance
from portfolio_dfl.strategies.walk import WalkTask, take_walk
from portfolio_dfl.study.plan import resolve_plan
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.settings import TrainingSettings

TICKERS = ("A", "B", "C", "D")
FIRST, LAST, TODAY = 78, 100, 90  # positions of the first and last decision, and of the date that things change after


@pytest.fixture(scope="module")
def returns() -> pd.DataFrame:
    drawn = np.random.default_rng(3).normal(4e-4, 0.01, (LAST + 5, 4))
    return pd.DataFrame(drawn, pd.bdate_range("2021-01-04", periods=len(drawn)), list(TICKERS))


def values(returns: pd.DataFrame) -> pd.DataFrame:
    """One value a date and ticker, with something to learn."""
    noise = np.random.default_rng(4).normal(0.0, 0.01, returns.shape)
    return returns.shift(-1).fillna(0.0) + noise


def decided(features: FeatureSet, returns: pd.DataFrame, predictor: str = "pooled", **options: object) -> pd.DataFrame:
    layer = MultiPeriodMeanVariance(n_assets=4, horizon=2, risk_aversion=5.0, turnover_limit=1.0)
    policy = PredictOptimisePolicy(
        layer,
        RollingCovariance(10),
        predictor=PredictorSpec(predictor, prior=PriorSpec("equilibrium"), **options),
        features=features,
        lookback=3,
        realised_window=4,
        samples=40,
        settings=TrainingSettings(
            method="least_squares" if predictor in ("pooled", "linear") else "gradient",
            ridge=1.0,
            epochs=2,
            learning_rate=0.01,
        ),
    )
    span = returns.index[FIRST], returns.index[LAST]
    return roll(policy, returns, start=span[0], end=span[1], retrain_every=6)


def assert_causal(
    before: FeatureSet, after: FeatureSet, returns: pd.DataFrame, later: pd.DataFrame | None = None, **options: object
) -> None:
    t = returns.index[TODAY]
    one = decided(before, returns, **options)
    other = decided(after, returns if later is None else later, **options)
    pd.testing.assert_frame_equal(one.loc[:t], other.loc[:t], check_exact=True)
    assert not one.loc[t:].iloc[1:].equals(other.loc[t:].iloc[1:]), "the change reached nothing"


def moved(frame: pd.DataFrame, later: np.ndarray) -> pd.DataFrame:
    """The same frame with numbers of these rows drawn anew."""
    other = frame.copy()
    numeric = other.select_dtypes("number").columns
    drawn = np.random.default_rng(5).normal(0.0, 0.05, (int(later.sum()), len(numeric)))
    other.loc[later, numeric] = drawn
    return other


def dated(returns: pd.DataFrame, lag: int, change: bool) -> FeatureTable:
    frame = values(returns)[["A", "B"]].rename(columns={"A": "x", "B": "y"})
    later = np.arange(len(frame)) + lag > TODAY
    return feature_table(moved(frame, later) if change else frame, name="macro", tickers=TICKERS, lag=lag)


def by_asset(returns: pd.DataFrame, lag: int, change: bool) -> FeatureTable:
    frame = values(returns)
    later = np.arange(len(frame)) + lag > TODAY
    return feature_table(moved(frame, later) if change else frame, name="own", tickers=TICKERS, lag=lag)


def published(returns: pd.DataFrame, lag: int, change: bool) -> FeatureTable:
    """Values known on dates of their own, of which some overtake one another."""
    frame = values(returns).rename_axis("date").reset_index().melt("date", var_name="ticker")
    wait = np.random.default_rng(6).integers(0, 6, len(frame))
    position = returns.index.get_indexer(pd.Index(frame["date"])) + wait
    frame = frame[position < len(returns)].assign(released=returns.index[position[position < len(returns)]])
    later = returns.index.get_indexer(pd.Index(frame["released"])) + lag > TODAY
    frame = moved(frame, later) if change else frame
    return feature_table(frame, name="reports", tickers=TICKERS, lag=lag, known_at="released")


def beside(table: FeatureTable, returns: pd.DataFrame) -> FeatureSet:
    """A table by date moves pooled weights through its products with a feature by asset."""
    return FeatureSet((table, by_asset(returns, 0, False)) if not table.by_asset else (table,))


@pytest.mark.parametrize("lag", [0, 1, 3])
@pytest.mark.parametrize("make", [dated, by_asset, published])
def test_no_weight_up_to_a_date_depends_on_what_became_known_after_it(
    make: Callable[[pd.DataFrame, int, bool], FeatureTable], lag: int, returns: pd.DataFrame
) -> None:
    options = {"options": {"interactions": True}} if make is dated else {}
    before, after = (beside(make(returns, lag, change), returns) for change in (False, True))
    assert_causal(before, after, returns, **options)


@pytest.mark.parametrize("make", [dated, by_asset, published])
def test_a_planted_lag_of_minus_one_is_caught(
    make: Callable[[pd.DataFrame, int, bool], FeatureTable], returns: pd.DataFrame
) -> None:
    options = {"options": {"interactions": True}} if make is dated else {}
    tables = [make(returns, 0, change) for change in (False, True)]
    for table in tables:
        object.__setattr__(table, "lag", -1)  # which its constructor refuses
    with pytest.raises(AssertionError, match="different"):
        assert_causal(beside(tables[0], returns), beside(tables[1], returns), returns, **options)


@pytest.mark.parametrize("predictor", ["linear", "gru", "tcn"])
def test_every_predictor_of_features_keeps_the_law(predictor: str, returns: pd.DataFrame) -> None:
    before, after = (
        FeatureSet((dated(returns, 1, change), by_asset(returns, 1, change), published(returns, 1, change)))
        for change in (False, True)
    )
    assert_causal(before, after, returns, predictor=predictor)


def test_a_file_keeps_the_law(returns: pd.DataFrame, tmp_path: Path) -> None:
    found = []
    for change in (False, True):
        rows = by_asset(returns, 1, change).rows.rename(columns={"own": "size"})
        rows.to_csv(tmp_path / f"{change}.csv", index=False)
        found.append(FeatureSet((read_feature_file(tmp_path / f"{change}.csv", name="f", tickers=TICKERS, lag=1),)))
    assert_causal(found[0], found[1], returns)


@pytest.mark.parametrize("kind", [kind for kind in BUILTIN if kind != "day_of_month"])
def test_built_in_features_keep_the_law(kind: str, returns: pd.DataFrame) -> None:
    features = FeatureSet((BuiltinFeature("f", kind, TICKERS, {"windows": [8]}),))
    later = returns.copy()
    later.iloc[TODAY + 1 :] *= -3.0
    assert_causal(features, features, returns, later)


def test_a_function_is_given_no_return_after_the_decision(returns: pd.DataFrame) -> None:
    features = FeatureSet((OwnFeature("f", lambda seen: seen.ewm(halflife=3).mean(), TICKERS),))
    later = returns.copy()
    later.iloc[TODAY + 1 :] *= -3.0
    assert_causal(features, features, returns, later)


def test_whole_studies_with_features_of_all_kinds_keep_the_law(returns: pd.DataFrame) -> None:
    t = returns.index[TODAY]
    config = StudyConfig.parse(
        {
            "features": {
                "macro": {"lag": 1, "max_age": 5},
                "own": {"lag": 0},
                "momentum": {"builtin": "momentum", "options": {"windows": [5, 10], "skip": 1}},
                "day": {"builtin": "day_of_month"},
            },
            "data": {"calendar": None},
            "covariance": {"window": 10},
            "allocation": {"horizon": 2, "turnover_limit": 1.0},
            "forecasting": {"predictor": "pooled", "lookback": 3, "prior": "james_stein", "ensemble": 2},
            "training": {"samples": 30, "realised_window": 4, "epochs": 2, "two_stage": "least_squares"},
            "backtest": {
                "start": returns.index[FIRST].date(),
                "end": returns.index[LAST].date(),
                "strategies": ["decision_focused", "two_stage"],
            },
        }
    )
    found = []
    for change in (False, True):
        seen = returns.copy()
        seen.iloc[TODAY + 1 :] *= -3.0 if change else 1.0
        first = pd.DataFrame(1.0, [returns.index[0] - pd.Timedelta(days=3)], returns.columns)
        panel = PricePanel(pd.concat([first, (1.0 + seen).cumprod()]))
        tables = {"macro": dated(returns, 1, change), "own": by_asset(returns, 0, change)}
        plan = resolve_plan(config, panel, tables=tables)
        tasks = [
            WalkTask(plan.setting, lane, plan.returns, plan.span.dates[0], plan.span.dates[-1], plan.retrain_every)
            for lane in plan.lanes
        ]
        found.append([take_walk(task).targets for task in tasks])
    for one, other in zip(*found, strict=True):
        pd.testing.assert_frame_equal(one.loc[:t], other.loc[:t], check_exact=True)
        assert not one.loc[t:].iloc[1:].equals(other.loc[t:].iloc[1:])
