"""Seeds that change nothing are computed once, named in the result, and are one trial."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_study import small

from portfolio_dfl.study.result import load_result
from portfolio_dfl.study.run import resume_study, run_study

STRATEGIES = "backtest.strategies=[decision_focused, equal_weight]"


def test_seeds_that_change_nothing_are_computed_once_and_are_one_trial(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[tuple[str, int, int]] = []
    config = small(tmp_path, STRATEGIES, "training.seeds=[0, 1, 4]")
    result = run_study(config, progress=lambda *step: done.append(step))
    assert "nothing random enters Decision-focused" in caplog.text
    assert "seeds 1 and 4 repeat seed 0" in caplog.text
    assert ("Backtest", 2, 2) in done
    first, second, third = (result.metrics.loc[f"Decision-focused, seed {seed}"] for seed in (0, 1, 4))
    assert first.equals(second)
    assert first.equals(third)
    assert result.scores["trials"].unique().tolist() == [2]
    alone = run_study(config.override("training.seeds=[4]"))
    assert alone.metrics.loc["Decision-focused"].equals(third)
    assert "Seeds 0, 1 and 4 of Decision-focused have the very same books" in str(load_result(result.folder))
    assert resume_study(result.folder).metrics.equals(result.metrics)
