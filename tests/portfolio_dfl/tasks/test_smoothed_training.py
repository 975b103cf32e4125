"""The table of trainings with exact and smoothed derivatives, in small."""

from __future__ import annotations

from pathlib import Path

import pytest

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.smoothed_training import smoothed_training


def test_smoothed_derivatives_leave_no_sample_without_gradient(runs: Path) -> None:
    result = smoothed_training(
        "known",
        windows=1,
        samples=30,
        test=20,
        epochs=2,
        horizon=2,
        barrier=[1e-5],
        penalty=[],
        perturbation=[],
        folder=runs,
    )
    rows = result.rows.set_index("derivative")
    assert list(rows.index) == ["exact", "barrier"]
    assert rows.loc["barrier", "zero_gradients"] == 0.0 < rows.loc["exact", "zero_gradients"]
    assert rows[["training_loss", "exact_loss", "test_loss", "seconds"]].notna().all().all()
    assert "without gradient" in result.table


def test_a_market_that_is_too_short_is_refused(runs: Path) -> None:
    with pytest.raises(ConfigError, match="too few"):
        smoothed_training("known", samples=1400, test=200, folder=runs)
