"""The law that makes a backtest one, for the whole study: no price after a date changes a weight decided up to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.config import StudyConfig
from portfolio_dfl.data.sources import EmbeddedSource
from portfolio_dfl.study import run_study

DATES = ["2018-06-12", "2018-07-06", "2018-08-01"]
STUDY = {
    "name": "law",
    "covariance": {"window": 10},
    "allocation": {"horizon": 2},
    "forecasting": {"lookback": 10},
    "training": {"samples": 20, "realised_window": 5, "retrain_every": 10, "epochs": 2},
    "backtest": {"start": "2018-06-01", "end": "2018-08-31"},
    "evaluation": {"bootstrap": 100},
}


def decided(prices: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    """Target weights of every strategy by date of decision."""
    file = folder / "prices.parquet"
    folder.mkdir()
    prices.to_parquet(file)
    data = {"source": str(file), "start": "2018-01-02", "end": "2018-12-31", "policies": {"jumps": "accept"}}
    return dict(run_study(StudyConfig.parse({**STUDY, "data": data, "tracking": {"folder": str(folder)}})).weights)


@pytest.fixture(scope="module")
def prices() -> pd.DataFrame:
    frame = EmbeddedSource().load().loc["2018-01-02":"2018-12-31"]
    assert len(frame) == 251
    return frame


def test_weights_up_to_a_date_do_not_depend_on_prices_after_it(prices: pd.DataFrame, tmp_path: Path) -> None:
    expected = decided(prices, tmp_path / "as they were")
    for number, date in enumerate(DATES):
        t = pd.Timestamp(date)
        later = prices.index > t
        changed = prices.copy()
        noise = np.random.default_rng(number).lognormal(0.0, 0.2, (int(later.sum()), prices.shape[1]))
        changed.loc[later] = changed.loc[later].to_numpy() * noise
        found = decided(changed, tmp_path / date)
        assert found.keys() == expected.keys()
        for strategy, weights in expected.items():
            # Bit for bit; and the change did reach what came after, so that this test can fail.
            pd.testing.assert_frame_equal(found[strategy].loc[:t], weights.loc[:t], check_exact=True)
            if strategy not in ("Equal weight", "Buy and hold"):
                assert not found[strategy].loc[t:].iloc[1:].equals(weights.loc[t:].iloc[1:]), strategy
