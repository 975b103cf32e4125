"""Whatever a verb returns shows itself in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from portfolio_dfl.config.study import StudyConfig, load_config
from portfolio_dfl.data.inspection import check_file
from portfolio_dfl.data.store import fetch_snapshot, list_snapshots
from portfolio_dfl.execution.doctor import diagnose
from portfolio_dfl.study.live import advise
from portfolio_dfl.study.result import load_result
from portfolio_dfl.study.run import compare_study, resume_study, run_study, train_study
from portfolio_dfl.study.sweep import run_sweep
from portfolio_dfl.tasks import catalogue, records
from portfolio_dfl.tracking.dashboard import start_dashboard

VERBS = [run_study, train_study, compare_study, resume_study, load_result, run_sweep, advise, start_dashboard]
VERBS += [diagnose, load_config, check_file, fetch_snapshot, list_snapshots, catalogue.run_task]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_the_result_of_a_verb_has_a_page_of_its_own(verb: Any) -> None:
    result = {**vars(records), **verb.__globals__}[verb.__annotations__["return"]]
    assert callable(getattr(result, "_repr_html_", None))
    assert result.__str__ is not object.__str__


def test_a_configuration_is_shown_as_the_yaml_it_is_read_from() -> None:
    shown = StudyConfig()._repr_html_()
    assert shown.startswith("<pre>name: study\n")
    assert StudyConfig.from_yaml(str(StudyConfig())) == StudyConfig()


def test_a_check_is_shown_with_its_verdict_and_escaped(tmp_path: Path) -> None:
    file = tmp_path / "a<b.csv"
    file.write_text("Date,A,B\n2020-01-02,1,2\n2020-01-03,-1,3\n")
    shown = check_file(file)._repr_html_()
    assert "not usable as it is" in shown
    assert "a&lt;b" in shown
