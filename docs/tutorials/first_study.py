# %% [markdown]
# # A first study
#
# A study trains a forecaster on past prices, decides with it on every date of a test span, keeps the books of what was
# decided, and does the same for other strategies beside it. This page runs a short one on real prices that come with
# the installation: five factor ETFs, three months of decisions, some seconds of work.
#
# The same kind of study as a file is `configs/daily.yaml`, over two years; [`configs/quickstart.yaml`](../how-to/reproduce.md)
# decides every week, from features.

# %%
import pandas as pd

import portfolio_dfl as dfl

pd.set_option("display.width", 120)

study = {
    "name": "first",
    "data": {"source": "embedded"},
    "allocation": {"horizon": 5, "risk_aversion": 10.0, "turnover_limit": 0.2, "transaction_cost": 0.0005},
    "forecasting": {"predictor": "linear", "lookback": 60},
    "training": {"samples": 60, "retrain_every": 20, "epochs": 5},
    "backtest": {"start": "2021-01-04", "end": "2021-03-31", "cost_rate": 0.0005},
    "evaluation": {"bootstrap": 200},
}
result = dfl.run_study(study)
print(result.metrics[["cagr", "volatility", "sharpe", "max_drawdown", "turnover"]].round(3))

# %% [output about]
#                    cagr  volatility  sharpe  max_drawdown  turnover
# strategy
# Decision-focused  0.493       0.137   2.994        -0.038     0.056
# Two-stage         0.474       0.135   2.947        -0.039     0.030
# Equal weight      0.444       0.165   2.314        -0.052     0.005
# Buy and hold      0.448       0.165   2.331        -0.052     0.000
# Minimum variance  0.472       0.136   2.908        -0.041     0.026

# %% [markdown]
# What happened, in order:
#
# 1. **Data.** The prices were checked and turned into simple returns. What looks wrong would have stopped the study
#    here.
# 2. **Training.** On the first decision date, and on every twentieth after it, a linear predictor was trained on the
#    newest 60 samples whose outcomes were known by then. *Decision-focused* minimises the cost of the portfolio that
#    the forecasts lead to. *Two-stage* minimises squared error. Both then decide through the same portfolio problem.
# 3. **Decisions.** On every date the forecasts for five days became a plan of weights within a turnover of 0.2 a day.
#    Its first day was traded.
# 4. **Books.** Weights drift with prices, and 5 basis points are charged on what is traded.
# 5. **Judgement.** Every strategy went through the same books.
#
# Three months say nothing about which strategy is better. The comparison tells how little is known: differences to the
# two-stage strategy, each with a 95 % interval of a paired stationary bootstrap.

# %%
print(result.comparison.xs("sharpe", level="statistic")[["estimate", "low", "high"]].round(2))

# %% [output about]
#                   estimate   low  high
# strategy
# Decision-focused      0.05 -0.51  0.54
# Equal weight         -0.63 -2.27  1.31
# Buy and hold         -0.62 -2.24  1.30
# Minimum variance     -0.04 -0.19  0.18

# %% [markdown]
# ## Looking closer
#
# `result.frames` has every table as a frame, a method each; `result.plot` has the report's figures; `result.weights`
# what was held.

# %%
held = result.weights["Decision-focused"]
print(held.tail(3).round(3))
print("rows sum to one:", bool((held.sum(axis=1) - 1.0).abs().max() < 1e-12))
print("largest turnover of a day:", round(float(result.ledgers["Decision-focused"].daily["turnover"].max()), 3))

# %% [output about]
#             MTUM  QUAL  SIZE  USMV  VLUE
# Date
# 2021-03-30   0.0   0.0   0.0   1.0   0.0
# 2021-03-31   0.0   0.0   0.0   0.9   0.1
# 2021-04-01   0.0   0.0   0.0   0.9   0.1
# rows sum to one: True
# largest turnover of a day: 0.2

# %% [markdown]
# No day's trades exceed the turnover limit. A row of weights is what was held through that day: it was decided at the
# close before it.
#
# Everything is in the run's folder: the configuration, the prices, the trained predictors, the tables, and
# `report.html`, one page with all figures.

# %%
print(*sorted(path.name for path in result.folder.iterdir() if not path.name.startswith(".")), sep="\n")

# %% [output about]
# SHA256SUMS
# config.yaml
# data_flags.parquet
# facts.json
# name.txt
# prices.parquet
# report.html
# strategies
# tables
# windows

# %% [markdown]
# The report of the quickstart study, two years long, begins with this figure.
#
# ![Wealth of the quickstart study after costs, by strategy, from its report](../images/quickstart.png)
#
# A finished study is read again by its name, in another session or from the command line (`portfolio-dfl report RUN`).

# %%
again = dfl.load_result(result.folder)
print(again.metrics.equals(result.metrics))

# %% [output]
# True

# %% [markdown]
# Next: [your own data](own_data.md).
