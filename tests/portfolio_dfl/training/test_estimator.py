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
from skfolio.pre_selection import DropCorrelated, SelectKExtremes
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from portfolio_dfl.allocation import drift_weights
from portfolio_dfl.allocation.costs import Costs
from portfolio_dfl.allocation.limits import BoxLimits, Limit, Limits
from portfolio_dfl.allocation.smoothing import Smoothing
from portfolio_dfl.data.features import BuiltinFeature, FeatureSet
from portfolio_dfl.errors import AllocationError, DataError, TrainingError
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


def test_costs_are_one_object_as_of_a_study(returns: pd.DataFrame) -> None:
    """One rate for all is the plain cost; an asset that is dear, or has wide spreads, is not traded."""
    plain = make_estimator(transaction_cost=0.0001).fit(returns)
    assert np.array_equal(make_estimator(costs=Costs(rate=0.0001)).fit(returns).weights_, plain.weights_)
    dear = make_estimator(costs=Costs(rate={"A": 0.05, "*": 0.0})).fit(returns)
    assert dear.weights_[0] == pytest.approx(1.0 / 3.0, abs=1e-9)
    assert abs(plain.weights_[0] - 1.0 / 3.0) > 1e-3
    spreads = pd.DataFrame(0.1, index=returns.index, columns=returns.columns)
    assert make_estimator(costs=Costs(spreads=spreads)).fit(returns).weights_ == pytest.approx(1.0 / 3.0, abs=1e-9)
    with pytest.raises(AllocationError, match="values for Z"):
        make_estimator(costs=Costs(rate={"Z": 0.01, "*": 0.0})).fit(returns)
    with pytest.raises(TrainingError, match="costs and transaction_cost are both given"):
        make_estimator(costs=Costs(rate=0.002), transaction_cost=0.001).fit(returns)


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
        (
            {"smoothing": Smoothing("barrier"), "schedule": "cosine", "learned": ["forecasts"]},
            {"settings": {"smoothing": Smoothing("barrier"), "schedule": "cosine", "learned": ("forecasts",)}},
        ),
    ],
    ids=["one pass", "least squares", "expanding", "learned risk", "smoothed"],
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


@pytest.mark.parametrize("width", [None, 2])
def test_returns_of_factors_are_refused_and_not_passed_over(returns: pd.DataFrame, width: int | None) -> None:
    factors = returns.iloc[:, 0] if width is None else returns.iloc[:, :width]
    with pytest.raises(DataError, match="y, as of returns of factors or of a benchmark, is not used"):
        make_estimator().fit(returns, factors)


def test_a_stage_of_several_days_is_planned_as_in_the_walk_forward(
    returns: pd.DataFrame, make_policy: PolicyFactory
) -> None:
    estimator = make_estimator(stage=3).fit(returns)
    policy = make_policy(stage=3)
    policy.fit(returns)
    np.testing.assert_array_equal(estimator.weights_, policy.decide(returns, np.full(3, 1 / 3)))


class AtMost(Limit):
    """A largest weight of one asset, wherever it stands; nothing where it is not there."""

    def __init__(self, ticker: str, most: float) -> None:
        self.ticker, self.most = ticker, most

    def apply(self, limits: Limits) -> None:
        limits.cut_upper(np.where(np.array(limits.assets) == self.ticker, self.most, np.inf))


def test_a_limit_by_name_holds_behind_a_selection(many: pd.DataFrame) -> None:
    optimiser = make_estimator(limits=[AtMost("B", 0.1)], turnover_limit=None, epochs=1)
    pipeline = Pipeline([("select", SelectKExtremes(k=5)), ("optimiser", optimiser)]).set_output(transform="pandas")
    predicted = cross_val_predict(pipeline, many, cv=WalkForward(train_size=TRAIN, test_size=20))
    chosen = [p.weights[list(p.assets).index("B")] for p in predicted.portfolios if "B" in p.assets]
    assert chosen
    assert max(chosen) <= 0.1 + 1e-8


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


@pytest.fixture
def many() -> pd.DataFrame:
    """Returns of six assets whose means and correlations change, so that a selection does."""
    rng = np.random.default_rng(5)
    drift = np.repeat(rng.normal(0.0, 0.01, (4, 6)), 30, axis=0)
    return pd.DataFrame(
        drift + rng.normal(0.0, 0.01, (120, 6)), pd.bdate_range("2020-01-01", periods=120), list("ABCDEF")
    )


@pytest.mark.parametrize("step", [SelectKExtremes(k=3), DropCorrelated(threshold=0.2)], ids=lambda step: str(step)[:14])
@pytest.mark.parametrize("drift", [False, True])
def test_a_step_that_selects_assets_anew_in_every_fold_may_come_before(
    many: pd.DataFrame, step: Any, drift: bool
) -> None:
    optimiser = make_estimator(portfolio_params={"weight_drift": drift}, turnover_limit=0.3)
    pipeline = Pipeline([("select", step), ("optimiser", optimiser)]).set_output(transform="pandas")
    predicted = cross_val_predict(pipeline, many, cv=WalkForward(train_size=TRAIN, test_size=TEST))
    held = [set(portfolio.assets) for portfolio in predicted.portfolios]
    assert len(held) == 8
    assert len({frozenset(assets) for assets in held}) > 1
    for before, after in zip(predicted.portfolios, predicted.portfolios[1:], strict=False):
        assert after.weights.sum() == pytest.approx(1.0)
        start = pd.Series(before.ending_weights_dict)
        kept = start.reindex(after.assets, fill_value=0.0)
        spread = kept / kept.sum() if kept.sum() > 0 else pd.Series(1 / len(kept), index=kept.index)
        assert np.abs(after.weights - spread.to_numpy()).sum() <= 0.3 + 1e-6


