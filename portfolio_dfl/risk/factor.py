"""Factor risk: Σ = F Ω Fᵀ + D, kept in its parts, which is all that thousands of assets allow."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from portfolio_dfl.errors import DataError

__all__ = ["WORTH_PARTS", "FactorCovariance"]

#: Assets from which on plans by the parts are found sooner than by the whole.
WORTH_PARTS = 40


@dataclass(frozen=True, eq=False, slots=True)
class FactorCovariance:
    """Covariances F Ω Fᵀ + diag(d) of N assets by K factors; accepted wherever a dense covariance is.

    Attributes
    ----------
    exposures : Tensor [B, N, K] or [N, K]
        F, of each asset to each factor.
    factor_covariance : Tensor [B, K, K] or [K, K]
        Ω, positive semidefinite; per period.
    specific_variance : Tensor [B, N] or [N]
        d ≥ 0: what the factors leave of each variance.

    Raises
    ------
    DataError
        If the shapes do not fit one another.
    """

    exposures: Tensor
    factor_covariance: Tensor
    specific_variance: Tensor

    def __post_init__(self) -> None:
        shapes = [list(part.shape) for part in (self.exposures, self.factor_covariance, self.specific_variance)]
        F, omega, d = shapes
        batch, fits = F[:-2], len(F) in (2, 3)
        if not (fits and omega == [*batch, F[-1], F[-1]] and d == [*batch, F[-2]]):
            raise DataError(
                f"exposures {F}, factor_covariance {omega} and specific_variance {d} are not of one factor model; "
                "they are [B, N, K], [B, K, K] and [B, N], or all without B"
            )

    @property
    def n_assets(self) -> int:
        """N."""
        return int(self.exposures.shape[-2])

    @property
    def n_factors(self) -> int:
        """K."""
        return int(self.exposures.shape[-1])

    def __len__(self) -> int:
        return int(self.exposures.shape[0])

    def __getitem__(self, rows: slice | Tensor) -> FactorCovariance:
        """Some of a batch."""
        return FactorCovariance(self.exposures[rows], self.factor_covariance[rows], self.specific_variance[rows])

    def to(self, *, device: str | torch.device, dtype: torch.dtype) -> FactorCovariance:
        """The same elsewhere, or in another precision."""
        parts = (self.exposures, self.factor_covariance, self.specific_variance)
        return FactorCovariance(*(part.to(device=device, dtype=dtype) for part in parts))

    def expand(self, size: int) -> FactorCovariance:
        """As a batch of this size, one model for all if there is no batch yet."""
        N, K = self.n_assets, self.n_factors
        if self.exposures.ndim == 3 and len(self) not in (1, size):
            raise DataError(f"a batch of {len(self)} factor models does not fit one of {size}")
        return FactorCovariance(
            self.exposures.expand(size, N, K),
            self.factor_covariance.expand(size, K, K),
            self.specific_variance.expand(size, N),
        )

    def times(self, vector: Tensor) -> Tensor:
        """Σ v of v [B, ..., N]; the batch comes first."""
        spread = self.specific_variance.reshape(*self.specific_variance.shape[:-1], *[1] * (vector.ndim - 2), -1)
        flat = vector.reshape(*vector.shape[:1], -1, self.n_assets)
        omega = 0.5 * (self.factor_covariance + self.factor_covariance.transpose(-1, -2))
        pulled = flat @ self.exposures @ omega @ self.exposures.transpose(-1, -2)
        return pulled.reshape(vector.shape) + spread * vector

    def scaled(self, number: float | Tensor) -> FactorCovariance:
        """The covariance times a number."""
        return FactorCovariance(self.exposures, self.factor_covariance * number, self.specific_variance * number)

    def dense(self) -> Tensor:
        """Σ [B, N, N] or [N, N]."""
        common = self.exposures @ self.factor_covariance @ self.exposures.transpose(-1, -2)
        return common + torch.diag_embed(self.specific_variance)
