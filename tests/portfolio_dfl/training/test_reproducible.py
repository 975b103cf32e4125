"""Training depends on its task alone: not on other threads, nor on how the process is set, which it leaves so."""

from __future__ import annotations

import logging
import random
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from portfolio_dfl.forecasting import PredictorSpec
from portfolio_dfl.training.estimator import DecisionFocusedPortfolio
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.reproducible import reproducible
from portfolio_dfl.training.window import TrainedWindow, WindowTask, train_window

PolicyFactory = Callable[..., PredictOptimisePolicy]


class DrawsFromEverywhere(nn.Module):
    """A user's predictor that draws from all global states, when made and when called."""

    def __init__(self, n_assets: int, lookback: int, horizon: int) -> None:
        super().__init__()
        self.shape = (-1, horizon, n_assets)
        self.map = nn.Linear(lookback * n_assets, horizon * n_assets)
        self.mixed = torch.rand(lookback * n_assets).double()  # in no state dictionary

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        factor = 1.0
        if self.training:
            factor = float(torch.rand(())) + np.random.random() + random.random()  # noqa: NPY002 (what it is about)
        return 1e-3 * factor * self.map(features.flatten(1) * self.mixed).reshape(self.shape)


PREDICTORS = {
    "mlp with dropout": PredictorSpec("mlp", {"hidden": 4, "dropout": 0.5}),
    "gru": PredictorSpec("gru", {"hidden": 4}),
    "linear that starts somewhere": PredictorSpec("linear", {"start": 0.01}),
    "a user's": PredictorSpec(DrawsFromEverywhere),
}


@pytest.fixture
def tasks(make_policy: PolicyFactory, returns: pd.DataFrame) -> list[WindowTask]:
    """One for each predictor, twice, with other seeds."""
    made = [make_policy(predictor=spec).task(returns) for spec in PREDICTORS.values()]
    return [replace(task, seed=seed) for seed in (0, 1) for task in made]


def same(one: TrainedWindow, other: TrainedWindow) -> bool:
    assert one.state is not None
    assert other.state is not None
    equal = all(torch.equal(one.state[name], other.state[name]) for name in one.state)
    return equal and one.losses == other.losses


def process_state() -> list[object]:
    return [
        torch.get_num_threads(),
        torch.get_rng_state().tolist(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
        random.getstate(),
        np.geterr(),
        list(warnings.filters),
        logging.getLogger("lightning.pytorch").level,
        signal.getsignal(signal.SIGTERM),
    ]


@pytest.mark.parametrize("threads", [2, 4])
def test_windows_trained_by_several_threads_are_those_of_one(tasks: list[WindowTask], threads: int) -> None:
    alone = [train_window(task) for task in tasks]
    before = process_state()
    with ThreadPoolExecutor(threads) as pool:
        together = list(pool.map(train_window, tasks))
    assert [same(*pair) for pair in zip(alone, together, strict=True)] == [True] * len(tasks)
    assert process_state() == before


def test_policies_made_and_used_beside_a_training_do_not_disturb_it(
    make_policy: PolicyFactory, returns: pd.DataFrame, tasks: list[WindowTask]
) -> None:
    """Making one draws initial values."""
    alone = [train_window(task) for task in tasks]
    stop = threading.Event()

    def make() -> None:
        while not stop.is_set():
            make_policy(predictor=PREDICTORS["linear that starts somewhere"])

    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(make)
        try:
            together = [train_window(task) for task in tasks]
        finally:
            stop.set()
        making.result()
    assert [same(*pair) for pair in zip(alone, together, strict=True)] == [True] * len(tasks)


def test_estimators_fitted_by_several_threads_decide_as_one_after_the_other(returns: pd.DataFrame) -> None:
    options = {"predictor": "mlp", "predictor_options": {"dropout": 0.5}, "learning_rate": 0.05, "epochs": 4}
    small = {"horizon": 2, "lookback": 6, "samples": 12, "realised_window": 4, "turnover_limit": None}

    def fitted(seed: int) -> list[float]:
        return list(DecisionFocusedPortfolio(seed=seed, **options, **small).fit(returns).weights_)

    alone = [fitted(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fitted, range(4))) == alone


@contextmanager
def _default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def _threads() -> Iterator[None]:
    torch.set_num_threads(3)
    try:
        yield
    finally:
        torch.set_num_threads(1)


SETTINGS = {
    "double by default": _default_dtype,
    "another device by default": lambda: torch.device("meta"),
    "deterministic algorithms": _deterministic,
    "three threads": _threads,
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "half precision where possible": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "errors of floating point raised": lambda: np.errstate(all="raise"),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_the_process_is_set_to_is_of_no_consequence(tasks: list[WindowTask], setting: str) -> None:
    mine = tasks[:4]
    alone = [train_window(task) for task in mine]
    with SETTINGS[setting]():
        before = process_state()
        found = [train_window(task) for task in mine]
        assert process_state() == before
    assert [same(*pair) for pair in zip(alone, found, strict=True)] == [True] * len(mine)


def test_a_decision_is_made_with_what_its_window_drew(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    """Parameters come from the window's file, what a predictor keeps elsewhere from its seed."""
    forecasts = []
    for _ in range(2):
        policy = make_policy(predictor=PREDICTORS["a user's"])
        policy.fit(returns)
        policy.decide(returns, np.full(3, 1 / 3))
        forecasts.append(policy.forecasts[returns.index[-1]])
        torch.rand(3)
    assert np.array_equal(*forecasts)


def test_state_is_put_back_after_an_error_too() -> None:
    def break_off() -> None:
        with reproducible(1):
            torch.rand(1)
            raise ZeroDivisionError

    before = process_state()
    with pytest.raises(ZeroDivisionError):
        break_off()
    assert process_state() == before
