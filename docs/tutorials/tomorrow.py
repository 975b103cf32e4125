# %% [markdown]
# # From a study to weights for tomorrow
#
# A finished study can decide on prices that came after it. This page trains a study on prices up to the end of August
# 2018, then plays a day in September: fresh prices arrive, and the trained strategy says what to hold next and which
# orders lead there.
#
# ## A trained strategy

# %%
import datetime as dt

import pandas as pd

import portfolio_dfl as dfl

result = dfl.run_study(
    name="live",
    data={"source": "embedded", "start": "2018-01-02", "end": "2018-08-31"},
    allocation={"horizon": 2},
    forecasting={"lookback": 20},
    training={"samples": 40, "realised_window": 5, "epochs": 3},
    backtest={"start": "2018-06-01", "strategies": ["decision_focused", "equal_weight"]},
    evaluation={"bootstrap": 0, "reference": "equal_weight"},
)
print("trained last on", result.windows["date"].max().date())

# %% [output]
# trained last on 2018-08-27

# %% [markdown]
# ## Weights and trades
#
# Fresh prices are a frame, a file, a snapshot, or the study's own source asked again. They are read as the study's
# were: the same tickers, calendar and policies. The last price may be five days old, unless `max_age` says otherwise.

# %%
fresh = dfl.open_source("embedded").load().loc["2018-05-01":"2018-09-12"]
holdings = pd.Series({"MTUM": 0.2, "QUAL": 0.2, "SIZE": 0.2, "USMV": 0.2, "VLUE": 0.2})
advice = dfl.predict(result.folder, prices=fresh, holdings=holdings, today=dt.date(2018, 9, 13))
print(advice)

# %% [output about]
# prices up to 2018-09-12 (1 day old), trained on 2018-08-27
#          held   target    trade
# MTUM  +0.2000  +0.1000  -0.1000
# QUAL  +0.2000  +0.2000        0
# SIZE  +0.2000  +0.2000        0
# USMV  +0.2000  +0.3000  +0.1000
# VLUE  +0.2000  +0.2000        0
# turnover 0.2000 of at most 0.2

# %% [markdown]
# The advice is decided with data up to the last close. The books of the study traded at that very close, or one later
# with `backtest.lag: 1`; in life it is the next chance to trade. The turnover limit counts from what is held, so say
# what is held: without `holdings` the decision starts from what the study started from, and the advice says so.
#
# ## Orders
#
# Holdings in shares, with a line of cash, make orders in whole lots. They are rounded towards no trade, which keeps
# the turnover limit, and paid for without debts.

# %%
book = pd.DataFrame({"ticker": ["MTUM", "QUAL", "USMV", "cash"], "shares": [200, 300, 500, 2_000]})
book.to_csv("book.csv", index=False)
advice = dfl.predict(result.folder, prices=fresh, holdings="book.csv", lot=10, today=dt.date(2018, 9, 13))
print(advice.to_frame()[["shares_held", "shares_trade", "shares_target"]])
print(advice.orders)

# %% [output about]
#       shares_held  shares_trade  shares_target
# MTUM        200.0         -50.0          150.0
# QUAL        300.0           0.0          300.0
# SIZE          0.0          50.0           50.0
# USMV        500.0          50.0          550.0
# VLUE          0.0           0.0            0.0
# orders in lots of 10 at a wealth of 74,943.50: turnover 0.1627, costs about 6.10, cash left over 794.30

# %% [markdown]
# The command does the same, and writes a table, CSV or JSON:
#
# ```text
# portfolio-dfl predict RUN --prices fresh.csv --holdings book.csv --lot 10 --format json --output orders.json
# ```
#
# ## What stops a decision
#
# Stale prices, missing tickers, too short a history and defects without a policy are errors, not guesses.

# %%
try:
    dfl.predict(result.folder, prices=fresh, holdings=holdings, today=dt.date(2018, 10, 1))
except dfl.DataError as error:
    print(error)

# %% [output]
# the last price is of 2018-09-12, 19 days old and more than the 5 days allowed; fetch fresh prices, or allow more with --max-age

# %% [markdown]
# ## When to train again
#
# The strategy decides with the predictor of its last retraining date. It does not retrain by itself: run the study
# again on longer prices. `tracking.register_as: NAME` registers the final model in MLflow under a version, and
# `predict` takes `models:/NAME/VERSION` in place of a run. A study that decides weekly or monthly says whether today
# is a decision date, and when the next is.
#
# This was the last tutorial. The [first page](../index.md#where-to-go) leads on to how-to pages for single tasks.
