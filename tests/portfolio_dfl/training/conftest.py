"""A small synthetic market and quick settings, so that a window trains in a fraction of a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.risk import RollingCovariance
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.settings import TrainingSettings

PolicyFactory = Callable[..., PredictOptimisePolicy]


@pytest.fixture(scope="session")
def returns() -> pd.DataFrame:
    """Ninety days of synthetic simple returns of three assets."""
    rng = np.random.default_rng(7)
    index = pd.bdate_range("2021-01-01", periods=90)
    values = rng.normal([4e-4, 2e-4, 0.0], [0.012, 0.008, 0.015], (90, 3))
    return pd.DataFrame(values, index=index, columns=["A", "B", "C"])


@pytest.fixture
def make_policy() -> PolicyFactory:
    """Policies on a small problem; options replace the quick ones."""

    def make(**options: Any) -> PredictOptimisePolicy:
        settings: dict[str, Any] = {"epochs": 3, "learning_rate": 0.01}
        settings.update(options.pop("settings", {}))
        layer = options.pop("layer", None) or MultiPeriodMeanVariance(
            n_assets=3, horizon=2, risk_aversion=10.0, turnover_limit=0.5
        )
        quick: dict[str, Any] = {
            "predictor": PredictorSpec("linear"),
            "lookback": 6,
            "realised_window": 4,
            "samples": 12,
            "settings": TrainingSettings(**settings),
        }
        return PredictOptimisePolicy(layer, options.pop("covariance", RollingCovariance(8)), **(quick | options))

    return make
