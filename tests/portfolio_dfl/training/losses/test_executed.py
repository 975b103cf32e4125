"""The executed path that is trained on is the one that the books keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from portfolio_dfl.allocation import Costs, MultiPeriodMeanVariance
from portfolio_dfl.backtest import Ledger, run_ledger
from portfolio_dfl.backtest.evaluation import performance
from portfolio_dfl.errors import TrainingError
from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.training.decision import DecisionBook, Outcome
from portfolio_dfl.training.losses import ExecutedLoss, ExecutedUtilityLoss, Mixture, build_loss, charged_by_books
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.window import WindowTask, train_window

PolicyFactory = Callable[..., PredictOptimisePolicy]
COSTS = Costs(rate={"A": 5e-4, "B": 1e-3, "C": 0.0}, impact=0.02)
ALL = {"rollout": None}


def some_task(make_policy: PolicyFactory, returns: pd.DataFrame, stage: int = 1, **options: Any) -> WindowTask:
    layer = MultiPeriodMeanVariance(
        n_assets=3, horizon=2, risk_aversion=10.0, turnover_limit=0.4, transaction_cost=5e-4
    )
    options = {"predictor": PredictorSpec("linear", {"start": 0.2}), "costs": COSTS, "layer": layer} | options
    return make_policy(stage=stage, samples=20, **options).task(returns)


def some_outcome(task: WindowTask) -> Outcome:
    torch.manual_seed(3)
    return Outcome(task.build_model(), task.samples, DecisionBook(task.samples).held)


def charged(loss: ExecutedLoss, returns: pd.DataFrame, costs: Costs = COSTS) -> ExecutedLoss:
    found = charged_by_books(loss, costs, list(returns.columns))
    assert isinstance(found, ExecutedLoss)
    return found


def books(outcome: Outcome, returns: pd.DataFrame, every: int = 1, costs: Costs = COSTS) -> Ledger:
    """The ledger of the first stages of an outcome, one after another."""
    dates = outcome.samples.dates[::every]
    targets = pd.DataFrame(outcome.weights[::every, 0].detach().numpy(), dates, returns.columns)
    last = returns.index[returns.index.get_loc(dates[-1]) + every]
    return run_ledger(targets, returns.loc[:last], costs=costs)


def test_the_loss_over_a_span_is_minus_the_utility_of_the_ledger(
    make_policy: PolicyFactory, returns: pd.DataFrame
) -> None:
    outcome = some_outcome(some_task(make_policy, returns))
    loss = charged(ExecutedUtilityLoss(rollout=None), returns)(outcome)
    book = books(outcome, returns)
    assert book.daily["turnover"].mean() > 0.1
    utility = performance(book, periods_per_year=1, risk_aversion=10.0)["utility"]
    assert float(loss.detach()) == pytest.approx(-utility, abs=1e-10)


def test_with_stages_of_several_days_the_net_returns_are_those_of_the_ledger_compounded(
    make_policy: PolicyFactory, returns: pd.DataFrame
) -> None:
    outcome = some_outcome(some_task(make_policy, returns, stage=3))
    net = charged(ExecutedUtilityLoss(rollout=None), returns).net_returns(outcome)
    wealth = books(outcome, returns, every=3).daily["wealth"].to_numpy()[2::3]
    np.testing.assert_allclose((1.0 + net[::3].detach().numpy()).cumprod(), wealth, atol=1e-10)


def test_spreads_of_each_date_are_charged_as_the_books_charge_them(
    make_policy: PolicyFactory, returns: pd.DataFrame
) -> None:
    spreads = pd.DataFrame(0.001, returns.index, returns.columns) * np.linspace(1, 3, len(returns))[:, None]
    costs = Costs(rate=4e-4, planned_rate=1e-4, spreads=spreads)
    task = some_task(make_policy, returns, costs=costs)
    outcome = some_outcome(task)
    net = charged(ExecutedUtilityLoss(rollout=None), returns, costs).net_returns(outcome)
    np.testing.assert_allclose(net.detach(), books(outcome, returns, costs=costs).net_returns, atol=1e-10)


def test_a_rollout_starts_anew_from_the_book_after_so_many_decisions(
    make_policy: PolicyFactory, returns: pd.DataFrame
) -> None:
    task = some_task(make_policy, returns)
    whole, short, single = (some_outcome(task) for _ in range(3))
    longest = ExecutedUtilityLoss(rollout=None).net_returns(whole)
    pieces = ExecutedUtilityLoss(rollout=7).net_returns(short)
    torch.testing.assert_close(pieces[:7], longest[:7])
    assert not torch.allclose(pieces[7:14], longest[7:14])
    alone = ExecutedUtilityLoss(rollout=1).net_returns(single)
    torch.testing.assert_close(pieces[7], alone[7])
    torch.testing.assert_close(single.weights[7], short.weights[7])
    equal = torch.full((3,), 1 / 3, dtype=torch.float64)
    torch.testing.assert_close(short.held[7], equal)


@pytest.mark.parametrize("through_held", [True, False])
def test_the_derivative_through_the_weights_held_is_that_of_the_whole_path(
    make_policy: PolicyFactory, returns: pd.DataFrame, through_held: bool
) -> None:
    # A smooth cost of trades, so that decisions depend on what is held.
    layer = MultiPeriodMeanVariance(n_assets=3, horizon=2, risk_aversion=40.0, turnover_limit=None, market_impact=0.002)
    base = some_task(make_policy, returns, layer=layer)
    loss = ExecutedUtilityLoss(rollout=None, through_held=through_held, cost_rate=1e-3)

    def value(shift: float) -> tuple[float, float]:
        outcome = some_outcome(base)
        parameter = next(outcome.model.predictor.parameters())
        direction = torch.linspace(-1, 1, parameter.numel(), dtype=torch.float64).reshape(parameter.shape)
        with torch.no_grad():
            parameter.add_(shift * direction)
        found = loss(outcome)
        found.backward()
        assert parameter.grad is not None
        return float(found.detach()), float((parameter.grad * direction).sum())

    step = 1e-6
    numeric = (value(step)[0] - value(-step)[0]) / (2 * step)
    analytic = value(0.0)[1]
    assert (abs(analytic - numeric) < 1e-6 * (1 + abs(numeric))) == through_held


def test_a_policy_tells_its_loss_what_the_books_charge(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    losses = {name: build_loss(name, {name: ALL}) for name in ("executed_utility", "log_wealth")}
    mixture = Mixture(tuple((loss, 1.0, 1.0) for loss in losses.values()))
    task = some_task(make_policy, returns, settings={"loss": mixture})
    assert isinstance(task.settings.loss, Mixture)
    for term, *_ in task.settings.loss.terms:
        assert isinstance(term, ExecutedLoss)
        assert term.booked_rate == (5e-4, 1e-3, 0.0)
        assert term.impact == (0.02, 0.02, 0.02)
    plain = some_task(make_policy, returns)
    assert task.key != plain.key
    window = train_window(task)
    assert not window.failed
    assert window.health.turnover_active_share >= 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rollout": 0}, "rollout"),
        ({"cost_rate": -1e-4}, "cost_rate"),
        ({"impact": float("nan")}, "impact"),
    ],
)
def test_options_without_a_meaning_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        build_loss("executed_utility", {"executed_utility": options})


def test_a_single_sample_has_no_utility(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    task = some_task(make_policy, returns)
    outcome = some_outcome(replace(task, samples=task.samples.newest(1)))
    with pytest.raises(TrainingError, match="'executed_utility' needs at least 2 samples"):
        ExecutedUtilityLoss()(outcome)
