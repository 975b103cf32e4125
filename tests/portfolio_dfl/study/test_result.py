"""What a finished study says of itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small_study import small

from portfolio_dfl.study.result import StudyResult
from portfolio_dfl.study.run import run_study


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    """Of a strategy that never trades, under a limit that its weights stay below by far."""
    folder: Path = tmp_path_factory.mktemp("runs")
    rules = "backtest.strategies=[equal_weight, buy_and_hold]"
    return run_study(small(folder, rules, "allocation.max_weight=0.9", "evaluation.bootstrap=0"))


def test_a_largest_weight_that_holding_stays_below_is_not_remarked_upon(held: StudyResult) -> None:
    assert held.limits_note == ""
    for text in (str(held), held.report.read_text()):
        assert "bound by no limit" not in text


def test_a_largest_weight_that_holding_drifts_beyond_is(held: StudyResult) -> None:
    tight = replace(held, config=held.config.override(["allocation.max_weight=0.2"]))
    assert "Buy and hold is bound by no limit: its largest weight was 2" in tight.limits_note
    assert tight.limits_note in str(tight)
