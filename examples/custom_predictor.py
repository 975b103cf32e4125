"""A predictor of your own: reversal with one slope an asset, trained on the decision inside a walk-forward study."""

from __future__ import annotations

from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from portfolio_dfl.config import load_config
from portfolio_dfl.study import run_study


class Reversal(nn.Module):
    """Forecast that each asset gives back a part of its mean return over the lookback."""

    def __init__(self, n_assets: int, lookback: int, horizon: int, start: float = 0.1) -> None:
        super().__init__()
        self.horizon = horizon
        self.slope = nn.Parameter(torch.full((n_assets,), start, dtype=torch.float64))

    def forward(self, features: Tensor) -> Tensor:  # [B, lookback, N] to [B, H, N]
        forecast = -self.slope * features.mean(1)
        return forecast[:, None].expand(-1, self.horizon, -1)


SETTINGS = [
    "name=reversal",
    "data.start=2018-01-02",
    "data.end=2018-12-31",
    "forecasting.predictor=custom_predictor:Reversal",  # module:Class, from the working directory or installed
    "forecasting.lookback=10",
    "forecasting.options.start=0.2",
    "training.samples=40",
    "training.retrain_every=20",
    "training.learning_rate=0.01",
    "backtest.start=2018-06-01",
    "backtest.end=2018-08-31",
    "backtest.strategies=[decision_focused, equal_weight]",
    "evaluation.bootstrap=0",
    "evaluation.reference=equal_weight",
]

if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        result = run_study(load_config(None, [*SETTINGS, f"tracking.folder={folder}"]))
        print(result.metrics[["cagr", "volatility", "sharpe", "turnover"]].round(4))
        print("\nweights on the last days:")
        print(result.weights["Decision-focused"].tail(3).round(3))
