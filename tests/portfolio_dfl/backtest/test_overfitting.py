"""The probability of backtest overfitting, against splits done by hand and where the answer is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.backtest.overfitting import probability_of_overfitting
from portfolio_dfl.errors import BacktestError


def test_two_blocks_by_hand() -> None:
    # First block: means 2, 1, 0; second block: means 0, 1, 2, all with the same spread. The best of either block is
    # the last in the other, so both splits count.
    around = np.array([-1.0, 1.0])
    swapped = pd.DataFrame(np.concatenate([around[:, None] + [2.0, 1.0, 0.0], around[:, None] + [0.0, 1.0, 2.0]]))
    assert probability_of_overfitting(swapped, blocks=2) == 1.0
    # Second block: means 2, 0, 1: the best of each is the best in the other.
    kept = pd.DataFrame(np.concatenate([around[:, None] + [2.0, 1.0, 0.0], around[:, None] + [2.0, 0.0, 1.0]]))
    assert probability_of_overfitting(kept, blocks=2) == 0.0
    # Second block: means 1, 0, 2. The first trial, best at first, is in the middle of three then, which counts; the
    # third, best then, was the worst at first.
    middle = pd.DataFrame(np.concatenate([around[:, None] + [2.0, 1.0, 0.0], around[:, None] + [1.0, 0.0, 2.0]]))
    assert probability_of_overfitting(middle, blocks=2) == 1.0
    # Second block: means 2, 3, 0 of four trials with a last at -1 and 1: first is second best of four and does not
    # count; the second, best then, was second best at first and does not, either.
    four = pd.DataFrame(
        np.concatenate([around[:, None] + [2.0, 1.0, 0.0, -1.0], around[:, None] + [2.0, 3.0, 0.0, 1.0]])
    )
    assert probability_of_overfitting(four, blocks=2) == 0.0


def test_four_blocks_by_hand() -> None:
    # The first trial is ahead in three blocks of four, far behind in the last. Of six splits, the three whose selecting
    # half lacks the last block take the first trial, which loses the other half; the other three take the second,
    # which loses there.
    around = np.array([-1.0, 1.0])
    gaps = [1.0, 1.0, 1.0, -4.0]
    rows = np.concatenate([np.column_stack([around + gap, around]) for gap in gaps])
    assert probability_of_overfitting(pd.DataFrame(rows), blocks=4) == 1.0


def test_skill_is_told_from_noise() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(400, 10))
    skilled = noise.copy()
    skilled[:, 3] += 0.8
    assert probability_of_overfitting(pd.DataFrame(skilled)) == 0.0
    several = [probability_of_overfitting(pd.DataFrame(rng.normal(size=(400, 10)))) for _ in range(10)]
    assert 0.3 < float(np.mean(several)) < 0.8


@pytest.mark.parametrize(
    ("returns", "blocks", "message"),
    [
        (np.zeros((8, 2)), 3, "not an even number"),
        (np.zeros((8, 1)), 2, "have 1 trials"),
        (np.zeros((3, 2)), 2, "have 3 rows"),
        (np.full((8, 2), np.nan), 2, "trial 0 on 0 is not finite"),
        (np.zeros((8, 2)), 2, "trial 0 does not vary"),
    ],
)
def test_what_cannot_be_judged_is_refused(returns: np.ndarray, blocks: int, message: str) -> None:
    with pytest.raises(BacktestError, match=message):
        probability_of_overfitting(pd.DataFrame(returns), blocks=blocks)
