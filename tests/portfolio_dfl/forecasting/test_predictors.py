"""Predictors: shapes, where they start, what they may see, and how they are named."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.forecasting import (
    PREDICTORS,
    LinearPredictor,
    MomentumPredictor,
    PredictorSpec,
    ScaledPredictor,
    build_predictor,
    fit_least_squares,
)

ASSETS, LOOKBACK, HORIZON = 3, 12, 2


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


class LastReturn(nn.Module):
    """A user's own predictor: the last return, times one learned number, for every day ahead."""

    def __init__(self, n_assets: int, lookback: int, horizon: int, start: float = 0.1) -> None:
        super().__init__()
        self.horizon = horizon
        self.slope = nn.Parameter(torch.tensor(start))

    def forward(self, features: Tensor) -> Tensor:
        return self.slope * features[:, -1:].expand(-1, self.horizon, -1)


def test_linear_forecast_is_the_affine_map_of_the_flattened_window() -> None:
    predictor = LinearPredictor(ASSETS, LOOKBACK, HORIZON)
    nn.init.normal_(predictor.map.weight, generator=torch.Generator().manual_seed(0))
    features = normal(4, LOOKBACK, ASSETS, seed=1)
    expected = (features.reshape(4, -1) @ predictor.map.weight.T).reshape(4, HORIZON, ASSETS)
    torch.testing.assert_close(predictor(features), expected)


@pytest.mark.parametrize("name", sorted(PREDICTORS))
def test_named_predictors_start_at_zero_in_double_precision_and_learn(name: str) -> None:
    predictor = build_predictor(name, n_assets=ASSETS, lookback=LOOKBACK, horizon=HORIZON)
    forecasts = predictor(normal(5, LOOKBACK, ASSETS))
    assert forecasts.dtype == torch.float64
    assert torch.equal(forecasts, torch.zeros(5, HORIZON, ASSETS, dtype=torch.float64))
    (forecasts * normal(5, HORIZON, ASSETS, seed=2)).sum().backward()
    assert any(parameter.grad is not None and parameter.grad.any() for parameter in predictor.parameters())


def test_ewma_regressors_are_weighted_sums_that_vary_as_a_return_does() -> None:
    predictor = build_predictor("ewma", n_assets=1, lookback=3, horizon=1, scaled=False, halflives=[1.0, 2.0])
    assert isinstance(predictor, LinearPredictor)
    features = torch.tensor([[[0.01], [0.02], [0.04]]], dtype=torch.float64)
    expected = []
    for halflife in (1.0, 2.0):
        weights = np.array([0.5 ** (2 / halflife), 0.5 ** (1 / halflife), 1.0])
        expected.append(float(weights @ np.array([0.01, 0.02, 0.04]) / np.linalg.norm(weights)))
    np.testing.assert_allclose(predictor.design(features).numpy(), [expected], rtol=1e-14)


@pytest.mark.parametrize("halflives", [[], [0.0], [-1.0], [2.0, 2.0], [float("nan")], [float("inf")]])
def test_halflives_that_make_no_mean_are_refused(halflives: list[float]) -> None:
    with pytest.raises(TrainingError, match="half-lives must be different positive numbers of days"):
        build_predictor("ewma", n_assets=2, lookback=8, horizon=1, halflives=halflives)


@pytest.mark.parametrize("name", ["linear", "momentum"])
def test_first_forecasts_of_a_linear_predictor_have_the_size_asked_for_and_differ_by_seed(name: str) -> None:
    features = torch.eye(LOOKBACK * ASSETS, dtype=torch.float64).reshape(-1, LOOKBACK, ASSETS)
    forecasts = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        predictor = build_predictor(name, n_assets=ASSETS, lookback=LOOKBACK, horizon=40, scaled=False, start=0.05)
        assert isinstance(predictor, LinearPredictor)
        regressors = torch.randn(2000, predictor.n_regressors, dtype=torch.float64)
        assert float(predictor.map(regressors).detach().square().mean().sqrt()) == pytest.approx(0.05, rel=0.15)
        forecasts.append(predictor(features))
    assert torch.equal(forecasts[0], forecasts[1])
    assert not torch.equal(forecasts[0], forecasts[2])
    with pytest.raises(TrainingError, match="start must be at least 0"):
        build_predictor(name, n_assets=ASSETS, lookback=LOOKBACK, horizon=1, start=-1.0)


