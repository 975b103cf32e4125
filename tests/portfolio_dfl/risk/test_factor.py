"""A factor model is the covariance that its parts amount to."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from portfolio_dfl.errors import DataError
from portfolio_dfl.risk import FactorCovariance


def model(batch: int, n: int, k: int, seed: int = 0) -> FactorCovariance:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(batch, k, k, generator=generator, dtype=torch.float64)
    return FactorCovariance(
        torch.randn(batch, n, k, generator=generator, dtype=torch.float64),
        root @ root.transpose(1, 2),
        torch.rand(batch, n, generator=generator, dtype=torch.float64),
    )


@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 4), st.integers(0, 99))
def test_products_are_those_of_the_dense_matrix(batch: int, n: int, k: int, seed: int) -> None:
    risk = model(batch, n, k, seed)
    vector = torch.randn(batch, 2, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    torch.testing.assert_close(risk.times(vector), vector @ risk.dense(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(risk.scaled(3.0).dense(), 3.0 * risk.dense(), rtol=1e-12, atol=1e-12)


def test_parts_of_a_batch_and_one_model_for_all() -> None:
    risk = model(3, 4, 2)
    torch.testing.assert_close(risk[1:].dense(), risk.dense()[1:])
    one = FactorCovariance(risk.exposures[0], risk.factor_covariance[0], risk.specific_variance[0])
    torch.testing.assert_close(one.expand(5).dense(), risk.dense()[:1].expand(5, 4, 4))
    with pytest.raises(DataError, match="a batch of 3 factor models does not fit one of 5"):
        risk.expand(5)


def test_shapes_that_do_not_fit_are_named() -> None:
    good = model(2, 4, 3)
    with pytest.raises(DataError, match=r"exposures \[2, 4, 3\], factor_covariance \[2, 3, 3\] and specific_variance"):
        FactorCovariance(good.exposures, good.factor_covariance, good.specific_variance[:, :3])
    with pytest.raises(DataError, match="not of one factor model"):
        FactorCovariance(good.exposures[0], good.factor_covariance, good.specific_variance)
