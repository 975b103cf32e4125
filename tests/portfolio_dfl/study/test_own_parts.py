"""Studies with parts of the user's own: named in the configuration, found beside it, kept with the run."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from small_study import brief, same_weights, start
from typer.testing import CliRunner

from portfolio_dfl.cli import app
from portfolio_dfl.errors import PortfolioError
from portfolio_dfl.study.live import advise
from portfolio_dfl.study.result import load_result
from portfolio_dfl.study.run import resume_study, run_study

MODULE = """
import numpy as np

from portfolio_dfl.allocation.limits import Limit


class Decided:
    def __init__(self, scale=1.0):
        self.scale = scale

    def __call__(self, outcome):
        samples, weights = outcome.samples, outcome.weights
        gain = (samples.future_returns * weights).sum(-1)
        risk = (weights.unsqueeze(-2) @ samples.realised_covariance.unsqueeze(1) @ weights.unsqueeze(-1)).flatten(1)
        return self.scale * (0.5 * outcome.risk_aversion * risk - gain).sum(-1).mean()


def blind(outcome):
    return outcome.samples.future_returns.mean()


def rows(outcome):
    return outcome.weights.sum(-1)


def failing(outcome):
    return outcome.prices


class Tilted:
    def __init__(self, tilt=0.1):
        self.tilt = tilt

    def decide(self, history, held):
        import own_helper

        return own_helper.tilted(len(held), self.tilt)


class Sample:
    def __init__(self, window):
        self.window = window

    def __call__(self, returns_window):
        return np.cov(returns_window, rowvar=False)


class Capped(Limit):
    def __init__(self, ticker, most):
        self.ticker, self.most = ticker, most

    def apply(self, limits):
        limits.cut_upper(np.where(np.array(limits.assets) == self.ticker, self.most, np.inf))


def hits(ledger):
    return (ledger.net_returns > 0).mean()


def ahead(ledger):
    return ledger.future


def trend(returns, days):
    return returns.rolling(days).mean()


def hindsight(returns):
    return returns.shift(-1)
"""


HELPER = """
import numpy as np


