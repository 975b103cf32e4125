"""Configurations made in Python: the same messages as from a file, and whatever stands for a study is taken."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from portfolio_dfl.config.section import Section
from portfolio_dfl.config.sections import AllocationConfig, EvaluationConfig, TrainingConfig
from portfolio_dfl.config.study import StudyConfig, assignments, load_config
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.study.run import compare_study, run_study, train_study
from portfolio_dfl.study.sweep import run_sweep

VERBS = [run_study, train_study, compare_study, run_sweep]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StudyConfig(training={"epochs": 0}), "training.epochs: a number of at least 1 is needed, not 0"),
        (lambda: StudyConfig(trainin={}), "unknown key trainin; the nearest is training"),
        (lambda: StudyConfig(training={"epoch": 1}), "unknown key training.epoch; the nearest is training.epochs"),
        (lambda: StudyConfig(name="a/b", data={"tickers": ["A"]}), "name: a name of letters, digits"),
        (lambda: AllocationConfig(risk_aversion=-1), "AllocationConfig: risk_aversion: a number above 0 is needed"),
        (lambda: AllocationConfig(risk=1), "unknown key risk; "),
        (lambda: TrainingConfig(batch_size="x"), "batch_size: a whole number or null is needed, not 'x'"),
        (lambda: EvaluationConfig(periods_per_year=0), "periods_per_year: a number above 0 or null is needed, not 0"),
        (lambda: EvaluationConfig(bootstrap=3), "3 resamples are too few"),
    ],
)
def test_a_mistake_in_python_is_told_like_one_in_a_file(make: Callable[[], Section], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert message in str(caught.value)
    for word in ("validation error", "should be", "input_value", "errors.pydantic.dev"):
        assert word not in str(caught.value)


def test_sections_are_made_copied_and_pickled_as_before() -> None:
    config = StudyConfig(training=TrainingConfig(epochs=3), allocation={"horizon": 2})
    assert config == StudyConfig.parse({"training": {"epochs": 3}, "allocation": {"horizon": 2}})
    assert pickle.loads(pickle.dumps(config)) == deepcopy(config) == config


def test_one_override_may_be_a_text() -> None:
    assert StudyConfig().override("training.epochs=3") == StudyConfig().override(["training.epochs=3"])
    assert load_config(None, "training.epochs=3").training.epochs == 3
    assert assignments("a.b=3") == {"a": {"b": 3}}


@pytest.mark.parametrize("texts", [[3], "training.epochs", [None]])
def test_what_is_no_assignment_is_named_whole(texts: Any) -> None:
    shown = repr(texts if isinstance(texts, str) else texts[0])
    with pytest.raises(ConfigError, match=f"^{shown} is no assignment"):
        StudyConfig().override(texts)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
@pytest.mark.parametrize("as_text", [True, False])
def test_a_path_stands_for_the_study_in_its_file(verb: Callable[..., Any], as_text: bool, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    with pytest.raises(ConfigError, match=r"no configuration file .*study\.yaml"):
        verb(str(file) if as_text else file)
    file.write_text("data: {source: nowhere.csv}\nsweep: {space: {training.epochs: [1, 2]}}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"nowhere\.csv"):
        verb(str(file) if as_text else file)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_a_mapping_stands_for_a_study_and_nothing_else_does(verb: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="unknown key dat; the nearest is data"):
        verb({"dat": {}})
    with pytest.raises(ConfigError, match="a StudyConfig, the path of a YAML file or a mapping is needed, not 3"):
        verb(3)


def test_a_study_runs_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    quick = {
        "data": {"source": "embedded", "start": "2018-01-02", "end": "2018-12-31"},
        "backtest": {"start": "2018-12-01", "strategies": ["equal_weight", "buy_and_hold"]},
        "evaluation": {"bootstrap": 0},
        "tracking": {"folder": str(tmp_path / "runs")},
    }
    file.write_text(StudyConfig.parse(quick).to_yaml(), encoding="utf-8")
    assert run_study(file).metrics.equals(run_study(quick).metrics)