@pytest.mark.parametrize(
    ("held", "aligned"),
    [
        ({"A": 0.5, "gone": 0.5}, [1.0, 0.0, 0.0]),
        ({"A": 0.2, "C": 0.2, "gone": 0.35, "lost": 0.25}, [0.5, 0.0, 0.5]),
        ({"gone": 1.0}, [1 / 3, 1 / 3, 1 / 3]),
        ({"C": 0.25, "B": 0.75}, [0.0, 0.75, 0.25]),
        ({"C": 0.25, "B": 0.75, "gone": 0.0}, [0.0, 0.75, 0.25]),
    ],
)
def test_assets_held_and_not_offered_count_as_sold(
    returns: pd.DataFrame, held: dict[str, float], aligned: list[float]
) -> None:
    from_names = make_estimator(turnover_limit=0.1, previous_weights=held).fit(returns)
    from_array = make_estimator(turnover_limit=0.1, previous_weights=aligned).fit(returns)
    np.testing.assert_allclose(from_names.weights_, from_array.weights_, atol=1e-12)
    broken = make_estimator(learning_rate=1e9, epochs=10, fallback="previous_weights", previous_weights=held)
    np.testing.assert_allclose(broken.fit(returns).weights_, aligned)


def test_weights_held_that_are_no_portfolio_stay_refused(returns: pd.DataFrame) -> None:
    with pytest.raises(AllocationError, match=r"sum 0\.5"):
        make_estimator(previous_weights={"A": 0.5, "B": 0.0}, turnover_limit=0.2).fit(returns)


def test_weights_without_names_of_other_assets_are_refused_with_the_way_out(
    returns: pd.DataFrame, many: pd.DataFrame
) -> None:
    for X, held in ((returns, [0.25] * 4), (returns.to_numpy(), {"A": 1.0}), (returns.to_numpy(), [0.5, 0.5])):
        with pytest.raises(DataError, match=r"previous_weights .*set_output"):
            make_estimator(previous_weights=held).fit(X)
    pipeline = Pipeline([("select", DropCorrelated(threshold=0.2)), ("optimiser", make_estimator())])
    with pytest.raises(DataError, match=r"previous_weights .*set_output"):
        cross_val_predict(pipeline, many.to_numpy(), cv=WalkForward(train_size=TRAIN, test_size=TEST))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 30, 59])
def test_a_return_that_is_not_finite_is_found_wherever_it_stands(returns: pd.DataFrame, value: float, row: int) -> None:
    odd = returns.iloc[:60].copy()
    odd.iloc[row, 1] = value
    with pytest.raises(DataError, match=rf"the return of B on {odd.index[row].date()}"):
        make_estimator().fit(odd)
    with pytest.raises(DataError, match=rf"the return of 1 on row {row}"):
        make_estimator().fit(odd.to_numpy())
    with pytest.raises(DataError, match=rf"the return of B on {odd.index[row].date()}"):
        make_estimator().fit(returns).predict(odd)


@pytest.mark.parametrize("X", [np.empty((0, 3)), np.empty((30, 0)), np.ones(30), [["a", "b"]] * 30])
def test_what_is_no_table_is_refused_as_an_error_of_ours_and_a_value_error(X: Any) -> None:
    with pytest.raises(DataError, match="no table of returns") as caught:
        make_estimator().fit(X)
    assert isinstance(caught.value, ValueError)


class OfAnySize(DecisionFocusedPortfolio):
    """Scikit-learn's checks draw numbers of 1 to 100, which no returns are: here they are a ten thousandth of it."""

    def fit(self, X: Any, y: None = None) -> DecisionFocusedPortfolio:
        return super().fit(self._small(X), y)

    def predict(self, X: Any) -> Any:
        return super().predict(self._small(X))

    def _small(self, X: Any) -> Any:
        if hasattr(X, "tocsr") or np.asarray(X).dtype.kind not in "fiuO":
            return X
        try:
            return X * 1e-4 if hasattr(X, "iloc") else np.asarray(X, dtype=np.float64) * 1e-4
        except (TypeError, ValueError):
            return X


@parametrize_with_checks(
    [OfAnySize(horizon=1, covariance=RollingCovariance(4), lookback=1, samples=4, realised_window=2, epochs=1)],
    expected_failed_checks=lambda _: {
        "check_methods_sample_order_invariance": "predict returns a portfolio, and the order of returns matters",
        "check_dtype_object": "asks for a TypeError; refused as a DataError, which is a ValueError",
    },
)
def test_the_checks_of_scikit_learn_pass(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_features_a_prior_and_an_ensemble_reach_the_estimator(returns: pd.DataFrame) -> None:
    tickers = tuple(returns.columns)
    features = FeatureSet((BuiltinFeature("momentum", "momentum", tickers, {"windows": [5, 10]}),))
    model = DecisionFocusedPortfolio(
        horizon=2,
        predictor="pooled",
        features=features,
        prior="equilibrium",
        prior_options={"reference": {"A": 1.0}},
        ensemble=2,
        lookback=6,
        realised_window=4,
        samples=12,
        epochs=1,
        covariance=RollingCovariance(8),
    )
    fitted = clone(model).fit(returns)
    assert fitted.weights_.sum() == pytest.approx(1.0)
    plain = clone(model).set_params(features=None, prior="zero", prior_options=None).fit(returns)
    assert not np.array_equal(fitted.expected_returns_, plain.expected_returns_)


def test_a_training_without_gradients_is_warned_of(returns: pd.DataFrame) -> None:
    # Costs beyond any gain: the plan stays where it is, whatever is forecast.
    model = make_estimator(transaction_cost=0.5)
    with pytest.warns(ConvergenceWarning, match=r"100% of the training samples had no gradient.*gradient: smoothed"):
        model.fit(returns)