def tilted(n_assets, tilt):
    weights = np.ones(n_assets)
    weights[0] += tilt
    return weights / weights.sum()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with own parts, as the working directory of a console script."""
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.delitem(sys.modules, "own_parts", raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "own_parts.py").write_text(MODULE)
    (folder / "own_helper.py").write_text(HELPER)
    monkeypatch.chdir(folder)
    return folder


OWN = ["training.loss=own_parts:Decided", "covariance.estimator=own_parts:Sample", "backtest.end=2018-06-20"]
OURS = ["covariance.ridge=0", "backtest.end=2018-06-20"]


def test_own_loss_and_covariance_that_are_ours_decide_as_ours(home: Path, tmp_path: Path) -> None:
    mine = run_study(brief(tmp_path / "runs", *OWN))
    ours = run_study(brief(tmp_path / "runs", *OURS))
    difference = mine.weights["Decision-focused"] - ours.weights["Decision-focused"]
    assert difference.abs().to_numpy().max() < 1e-8


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.loss=own_parts:blind", "loss 'own_parts:blind' does not depend on the forecasts"),
        ("training.loss=own_parts:rows", "loss 'own_parts:rows' gave a tensor of shape (2, 2); a scalar tensor"),
        ("training.loss=own_parts:failing", "loss 'own_parts:failing' raised AttributeError when it was tried"),
        ("training.loss={mse: 1, own_parts:blind: 1}", "loss 'own_parts:blind' does not depend on the forecasts"),
        ("training.loss=own_parts:Absent", "has no attribute 'Absent'"),
        ("covariance.estimator=own_parts:Decided", "raised AttributeError for returns of shape (10, 5)"),
        ("evaluation.metrics=[own_parts:ahead]", "metric 'own_parts:ahead' raised AttributeError"),
        ("evaluation.metrics=[own_parts:hits, own_helper:hits]", "has no attribute 'hits'"),
        ("evaluation.metrics=[own_parts:hits, own_parts:hits]", "has the name of a column that own_parts:hits has too"),
        ("allocation.limits.own=[own_parts:hits]", "limit 'own_parts:hits' raised AttributeError"),
        ("allocation.limits.own=[own_parts:Capped]", "takes (ticker, most); it was given no options"),
        ("features={trend: {function: own_parts:trend}}", "takes (returns, days)"),
        ("features={next: {function: own_parts:hindsight, missing: zero}}", "feature next looks ahead"),
        ("covariance.estimator=sampled", "'factor' or 'package.module:Name'"),
    ],
)
def test_a_part_that_does_not_fit_is_named_before_anything_is_written(
    setting: str, message: str, home: Path, tmp_path: Path
) -> None:
    with pytest.raises(PortfolioError, match=re.escape(message)):
        run_study(brief(tmp_path / "nothing", setting))
    assert not (tmp_path / "nothing").exists()


FULL = [
    *OWN,
    "training.epochs=1",
    "backtest.strategies=[decision_focused, own_parts:Tilted]",
    "evaluation.metrics=[own_parts:hits]",
    "allocation.limits.own=[{name: own_parts:Capped, options: {ticker: SIZE, most: 0.25}}]",
    "features={trend: {function: own_parts:trend, options: {days: 5}, reach: 5}}",
]


def resume_elsewhere(run: Path, folder: Path, backend: str) -> None:
    """In a process that never saw the modules, in a folder that has none."""
    os.chdir(folder)
    resume_study(run, overrides=[f"execution.backend={backend}"])
    advise(run, today=dt.date(2018, 9, 7), prices="embedded")
    os._exit(0)  # idle workers would be waited for


@pytest.mark.parametrize("backend", ["sequential", "loky"])
def test_an_interrupted_study_goes_on_elsewhere_once_its_modules_are_gone(
    backend: str, home: Path, tmp_path: Path
) -> None:
    file = home / "study.yaml"
    file.write_text(
        brief(tmp_path / "runs", *FULL, "backtest.strategy_options={own_parts:Tilted: {tilt: 1}}").to_yaml()
    )
    os.chdir(tmp_path)
    told = CliRunner().invoke(app, ["run", str(file)])
    assert "hits" in told.output, told.output
    whole = load_result(next((tmp_path / "runs").glob("small-*")))
    assert whole.weights["Tilted"].iloc[0, 0] == pytest.approx(1 / 3)
    earned = whole.ledgers["Decision-focused"].net_returns
    assert whole.metrics.loc["Decision-focused", "hits"] == (earned > 0).mean()
    assert ">hits<" in whole.report.read_text(encoding="utf-8")
    book = whole.ledgers["Decision-focused"]
    assert book.weights.loc[book.daily["orders"] > 0, "SIZE"].max() <= 0.25 + 1e-8

    def interrupt(stage: str, done: int, total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(file, progress=interrupt)
    run = max((tmp_path / "runs").glob("small-*"), key=lambda folder: folder.stat().st_mtime)
    assert run != whole.folder
    shutil.rmtree(home)
    process = start(resume_elsewhere, run, tmp_path, backend)
    process.join()
    assert process.exitcode == 0
    again = load_result(run)
    assert same_weights(again, whole)
    assert again.metrics.equals(whole.metrics)


def test_the_copy_of_the_run_is_used_where_the_module_has_changed(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = run_study(brief(tmp_path / "runs", *FULL))
    (home / "own_helper.py").write_text(HELPER.replace("+= tilt", "-= tilt"))
    assert same_weights(resume_study(done.folder), done)
    assert f"own_helper.py changed in {home} since the study was started: its own copy in {done.folder}" in caplog.text
    changed = run_study(brief(tmp_path / "runs", *FULL))
    assert changed.weights["Tilted"].iloc[0, 0] < 0.2 < done.weights["Tilted"].iloc[0, 0]
