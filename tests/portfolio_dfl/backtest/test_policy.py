"""How decisions are rolled through time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.allocation import drift_weights
from portfolio_dfl.backtest import Decision, Policy, roll, run_ledger
from portfolio_dfl.errors import AllocationError, BacktestError, TrainingError


@dataclass
class Diary:
    """Tilts to the best asset of the last day and writes down what it was shown."""

    name: str = "diary"
    fitted: list[pd.DataFrame] = field(default_factory=list)
    asked: list[tuple[pd.Timestamp, np.ndarray]] = field(default_factory=list)

    def fit(self, history: pd.DataFrame) -> None:
        self.fitted.append(history)

    def decide(self, history: pd.DataFrame, held: np.ndarray) -> np.ndarray | None:
        self.asked.append((history.index[-1], held))
        weights = np.full(held.size, 0.5 / held.size)
        weights[int(np.argmax(history.iloc[-1]))] += 0.5
        return weights


class Idle(Diary):
    """Never orders anything."""

    def decide(self, history: pd.DataFrame, held: np.ndarray) -> np.ndarray | None:
        super().decide(history, held)
        return None


@dataclass
class Failing(Diary):
    """Fails on one date, in the way it is told to."""

    on: pd.Timestamp | None = None
    with_error: Exception | None = None

    def decide(self, history: pd.DataFrame, held: np.ndarray) -> np.ndarray | None:
        weights = super().decide(history, held)
        if history.index[-1] == self.on:
            if self.with_error is not None:
                raise self.with_error
            return np.full(held.size, np.nan)
        return weights


def test_the_diary_is_a_policy():
    assert isinstance(Diary(), Policy)


def test_every_date_from_start_to_end_is_decided_on(market):
    weights = roll(Diary(), market, start=market.index[10], end=market.index[30])
    assert weights.index.equals(market.index[10:31])
    assert weights.columns.equals(market.columns)


def test_a_policy_sees_nothing_after_the_date(market):
    policy = Diary()
    roll(policy, market, start=market.index[10], retrain_every=7)
    assert [date for date, _ in policy.asked] == list(market.index[10:])
    assert [history.index[-1] for history in policy.fitted] == list(market.index[10::7])
    pd.testing.assert_frame_equal(policy.fitted[1], market.iloc[:18])


def test_held_weights_are_the_last_target_drifted(market):
    policy = Diary()
    weights = roll(policy, market, start=market.index[10])
    expected = drift_weights(weights.iloc[3].to_numpy(), market.iloc[14].to_numpy())
    np.testing.assert_array_equal(policy.asked[4][1], expected)


def test_the_first_decision_holds_equal_weights_or_what_is_given(market):
    default, given = Diary(), Diary()
    roll(default, market)
    roll(given, market, initial=np.array([1.0, 0.0, 0.0, 0.0]))
    assert default.asked[0][1].tolist() == [0.25] * 4
    assert given.asked[0][1].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_what_roll_holds_is_what_the_ledger_trades_against(market):
    policy = Diary()
    weights = roll(policy, market)
    ledger = run_ledger(weights, market)
    held = np.array([held for _, held in policy.asked])
    traded = np.abs(weights.to_numpy() - held).sum(axis=1)
    np.testing.assert_array_equal(ledger.daily["turnover"].to_numpy(), traded[:-1])


def test_with_a_lag_the_weights_held_are_the_target_just_executed(market):
    policy = Diary()
    weights = roll(policy, market, lag=1)
    np.testing.assert_array_equal(policy.asked[1][1], weights.iloc[0])
    ledger = run_ledger(weights, market, lag=1)
    np.testing.assert_array_equal(policy.asked[5][1], ledger.weights.iloc[5])


def test_a_policy_that_overwrites_what_it_is_given_changes_nothing_else(market):
    class Untidy(Diary):
        def decide(self, history: pd.DataFrame, held: np.ndarray) -> None:
            held[:] = 0.0

    decisions: list[Decision] = []
    weights = roll(Untidy(), market, on_decision=decisions.append)
    assert decisions[0].held.tolist() == [0.25] * 4
    pd.testing.assert_frame_equal(weights, roll(Idle(), market))


@pytest.mark.parametrize("lag", [0, 1])
def test_no_order_is_no_trade(market, lag):
    policy = Idle()
    ledger = run_ledger(roll(policy, market, lag=lag), market, lag=lag, fixed_cost=0.1)
    assert (ledger.daily["cost"] == 0.0).all()
    bought = (1.0 + market.iloc[1:]).prod().mean()
    assert ledger.daily["wealth"].iloc[-1] == pytest.approx(bought, rel=1e-12)
    np.testing.assert_allclose(policy.asked[-2][1], ledger.weights.iloc[-1], rtol=1e-12)


@pytest.mark.parametrize("error", [AllocationError("infeasible"), TrainingError("diverged"), None])
def test_a_decision_that_fails_holds_and_is_recorded(market, error):
    decisions: list[Decision] = []
    policy = Failing(on=market.index[20], with_error=error)
    weights = roll(policy, market, start=market.index[15], on_decision=decisions.append)
    failed = [decision for decision in decisions if decision.failed]
    assert [decision.date for decision in failed] == [market.index[20]]
    assert failed[0].failed == "decide"
    assert failed[0].message == (str(error) if error else "weights are not finite: [nan, nan, nan, nan]")
    np.testing.assert_array_equal(weights.loc[market.index[20]], failed[0].held)
    healthy = roll(Diary(), market, start=market.index[15])
    pd.testing.assert_frame_equal(weights.drop(market.index[20]), healthy.drop(market.index[20]))


def test_training_that_fails_is_recorded_and_the_decision_still_taken(market):
    class Untrainable(Diary):
        def fit(self, history: pd.DataFrame) -> None:
            raise TrainingError("loss is NaN")

    decisions: list[Decision] = []
    weights = roll(Untrainable(), market, retrain_every=30, on_decision=decisions.append)
    assert [d.date for d in decisions if d.failed == "fit"] == list(market.index[::30])
    pd.testing.assert_frame_equal(weights, roll(Diary(), market))


def test_other_errors_are_not_hidden(market):
    policy = Failing(on=market.index[3], with_error=KeyError("bug"))
    with pytest.raises(KeyError):
        roll(policy, market)


def test_weights_of_another_shape_are_refused(market):
    class Short(Diary):
        def decide(self, history: pd.DataFrame, held: np.ndarray) -> np.ndarray:
            return np.ones(1)

    with pytest.raises(BacktestError, match=r"diary decided on 2021-01-04 with weights of shape \(1,\)"):
        roll(Short(), market)


def test_weights_that_do_not_add_up_are_refused(market):
    class Leveraged(Diary):
        def decide(self, history: pd.DataFrame, held: np.ndarray) -> np.ndarray:
            return 2.0 * held

    with pytest.raises(BacktestError, match="sum to 2"):
        roll(Leveraged(), market)


def test_a_range_without_dates_says_what_is_covered(market):
    with pytest.raises(BacktestError, match="2021-01-04 to 2021-05-07"):
        roll(Diary(), market, start="2022-01-01")


@pytest.mark.parametrize(("settings", "what"), [({"retrain_every": 0}, "retrain_every"), ({"lag": 2}, "lag")])
def test_settings_that_make_no_sense_are_refused(market, settings, what):
    with pytest.raises(BacktestError, match=what):
        roll(Diary(), market, **settings)


def test_unsorted_dates_are_refused(market):
    with pytest.raises(BacktestError, match="strictly increasing"):
        roll(Diary(), market.iloc[::-1])


def test_failures_that_nobody_collects_are_warned_of(market):
    failing = Failing(on=market.index[20], with_error=AllocationError("no way"))
    with pytest.warns(UserWarning, match=r"1 of \d+ decisions of diary failed and held what was held, .*: no way"):
        roll(failing, market, start=market.index[18], end=market.index[30])
