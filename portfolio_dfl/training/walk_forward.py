"""Training along the calendar: when to retrain."""

from __future__ import annotations

import pandas as pd

from portfolio_dfl.errors import TrainingError

__all__ = ["retraining_dates"]


def retraining_dates(dates: pd.DatetimeIndex, every: int = 20) -> pd.DatetimeIndex:
    """The first of the decision dates and every `every`-th after it."""
    if every < 1:
        raise TrainingError(f"retraining happens every {every} decision dates; at least 1 is needed")
    return dates[::every]
