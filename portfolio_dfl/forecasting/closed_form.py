"""Least squares for linear predictors in closed form: ordinary, or with a ridge."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.forecasting.inputs import Inputs, InputsPredictor
from portfolio_dfl.forecasting.linear import LinearPredictor
from portfolio_dfl.forecasting.pooled import PooledPredictor
from portfolio_dfl.forecasting.scaling import ScaledPredictor

__all__ = ["fit_least_squares"]


def fit_least_squares(
    predictor: nn.Module, features: Tensor | Inputs, targets: Tensor, *, ridge: float, shares: Tensor | None = None
) -> None:
    """Set a linear predictor's coefficients to the least-squares fit, in place.

    Minimises ‖targets − forecasts‖² + ridge · ‖coefficients‖² in the predictor's own units (standardised
    where it is scaled), the intercept unpenalised, with scikit-learn's `Ridge`; for ``ridge = 0`` its
    `LinearRegression`, which takes the solution of least norm where samples are fewer than coefficients.

    Parameters
    ----------
    predictor : LinearPredictor (or a subclass), PooledPredictor, or one of them between scales
        The pooled one is fitted to all assets at once.
    features : Tensor [S, lookback, N] or Inputs
    targets : Tensor [S, H, N]
        Realised returns, without what a prior says of them.
    ridge : float
        At least 0.
    shares : Tensor [S], optional
        What each sample's squared error counts, 1 on average.

    Raises
    ------
    TrainingError
        If the predictor is not linear or the ridge is negative.
    """
    from sklearn.linear_model import LinearRegression, Ridge

    core = predictor.core if isinstance(predictor, ScaledPredictor | InputsPredictor) else predictor
    if not isinstance(core, LinearPredictor | PooledPredictor):
        raise TrainingError(
            f"least squares in closed form needs a linear predictor, not {type(core).__name__}; "
            f"train it by gradient on the loss 'mse' instead"
        )
    if ridge < 0:
        raise TrainingError(f"ridge must be at least 0, got {ridge}")
    if isinstance(predictor, ScaledPredictor):
        assert isinstance(features, Tensor)
        features = (features - predictor.mean) / predictor.deviation
        targets = targets / predictor.unit
    elif isinstance(predictor, InputsPredictor):
        features = predictor.standardised(features)
        targets = targets / predictor.unit
    design = core.design(features)  # type: ignore[arg-type]
    if isinstance(core, PooledPredictor):
        _fit_pooled(core, design, targets, ridge, shares)
        return
    model = Ridge(alpha=ridge) if ridge > 0 else LinearRegression()
    model.fit(design.numpy(), targets.flatten(1).numpy(), sample_weight=None if shares is None else shares.numpy())
    with torch.no_grad():
        core.map.weight.copy_(torch.from_numpy(model.coef_))
        core.map.bias.copy_(torch.from_numpy(model.intercept_))


def _fit_pooled(core: PooledPredictor, design: Tensor, targets: Tensor, ridge: float, shares: Tensor | None) -> None:
    """One regression over all samples and assets; intercepts are what is left on average."""
    from sklearn.linear_model import LinearRegression, Ridge

    labels = targets.transpose(1, 2)  # [S, N, H]
    over = (0, 1) if core.bias is None or core.bias.shape[1] == 1 else (0,)
    counted = torch.ones((1, 1, 1), dtype=torch.float64) if shares is None else shares[:, None, None]
    mean, level = (counted * design).mean(dim=over, keepdim=True), (counted * labels).mean(dim=over, keepdim=True)
    if core.bias is None:
        mean, level = torch.zeros_like(mean), torch.zeros_like(level)
    model = Ridge(alpha=ridge, fit_intercept=False) if ridge > 0 else LinearRegression(fit_intercept=False)
    root = counted.sqrt()
    model.fit((root * (design - mean)).flatten(0, 1).numpy(), (root * (labels - level)).flatten(0, 1).numpy())
    with torch.no_grad():
        core.map.weight.copy_(torch.from_numpy(model.coef_))
        if core.bias is not None:
            core.bias.copy_((level - core.map(mean))[0].T)
