"""Covariance estimators of the user's own: the same numbers as ours, and mistakes that are named."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portfolio_dfl.errors import DataError
from portfolio_dfl.risk import RollingCovariance
from portfolio_dfl.risk.build import COVARIANCES, build_covariance, try_covariance
from portfolio_dfl.risk.covariance import CovarianceEstimator

MODULE = """
import numpy as np


class Sample:
    def __init__(self, window, ridge=0.0):
        self.window, self.ridge = window, ridge

    def __call__(self, returns_window):
        covariance = np.cov(returns_window, rowvar=False)
        return covariance + self.ridge * np.trace(covariance) / len(covariance) * np.eye(len(covariance))


class Many(Sample):
    def estimate_many(self, windows):
        return np.stack([self(window) for window in windows])


class Long:
    window = 60

    def __call__(self, returns_window):
        return np.eye(returns_window.shape[1])


def sample(returns_window, ridge=0.0):
    return Sample(len(returns_window), ridge)(returns_window)


def scalar(returns_window):
    return 1.0


def crooked(returns_window):
    return np.triu(np.ones((returns_window.shape[1],) * 2))


def lost(returns_window):
    return np.full((returns_window.shape[1],) * 2, np.nan)


def failing(returns_window):
    raise KeyError("SPY")


def pair(one, other):
    return one
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_covariances.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_covariances", raising=False)


def own(name: str, **options: Any) -> CovarianceEstimator:
    return build_covariance(f"own_covariances:{name}", window=20, options=options)


@pytest.mark.parametrize("name", ["Sample", "Many", "sample"])
def test_an_own_sample_covariance_is_ours(name: str) -> None:
    windows = 0.01 * np.random.default_rng(1).standard_normal((7, 20, 3))
    mine, ours = own(name, ridge=1e-3), RollingCovariance(20, 1e-3)
    assert isinstance(mine, CovarianceEstimator)
    assert np.allclose(mine.estimate_many(windows).covariance, ours.estimate_many(windows).covariance, rtol=1e-12)
    assert np.array_equal(pickle.loads(pickle.dumps(mine))(windows[0]), mine(windows[0]))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Sample", {"halflife": 3}, "it was given the options halflife, window"),
        ("Long", {}, "looks at 60 returns and is given 20: set covariance.window to 60"),
        ("scalar", {}, "gave an array of shape (); (3, 3) is needed"),
        ("crooked", {}, "gave a matrix that is not symmetric"),
        ("lost", {}, "gave numbers that are not finite"),
        ("failing", {}, "raised KeyError for returns of shape (20, 3): 'SPY'"),
        ("pair", {}, "takes (one, other); a function of (returns_window) is needed"),
    ],
)
def test_what_is_no_estimator_is_named(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f"^covariance 'own_covariances:{name}'.*{re.escape(message)}"):
        try_covariance(own(name, **options), 3)


@pytest.mark.parametrize("name", COVARIANCES)
def test_ours_take_what_they_have(name: str) -> None:
    assert build_covariance(name, window=30).window == 30
    with pytest.raises(DataError, match=r"takes (no options|the options factors, shrinkage), not speed"):
        build_covariance(name, window=30, options={"speed": 1})
