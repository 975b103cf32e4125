"""A search over a grid tries every combination once, in the order in which it is written."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from small_study import small

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.study.sweep import run_sweep

GRID = "sweep.space={training.learning_rate: [0.001, 0.01], allocation.horizon: [2, 1]}"
QUICK = ("sweep.sampler=grid", "sweep.days=20", "training.epochs=1")


def test_a_grid_is_tried_whole_and_in_order_whether_resumed_or_not(tmp_path: Path) -> None:
    begun = small(tmp_path, "sweep.trials=1", GRID, *QUICK)
    run_sweep(begun)
    found = run_sweep(begun.override("sweep.trials=4")).trials
    assert found["training.learning_rate"].to_list() == [1e-3, 1e-3, 1e-2, 1e-2]
    assert found["allocation.horizon"].to_list() == [2, 1, 2, 1]
    assert found["score"].notna().all()
    undisturbed = run_sweep(small(tmp_path / "other", "sweep.trials=4", GRID, *QUICK)).trials
    pd.testing.assert_frame_equal(found, undisturbed)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ("{training.learning_rate: {low: 1e-4, high: 1e-2}}", r"training\.learning_rate is a range"),
        ("{training.epochs: [1, 2, 1]}", r"training\.epochs lists a choice twice"),
        ("{training.epochs: [1, 2]}", "is more than the 2 combinations"),
        ("{training.epochs: [1, 2, 3, 4, 5, 6, 7, 8, 9], allocation.stage: [1, 2, 3, 4, 5, 6, 7, 8]}", "72 combin"),
    ],
)
def test_what_is_no_grid_is_refused(space: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        small(tmp_path, f"sweep.space={space}", *QUICK, "sweep.trials=8")
