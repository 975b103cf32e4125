"""A study with a predictor of the user's own, gone on with where Python does not find it."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path

import pytest
from small_study import brief

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.study.live import advise
from portfolio_dfl.study.result import load_result
from portfolio_dfl.study.run import resume_study, run_study

TODAY = dt.date(2018, 9, 7)
MINE = "from portfolio_dfl.forecasting import LinearPredictor\n\n\nclass Mine(LinearPredictor):\n    pass\n"


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's path of a console script, put back afterwards."""
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])


def forget(monkeypatch: pytest.MonkeyPatch, home: Path, *modules: str) -> None:
    """As in another process that was started elsewhere."""
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(home)])
    for module in modules:
        monkeypatch.delitem(sys.modules, module)


@pytest.mark.parametrize("module", ["own_predictor", "own_package.predictor"])
def test_a_predictor_that_is_gone_is_the_one_kept_with_the_run(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    away.mkdir()
    file = home.joinpath(*module.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True)
    file.write_text(MINE)
    monkeypatch.chdir(home)
    settings = ["training.epochs=1", "backtest.end=2018-06-20", "backtest.strategies=[decision_focused]"]
    done = run_study(brief(tmp_path / "runs", f"forecasting.predictor={module}:Mine", *settings))
    monkeypatch.chdir(away)
    package = module.partition(".")[0]
    forget(monkeypatch, home, *{module, package})
    file.rename(tmp_path / "elsewhere.py")
    assert advise(done.folder, today=TODAY).target.sum() == pytest.approx(1.0)
    assert resume_study(done.folder).metrics.equals(done.metrics)
    assert load_result(done.folder).metrics.equals(done.metrics)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("broken_mine:Mine", "import nothing_like_this\n", "No module named 'nothing_like_this'$"),
        ("unfinished_mine:Mine", "class Mine(\n", r"unfinished_mine\.py, line 1"),
        ("empty_mine:Mine", "", "has no attribute 'Mine'"),
        (":Mine", "", "names no module and class"),
        ("some mine:Mine", "", "names no module and class"),
    ],
)
def test_a_module_that_cannot_be_used_is_told_apart(
    name: str, content: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{name.partition(':')[0]}.py").write_text(content)
    with pytest.raises(TrainingError, match=message):
        run_study(brief(tmp_path / "runs", f"forecasting.predictor={name}"))
    assert not (tmp_path / "runs").exists()
