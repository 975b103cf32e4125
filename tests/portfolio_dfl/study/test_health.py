"""Trainings that learn nothing, and failures, are told where a reader looks first."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.study.health import gradient_remarks


def windows(*shares: float) -> pd.DataFrame:
    return pd.DataFrame({"strategy": "decision_focused", "zero_gradient_share": shares})


def test_trainings_without_gradients_are_told_with_what_to_do() -> None:
    (told,) = gradient_remarks(windows(0.9, 0.7, 0.2, np.nan))
    assert told.startswith("Decision-focused: in 2 of 3 trainings more than 50% of the samples had no gradient (60%")
    assert "training.gradient: smoothed" in told
    assert "smaller learning rate" in told


@pytest.mark.parametrize("table", [windows(0.5, 0.1), windows(np.nan), pd.DataFrame()])
def test_trainings_that_learn_are_not_told_of(table: pd.DataFrame) -> None:
    assert gradient_remarks(table) == []
