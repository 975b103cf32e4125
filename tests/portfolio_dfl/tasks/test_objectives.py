"""The table of what is trained, in small."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from small_study import empty_store

from portfolio_dfl.tasks.objectives import objectives


def test_smoothing_leaves_no_sample_without_gradient_and_the_rest_stands_beside(runs: Path) -> None:
    (runs / "tasks" / "objectives").mkdir(parents=True, exist_ok=True)
    empty_store(runs / "tasks" / "objectives" / "studies")
    result = objectives(
        start=date(2016, 1, 4),
        end=date(2017, 10, 31),
        starts=[date(2017, 9, 1)],
        samples=40,
        epochs=1,
        horizon=1,
        folder=runs,
    )
    rows = result.rows.set_index(["trained_on", "derivative"])
    assert set(rows.index) == {
        ("plan", "exact"),
        ("plan", "smoothed"),
        ("executed path", "exact"),
        ("executed path", "smoothed"),
        ("Two-stage", ""),
        ("Equal weight", ""),
    }
    smoothed = rows.xs("smoothed", level="derivative")
    assert (smoothed["zero_gradients"] == 0.0).all()
    assert rows[["regret", "utility", "sharpe", "turnover"]].notna().all().all()
    assert rows.loc[("plan", "exact"), "training_loss"] == pytest.approx(
        result.metrics["plan/exact/training_loss"], rel=1e-12
    )
    assert "(synthetic)" in result.title
