"""Least squares for linear predictors in closed form: ordinary, or with a ridge."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.forecasting.linear import LinearPredictor
from portfolio_dfl.forecasting.scaling import ScaledPredictor

__all__ = ["fit_least_squares"]


def fit_least_squares(predictor: nn.Module, features: Tensor, targets: Tensor, *, ridge: float) -> None:
    """Set a linear predictor's coefficients to the least-squares fit, in place.

    Minimises ‖targets − forecasts‖² + ridge · ‖coefficients‖² in the predictor's own units (standardised
    where it is scaled), the intercept unpenalised, with scikit-learn's `Ridge`; for ``ridge = 0`` its
    `LinearRegression`, which takes the solution of least norm where samples are fewer than coefficients.

    Parameters
    ----------
    predictor : LinearPredictor (or a subclass), or ScaledPredictor around one
    features : Tensor [S, lookback, N]
    targets : Tensor [S, H, N]
        Realised returns.
    ridge : float
        At least 0.

    Raises
    ------
    TrainingError
        If the predictor is not linear or the ridge is negative.
    """
    from sklearn.linear_model import LinearRegression, Ridge

    core = predictor.core if isinstance(predictor, ScaledPredictor) else predictor
    if not isinstance(core, LinearPredictor):
        raise TrainingError(
            f"least squares in closed form needs a linear predictor, not {type(core).__name__}; "
            f"train it by gradient on the loss 'mse' instead"
        )
    if ridge < 0:
        raise TrainingError(f"ridge must be at least 0, got {ridge}")
    if isinstance(predictor, ScaledPredictor):
        features = (features - predictor.mean) / predictor.deviation
        targets = targets / predictor.unit
    model = Ridge(alpha=ridge) if ridge > 0 else LinearRegression()
    model.fit(core.design(features).numpy(), targets.flatten(1).numpy())
    with torch.no_grad():
        core.map.weight.copy_(torch.from_numpy(model.coef_))
        core.map.bias.copy_(torch.from_numpy(model.intercept_))
