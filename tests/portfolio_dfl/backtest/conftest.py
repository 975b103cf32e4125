"""A small market that all tests of the backtest look at."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def market() -> pd.DataFrame:
    """Daily returns of four correlated assets over 90 days; invented numbers."""
    rng = np.random.default_rng(11)
    common = rng.normal(0.0, 0.008, size=(90, 1))
    own = rng.normal(0.0004, 0.01, size=(90, 4)) * np.array([0.3, 0.6, 1.0, 1.6])
    return pd.DataFrame(common + own, index=pd.bdate_range("2021-01-04", periods=90), columns=list("ABCD"))
