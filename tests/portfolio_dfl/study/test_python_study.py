"""Studies from Python: prices in memory, policies as objects, sections as keyword arguments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_study import brief, empty_store, records, same_weights

from portfolio_dfl.data.local_sources import EmbeddedSource
from portfolio_dfl.errors import PortfolioError
from portfolio_dfl.study.result import StudyResult, load_result
from portfolio_dfl.study.run import resume_study, run_study, train_study

FAST = ["training.epochs=1", "backtest.end=2018-06-20", "backtest.strategies=[decision_focused, equal_weight]"]


class Counting:
    """Puts more on the first asset each day: what it remembers shows in its weights."""

    def __init__(self) -> None:
        self.days = 0

    def decide(self, history: pd.DataFrame, held: np.ndarray) -> pd.Series:
        self.days += 1
        weights = pd.Series(1.0, index=history.columns[::-1])
        weights[history.columns[0]] += 0.1 * self.days
        return weights / weights.sum()


def first(history: pd.DataFrame, held: np.ndarray) -> np.ndarray:
    return np.eye(len(held))[0]


def no_argument() -> np.ndarray:
    return np.ones(1)


def failing(history: pd.DataFrame, held: np.ndarray) -> np.ndarray:
    raise KeyError("SPY")


def wordy(history: pd.DataFrame, held: np.ndarray) -> Any:
    return ["all", "of", "it"]


def short(history: pd.DataFrame, held: np.ndarray) -> np.ndarray:
    return np.ones(1)


def lavish(history: pd.DataFrame, held: np.ndarray) -> np.ndarray:
    return np.ones(len(held))


def renamed(history: pd.DataFrame, held: np.ndarray) -> pd.Series:
    return pd.Series(held, index=[f"{ticker}.US" for ticker in history.columns])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return empty_store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def prices() -> pd.DataFrame:
    return EmbeddedSource().load()


@pytest.fixture(scope="module")
def study(folder: Path, prices: pd.DataFrame) -> StudyResult:
    return run_study(brief(folder, *FAST), prices=prices, strategies={"Counting": Counting(), "All in": first})


def test_policies_of_ones_own_stand_beside_ours_everywhere(study: StudyResult, folder: Path) -> None:
    assert list(study.metrics.index) == ["Decision-focused", "Equal weight", "Counting", "All in"]
    days = len(study.ledgers["Counting"].trades)
    assert study.ledgers["Counting"].weights.iloc[-1, 0] == pytest.approx((1 + 0.1 * days) / (5 + 0.1 * days), abs=0.01)
    assert {"Counting", "All_in"} <= records(folder, study.folder.name).keys()
    assert "Counting" in study.report.read_text(encoding="utf-8")
    assert same_weights(load_result(study.folder), study)


def test_prices_in_memory_are_those_of_the_source_that_they_came_from(study: StudyResult, folder: Path) -> None:
    assert study.config.data.source == "dataframe"
    ours = run_study(brief(folder, *FAST))
    assert ours.weights["Decision-focused"].equals(study.weights["Decision-focused"])


def test_a_study_of_objects_goes_on_without_them(study: StudyResult, prices: pd.DataFrame, folder: Path) -> None:
    assert same_weights(resume_study(study.folder), study)
    trained = train_study(brief(folder, *FAST), prices=prices, strategies={"Counting": Counting(), "All in": first})
    assert same_weights(resume_study(trained.folder), study)


def test_other_processes_decide_the_same(study: StudyResult, prices: pd.DataFrame, folder: Path) -> None:
    config = brief(folder, *FAST, "execution.backend=loky")
    elsewhere = run_study(config, prices=prices, strategies={"Counting": Counting(), "All in": first})
    assert same_weights(elsewhere, study)


def test_sections_may_stand_in_place_of_a_file(folder: Path, study: StudyResult) -> None:
    sections = brief(folder, *FAST).plain() | {"backtest": {"strategies": ["equal_weight"], "start": "2018-06-01"}}
    done = run_study(**sections)
    assert list(done.metrics.index) == ["Equal weight"]
    again = run_study(done.config, backtest={"end": "2018-06-20"}, name="again")
    assert again.weights["Equal weight"].equals(study.weights["Equal weight"])


@pytest.mark.parametrize(
    ("strategies", "message"),
    [
        ({"Mine": no_argument}, "strategy 'Mine': decide takes () -> 'np.ndarray'; it is called with (history, held)"),
        ({"Mine": 3}, "strategy 'Mine' is a int; an object with decide(history, held), or a function"),
        ({"Mine": Counting}, "strategy 'Mine' is the class Counting; an object"),
        ({"Mine": failing}, "strategy 'Mine' raised KeyError in decide on 2018-06-01: 'SPY'"),
        ({"Mine": wordy}, "strategy 'Mine' decided on 2018-06-01 with ['all', 'of', 'it']: return one weight an asset"),
        ({"Mine": short}, "Mine decided on 2018-06-01 with weights of shape (1,), there are 5 assets"),
        ({"Mine": lavish}, "the weights of Mine on 2018-06-01"),
        ({"Mine": renamed}, "with a Series whose index is not the tickers: MTUM, MTUM.US"),
        ({"equal_weight": first}, "'equal_weight' is the name of a strategy of ours; give yours another"),
        ({"Equal weight": first}, "equal_weight and python:Equal weight would have one name in tables and files"),
        ({"a/b": first}, "strategies: 'a/b' is no name"),
        ({"Mine": lambda history, held: open}, "Mine"),
    ],
)
def test_what_is_no_policy_is_named(strategies: dict[str, Any], message: str, folder: Path) -> None:
    config = brief(folder, "backtest.strategies=[equal_weight]", "backtest.end=2018-06-20")
    with pytest.raises(PortfolioError, match=re.escape(message)):
        run_study(config, strategies=strategies)


def test_what_was_given_in_python_is_asked_for_again(folder: Path, study: StudyResult) -> None:
    with pytest.raises(PortfolioError, match="source dataframe stands for prices that were given in Python"):
        run_study(study.config)
    with pytest.raises(PortfolioError, match="strategy 'python:Counting' is an object that a study was given"):
        run_study(study.config, data={"source": "embedded"})
    with pytest.raises(PortfolioError, match="prices must be a DataFrame, not a str"):
        run_study(study.config, prices="prices.csv")  # type: ignore[arg-type]
