"""What rows of returns are called."""

from __future__ import annotations

import pandas as pd
import pytest

from portfolio_dfl.backtest.rhythm import periods_per_year_of
from portfolio_dfl.wording.periods import period_noun


@pytest.mark.parametrize(
    ("frequency", "noun"),
    [("B", "day"), ("D", "day"), ("W-FRI", "week"), ("2W-FRI", "fortnight"), ("ME", "month"), ("QE", "quarter")],
)
def test_the_word_follows_from_the_dates(frequency, noun):
    dates = pd.date_range("2015-01-01", "2024-12-31", freq=frequency)
    assert period_noun(periods_per_year_of(dates)) == noun


def test_what_has_no_name_is_a_period():
    assert period_noun(126.0) == "period"
