"""Searches with parts of the user's own, and with prices in memory."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from small_study import small

from portfolio_dfl.config.study import load_config
from portfolio_dfl.data.sources import open_source
from portfolio_dfl.errors import PortfolioError
from portfolio_dfl.study.given import own_sources
from portfolio_dfl.study.sweep import SweepResult, run_sweep

MODULE = """
class Gain:
    def __init__(self, scale=1.0):
        self.scale = scale

    def __call__(self, outcome):
        return -self.scale * (outcome.samples.future_returns * outcome.weights).sum(-1).mean()


def blind(outcome):
    return outcome.samples.future_returns.mean()


def traded(ledger):
    return -ledger.daily["turnover"].sum()
"""

QUICK = ("sweep.days=20", "sweep.trials=1", "training.epochs=1", "training.loss=losses_of_mine:Gain")
SPACE = "sweep.space={training.learning_rate: [1e-3]}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "losses_of_mine.py").write_text(MODULE)
    return folder


@pytest.fixture(scope="module")
def search(home: Path, tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    file = home / "study.yaml"
    file.write_text(small(tmp_path_factory.mktemp("runs"), SPACE, *QUICK).to_yaml())
    return run_sweep(file)


def test_the_best_configuration_is_kept_with_the_parts_it_names(search: SweepResult, home: Path) -> None:
    kept = load_config(search.path)
    assert kept == search.best
    shutil.rmtree(home)
    sys.modules.pop("losses_of_mine", None)
    found = own_sources(kept)
    assert found.files["losses_of_mine.py"].decode() == MODULE
    assert found.folders["losses_of_mine"] == str(search.path.parent)


def test_prices_in_memory_are_searched_as_those_of_a_source(search: SweepResult, tmp_path: Path) -> None:
    shutil.copy(search.path.parent / "losses_of_mine.py", tmp_path)
    prices = open_source("embedded").load()
    config = small(tmp_path / "runs", SPACE, *QUICK).beside(tmp_path)
    again = run_sweep(config, prices=prices)
    assert again.score == search.score
    assert again.best.data.source != search.best.data.source


def test_a_metric_of_ones_own_may_judge(search: SweepResult, tmp_path: Path) -> None:
    (tmp_path / "losses_of_mine.py").write_text(MODULE)
    score = "sweep.score=losses_of_mine:traded"
    found = run_sweep(small(tmp_path / "runs", SPACE, *QUICK, score).beside(tmp_path))
    assert found.score < 0.0
    assert found.objective.startswith("losses_of_mine:traded, decisions from")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("sweep.score=losses_of_mine:Absent", "has no attribute 'Absent'"),
        ("training.loss=losses_of_mine:blind", "does not depend on the forecasts"),
        ("sweep.space={training.loss: [decision, losses_of_mine:Absent]}", "has no attribute 'Absent'"),
    ],
)
def test_a_part_that_does_not_fit_is_named_before_the_first_trial(setting: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "losses_of_mine.py").write_text(MODULE)
    config = small(tmp_path / "runs", SPACE, *QUICK, setting).beside(tmp_path)
    with pytest.raises(PortfolioError, match=message):
        run_sweep(config)
    assert not (tmp_path / "runs").exists()
