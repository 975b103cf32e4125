"""Losses: their values by hand, their relations to one another, and what they ask of the model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.errors import TrainingError
from portfolio_dfl.forecasting import LinearPredictor
from portfolio_dfl.training.decision import DecisionModel, Outcome
from portfolio_dfl.training.losses import (
    LOSSES,
    CVaRLoss,
    DecisionLoss,
    FenchelYoungLoss,
    Loss,
    MeanSquaredError,
    Mixture,
    NetUtilityLoss,
    RegretLoss,
    SharpeLoss,
    SPOPlusLoss,
    build_loss,
    decision_loss,
    plan_objective,
)
from portfolio_dfl.training.losses.planned import layer_objective
from portfolio_dfl.training.samples import Samples

ASSETS, LOOKBACK, HORIZON, COUNT = 3, 4, 2, 6


def some_samples(seed: int = 0) -> Samples:
    generator = torch.Generator().manual_seed(seed)

    def returns(*shape: int) -> Tensor:
        return 0.01 * torch.randn(*shape, dtype=torch.float64, generator=generator)

    def covariances() -> Tensor:
        factors = returns(COUNT, 10, ASSETS)
        return factors.transpose(1, 2) @ factors / 10

    dates = pd.bdate_range("2021-01-01", periods=COUNT)
    return Samples(
        dates=dates,
        features=returns(COUNT, LOOKBACK, ASSETS),
        future_returns=returns(COUNT, HORIZON, ASSETS),
        realised_covariance=covariances(),
        covariance=covariances(),
        label_end=dates + pd.offsets.BDay(HORIZON),
    )


def some_outcome(
    *, forecasts: Tensor | None = None, progress: float = 0.0, turnover: float = 2.0, cost: float = 0.0
) -> Outcome:
    samples = some_samples()
    predictor = LinearPredictor(ASSETS, LOOKBACK, HORIZON)
    torch.nn.init.normal_(predictor.map.weight, std=0.3, generator=torch.Generator().manual_seed(5))
    layer = MultiPeriodMeanVariance(
        n_assets=ASSETS, horizon=HORIZON, risk_aversion=8.0, turnover_limit=turnover, transaction_cost=cost
    )
    held = torch.full((COUNT, ASSETS), 1 / ASSETS, dtype=torch.float64)
    outcome = Outcome(DecisionModel(predictor, layer), samples, held, progress)
    if forecasts is not None:
        outcome.forecasts = forecasts
    return outcome


def test_plan_objective_by_hand() -> None:
    weights = torch.tensor([[[0.5, 0.5], [1.0, 0.0]]], dtype=torch.float64)
    returns = torch.tensor([[[0.02, 0.0], [-0.01, 0.05]]], dtype=torch.float64)
    covariance = torch.tensor([[[0.04, 0.0], [0.0, 0.16]]], dtype=torch.float64)
    # stage 1: −0.01 + ½·2·(0.25·0.04 + 0.25·0.16) = 0.04; stage 2: 0.01 + ½·2·0.04 = 0.05
    assert plan_objective(weights, returns, covariance, 2.0).tolist() == pytest.approx([0.09])


def test_decision_loss_averages_over_samples_and_takes_one_covariance_for_all_stages_or_one_each() -> None:
    samples = some_samples()
    weights = torch.full((COUNT, HORIZON, ASSETS), 1 / ASSETS, dtype=torch.float64)
    expected = 0.0
    for i in range(COUNT):
        for s in range(HORIZON):
            w = np.full(ASSETS, 1 / ASSETS)
            risk = w @ samples.realised_covariance[i].numpy() @ w
            expected += (0.5 * 8.0 * risk - samples.future_returns[i, s].numpy() @ w) / COUNT
    per_stage = samples.realised_covariance.unsqueeze(1).expand(-1, HORIZON, -1, -1)
    for covariance in (samples.realised_covariance, per_stage):
        value = decision_loss(weights, samples.future_returns, covariance, 8.0)
        assert float(value) == pytest.approx(expected, rel=1e-12)


def test_regret_is_positive_and_zero_for_perfect_foresight() -> None:
    assert float(RegretLoss()(some_outcome()).detach()) > 1e-5
    outcome = some_outcome()
    outcome.weights = outcome.foresight_weights
    assert float(RegretLoss()(outcome)) == 0.0


@pytest.mark.parametrize("loss", [RegretLoss(), SPOPlusLoss()])
def test_hindsight_is_the_best_also_where_the_layer_plans_with_costs(loss: Loss) -> None:
    costly = some_outcome(cost=0.002, turnover=0.5)  # little enough for hindsight to trade
    assert float(loss(costly).detach()) > 1e-5
    truth = some_outcome(forecasts=costly.samples.future_returns, cost=0.002, turnover=0.5)
    truth.samples = replace(truth.samples, covariance=truth.samples.realised_covariance)
    assert float(loss(truth).detach()) == pytest.approx(0.0, abs=1e-12)


def test_regret_and_decision_loss_have_the_same_gradient() -> None:
    gradients = []
    for loss in (DecisionLoss(), RegretLoss()):
        outcome = some_outcome()
        loss(outcome).backward()
        gradients.append(next(outcome.model.predictor.parameters()).grad)
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-14)


def test_net_utility_charges_trades_against_drifted_weights() -> None:
    outcome = some_outcome()
    held, returns = outcome.held, outcome.samples.future_returns
    grown = held * (1 + returns[:, 0])
    drifted = grown / grown.sum(dim=1, keepdim=True)
    outcome.weights = torch.stack([held, held], dim=1)
    # Nothing is traded today; tomorrow the drift is traded back.
    expected = float(DecisionLoss()(outcome)) + 0.01 * float((held - drifted).abs().sum(dim=1).mean())
    assert float(NetUtilityLoss(cost_rate=0.01)(outcome)) == pytest.approx(expected, rel=1e-12)


def test_sharpe_loss_is_minus_mean_over_deviation_of_the_first_stage() -> None:
    outcome = some_outcome()
    earned = (outcome.weights[:, 0] * outcome.samples.future_returns[:, 0]).sum(dim=1).detach().numpy()
    assert float(SharpeLoss(floor=0.0)(outcome).detach()) == pytest.approx(-earned.mean() / earned.std(ddof=1))


def test_sharpe_loss_refuses_a_single_sample() -> None:
    outcome = some_outcome()
    outcome.weights = outcome.weights[:1]
    outcome.samples = outcome.samples.slice(0, 1)
    with pytest.raises(TrainingError, match="batch_size"):
        SharpeLoss()(outcome)


@pytest.mark.parametrize(("tail", "count"), [(0.1, 1), (0.5, 3), (0.51, 4), (1.0, COUNT)])
def test_cvar_loss_is_the_mean_loss_of_the_worst_share_of_days(tail: float, count: int) -> None:
    outcome = some_outcome()
    earned = (outcome.weights[:, 0] * outcome.samples.future_returns[:, 0]).sum(dim=1).detach().numpy()
    assert float(CVaRLoss(tail)(outcome).detach()) == pytest.approx(-np.sort(earned)[:count].mean())


@pytest.mark.parametrize("tail", [0.0, -0.1, 1.1, float("nan")])
def test_cvar_loss_of_no_share_is_refused(tail: float) -> None:
    with pytest.raises(TrainingError, match="tail of the loss 'cvar' must be above 0 and at most 1"):
        build_loss("cvar", {"cvar": {"tail": tail}})


def test_squared_error_solves_no_portfolio_problem() -> None:
    outcome = some_outcome()
    value = MeanSquaredError()(outcome)
    errors = (outcome.forecasts - outcome.samples.future_returns).detach().numpy()
    assert float(value.detach()) == pytest.approx((errors**2).mean())
    assert not outcome.decided


def regret_at_the_layers_covariance(outcome: Outcome) -> Tensor:
    samples, layer = outcome.samples, outcome.model.layer
    best = layer(samples.future_returns, samples.covariance, outcome.held)
    objective = [
        plan_objective(weights, samples.future_returns, samples.covariance, outcome.risk_aversion)
        for weights in (outcome.weights, best)
    ]
    return (objective[0] - objective[1]).detach()


@pytest.mark.parametrize("turnover", [2.0, 0.1])
def test_spo_plus_bounds_regret_and_vanishes_at_the_truth(turnover: float) -> None:
    outcome = some_outcome(turnover=turnover)
    assert float(SPOPlusLoss()(outcome).detach()) >= float(regret_at_the_layers_covariance(outcome).mean())
    truth = some_outcome(forecasts=some_samples().future_returns, turnover=turnover)
    assert float(SPOPlusLoss()(truth)) == pytest.approx(0.0, abs=1e-12)


def test_spo_plus_gradient_agrees_with_finite_differences() -> None:
    forecasts = some_outcome().forecasts.detach().requires_grad_()
    SPOPlusLoss()(some_outcome(forecasts=forecasts)).backward()
    assert forecasts.grad is not None
    step = 1e-6
    for place in ((0, 0, 0), (2, 1, 1), (5, 1, 2)):
        values = []
        for sign in (1, -1):
            moved = forecasts.detach().clone()
            moved[place] += sign * step
            values.append(float(SPOPlusLoss()(some_outcome(forecasts=moved))))
        assert (values[0] - values[1]) / (2 * step) == pytest.approx(float(forecasts.grad[place]), abs=1e-5)


def test_spo_plus_is_convex_along_a_line_of_forecasts() -> None:
    first, second = some_outcome().forecasts.detach(), 0.05 * torch.ones(COUNT, HORIZON, ASSETS).double()
    second[:, :, 0] = -0.05
    values = [
        float(SPOPlusLoss()(some_outcome(forecasts=first + share * (second - first))))
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    assert all(values[i] <= (values[i - 1] + values[i + 1]) / 2 + 1e-12 for i in (1, 2, 3))


def test_the_perturbed_loss_has_the_mean_perturbed_decision_less_that_of_hindsight_as_gradient() -> None:
    forecasts = some_outcome().forecasts.detach().requires_grad_()
    outcome = some_outcome(forecasts=forecasts, cost=0.001, turnover=0.5)
    loss = FenchelYoungLoss(sigma=0.01, samples=4)
    torch.manual_seed(11)
    value = loss(outcome)
    value.backward()
    torch.manual_seed(11)
    noise = [0.01 * torch.randn(forecasts.shape, dtype=torch.float64) for _ in range(2)]
    layer, samples = outcome.model.layer, outcome.samples
    hindsight = layer(samples.future_returns, samples.covariance, outcome.held)
    perturbed = [forecasts.detach() + sign * part for part in noise for sign in (1.0, -1.0)]
    decided = [layer(part, samples.covariance, outcome.held) for part in perturbed]
    assert forecasts.grad is not None
    torch.testing.assert_close(forecasts.grad * COUNT, torch.stack(decided).mean(dim=0) - hindsight)
    by_hand = layer_objective(outcome, hindsight, forecasts.detach(), samples.covariance)
    for part, weights in zip(perturbed, decided, strict=True):
        by_hand = by_hand - layer_objective(outcome, weights, part, samples.covariance) / 4
    assert float(value.detach()) == pytest.approx(float(by_hand.mean()), rel=1e-12)
    assert float(value.detach()) > 0.0


def test_the_perturbed_loss_at_the_truth_falls_with_the_perturbation() -> None:
    values = []
    for sigma in (1e-2, 1e-4, 1e-7):
        torch.manual_seed(2)
        truth = some_outcome(forecasts=some_samples().future_returns)
        values.append(float(FenchelYoungLoss(sigma=sigma)(truth)))
    assert values[0] > values[1] > values[2] >= -1e-12
    assert values[2] < 1e-6


@pytest.mark.parametrize(("options", "message"), [({"samples": 3}, "pairs"), ({"sigma": 0.0}, "sigma")])
def test_perturbations_without_a_meaning_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        build_loss("pfyl", {"pfyl": options})


def test_mixture_moves_from_start_to_end_weights() -> None:
    mixture = build_loss({"mse": [1.0, 0.0], "decision": [0.0, 2.0]})
    mse = float(MeanSquaredError()(some_outcome()).detach())
    decision = float(DecisionLoss()(some_outcome()).detach())
    for progress, expected in ((0.0, mse), (0.5, 0.5 * mse + decision), (1.0, 2.0 * decision)):
        value = float(mixture(some_outcome(progress=progress)).detach())
        assert value == pytest.approx(expected, rel=1e-12)


def test_a_term_of_weight_zero_is_not_computed() -> None:
    outcome = some_outcome(progress=0.0)
    build_loss({"mse": [1.0, 0.0], "decision": [0.0, 1.0]})(outcome)
    assert not outcome.decided


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_every_named_loss_gives_a_scalar_with_a_gradient(name: str) -> None:
    outcome = some_outcome()
    loss = build_loss(name)(outcome)
    assert loss.shape == ()
    loss.backward()
    gradient = next(outcome.model.predictor.parameters()).grad
    assert gradient is not None
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize(
    ("loss", "options", "message"),
    [
        ("decisions", {}, "use one of decision"),
        ("net_utility", {"net_utility": {"cost": 1.0}}, "does not take options"),
        ({}, {}, "at least one term"),
        ({"mse": [1.0, 0.5, 0.0]}, {}, r"\[start, end\]"),
    ],
)
def test_unusable_losses_are_refused(loss: object, options: dict[str, dict[str, float]], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        build_loss(loss, options)


@dataclass(frozen=True)
class LargestWeight:
    """A user's own loss."""

    def __call__(self, outcome: Outcome) -> Tensor:
        return outcome.weights.amax(dim=-1).mean()


def test_own_losses_enter_mixtures() -> None:
    own: Loss = LargestWeight()
    value = Mixture(((own, 1.0, 1.0),))(some_outcome())
    assert 1 / ASSETS < float(value.detach()) <= 1
