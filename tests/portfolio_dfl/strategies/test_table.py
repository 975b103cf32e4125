"""The table of strategies: what an entry decides everywhere, and the rules that are built in it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.strategies.setting import StrategySetting, resolve_setting
from portfolio_dfl.strategies.table import TABLE, build_policy, find_strategy, lanes
from portfolio_dfl.training.policies import PredictOptimisePolicy

ASSETS = 4


@pytest.fixture(scope="module")
def returns() -> pd.DataFrame:
    generator = np.random.default_rng(3)
    volatility = np.array([0.004, 0.008, 0.012, 0.02])
    values = volatility * (generator.standard_normal((60, ASSETS)) + generator.standard_normal((60, 1)))
    return pd.DataFrame(values, index=pd.bdate_range("2021-01-01", periods=60), columns=list("abcd"))


def setting(*overrides: str) -> StrategySetting:
    """Of a small problem without a turnover limit, unless an override sets one."""
    texts = ["allocation.turnover_limit=null", "allocation.horizon=2", "forecasting.lookback=5", *overrides]
    return resolve_setting(StudyConfig().override(texts), list("abcd"), trained=True)


def decision(name: str, returns: pd.DataFrame, *overrides: str) -> np.ndarray:
    (lane,) = lanes([name], [0])
    weights = build_policy(setting(*overrides), lane, returns).decide(returns, np.full(ASSETS, 1 / ASSETS))
    assert weights is not None
    return weights


@pytest.mark.parametrize("name", TABLE)
def test_every_entry_builds_a_policy_of_its_kind_and_label(name: str, returns: pd.DataFrame) -> None:
    entry = find_strategy(name)
    (lane,) = lanes([name], [0])
    policy = build_policy(setting(), lane, returns)
    assert policy.name == entry.look.label == lane.strategy_label
    assert isinstance(policy, PredictOptimisePolicy) == (entry.kind == "trained") == lane.trained
    assert getattr(policy, "foresight", False) == (entry.kind == "hindsight") == lane.foresight == entry.look.ceiling


@pytest.mark.parametrize("name", TABLE)
def test_every_entry_may_be_named_in_a_configuration(name: str) -> None:
    assert StudyConfig().override([f"backtest.strategies=[{name}]"]).backtest.strategies == [name]
    assert name in StudyConfig().to_yaml(comments=True)


def test_seeds_make_lanes_of_trained_strategies_alone() -> None:
    assert [(lane.strategy, lane.seed) for lane in lanes(["two_stage", "equal_weight"], [3, 5])] == [
        ("two_stage", 3),
        ("two_stage", 5),
        ("equal_weight", None),
    ]


def test_an_unknown_strategy_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no strategy is named 'momentum'; there are decision_focused, "):
        find_strategy("momentum")


def test_a_search_may_tune_strategies_that_learn_alone() -> None:
    with pytest.raises(ConfigError, match=r"sweep.strategy: 'decision_focused' or 'two_stage' is needed, not 'risk_p"):
        StudyConfig().override(["sweep.strategy=risk_parity"])


def test_inverse_volatility_weighs_by_the_inverse_of_each_volatility(returns: pd.DataFrame) -> None:
    weights = decision("inverse_volatility", returns, "covariance.window=40", "covariance.ridge=0")
    inverse = 1.0 / returns.iloc[-40:].std().to_numpy()
    np.testing.assert_allclose(weights, inverse / inverse.sum(), rtol=0, atol=1e-9)


def test_inverse_volatility_keeps_the_turnover_limit_and_the_largest_weight(returns: pd.DataFrame) -> None:
    near = decision("inverse_volatility", returns, "allocation.turnover_limit=0.1")
    assert np.abs(near - 1 / ASSETS).sum() == pytest.approx(0.1, abs=1e-12)
    assert decision("inverse_volatility", returns, "allocation.max_weight=0.4").max() == pytest.approx(0.4, abs=1e-6)