def test_a_users_module_is_found_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the console script, whose path holds its own folder and not the working directory."""
    (tmp_path / "a_users_predictor.py").write_text(
        "from portfolio_dfl.forecasting import LinearPredictor\n\n\nclass Mine(LinearPredictor):\n    pass\n"
    )
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", os.getcwd())])
    monkeypatch.chdir(tmp_path)
    predictor = PredictorSpec("a_users_predictor:Mine", scaled=False).build(ASSETS, LOOKBACK, HORIZON)
    assert type(predictor).__name__ == "Mine"


@pytest.mark.parametrize("name", ["gru", "tcn"])
def test_sequence_models_see_the_whole_window(name: str) -> None:
    torch.manual_seed(0)
    predictor = build_predictor(name, n_assets=ASSETS, lookback=LOOKBACK, horizon=HORIZON)
    for parameter in predictor.parameters():
        nn.init.normal_(parameter)
    features = normal(1, LOOKBACK, ASSETS).requires_grad_()
    predictor(features).sum().backward()
    assert features.grad is not None
    assert (features.grad.abs().sum(dim=2) > 0).all()


def test_momentum_sees_scaled_trailing_means() -> None:
    predictor = MomentumPredictor(ASSETS, LOOKBACK, HORIZON, windows=[4, 1])
    features = normal(5, LOOKBACK, ASSETS)
    design = predictor.design(features)
    torch.testing.assert_close(design[:, :ASSETS], features[:, -1])
    torch.testing.assert_close(design[:, ASSETS:], 2.0 * features[:, -4:].mean(dim=1))


@pytest.mark.parametrize("windows", [[], [0, 4], [13], [4, 4]])
def test_momentum_windows_that_do_not_fit_are_refused(windows: list[int]) -> None:
    with pytest.raises(TrainingError, match="1 to the lookback of 12"):
        MomentumPredictor(ASSETS, LOOKBACK, HORIZON, windows=windows)


def test_own_module_is_built_from_its_class_with_options_and_travels_by_pickle() -> None:
    spec = pickle.loads(pickle.dumps(PredictorSpec(LastReturn, {"start": 0.5}, scaled=False)))
    predictor = spec.build(ASSETS, LOOKBACK, HORIZON)
    features = normal(4, LOOKBACK, ASSETS)
    torch.testing.assert_close(predictor(features)[:, 1], 0.5 * features[:, -1])
    assert "LastReturn(start=0.5)" in spec.describe()


def test_own_module_is_found_by_import_path() -> None:
    predictor = build_predictor(
        "portfolio_dfl.forecasting.linear:LinearPredictor",
        n_assets=ASSETS,
        lookback=LOOKBACK,
        horizon=HORIZON,
        scaled=False,
    )
    assert isinstance(predictor, LinearPredictor)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("lienar", "use one of linear"),
        ("portfolio_dfl.forecasting.linear:Lienar", "cannot be imported"),
        (lambda n, lookback, horizon: nn.Linear(n, n), r"gave forecasts of shape \(2, 12, 3\)"),
        (lambda n, lookback, horizon: nn.Linear(lookback, horizon), "does not take features"),
        (lambda n, lookback, horizon: None, "not a torch.nn.Module"),
        (lambda n: nn.Identity(), "does not take options"),
    ],
)
def test_unusable_predictors_are_refused_before_training(factory: object, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        build_predictor(factory, n_assets=ASSETS, lookback=LOOKBACK, horizon=HORIZON)


def test_scales_come_from_the_features_given_and_nothing_else() -> None:
    predictor = build_predictor("linear", n_assets=ASSETS, lookback=LOOKBACK, horizon=HORIZON)
    assert isinstance(predictor, ScaledPredictor)
    features = 0.02 * normal(8, LOOKBACK, ASSETS) + 0.001
    predictor.fit_scales(features)
    np.testing.assert_allclose(predictor.mean, features.reshape(-1, ASSETS).mean(dim=0))
    np.testing.assert_allclose(predictor.deviation, features.reshape(-1, ASSETS).std(dim=0))


def test_an_asset_without_variation_cannot_be_scaled() -> None:
    predictor = ScaledPredictor(LinearPredictor(ASSETS, LOOKBACK, HORIZON), ASSETS)
    features = normal(8, LOOKBACK, ASSETS)
    features[:, :, 1] = 0.0
    with pytest.raises(TrainingError, match="asset 1"):
        predictor.fit_scales(features)


def test_least_squares_fits_momentum_too() -> None:
    features = 0.01 * normal(60, LOOKBACK, ASSETS)
    truth = MomentumPredictor(ASSETS, LOOKBACK, HORIZON)
    nn.init.normal_(truth.map.weight, generator=torch.Generator().manual_seed(0))
    predictor = MomentumPredictor(ASSETS, LOOKBACK, HORIZON)
    fit_least_squares(predictor, features, truth(features).detach(), ridge=0.0)
    torch.testing.assert_close(predictor.map.weight, truth.map.weight)


@pytest.mark.parametrize("scaled", [True, False])
def test_least_squares_recovers_a_linear_market_exactly(scaled: bool) -> None:
    features = 0.01 * normal(60, 4, ASSETS)
    truth = normal(4 * ASSETS, HORIZON * ASSETS, seed=3)
    targets = (features.flatten(1) @ truth + 0.001).reshape(60, HORIZON, ASSETS)
    predictor = build_predictor("linear", n_assets=ASSETS, lookback=4, horizon=HORIZON, scaled=scaled)
    if isinstance(predictor, ScaledPredictor):
        predictor.fit_scales(features)
    fit_least_squares(predictor, features, targets, ridge=0.0)
    torch.testing.assert_close(predictor(features), targets)


def test_ridge_shrinks_forecasts_towards_their_mean() -> None:
    features, targets = normal(30, LOOKBACK, ASSETS), normal(30, HORIZON, ASSETS, seed=1)
    spread = []
    for ridge in (0.0, 10.0, 1e6):
        predictor = LinearPredictor(ASSETS, LOOKBACK, HORIZON)
        fit_least_squares(predictor, features, targets, ridge=ridge)
        spread.append(float(predictor(features).detach().std(dim=0).mean()))
    assert spread[0] > spread[1] > spread[2]
    assert spread[2] < 1e-3


def test_closed_form_needs_the_linear_predictor() -> None:
    predictor = build_predictor("mlp", n_assets=ASSETS, lookback=LOOKBACK, horizon=HORIZON)
    with pytest.raises(TrainingError, match="linear"):
        fit_least_squares(predictor, normal(5, LOOKBACK, ASSETS), normal(5, HORIZON, ASSETS), ridge=1.0)


@pytest.mark.parametrize("name", ["linear", "ewma"])
def test_a_linear_predictor_of_too_many_assets_is_refused_with_advice(name: str) -> None:
    with pytest.raises(TrainingError, match=r"of 3000 assets .* coefficients.* take 'pooled'"):
        build_predictor(name, n_assets=3000, lookback=120, horizon=2)
