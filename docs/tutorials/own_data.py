# %% [markdown]
# # Your own data
#
# Prices come as files in many layouts, and with defects. This page makes a file with three defects on purpose, reads
# what the checks say of it, decides what to do about each, and runs a study on it.
#
# ## A file
#
# One column a ticker and one row a date is the simplest layout. Long tables of date, ticker and price, the columns of
# one ticker (open, high, low, close, adjusted close), Yahoo's downloads, Parquet files and folders of one file a
# ticker are read as well. Prices must be adjusted for dividends and splits: returns are computed from them as they
# are.

# %%
import portfolio_dfl as dfl

prices = dfl.open_source("embedded").load().loc["2020-06-01":"2021-03-31", ["MTUM", "QUAL", "USMV"]]
prices.loc["2020-10-07":"2020-10-08", "QUAL"] = None  # two sessions without a price
prices.loc["2020-11-16", "USMV"] = 0.0  # an impossible price
prices.loc["2021-02-01":, "MTUM"] /= 2  # a split that nobody adjusted for
prices.to_csv("prices.csv")
print(prices.head(2).round(2))

# %% [output]
#               MTUM   QUAL   USMV
# Date
# 2020-06-01  121.63  92.05  58.64
# 2020-06-02  121.75  92.77  58.80

# %% [markdown]
# ## What is wrong with it
#
# The check looks at everything and changes nothing. `portfolio-dfl data check prices.csv` prints the same, and exits
# with 0 if a study can use the prices, 1 if it cannot, and 2 if they could not be checked.

# %%
print(dfl.check_file("prices.csv"))

# %% [output]
# prices.csv: 3 tickers, 211 dates, 2020-06-01 to 2021-03-31
# bad_price (problem, 1)
#   USMV 2020-11-16: zero price 0
# gap (problem, 1)
#   QUAL 2020-10-07..2020-10-08: 2 sessions of XNYS missing between two prices
# split_suspect (problem, 1)
#   MTUM 2021-02-01: -48.8 % in one day, within noise of 2:1: looks like an unadjusted split or spin-off
# not usable as it is. Policies that deal with it: bad_prices=as_missing | drop_ticker; gaps=drop_dates | forward_fill:K | drop_ticker; jumps=accept | drop_ticker, or list genuine moves in confirmed_jumps

# %% [markdown]
# A study on this file would stop with these messages before anything is trained. Nothing is filled in silently: for
# each kind of defect the study says what is to be done.
#
# | kind | choices beside `fail` |
# |---|---|
# | `off_calendar`: prices on days without a session | `drop_dates` |
# | `bad_prices`: zero, negative, unreadable | `as_missing`, `drop_ticker` |
# | `empty`: a ticker without a price | `drop_ticker` |
# | `stale`: long runs of one price | `accept`, `as_missing`, `drop_ticker` |
# | `late_start`, `early_end` | `start_later`, `end_earlier`, `drop_ticker` |
# | `gaps`: missing prices within a ticker's life | `drop_dates`, `forward_fill:K`, `drop_ticker` |
# | `jumps`: moves that look like splits or bad prices | `accept`, `drop_ticker` |
#
# A genuine jump is confirmed by ticker and date: `confirmed_jumps: [NFLX 2011-10-25]`. An unadjusted split is to be
# mended in the file; no policy does that.

# %%
prices.loc["2021-02-01":, "MTUM"] *= 2
prices.to_csv("prices.csv")
policies = {"gaps": "forward_fill:2", "bad_prices": "as_missing"}
report = dfl.check_file("prices.csv", policies=policies)
print("usable:", report.usable)

# %% [output]
# usable: True

# %% [markdown]
# ## A study on it
#
# In a file of a study this is
#
# ```yaml
# data:
#   source: prices.csv
#   policies: {gaps: "forward_fill:2", bad_prices: as_missing}
# ```
#
# and in Python the same, or a frame in place of the file.

# %%
result = dfl.run_study(
    prices=prices,
    name="own_data",
    data={"policies": policies},
    allocation={"horizon": 2},
    forecasting={"lookback": 20},
    training={"samples": 40, "realised_window": 5, "epochs": 2},
    backtest={"start": "2021-02-01", "strategies": ["decision_focused", "equal_weight"]},
    evaluation={"bootstrap": 0, "reference": "equal_weight"},
)
print(result.flags[["ticker", "date", "kind"]].to_string(index=False))

# %% [output]
# ticker       date      kind
#   USMV 2020-11-16 bad_price
#   QUAL 2020-10-07       gap
#   USMV 2020-11-16       gap

# %% [markdown]
# What was found and what was done about it stays with the run (`result.flags`) and is in the report.
#
# ## Other calendars
#
# Sessions are those of `data.calendar`, New York's by default: a session without any price is a gap. `data.calendar:
# null` asks no calendar; any name that the package `exchange-calendars` knows (`XLON`, `24/7`) may stand there. Weekly
# and monthly prices need `calendar: null`; [how to choose the frequency](../how-to/frequency.md) says more.
#
# ## Frozen prices
#
# A source on the network changes: adjusted closes are rewritten with every dividend. `portfolio-dfl data fetch NAME`
# loads prices once, checks them and freezes them under a name with their digest; `data.source: data/snapshots/NAME`
# reads them ever after.
#
# Next: [your own predictor, loss and limits](own_parts.md).
