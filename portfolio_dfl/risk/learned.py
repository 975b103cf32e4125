"""A covariance with parameters: the estimate reshaped by numbers that training may move."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from portfolio_dfl.errors import DataError
from portfolio_dfl.risk.factor import FactorCovariance

__all__ = ["LearnedCovarianceScaling"]


class LearnedCovarianceScaling(nn.Module):
    """Rescale volatilities and shrink correlations of a covariance, differentiably.

    With volatility factors ``s = exp(log_scale) > 0``, a shrinkage ``φ = sigmoid(shrinkage_logit)`` in (0,
    1) and ``S = diag(s) Σ diag(s)``, the result is

        (1 − φ) S + φ diag(S)

    A congruence of a positive semidefinite matrix and a mean of two such matrices: the result is positive
    semidefinite for every value of the parameters, and positive definite when no variance is zero.
    Variances are scaled by ``s²`` and not touched by the shrinkage, so that the parameters say separately
    how much risk and how much diversification the decision should see.

    Parameters
    ----------
    n_assets : int
        Number of assets N.
    per_asset : bool
        One volatility factor an asset, or one for all.
    initial_shrinkage : float
        φ before training, in (0, 1). Factors start at 1.
    """

    def __init__(self, n_assets: int, *, per_asset: bool = True, initial_shrinkage: float = 0.05) -> None:
        super().__init__()
        if n_assets < 1:
            raise DataError(f"n_assets must be at least 1, got {n_assets}")
        if not 0.0 < initial_shrinkage < 1.0:
            raise DataError(f"initial_shrinkage must be strictly between 0 and 1, got {initial_shrinkage}")
        self.n_assets = n_assets
        self.log_scale = nn.Parameter(torch.zeros(n_assets if per_asset else 1, dtype=torch.float64))
        logit = math.log(initial_shrinkage / (1.0 - initial_shrinkage))
        self.shrinkage_logit = nn.Parameter(torch.tensor(logit, dtype=torch.float64))

    @property
    def shrinkage(self) -> float:
        """The φ in use."""
        return float(torch.sigmoid(self.shrinkage_logit.detach()))

    @property
    def scale(self) -> Tensor:
        """Volatility factors in use, shape (N,); detached."""
        return self.log_scale.detach().exp().expand(self.n_assets).clone()

    def forward(self, covariance: Tensor | FactorCovariance) -> Tensor:
        """Reshape covariances.

        Parameters
        ----------
        covariance : Tensor, shape (..., N, N)
            Positive semidefinite, in squared return units.

        Returns
        -------
        Tensor, shape (..., N, N)
            Positive semidefinite; gradients reach the parameters and the argument.

        Raises
        ------
        DataError
            If the last two dimensions are not (N, N).
        """
        if isinstance(covariance, FactorCovariance):
            raise DataError("risk_scaling learns on full covariances: take another estimator than a factor model")
        if tuple(covariance.shape[-2:]) != (self.n_assets, self.n_assets):
            raise DataError(
                f"covariance has shape {tuple(covariance.shape)}, expected [..., N, N], N = {self.n_assets}"
            )
        factors = self.log_scale.exp().expand(self.n_assets)
        scaled = covariance * factors[:, None] * factors[None, :]
        diagonal = torch.diag_embed(torch.diagonal(scaled, dim1=-2, dim2=-1))
        mixed: Tensor = torch.lerp(scaled, diagonal, torch.sigmoid(self.shrinkage_logit))
        return mixed
