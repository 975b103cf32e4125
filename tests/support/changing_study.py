"""A universe made up for tests: five tickers of which some enter, leave, are lost altogether, or are used again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from portfolio_dfl.data.sessions import sessions_between

__all__ = ["DATES", "STUDY", "members", "prices", "written"]

DATES = sessions_between("XNYS", pd.Timestamp("2018-01-02"), pd.Timestamp("2018-12-31"))

STUDY: dict[str, Any] = {
    "name": "changing",
    "covariance": {"window": 10},
    "allocation": {"horizon": 2},
    "forecasting": {"lookback": 10},
    "training": {"samples": 20, "realised_window": 5, "retrain_every": 10, "epochs": 2},
    "backtest": {"start": "2018-06-01", "end": "2018-10-31"},
    "evaluation": {"bootstrap": 0},
}


def prices() -> pd.DataFrame:
    """Prices as they are there: none of LATE before it is listed, of LOST after it is delisted, of TWICE in between."""
    tickers = ["KEPT", "MORE", "LOST", "LATE", "LEFT", "TWICE"]
    moves = np.random.default_rng(1).normal(2e-4, 0.01, (len(DATES), len(tickers)))
    frame = pd.DataFrame(100.0 * np.exp(np.cumsum(moves, axis=0)), index=DATES, columns=tickers)
    frame.loc[DATES[160] :, "LOST"] = np.nan
    frame.loc[: DATES[99], "LATE"] = np.nan
    frame.loc[DATES[130] : DATES[140], "TWICE"] = np.nan
    return frame


def members() -> pd.DataFrame:
    """LATE enters on 2018-05-25, TWICE leaves on 2018-07-09 and comes back as another, LEFT leaves, LOST is lost."""
    rows = [
        ("KEPT", DATES[0], None, None),
        ("MORE", DATES[0], None, None),
        ("LOST", DATES[0], DATES[159], -1.0),
        ("LATE", DATES[100], None, None),
        ("LEFT", DATES[0], DATES[150], None),
        ("TWICE", DATES[0], DATES[129], None),
        ("TWICE", DATES[141], None, None),
    ]
    return pd.DataFrame(rows, columns=["ticker", "from", "to", "delisting_return"])


def written(folder: Path) -> dict[str, str]:
    """The same as files, under the keys of a configuration's section ``data``."""
    prices().to_csv(folder / "prices.csv")
    members().to_csv(folder / "members.csv", index=False)
    return {"source": str(folder / "prices.csv"), "members": str(folder / "members.csv")}
