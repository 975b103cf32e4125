"""Predictors of features, priors and ensembles against independent calculations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skfolio.moments import ShrunkMu
from sklearn.linear_model import LinearRegression, Ridge
from torch import Tensor, nn

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.forecasting import (
    EnsemblePredictor,
    Inputs,
    PooledPredictor,
    PredictorSpec,
    PriorSpec,
    build_predictor,
    fit_least_squares,
)

S, L, N, F, G, H = 40, 6, 4, 2, 3, 2


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    drawn = torch.Generator().manual_seed(0)
    sizes = ((S, L, N), (S, L, F), (S, L, N, G))
    return Inputs(*(torch.randn(*size, generator=drawn, dtype=torch.float64) for size in sizes))


@pytest.fixture(scope="module")
def targets() -> Tensor:
    return torch.randn(S, H, N, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("name", ["pooled", "linear", "gru", "tcn"])
@pytest.mark.parametrize("scaled", [True, False])
def test_predictors_of_features_start_at_zero_and_learn_from_all_of_them(
    name: str, scaled: bool, inputs: Inputs
) -> None:
    made = build_predictor(name, n_assets=N, lookback=L, horizon=H, scaled=scaled, n_dated=F, n_by_asset=G)
    assert made(inputs).shape == (S, H, N)
    assert not made(inputs).any()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(2))
    for part in ("dated", "by_asset"):
        moved = {name: getattr(inputs, name) + (name == part) for name in ("returns", "dated", "by_asset")}
        changed = Inputs(**moved)
        assert not torch.equal(made(inputs), made(changed))


@pytest.mark.parametrize("intercept", ["none", "common", "asset"])
def test_pooled_least_squares_is_one_regression_over_all_assets(
    intercept: str, inputs: Inputs, targets: Tensor
) -> None:
    made = PooledPredictor(N, L, H, n_dated=F, n_by_asset=G, intercept=intercept)
    fit_least_squares(made, inputs, targets, ridge=0.0)
    own, common = inputs.by_asset[:, -1].numpy(), inputs.dated[:, -1].numpy()
    design = np.concatenate([own, np.repeat(common[:, None], N, axis=1)], axis=2)
    if intercept == "asset":
        design = np.concatenate([design, np.broadcast_to(np.eye(N), (S, N, N))], axis=2)
    labels = targets.transpose(1, 2).reshape(S * N, H).numpy()
    rows = design.reshape(S * N, -1)
    model = LinearRegression(fit_intercept=intercept == "common").fit(rows, labels)
    expected = model.predict(rows).reshape(S, N, H).swapaxes(1, 2)
    np.testing.assert_allclose(made(inputs).detach().numpy(), expected, atol=1e-10)


def test_linear_in_features_is_ridge_regression(inputs: Inputs, targets: Tensor) -> None:
    made = build_predictor("linear", n_assets=N, lookback=L, horizon=H, scaled=False, n_dated=F, n_by_asset=G)
    fit_least_squares(made, inputs, targets, ridge=2.0)
    rows = torch.cat([inputs.dated[:, -1], inputs.by_asset[:, -1].flatten(1)], dim=1).numpy()
    expected = Ridge(alpha=2.0).fit(rows, targets.flatten(1).numpy()).predict(rows)
    np.testing.assert_allclose(made(inputs).detach().flatten(1).numpy(), expected, atol=1e-10)


def test_a_feature_that_does_not_vary_and_a_value_that_is_not_known_count_as_the_mean(inputs: Inputs) -> None:
    made = build_predictor("pooled", n_assets=N, lookback=L, horizon=H, n_dated=F, n_by_asset=G)
    dated, by_asset = inputs.dated.clone(), inputs.by_asset.clone()
    dated[..., 0], by_asset[3, :, 1, 2] = 7.0, float("nan")
    made.fit_scales(Inputs(inputs.returns, dated, by_asset))
    seen = made.standardised(Inputs(inputs.returns, dated + 1.0, by_asset))
    assert not seen.dated[..., 0].any()
    assert not seen.by_asset[3, :, 1, 2].any()
    assert torch.isfinite(seen.by_asset).all()


def test_features_are_refused_by_predictors_that_see_returns_alone() -> None:
    with pytest.raises(TrainingError, match="'momentum' sees returns alone, and the study has features; use linear"):
        build_predictor("momentum", n_assets=N, lookback=L, horizon=H, n_dated=F)


def test_a_predictor_of_ones_own_says_that_it_takes_inputs(inputs: Inputs) -> None:
    class Own(nn.Module):
        takes_inputs = True

        def __init__(self, n_assets: int, lookback: int, horizon: int, *, n_dated: int, n_by_asset: int) -> None:
            super().__init__()
            self.horizon, self.map = horizon, nn.Linear(n_by_asset, 1)

        def forward(self, inputs: Inputs) -> Tensor:
            forecasts: Tensor = self.map(inputs.by_asset[:, -1]).transpose(1, 2)
            return forecasts.expand(-1, self.horizon, -1)

    made = build_predictor(Own, n_assets=N, lookback=L, horizon=H, n_dated=F, n_by_asset=G)
    assert made(inputs).shape == (S, H, N)


def test_priors_are_what_their_names_say(inputs: Inputs) -> None:
    drawn = torch.Generator().manual_seed(3)
    returns = 0.01 * torch.randn(2, 30, N, generator=drawn, dtype=torch.float64) + 0.01 * torch.arange(N)
    covariance = torch.stack([torch.cov(window.T) for window in returns])
    mean = PriorSpec("historical_mean", {"window": 20}).build(N, 30)
    shrunk = PriorSpec("james_stein").build(N, 30)
    reference = PriorSpec("equilibrium", {"reference": {"B": 0.75, "D": 0.25}, "scale": 0.5}).of_assets("ABCD")
    equilibrium = reference.build(N, 30)
    assert mean is not None
    assert shrunk is not None
    assert equilibrium is not None
    torch.testing.assert_close(mean(returns, covariance, 3.0)[:, 0], returns[:, -20:].mean(dim=1))
    oracle = np.stack([ShrunkMu().fit(window.numpy()).mu_ for window in returns])
    np.testing.assert_allclose(shrunk(returns, covariance, 3.0)[:, 0].numpy(), oracle, rtol=1e-10)
    weights = torch.tensor([0.0, 0.75, 0.0, 0.25], dtype=torch.float64)
    torch.testing.assert_close(equilibrium(returns, covariance, 3.0)[:, 0], 0.5 * 3.0 * covariance @ weights)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("zero", {"scale": 2.0}, "the prior zero takes no options"),
        ("mean", {}, "unknown prior 'mean'; use one of zero"),
        ("historical_mean", {"window": 31}, "window of the prior is 31, more than the lookback"),
        ("equilibrium", {"reference": [0.5, 0.6, 0.0, 0.0]}, r"reference weights sum to 1\.1"),
        ("equilibrium", {"weights": [1.0]}, "prior equilibrium does not take options"),
    ],
)
def test_priors_that_cannot_be_are_named(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        PriorSpec(name, options).build(N, 30)


def test_defaults_leave_the_description_of_a_predictor_as_it_was() -> None:
    assert PredictorSpec().describe() == "linear() scaled"
    several = PredictorSpec("gru", prior=PriorSpec("james_stein"), ensemble=3)
    assert several.describe() == "gru() scaled prior james_stein() of 3"


def test_an_ensemble_forecasts_the_mean(inputs: Inputs) -> None:
    members = [
        build_predictor("linear", n_assets=N, lookback=L, horizon=H, n_dated=F, n_by_asset=G, start=1.0)
        for _ in range(3)
    ]
    expected = sum(member(inputs) for member in members) / 3
    torch.testing.assert_close(EnsemblePredictor(members)(inputs), expected)
