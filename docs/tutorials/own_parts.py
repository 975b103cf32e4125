# %% [markdown]
# # Your own predictor, loss and limits
#
# Every part of a study can be yours: predictor, loss, covariance, limit, strategy, feature, metric, source of prices.
# A part is named `package.module:Name` and is found beside the YAML file, on `PYTHONPATH` or in the working directory.
# It is tried before any work starts, kept with the run, and restored from there by `resume` and `predict`.
#
# ## A module of parts
#
# A predictor is made as `Name(n_assets, lookback, horizon, **options)` and maps past returns `[B, lookback, N]` to
# expected returns `[B, H, N]`. A loss takes the outcome of a batch of decisions and gives a scalar. A limit changes
# the limits of the layer. A strategy that learns nothing has `decide(history, held)`.

# %%
from pathlib import Path

import portfolio_dfl as dfl

Path("my_parts.py").write_text('''
import numpy as np
import torch
from torch import nn

from portfolio_dfl import Limit


class Reversal(nn.Module):
    """Each asset gives back a part of its mean return over the lookback."""

    def __init__(self, n_assets, lookback, horizon, start=0.1):
        super().__init__()
        self.horizon = horizon
        self.slope = nn.Parameter(torch.full((n_assets,), start, dtype=torch.float64))

    def forward(self, returns):  # [B, lookback, N]
        forecast = -self.slope * returns.mean(1)
        return forecast[:, None].expand(-1, self.horizon, -1)  # [B, H, N]


class Downside:
    """Mean square of the first day's losses beyond a threshold, less the mean return."""

    def __init__(self, threshold=0.0, weight=10.0):
        self.threshold, self.weight = threshold, weight

    def __call__(self, outcome):
        earned = (outcome.weights[:, 0] * outcome.samples.future_returns[:, 0]).sum(-1)  # [B]
        loss = (-earned - self.threshold).clamp(min=0.0)
        return outcome.average(self.weight * loss.square() - earned)


class AtMost(Limit):
    """No more than this of one ticker."""

    def __init__(self, ticker, most):
        self.ticker, self.most = ticker, most

    def apply(self, limits):
        limits.cut_upper(np.where(np.array(limits.assets) == self.ticker, self.most, np.inf))


def quiet(history, held):
    """Weights in inverse proportion to the volatility of the last 60 days."""
    volatility = history.tail(60).std()
    return (1.0 / volatility) / (1.0 / volatility).sum()


def worst_day(ledger):
    return ledger.net_returns.min()
''')

# %% [markdown]
# ## A study of them

# %%
at_most = {"name": "my_parts:AtMost", "options": {"ticker": "USMV", "most": 0.4}}
result = dfl.run_study(
    name="own_parts",
    data={"source": "embedded", "start": "2018-01-02", "end": "2018-12-31"},
    allocation={
        "horizon": 2,
        "limits": {"own": [{"name": "my_parts:AtMost", "options": {"ticker": "USMV", "most": 0.4}}]},
    },
    forecasting={"predictor": "my_parts:Reversal", "lookback": 10, "options": {"start": 0.2}},
    training={
        "loss": "my_parts:Downside",
        "loss_options": {"my_parts:Downside": {"threshold": 0.005}},
        "samples": 40,
        "realised_window": 5,
        "epochs": 3,
        "learning_rate": 0.01,
    },
    backtest={
        "start": "2018-06-01",
        "end": "2018-08-31",
        "strategies": ["decision_focused", "my_parts:quiet", "equal_weight"],
    },
    evaluation={"bootstrap": 0, "reference": "equal_weight", "metrics": ["my_parts:worst_day"]},
)
print(result.metrics[["volatility", "sharpe", "turnover", "worst_day"]].round(4))

# %% [output about]
#                   volatility  sharpe  turnover  worst_day
# strategy
# Decision-focused      0.0726  2.9481    0.1881    -0.0107
# quiet                 0.0712  3.2892    0.0086    -0.0117
# Equal weight          0.0741  3.1728    0.0018    -0.0125

# %% [markdown]
# The limit binds where the plan would have more:

# %%
weights = result.weights["Decision-focused"]["USMV"]
trades = result.ledgers["Decision-focused"].trades["USMV"]
print("largest weight that a decision gave USMV:", round(float(weights[trades.abs() > 1e-8].max()), 6))

# %% [output]
# largest weight that a decision gave USMV: 0.4

# %% [markdown]
# A policy that exists in Python only is given as an object: `run_study(..., strategies={"Mine": policy})`. In a file
# of a study the parts read
#
# ```yaml
# forecasting: {predictor: my_parts:Reversal, options: {start: 0.2}}
# training:
#   loss: my_parts:Downside
#   loss_options: {my_parts:Downside: {threshold: 0.005}}
# allocation:
#   limits:
#     own: [{name: my_parts:AtMost, options: {ticker: USMV, most: 0.4}}]
# backtest: {strategies: [decision_focused, my_parts:quiet, equal_weight]}
# evaluation: {metrics: [my_parts:worst_day]}
# ```
#
# ## What is checked
#
# A part whose signature, shapes or options do not fit is refused before training, with the reason. A loss that does
# not depend on what was decided is refused too: it would teach nothing.

# %%
try:
    dfl.run_study(forecasting={"predictor": "my_parts:Reversal", "options": {"begin": 0.2}})
except dfl.PortfolioError as error:
    print(error)

# %% [output]
# predictor 'my_parts:Reversal' does not take options {'begin': 0.2}: Reversal.__init__() got an unexpected keyword argument 'begin'

# %% [markdown]
# Features beside returns are given to predictors with `takes_inputs = True`: [how to use
# features](../how-to/features.md). The limits that there are already: [decisions](../reference/decisions.md#limits);
# the losses: [training](../reference/training.md#losses).
#
# Next: [the QP layer alone](qp_layer.md).
