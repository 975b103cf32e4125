"""Studies with parts of the user's own: named in the configuration, found beside it, kept with the run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from small_study import brief

from portfolio_dfl.errors import PortfolioError
from portfolio_dfl.study.run import run_study

MODULE = """
import numpy as np


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


class Sample:
    def __init__(self, window):
        self.window = window

    def __call__(self, returns_window):
        return np.cov(returns_window, rowvar=False)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with own parts, as the working directory of a console script."""
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.delitem(sys.modules, "own_parts", raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "own_parts.py").write_text(MODULE)
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
        ("covariance.estimator=sampled", "'oas' or 'package.module:Name'"),
    ],
)
def test_a_part_that_does_not_fit_is_named_before_anything_is_written(
    setting: str, message: str, home: Path, tmp_path: Path
) -> None:
    with pytest.raises(PortfolioError, match=re.escape(message)):
        run_study(brief(tmp_path / "nothing", setting))
    assert not (tmp_path / "nothing").exists()
