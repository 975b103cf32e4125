"""The scikit-learn estimator: contracts, and agreement with the walk-forward on skfolio's splits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from skfolio import Portfolio
from skfolio.model_selection import WalkForward, cross_val_predict
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from portfolio_dfl.allocation import drift_weights
from portfolio_dfl.allocation.limits import BoxLimits
from portfolio_dfl.errors import DataError, TrainingError
from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.risk import RollingCovariance
from portfolio_dfl.training.estimator import DecisionFocusedPortfolio
from portfolio_dfl.training.losses import MeanSquaredError
from portfolio_dfl.training.policies import PredictOptimisePolicy

PolicyFactory = Callable[..., PredictOptimisePolicy]
TRAIN, TEST = 40, 10


def make_estimator(**options: Any) -> DecisionFocusedPortfolio:
    """The settings of the fixture `make_policy`."""
    quick: dict[str, Any] = {
        "horizon": 2,
        "turnover_limit": 0.5,
        "covariance": RollingCovariance(8),
        "lookback": 6,
        "samples": 12,
        "realised_window": 4,
        "epochs": 3,
        "learning_rate": 0.01,
        "portfolio_params": {"weight_drift": True},
    }
    return DecisionFocusedPortfolio(**(quick | options))


def test_clone_copies_every_parameter_and_nothing_fitted(returns: pd.DataFrame) -> None:
    estimator = make_estimator(loss={"mse": [1.0, 0.0], "decision": [0.0, 1.0]}, seed=3).fit(returns)
    copy = clone(estimator)
    assert repr(copy.get_params()) == repr(estimator.get_params())
    assert not hasattr(copy, "weights_")
    copy.set_params(epochs=5)
    assert (copy.epochs, estimator.epochs) == (5, 3)


def test_fit_decides_at_the_last_row_and_predict_evaluates_elsewhere(returns: pd.DataFrame) -> None:
    estimator = make_estimator().fit(returns.iloc[:60])
    assert estimator.weights_.sum() == pytest.approx(1.0)
    assert estimator.expected_returns_.shape == (2, 3)
    assert estimator.window_.last_label_end == returns.index[59]
    assert list(estimator.feature_names_in_) == ["A", "B", "C"]
    portfolio = estimator.predict(returns.iloc[60:70])
    assert isinstance(portfolio, Portfolio)
    first = returns.iloc[60].to_numpy() @ estimator.weights_
    assert portfolio.returns[0] == pytest.approx(first)


def test_predict_before_fit_is_refused(returns: pd.DataFrame) -> None:
    with pytest.raises(NotFittedError):
        make_estimator().predict(returns)


def test_arrays_without_dates_are_taken_in_order(returns: pd.DataFrame) -> None:
    from_array = make_estimator().fit(returns.to_numpy())
    from_frame = make_estimator().fit(returns.reset_index(drop=True))
    np.testing.assert_array_equal(from_array.weights_, from_frame.weights_)


def test_previous_weights_bound_the_trade(returns: pd.DataFrame) -> None:
    estimator = make_estimator(turnover_limit=0.1, previous_weights={"A": 1.0}).fit(returns)
    assert np.abs(estimator.weights_ - [1.0, 0.0, 0.0]).sum() <= 0.1 + 1e-6


def test_cross_val_predict_gives_the_weights_of_the_walk_forward(
    returns: pd.DataFrame, make_policy: PolicyFactory
) -> None:
    predicted = cross_val_predict(make_estimator(), returns, cv=WalkForward(train_size=TRAIN, test_size=TEST))
    policy = make_policy()
    held = np.full(3, 1 / 3)
    expected = []
    for today in range(TRAIN - 1, len(returns) - 1, TEST):
        history = returns.iloc[: today + 1]  # the whole past: the policy itself takes what it needs
        policy.fit(history)
        held = np.asarray(policy.decide(history, held))
        expected.append(held)
        for day in returns.iloc[today + 1 : today + 1 + TEST].to_numpy():
            held = drift_weights(held, day)
    assert len(predicted.portfolios) == len(expected) == 5
    for portfolio, weights in zip(predicted.portfolios, expected, strict=True):
        np.testing.assert_allclose(portfolio.weights, weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("estimator_options", "policy_options"),
    [
        ({"batch_size": 1, "epochs": 1}, {"settings": {"batch_size": 1, "epochs": 1}}),
        ({"method": "least_squares", "ridge": 1.0}, {"settings": {"method": "least_squares", "ridge": 1.0}}),
        (
            {"loss": "mse", "initialise": "least_squares", "gradient_clip": 0.1, "expanding": True},
            {
                "settings": {"loss": MeanSquaredError(), "initialise": "least_squares", "gradient_clip": 0.1},
                "expanding": True,
            },
        ),
        ({"risk_scaling": True, "scaled": False}, {"risk_scaling": True, "predictor": PredictorSpec(scaled=False)}),
    ],
    ids=["one pass", "least squares", "expanding", "learned risk"],
)
def test_every_option_is_the_walk_forwards_own(
    estimator_options: dict[str, Any], policy_options: dict[str, Any], returns: pd.DataFrame, make_policy: PolicyFactory
) -> None:
    estimator = make_estimator(**estimator_options).fit(returns)
    policy = make_policy(**policy_options)
    policy.fit(returns)
    np.testing.assert_array_equal(estimator.weights_, policy.decide(returns, np.full(3, 1 / 3)))


def test_limits_and_costs_reach_the_plan(returns: pd.DataFrame) -> None:
    capped = make_estimator(limits=[BoxLimits(0.0, 0.4)], turnover_limit=None).fit(returns)
    assert capped.weights_.max() <= 0.4 + 1e-9
    dear = make_estimator(transaction_cost=0.5).fit(returns)
    np.testing.assert_allclose(dear.weights_, 1 / 3, atol=1e-9)
    assert clone(capped).limits == capped.limits


def test_it_serves_as_the_last_step_of_a_pipeline(returns: pd.DataFrame) -> None:
    pipeline = Pipeline([("optimiser", make_estimator())])
    predicted = cross_val_predict(pipeline, returns, cv=WalkForward(train_size=TRAIN, test_size=25))
    assert len(predicted.portfolios) == 2


def test_too_short_a_history_is_refused(returns: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="needs 23 returns"):
        make_estimator().fit(returns.iloc[:20])


def test_a_failed_training_falls_back_to_the_weights_held(returns: pd.DataFrame) -> None:
    broken = make_estimator(learning_rate=1e9, epochs=10)
    with pytest.raises(TrainingError, match="diverged"):
        broken.fit(returns)
    held = np.array([0.2, 0.3, 0.5])
    broken.set_params(fallback="previous_weights", previous_weights=held)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        broken.fit(returns)
    np.testing.assert_array_equal(broken.weights_, held)
    assert broken.fallback_ == "previous_weights"
